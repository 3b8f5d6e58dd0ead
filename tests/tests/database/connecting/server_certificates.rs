//! Which certificates of servers are accepted.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mailroom_connect::ConnectionSettings;
use mailroom_tests::collector::PATIENCE;
use mailroom_tests::postgres::Cluster;

use super::certificates::{
    Authority, Identity, between, for_common_name, for_names, self_signed, version_1,
};
use super::environment::TestEnvironment;
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
        // The server reads its settings again a little later,
        // and new connections have what it has read.
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let client = served(
                session(&self.cluster.url("postgres"), &TestEnvironment::new()).await.unwrap(),
            );
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
        ("limited", with_chain(limited.sign(&for_names(&["db.example.test"])))),
        ("limited_outside", with_chain(limited.sign(&for_names(&["localhost"])))),
        ("alone", alone.clone()),
        ("alone_expired", alone_expired.clone()),
    ];
    let showcase = Showcase::start(&identities);

    let (unknown, name) = ("not signed by an authority in", "the server's certificate is");
    let root = authority.pem();
    let alone_roots = format!("{root}{}{}", alone.certificate, alone_expired.certificate);
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
        ("common_name", "localhost", &root, ["ok", "ok", "alternative name (subjectAltName)"]),
        ("limited", "db.example.test", &root, ["ok", "ok", "ok"]),
        ("limited_outside", "localhost", &root, [name; 3]),
        ("alone", "localhost", "", ["ok", "does not exist", "does not exist"]),
        ("alone", "localhost", &root, ["an authority's own and not itself in"; 3]),
        ("alone", "localhost", &alone_roots, ["ok", "ok", "ok"]),
        ("alone", "127.0.0.1", &alone_roots, ["ok", "ok", "localhost only"]),
        ("alone_expired", "localhost", &alone_roots, ["has expired"; 3]),
    ] {
        showcase.show(certificate).await;
        let environment = TestEnvironment::new();
        if !roots.is_empty() {
            environment.file(".postgresql/root.crt", roots);
        }
        for (mode, expected) in [
            ("prefer", "ok"),
            ("require", require),
            ("verify-ca", verify_ca),
            ("verify-full", verify_full),
        ] {
            let string = showcase.string(host, mode);
            let outcome = match ConnectionSettings::resolve(&string, &environment) {
                Err(fault) => fault.to_string(),
                Ok(_) => match session(&string, &environment).await {
                    Ok(_) => "ok".to_owned(),
                    Err(error) => error.to_string(),
                },
            };
            if (expected == "ok") != (outcome == "ok") || !outcome.contains(expected) {
                writeln!(wrong, "{certificate} for {host} with {mode}: {outcome}, not {expected}")
                    .unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[tokio::test]
async fn a_certificate_of_x509_version_1_is_refused_in_each_mode_that_encrypts() {
    let showcase = Showcase::start(&[("version_1", version_1())]);
    let environment = TestEnvironment::new();
    environment.file(".postgresql/root.crt", &Authority::new("authority").pem());
    for mode in ["prefer", "require", "verify-ca", "verify-full"] {
        let error = session(&showcase.string("localhost", mode), &environment)
            .await
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("make one of version 3"), "{mode}: {error}");
    }
}

#[test]
fn a_revocation_list_is_refused_where_it_would_be_ignored() {
    let environment = TestEnvironment::new();
    environment.file(".postgresql/root.crt", &Authority::new("authority").pem());
    let refusal = |settings: &str| {
        let resolved =
            ConnectionSettings::resolve(&format!("host=localhost {settings}"), &environment);
        resolved.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let named = refusal("sslcrl=/nowhere/list.pem");
    assert!(
        named.starts_with("sslcrl cannot be honoured: revocation lists are not supported"),
        "{named}"
    );

    assert_eq!(refusal("sslmode=verify-full"), "");
    let default = environment.file(".postgresql/root.crl", "a list");
    for mode in ["require", "verify-ca", "verify-full"] {
        let found = refusal(&format!("sslmode={mode}"));
        assert!(found.starts_with(&default) && found.contains("remove it"), "{mode}: {found}");
    }
    assert_eq!(refusal("sslmode=prefer"), "", "nothing is verified");
    std::fs::remove_file(&default).unwrap();
    std::os::unix::fs::symlink(&default, &default).unwrap();
    assert!(
        refusal("sslmode=verify-full").starts_with(&default),
        "it cannot be read, but is there"
    );
}

/// Runs itself again in a process with other authorities,
/// because variables are the same for all threads.
#[tokio::test]
async fn the_authorities_of_the_system_count_if_asked_for() {
    const ADDRESS: &str = "MAILROOM_TEST_SYSTEM_ROOTS";
    let Ok(port) = std::env::var(ADDRESS) else {
        let authority = Authority::new("authority");
        let environment = TestEnvironment::new();
        let file = environment.file("authorities.pem", &authority.pem());
        let others = environment.file("others.pem", &Authority::new("other").pem());
        let showcase = Showcase::start(&[("good", authority.sign(&for_names(&["localhost"])))]);
        for (authorities, expected) in [(&file, "ok"), (&others, "the system's list")] {
            let output = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "--nocapture"])
                .arg(std::thread::current().name().unwrap())
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
    let string =
        format!("host=localhost hostaddr=127.0.0.1 port={port} dbname=postgres sslrootcert=system");
    match session(&string, &TestEnvironment::new()).await {
        Ok(_) => println!("outcome: ok"),
        Err(error) => println!("outcome: {error}"),
    }
}
