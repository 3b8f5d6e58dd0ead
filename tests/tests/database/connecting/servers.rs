//! Which server is found, and what is said when none is.

use std::io::Write;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use mailroom_tests::port;
use mailroom_tests::postgres::Cluster;

use super::encryption::TLS_SERVER;
use super::environment::TestEnvironment;
use super::{served, session, value};

#[tokio::test]
async fn a_socket_is_found_by_url_by_keyword_by_variable_and_by_default() {
    let cluster = &TLS_SERVER.cluster;
    let (folder, port) = (cluster.socket_dir(), cluster.port());
    let path = folder.to_str().unwrap();
    let socket = format!("{path}/.s.PGSQL.{port}");
    let encoded = path.replace('/', "%2F");
    let plain = TestEnvironment::new();
    let by_variables = TestEnvironment::new().set("PGHOST", path).set("PGPORT", port.to_string());
    let by_default = TestEnvironment::new().sockets_in(folder);

    for (string, environment) in [
        (format!("postgresql://{encoded}:{port}/postgres"), &plain),
        (format!("postgresql://:{port}/postgres?host={path}"), &plain),
        (format!("host={path} port={port} dbname=postgres"), &plain),
        (format!("host='{path}' port='{port}' dbname='postgres' user='postgres'"), &plain),
        ("dbname=postgres".to_owned(), &by_variables),
        (format!("dbname=postgres port={port}"), &by_default),
        (format!("postgresql://:{port}"), &by_default),
    ] {
        let session =
            session(&string, environment).await.unwrap_or_else(|error| panic!("{string}: {error}"));
        assert_eq!(session.server, socket, "{string}");
        assert_eq!(value(&served(session), "SELECT current_database()::text").await, "postgres");
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_said_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let environment = TestEnvironment::new();
    let error = session(&format!("host={path} dbname=mailroom"), &environment).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        format!(
            "cannot connect to database \"mailroom\" as user \"postgres\" on {path}/.s.PGSQL.5432: \
             no server listens there; is PostgreSQL running?"
        )
    );

    // A server that was killed leaves its socket.
    drop(std::os::unix::net::UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap());
    let error = session(&format!("host={path}"), &environment).await.err().unwrap();
    assert!(error.to_string().contains("is PostgreSQL running?"), "{error}");

    let port = port::free().unwrap();
    let error = session(&format!("host=127.0.0.1 port={port}"), &environment).await.err().unwrap();
    let expected = format!("on 127.0.0.1, port {port}: no server listens there");
    assert!(error.to_string().contains(&expected), "{error}");
}

#[tokio::test]
async fn a_stopped_server_is_found_again_when_it_is_back() {
    let mut cluster = Cluster::builder().tcp().start().unwrap();
    let string = format!(
        "host={},127.0.0.1 port={} dbname=postgres",
        cluster.socket_dir().display(),
        cluster.port()
    );
    let environment = TestEnvironment::new();
    assert!(session(&string, &environment).await.is_ok());
    cluster.stop(mailroom_tests::postgres::Shutdown::Fast).unwrap();
    let error = session(&string, &environment).await.err().unwrap();
    assert!(error.to_string().contains(", nor on 127.0.0.1"), "{error}");
    cluster.start_again().unwrap();
    assert!(session(&string, &environment).await.is_ok());
}

#[tokio::test]
async fn an_unknown_host_is_said() {
    let error = session("host=nowhere.invalid connect_timeout=60", &TestEnvironment::new())
        .await
        .err()
        .unwrap();
    let text = error.to_string();
    assert!(text.contains("nowhere.invalid, port 5432: the host name"), "{text}");
}

#[tokio::test]
async fn the_next_host_is_tried_when_one_is_down_or_silent() {
    let port = TLS_SERVER.cluster.port();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (closed, silent_port) = (port::free().unwrap(), silent.local_addr().unwrap().port());
    let string = format!(
        "host=127.0.0.1,/nowhere,127.0.0.1,localhost hostaddr=,,,127.0.0.1 \
         port={closed},1,{silent_port},{port} connect_timeout=10 user=either dbname=postgres"
    );
    let started = Instant::now();
    let session =
        session(&string, &TestEnvironment::new()).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(session.server, format!("localhost (127.0.0.1), port {port}"));
    assert!(started.elapsed() >= Duration::from_secs(10), "the silent host was not waited for");
}

#[tokio::test]
async fn a_silent_server_is_given_up_after_the_time_that_was_set() {
    // The kernel takes the connection, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for mode in ["disable", "require"] {
        let string = format!("host=127.0.0.1 port={port} sslmode={mode} connect_timeout=1");
        let error = session(&string, &TestEnvironment::new()).await.err().unwrap();
        assert!(error.to_string().contains("no answer within 1 s"), "{error}");
    }
}

#[tokio::test]
async fn a_refused_user_ends_the_search() {
    let port = TLS_SERVER.cluster.port();
    let string =
        format!("host=127.0.0.1,127.0.0.1 port={port} user=scram password=wrong dbname=postgres");
    let error = session(&string, &TestEnvironment::new()).await.err().unwrap();
    let error = error.to_string();
    assert!(
        error.contains("password authentication failed") && !error.contains(", nor on"),
        "{error}"
    );
}

#[tokio::test]
async fn what_is_no_postgresql_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            client.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").ok();
        }
    });
    for mode in ["disable", "prefer", "require"] {
        let string = format!("host=127.0.0.1 port={port} sslmode={mode} connect_timeout=2");
        let error = session(&string, &TestEnvironment::new()).await.err().unwrap();
        assert!(error.to_string().contains(&format!("127.0.0.1, port {port}: ")), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[tokio::test]
async fn only_a_server_of_the_kind_that_was_asked_for_is_used() {
    let server = &*TLS_SERVER;
    for (user, kind, accepted) in [
        ("either", "any", true),
        ("either", "read-write", true),
        ("either", "primary", true),
        ("reader", "any", true),
        ("reader", "read-write", false),
        ("reader", "primary", true),
    ] {
        let string = format!("{} target_session_attrs={kind}", server.string(user));
        match session(&string, &TestEnvironment::new()).await {
            Ok(_) => assert!(accepted, "{user} {kind}"),
            Err(error) => {
                assert!(!accepted, "{error}");
                assert!(
                    error.to_string().contains(&format!("target_session_attrs={kind}")),
                    "{error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn hosts_can_be_tried_in_a_random_order() {
    let cluster = &TLS_SERVER.cluster;
    let (folder, port) = (cluster.socket_dir().display(), cluster.port());
    let string = format!(
        "host={folder},127.0.0.1 port={port} user=either dbname=postgres load_balance_hosts=random"
    );
    let mut servers = Vec::new();
    for _ in 0..40 {
        servers.push(session(&string, &TestEnvironment::new()).await.unwrap().server);
    }
    servers.sort();
    servers.dedup();
    assert_eq!(servers.len(), 2, "40 times the same order");
}
