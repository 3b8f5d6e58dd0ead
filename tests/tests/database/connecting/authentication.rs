//! Passwords: where they come from, what is said when they are wrong,
//! and that they are never shown.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use mailroom_connect::{ConnectError, ConnectionSettings};

use super::encryption::{PASSWORD, TLS_SERVER};
use super::environment::TestEnvironment;
use super::{served, session, value};

/// Every byte percent-encoded.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |encoded, byte| format!("{encoded}%{byte:02X}"))
}

/// With backslashes before what a password file would take for its own.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace(':', "\\:")
}

async fn who(string: &str, environment: &TestEnvironment) -> String {
    let client =
        served(session(string, environment).await.unwrap_or_else(|error| panic!("{error}")));
    value(&client, "SELECT current_user::text").await
}

async fn refusal(string: &str, environment: &TestEnvironment) -> ConnectError {
    let error = session(string, environment).await.err().unwrap();
    let text = error.to_string();
    assert!(
        ["password", "pg_hba.conf", "channel_binding", "require_auth"]
            .iter()
            .any(|word| text.contains(word)),
        "{text}"
    );
    error
}

fn never_shown(error: &ConnectError, password: &str) {
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains(password), "{shown}");
}

#[tokio::test]
async fn the_password_comes_from_wherever_libpq_would_take_it() {
    let server = &*TLS_SERVER;
    let port = server.cluster.port();
    let empty = TestEnvironment::new();

    let url = format!("postgresql://scram:{}@127.0.0.1:{port}/postgres", encoded(PASSWORD));
    assert_eq!(who(&url, &empty).await, "scram");
    let parameter =
        format!("postgresql://scram@127.0.0.1:{port}/postgres?password={}", encoded(PASSWORD));
    assert_eq!(who(&parameter, &empty).await, "scram");
    let quoted = PASSWORD.replace('\\', "\\\\").replace('\'', "\\'");
    let keywords = format!("{} password='{quoted}'", server.string("scram"));
    assert_eq!(who(&keywords, &empty).await, "scram");

    let variable = TestEnvironment::new().set("PGPASSWORD", PASSWORD);
    assert_eq!(who(&server.string("scram"), &variable).await, "scram");

    let file = TestEnvironment::new();
    let lines =
        format!("localhost:1:*:*:wrong\nlocalhost:{port}:postgres:scram:{}\n", escaped(PASSWORD));
    let path = file.file(".pgpass", &lines);
    assert_eq!(who(&server.string("scram"), &file).await, "scram");
    assert_eq!(who(&format!("{} passfile={path}", server.string("scram")), &empty).await, "scram");
    let named = TestEnvironment::new().set("PGPASSFILE", OsString::from(&path));
    assert_eq!(who(&server.string("scram"), &named).await, "scram");
}

#[tokio::test]
async fn a_password_file_calls_the_usual_socket_folders_localhost_and_others_by_their_path() {
    let cluster = &TLS_SERVER.cluster;
    let (folder, port) = (cluster.socket_dir(), cluster.port());
    let by_path = format!("host={} port={port} user=scram dbname=postgres", folder.display());
    let by_default = format!("port={port} user=scram dbname=postgres");
    let localhost = format!("localhost:*:*:*:{}", escaped(PASSWORD));
    let path = format!("{}:*:*:*:{}", folder.display(), escaped(PASSWORD));

    let usual = TestEnvironment::new().sockets_in(folder);
    usual.file(".pgpass", &localhost);
    assert_eq!(who(&by_default, &usual).await, "scram");
    assert_eq!(who(&by_path, &usual).await, "scram");

    let unusual = TestEnvironment::new();
    unusual.file(".pgpass", &localhost);
    refusal(&by_path, &unusual).await;
    unusual.file(".pgpass", &path);
    assert_eq!(who(&by_path, &unusual).await, "scram");
}

