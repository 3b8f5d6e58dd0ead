//! What `sslmode` makes of servers that offer, refuse or demand encryption.

use std::sync::LazyLock;

use mailroom_connect::{ConnectionSettings, connect};
use mailroom_tests::postgres::Cluster;

use super::certificates::{Authority, Identity, for_common_name, for_names};
use super::environment::TestEnvironment;
use super::{OPTIONS, execute, served, session, value};

/// A server with TLS on whose users say what `pg_hba.conf` demands of them.
pub(crate) struct TlsServer {
    pub(crate) cluster: Cluster,
    pub(crate) authority: Authority,
    client: Identity,
}

/// The password of the users who need one; it has every character that separates parts of a
/// connection string.
pub(crate) const PASSWORD: &str = "p/w@?&=:% '\\#ä";

pub(crate) static TLS_SERVER: LazyLock<TlsServer> = LazyLock::new(|| {
    let authority = Authority::new("authority");
    let server = authority.sign(&for_names(&["localhost", "127.0.0.1"]));
    let client = authority.sign(&for_common_name("by_certificate"));
    let hba = "local all scram scram-sha-256\n\
        local all all trust\n\
        host all either 127.0.0.1/32 trust\n\
        hostssl all encrypted 127.0.0.1/32 trust\n\
        hostnossl all clear 127.0.0.1/32 trust\n\
        hostssl all by_certificate 127.0.0.1/32 cert\n\
        host all scram,nobody 127.0.0.1/32 scram-sha-256\n\
        host all md5 127.0.0.1/32 md5\n\
        host all cleartext 127.0.0.1/32 password\n\
        host all limited,reader 127.0.0.1/32 trust\n";
    let cluster = Cluster::builder()
        .tls(&server.certificate, &server.key)
        .file("clients.crt", &authority.pem())
        .setting("ssl_ca_file", "clients.crt")
        .hba(hba)
        .start()
        .unwrap();
    let password = PASSWORD.replace('\'', "''");
    let statements = format!(
        "CREATE ROLE either LOGIN; CREATE ROLE encrypted LOGIN; CREATE ROLE clear LOGIN; \
         CREATE ROLE by_certificate LOGIN; CREATE ROLE limited LOGIN CONNECTION LIMIT 0; \
         CREATE ROLE reader LOGIN; ALTER ROLE reader SET default_transaction_read_only = on; \
         CREATE ROLE scram LOGIN PASSWORD '{password}'; \
         CREATE ROLE cleartext LOGIN PASSWORD '{password}'; SET password_encryption = 'md5'; \
         CREATE ROLE md5 LOGIN PASSWORD '{password}'"
    );
    execute(&cluster, &statements);
    TlsServer { cluster, authority, client }
});

impl TlsServer {
    /// A keyword string for a user, by TCP.
    pub(crate) fn string(&self, user: &str) -> String {
        format!(
            "host=localhost hostaddr=127.0.0.1 port={} dbname=postgres user={user}",
            self.cluster.port()
        )
    }

    /// An environment in which the server's authority is trusted.
    pub(crate) fn trusting(&self) -> TestEnvironment {
        let environment = TestEnvironment::new();
        environment.file(".postgresql/root.crt", &self.authority.pem());
        environment
    }
}

