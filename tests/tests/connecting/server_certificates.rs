//! Which certificates of servers are accepted.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use mailroom::postgres::{ConnectionSettings, FailureKind};
use mailroom_tests::postgres::Cluster;

use super::certificates::{Authority, Identity, between, for_common_name, for_names, numbered, self_signed};
use super::surroundings::Surroundings;
use super::{execute, served, session, value};

/// One server that shows one certificate after the other.
struct Showcase {
    cluster: Cluster,
    shown: Mutex<String>,
}

impl Showcase {
    fn start(identities: &[(&str, Identity)]) -> Self {
        let (_, first) = &identities[0];
        let mut builder = Cluster::builder().tls(&first.certificate, &first.key);
        for (name, identity) in identities {
            builder = builder
                .file(&format!("{name}.crt"), &identity.certificate)
                .file(&format!("{name}.key"), &identity.key);
        }
        Self { cluster: builder.start().unwrap(), shown: Mutex::default() }
    }

    /// Makes new connections see the certificate called `name`.
    async fn show(&self, name: &str) {
        if std::mem::replace(&mut *self.shown.lock().unwrap(), name.to_owned()) == name {
            return;
        }
        execute(&self.cluster, &format!("ALTER SYSTEM SET ssl_cert_file = '{name}.crt'"));
        execute(&self.cluster, &format!("ALTER SYSTEM SET ssl_key_file = '{name}.key'"));
        execute(&self.cluster, "SELECT pg_reload_conf()");
        // The server reads its settings again a little later, and new connections have what it has read.
        for _ in 0..500 {
            let client = served(session(&self.cluster.url("postgres"), &Surroundings::new()).await.unwrap());
            if value(&client, "SHOW ssl_key_file").await == format!("{name}.key") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the server does not load {name}.key; its log says:\n{}", self.cluster.log());
    }

    fn string(&self, host: &str, mode: &str) -> String {
        let port = self.cluster.port();
        format!("host={host} hostaddr=127.0.0.1 port={port} dbname=postgres sslmode={mode}")
    }
}

#[tokio::test]
async fn each_mode_accepts_the_certificates_that_it_should() {
    let authority = Authority::new("authority");
    let limited = authority.limited_to("example.test");
    let alone = self_signed(for_names(&["localhost"]));
    let alone_expired = self_signed(between((2000, 2001), for_names(&["localhost"])));
    let alone_by_common_name = self_signed(for_common_name("localhost"));
    let with_chain = |mut identity: Identity| {
        identity.certificate += &limited.pem();
        identity
    };
    let both = for_names(&["localhost", "127.0.0.1"]);
    let mut misnamed = for_names(&["db.example.test"]);
    misnamed.distinguished_name = for_common_name("localhost").distinguished_name;
    let identities = [
        ("good", authority.sign(&both)),
        ("expired", authority.sign(&between((2000, 2001), both.clone()))),
        ("early", authority.sign(&between((3000, 3001), both.clone()))),
        ("misnamed", authority.sign(&misnamed)),
        ("stranger", Authority::new("stranger").sign(&for_names(&["db.example.test"]))),
        ("impostor", Authority::new("authority").sign(&both)),
        ("wildcard", authority.sign(&for_names(&["*.example.test"]))),
        ("common_name", authority.sign(&for_common_name("localhost"))),
        ("common_address", authority.sign(&for_common_name("127.0.0.1"))),
        ("version_1", authority.sign_version_1(&for_common_name("localhost"))),
        ("version_1_expired", authority.sign_version_1(&between((2000, 2001), for_common_name("localhost")))),
        ("version_1_impostor", Authority::new("authority").sign_version_1(&for_common_name("localhost"))),
        ("limited", with_chain(limited.sign(&for_names(&["db.example.test"])))),
        ("limited_outside", with_chain(limited.sign(&for_names(&["localhost"])))),
        ("limited_common_name", with_chain(limited.sign(&for_common_name("localhost")))),
        ("alone", alone.clone()),
        ("alone_expired", alone_expired.clone()),
        ("alone_by_common_name", alone_by_common_name.clone()),
    ];
    let showcase = Showcase::start(&identities);

    let (unknown, name) = ("not signed by an authority in", "the server's certificate is");
    let root = authority.pem();
    let mut alone_roots = root.clone();
    for own in [&alone, &alone_expired, &alone_by_common_name] {
        alone_roots += &own.certificate;
    }
    let mut wrong = String::new();
    for (certificate, host, roots, [require, verify_ca, verify_full]) in [
        ("good", "localhost", "", ["ok", "does not exist", "does not exist"]),
        ("good", "localhost", &*root, ["ok", "ok", "ok"]),
        ("good", "LocalHost", &root, ["ok", "ok", "ok"]),
        ("good", "127.0.0.1", &root, ["ok", "ok", "ok"]),
        ("good", "db.example.test", &root, ["ok", "ok", "localhost, 127.0.0.1 only"]),
        ("expired", "localhost", "", ["ok", "does not exist", "does not exist"]),
        ("expired", "localhost", &root, ["has expired"; 3]),
        ("early", "localhost", &root, ["not valid yet"; 3]),
        ("misnamed", "db.example.test", &root, ["ok", "ok", "ok"]),
        ("misnamed", "localhost", &root, ["ok", "ok", "db.example.test only"]),
        ("misnamed", "127.0.0.1", &root, ["ok", "ok", "db.example.test only"]),
        ("stranger", "localhost", "", ["ok", "does not exist", "does not exist"]),
        ("stranger", "localhost", &root, [unknown; 3]),
        ("impostor", "localhost", &root, [name; 3]),
        ("wildcard", "db.example.test", &root, ["ok", "ok", "ok"]),
        ("wildcard", "a.db.example.test", &root, ["ok", "ok", "*.example.test only"]),
        ("common_name", "localhost", &root, ["ok", "ok", "ok"]),
        ("common_name", "db.example.test", &root, ["ok", "ok", name]),
        ("common_address", "127.0.0.1", &root, ["ok", "ok", "ok"]),
        ("common_address", "localhost", &root, ["ok", "ok", name]),
        ("version_1", "localhost", "", ["ok", "does not exist", "does not exist"]),
        ("version_1", "localhost", &root, ["ok", "ok", "ok"]),
        ("version_1", "db.example.test", &root, ["ok", "ok", name]),
        ("version_1_expired", "localhost", &root, ["has expired"; 3]),
        ("version_1_impostor", "localhost", &root, [unknown; 3]),
        ("limited", "db.example.test", &root, ["ok", "ok", "ok"]),
        ("limited_outside", "localhost", &root, [name; 3]),
        ("limited_common_name", "localhost", &root, ["ok", "ok", name]),
        ("alone", "localhost", "", ["ok", "does not exist", "does not exist"]),
        ("alone", "localhost", &root, [unknown; 3]),
        ("alone", "localhost", &alone_roots, ["ok", "ok", "ok"]),
        ("alone", "127.0.0.1", &alone_roots, ["ok", "ok", "localhost only"]),
        ("alone_expired", "localhost", &alone_roots, ["has expired"; 3]),
        ("alone_by_common_name", "localhost", &alone_roots, ["ok", "ok", "ok"]),
        ("alone_by_common_name", "127.0.0.1", &alone_roots, ["ok", "ok", name]),
    ] {
        showcase.show(certificate).await;
        let surroundings = Surroundings::new();
        if !roots.is_empty() {
            surroundings.file(".postgresql/root.crt", roots);
        }
        for (mode, expected) in
            [("prefer", "ok"), ("require", require), ("verify-ca", verify_ca), ("verify-full", verify_full)]
        {
            let string = showcase.string(host, mode);
            let outcome = match ConnectionSettings::resolve(&string, &surroundings) {
                Err(fault) => fault.to_string(),
                Ok(_) => match session(&string, &surroundings).await {
                    Ok(_) => "ok".to_owned(),
                    Err(error) => error.to_string(),
                },
            };
            if (expected == "ok") != (outcome == "ok") || !outcome.contains(expected) {
                writeln!(wrong, "{certificate} for {host} with {mode}: {outcome}, not {expected}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[tokio::test]
async fn revoked_certificates_are_refused() {
    let authority = Authority::new("authority");
    let showcase = Showcase::start(&[
        ("kept", authority.sign(&numbered(1, for_names(&["localhost"])))),
        ("revoked", authority.sign(&numbered(2, for_names(&["localhost"])))),
        ("version_1", authority.sign_version_1(&for_common_name("localhost"))),
    ]);
    let list = authority.revoke(2, 3000);
    for (certificate, list, expected) in [
        ("kept", &list, "ok"),
        ("revoked", &list, "was revoked"),
        ("version_1", &list, "the server's certificate is refused"),
        ("kept", &authority.revoke(2, 2021), "has expired"),
        ("kept", &Authority::new("other").revoke(2, 3000), "no list of the authority"),
    ] {
        showcase.show(certificate).await;
        let surroundings = Surroundings::new();
        surroundings.file(".postgresql/root.crt", &authority.pem());
        let named = surroundings.file("list.pem", list);
        let by_name = format!("{} sslcrl={named}", showcase.string("localhost", "verify-ca"));
        surroundings.file(".postgresql/root.crl", list);
        for string in [by_name, showcase.string("localhost", "verify-full")] {
            let outcome = match session(&string, &surroundings).await {
                Ok(_) => "ok".to_owned(),
                Err(error) => error.to_string(),
            };
            assert!(outcome.contains(expected), "{certificate}: {outcome}, not {expected}");
        }
    }
    let surroundings = Surroundings::new();
    surroundings.file(".postgresql/root.crt", &authority.pem());
    let missing = format!("{} sslcrl=/nowhere/list.pem", showcase.string("localhost", "verify-ca"));
    let fault = ConnectionSettings::resolve(&missing, &surroundings).unwrap_err().to_string();
    assert!(fault.contains("the revocation list /nowhere/list.pem cannot be used"), "{fault}");
}

/// Runs itself again in a process with other authorities, because variables are the same for all threads.
#[tokio::test]
async fn the_authorities_of_the_system_count_if_asked_for() {
    const ADDRESS: &str = "MAILROOM_TEST_SYSTEM_ROOTS";
    let Ok(port) = std::env::var(ADDRESS) else {
        let authority = Authority::new("authority");
        let surroundings = Surroundings::new();
        let file = surroundings.file("authorities.pem", &authority.pem());
        let others = surroundings.file("others.pem", &Authority::new("other").pem());
        let showcase = Showcase::start(&[
            ("good", authority.sign(&for_names(&["localhost"]))),
            ("common_name", authority.sign(&for_common_name("localhost"))),
        ]);
        for (certificate, authorities, expected) in [
            ("good", &file, "ok"),
            ("good", &others, "the system's list"),
            // Public authorities always give alternative names.
            ("common_name", &file, "the server's certificate is not for this host"),
        ] {
            showcase.show(certificate).await;
            let output = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "--nocapture",
                    "server_certificates::the_authorities_of_the_system_count_if_asked_for",
                ])
                .env(ADDRESS, showcase.cluster.port().to_string())
                .env("SSL_CERT_FILE", authorities)
                .env_remove("SSL_CERT_DIR")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
            assert!(
                said.contains(&format!("outcome: {expected}"))
                    || (expected != "ok" && said.contains(expected)),
                "{said}"
            );
        }
        return;
    };
    let string = format!("host=localhost hostaddr=127.0.0.1 port={port} dbname=postgres sslrootcert=system");
    match session(&string, &Surroundings::new()).await {
        Ok(_) => println!("outcome: ok"),
        Err(error) => {
            assert_eq!(error.kind(), FailureKind::Tls);
            println!("outcome: {error}");
        }
    }
}