#[tokio::test]
async fn every_password_method_works_with_and_without_encryption() {
    let environment = TestEnvironment::new().set("PGPASSWORD", PASSWORD);
    for user in ["scram", "md5", "cleartext"] {
        for mode in ["disable", "require"] {
            let string = format!("{} sslmode={mode}", TLS_SERVER.string(user));
            assert_eq!(who(&string, &environment).await, user, "{mode}");
        }
    }
}

#[tokio::test]
async fn a_wrong_password_is_said_with_its_origin_and_not_shown() {
    let string = TLS_SERVER.string("scram");
    let variable = TestEnvironment::new().set("PGPASSWORD", "hunter2");
    for user in ["scram", "md5", "cleartext", "nobody"] {
        let error = refusal(&TLS_SERVER.string(user), &variable).await;
        never_shown(&error, "hunter2");
        let text = error.to_string();
        assert!(text.contains("password authentication failed"), "{text}");
        assert!(text.contains("came from the settings") && text.contains("127.0.0.1"), "{text}");
    }

    let file = TestEnvironment::new();
    let path = file.file(".pgpass", "*:*:*:*:hunter2");
    let error = refusal(&string, &file).await;
    never_shown(&error, "hunter2");
    assert!(error.to_string().contains(&format!("came from {path}")), "{error}");
}

#[tokio::test]
async fn a_missing_password_is_said_with_the_places_to_put_it() {
    let string = TLS_SERVER.string("scram");
    let environment = TestEnvironment::new();
    let text = refusal(&string, &environment).await.to_string();
    assert!(text.contains("requires a password") && text.contains("PGPASSWORD"), "{text}");
    assert!(text.contains(".pgpass"), "{text}");

    environment.file(".pgpass", &format!("*:*:*:*:{}", escaped(PASSWORD)));
    environment.open_to_all(".pgpass");
    let error = refusal(&string, &environment).await;
    assert!(error.to_string().contains("chmod 0600"), "{error}");
    never_shown(&error, PASSWORD);
}

#[tokio::test]
async fn a_missing_database_and_a_missing_role_are_said_clearly() {
    let string = TLS_SERVER.string("either").replace("dbname=postgres", "dbname=missing");
    let error = session(&string, &TestEnvironment::new()).await.err().unwrap();
    let text = error.to_string();
    assert!(
        text.starts_with("cannot connect to database \"missing\" as user \"either\" on "),
        "{text}"
    );
    assert!(
        text.contains("database \"missing\" does not exist (SQLSTATE 3D000); create the database"),
        "{text}"
    );

    let error = refusal(&TLS_SERVER.string("unknown"), &TestEnvironment::new()).await.to_string();
    assert!(error.contains("pg_hba.conf"), "{error}");
}

#[tokio::test]
async fn after_a_server_without_room_the_next_one_is_tried() {
    let port = TLS_SERVER.cluster.port();
    let string = format!("host=127.0.0.1,127.0.0.1 port={port} dbname=postgres user=limited");
    let error = session(&string, &TestEnvironment::new()).await.err().unwrap().to_string();
    assert_eq!(error.matches("too many connections").count(), 2, "the next host is tried: {error}");
}

#[tokio::test]
async fn channel_binding_is_used_and_can_be_demanded() {
    let environment = TestEnvironment::new().set("PGPASSWORD", PASSWORD);
    let demanding = |user: &str, mode: &str| {
        format!("{} sslmode={mode} channel_binding=require", TLS_SERVER.string(user))
    };
    assert_eq!(who(&demanding("scram", "require"), &environment).await, "scram");
    for (user, mode) in
        [("scram", "allow"), ("md5", "require"), ("cleartext", "require"), ("either", "require")]
    {
        let error = refusal(&demanding(user, mode), &environment).await.to_string();
        assert!(error.contains("channel_binding=require"), "{user} {mode}: {error}");
    }
    let by_socket = format!("{}?channel_binding=require", TLS_SERVER.cluster.url("postgres"));
    refusal(&by_socket, &environment).await;
}