/// `tls`, `clear`, or what the error says.
async fn outcome(string: &str, environment: &TestEnvironment) -> String {
    match session(string, environment).await {
        Ok(session) => {
            let client = served(session);
            let query = "SELECT CASE WHEN ssl THEN 'tls' ELSE 'clear' END FROM pg_stat_ssl \
                WHERE pid = pg_backend_pid()";
            value(&client, query).await
        }
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn every_mode_meets_every_kind_of_server_as_in_libpq() {
    let without_tls = Cluster::builder().tcp().start().unwrap();
    let no_tls = format!("host=127.0.0.1 port={} dbname=postgres", without_tls.port());
    let server = &*TLS_SERVER;
    let (either, encrypted, clear) =
        (server.string("either"), server.string("encrypted"), server.string("clear"));
    let (none, hba) = ("offers no TLS", "no pg_hba.conf entry");

    for (mode, expected) in [
        //              no TLS    either   only TLS  only clear
        ("disable", ["clear", "clear", hba, "clear"]),
        ("allow", ["clear", "clear", "tls", "clear"]),
        ("prefer", ["clear", "tls", "tls", "clear"]),
        ("require", [none, "tls", "tls", hba]),
        ("verify-ca", [none, "tls", "tls", hba]),
        ("verify-full", [none, "tls", "tls", hba]),
    ] {
        for (string, expected) in [&no_tls, &either, &encrypted, &clear].into_iter().zip(expected) {
            let string = format!("{string} sslmode={mode}");
            let outcome = outcome(&string, &server.trusting()).await;
            assert!(outcome.contains(expected), "{string}: {outcome}, not {expected}");
        }
    }
}

#[tokio::test]
async fn the_default_mode_prefers_encryption_and_variables_can_change_it() {
    let string = TLS_SERVER.string("either");
    assert_eq!(outcome(&string, &TestEnvironment::new()).await, "tls");
    assert_eq!(
        outcome(&string, &TestEnvironment::new().set("PGSSLMODE", "disable")).await,
        "clear"
    );
}

#[tokio::test]
async fn sockets_are_never_encrypted_whatever_the_mode() {
    let string = TLS_SERVER.cluster.url("postgres");
    for mode in ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] {
        let outcome = outcome(&format!("{string}?sslmode={mode}"), &TestEnvironment::new()).await;
        assert_eq!(outcome, "clear", "{mode}");
    }
}

#[tokio::test]
async fn a_user_can_be_known_by_certificate() {
    let server = &*TLS_SERVER;
    let string = format!("{} sslmode=verify-full", server.string("by_certificate"));

    let environment = server.trusting();
    let failure = outcome(&string, &environment).await;
    assert!(failure.contains("certificate"), "{failure}");

    environment.file(".postgresql/postgresql.crt", &server.client.certificate);
    let fault = ConnectionSettings::resolve(&string, &environment).unwrap_err().to_string();
    assert!(fault.starts_with("the private key") && fault.contains("postgresql.key"), "{fault}");

    environment.file(".postgresql/postgresql.key", &server.client.key);
    assert_eq!(outcome(&string, &environment).await, "tls");

    environment.open_to_all(".postgresql/postgresql.key");
    let fault = ConnectionSettings::resolve(&string, &environment).unwrap_err().to_string();
    assert!(fault.contains("chmod 0600"), "{fault}");
    let never_sent = format!("{string} sslcertmode=disable");
    assert!(outcome(&never_sent, &environment).await.contains("certificate"));

    let elsewhere = server.trusting();
    let certificate = elsewhere.file("client.pem", &server.client.certificate);
    let key = elsewhere.file("client.key", &server.client.key);
    let named = format!("{string} sslcert={certificate} sslkey={key}");
    assert_eq!(outcome(&named, &elsewhere).await, "tls");

    let swapped = format!("{string} sslcert={certificate} sslkey={certificate}");
    let fault = ConnectionSettings::resolve(&swapped, &elsewhere).unwrap_err().to_string();
    assert!(fault.contains("PEM"), "{fault}");
    let other = Authority::new("other").sign(&for_common_name("by_certificate"));
    let other_key = elsewhere.file("other.key", &other.key);
    let mismatched = format!("{string} sslcert={certificate} sslkey={other_key}");
    assert!(ConnectionSettings::resolve(&mismatched, &elsewhere).is_err());
}

#[tokio::test]
async fn certificates_are_read_again_for_each_connection() {
    let server = &*TLS_SERVER;
    let environment = server.trusting();
    let string = format!("{} sslmode=verify-full", server.string("either"));
    let settings = ConnectionSettings::resolve(&string, &environment).unwrap();
    assert!(connect(&settings, &OPTIONS).await.is_ok());

    environment.file(".postgresql/root.crt", &Authority::new("renewed").pem());
    let error = connect(&settings, &OPTIONS).await.err().unwrap();
    assert!(error.to_string().contains("not signed by an authority in"), "{error}");

    environment.file(".postgresql/root.crt", &server.authority.pem());
    assert!(connect(&settings, &OPTIONS).await.is_ok());
}

#[tokio::test]
async fn a_server_that_ends_the_talk_about_versions_is_reported_as_such() {
    let authority = Authority::new("authority");
    let identity = authority.sign(&for_names(&["localhost"]));
    let cluster = Cluster::builder()
        .tls(&identity.certificate, &identity.key)
        .setting("ssl_min_protocol_version", "TLSv1.3")
        .start()
        .unwrap();
    let string = format!("host=127.0.0.1 port={} dbname=postgres sslmode=require", cluster.port());
    let environment = TestEnvironment::new();
    assert_eq!(outcome(&string, &environment).await, "tls");

    let too_old = format!("{string} ssl_max_protocol_version=TLSv1.2");
    let prefer = too_old.replace("sslmode=require", "sslmode=prefer");
    for string in [too_old, prefer] {
        // A failed handshake must not lead to clear text.
        let error = session(&string, &environment).await.err().unwrap().to_string();
        assert!(error.contains("encryption (ProtocolVersion)"), "{error}");
    }
}

#[tokio::test]
async fn encryption_can_begin_without_asking_where_the_server_knows_that() {
    let server = &*TLS_SERVER;
    let string = format!("{} sslmode=verify-full sslnegotiation=direct", server.string("either"));
    let outcome = outcome(&string, &server.trusting()).await;
    if server.cluster.installation().major >= 17 {
        assert_eq!(outcome, "tls");
    } else {
        assert!(outcome.contains("127.0.0.1"), "{outcome}");
        assert!(outcome.contains("cut off") || outcome.contains("closed"), "{outcome}");
    }
}