#[tokio::test]
async fn a_password_is_sent_in_clear_to_another_machine_only_on_request() {
    let environment = TestEnvironment::new().set("PGPASSWORD", PASSWORD);
    // Linux connects to itself by this address, which is not one of this machine's own.
    let elsewhere = |user: &str, settings: &str| {
        let string = TLS_SERVER.string(user).replace("hostaddr=127.0.0.1", "hostaddr=0.0.0.0");
        format!("{string} {settings}")
    };
    for settings in ["sslmode=disable", "sslmode=allow", "sslmode=disable require_auth=!md5"] {
        let error = refusal(&elsewhere("cleartext", settings), &environment).await;
        never_shown(&error, PASSWORD);
        let text = error.to_string();
        assert!(text.contains("password") && text.contains("require_auth"), "{settings}: {text}");
    }
    let asked_for = "sslmode=disable require_auth=password";
    for settings in ["sslmode=prefer", "sslmode=require", asked_for] {
        assert_eq!(who(&elsewhere("cleartext", settings), &environment).await, "cleartext");
    }
    for user in ["scram", "md5"] {
        assert_eq!(who(&elsewhere(user, "sslmode=disable"), &environment).await, user);
    }
}

#[tokio::test]
async fn methods_that_require_auth_excludes_are_not_used() {
    let environment = TestEnvironment::new().set("PGPASSWORD", PASSWORD);
    for (user, setting, is_used) in [
        ("scram", "scram-sha-256", true),
        ("scram", "!password,!md5", true),
        ("scram", "md5", false),
        ("md5", "md5,none", true),
        ("md5", "scram-sha-256", false),
        ("cleartext", "!password", false),
        ("cleartext", "scram-sha-256", false),
        ("either", "none", true),
        // A server that asks for nothing has not shown that it knows the password.
        ("either", "scram-sha-256", false),
    ] {
        for mode in ["disable", "require"] {
            let string =
                format!("{} sslmode={mode} require_auth={setting}", TLS_SERVER.string(user));
            if is_used {
                assert_eq!(who(&string, &environment).await, user, "{string}");
            } else {
                let error = refusal(&string, &environment).await.to_string();
                assert!(error.contains("which require_auth excludes"), "{string}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_repeats_the_password_does_not_get_it_into_messages() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || repeat_password(listener.accept().unwrap().0));

    let string = format!("postgresql://u:hunter2@127.0.0.1:{port}/db?sslmode=disable");
    let settings = ConnectionSettings::resolve(&string, &TestEnvironment::new()).unwrap();
    never_shown_in(&format!("{settings} {settings:?}"));
    let error = session(&string, &TestEnvironment::new()).await.err().unwrap();
    server.join().unwrap();
    let text = error.to_string();
    assert!(text.contains("I know *** now"), "{text}");
    assert!(!text.contains('\n') && !text.contains('\u{1b}'), "{text:?}");
    never_shown(&error, "hunter2");
}

fn never_shown_in(text: &str) {
    assert!(!text.contains("hunter2"), "{text}");
}

/// Asks for the password in clear and sends it back in an error, with control characters around it.
fn repeat_password(mut client: TcpStream) {
    read_message(&mut client, 0);
    client.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
    let password = read_message(&mut client, 1);
    let password = String::from_utf8_lossy(&password).trim_end_matches('\0').to_owned();
    let fields = format!("SFATAL\0VFATAL\0C08000\0MI know {password} now\n\u{1b}[31m\0\0");
    let length = u32::try_from(fields.len() + 4).unwrap();
    client.write_all(b"E").unwrap();
    client.write_all(&length.to_be_bytes()).unwrap();
    client.write_all(fields.as_bytes()).unwrap();
}

/// The content of a message whose length stands after `type_bytes` bytes.
fn read_message(client: &mut TcpStream, type_bytes: usize) -> Vec<u8> {
    let mut head = vec![0; type_bytes + 4];
    client.read_exact(&mut head).unwrap();
    let length = u32::from_be_bytes(head[type_bytes..].try_into().unwrap());
    let mut content = vec![0; usize::try_from(length).unwrap() - 4];
    client.read_exact(&mut content).unwrap();
    content
}
