//! What can be done with a session.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mailroom_connect::{ConnectionSettings, SessionOptions, connect};
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;

use super::encryption::TLS_SERVER;
use super::environment::TestEnvironment;
use super::{served, session, value};

#[tokio::test]
async fn the_purpose_is_shown_unless_the_settings_name_the_application() {
    let string = TLS_SERVER.string("either");
    for (string, environment, expected) in [
        (string.clone(), TestEnvironment::new(), "connecting test"),
        (string.clone(), TestEnvironment::new().set("PGAPPNAME", "mine"), "mine"),
        (
            format!("{string} application_name=named"),
            TestEnvironment::new().set("PGAPPNAME", "mine"),
            "named",
        ),
        (
            format!("{string} fallback_application_name=fallback"),
            TestEnvironment::new(),
            "fallback",
        ),
    ] {
        let client = served(session(&string, &environment).await.unwrap());
        assert_eq!(value(&client, "SHOW application_name").await, expected);
    }
}

#[tokio::test]
async fn statements_are_broken_off_after_the_time_that_the_caller_sets() {
    let string =
        format!("{} options='-c statement_timeout=1h -c geqo=off'", TLS_SERVER.string("either"));
    let settings = ConnectionSettings::resolve(&string, &TestEnvironment::new()).unwrap();
    let options = SessionOptions {
        application_name: "test",
        statement_timeout: Some(Duration::from_secs(3)),
        needs_session: false,
    };
    let client = served(connect(&settings, &options).await.unwrap());
    assert_eq!(value(&client, "SHOW statement_timeout").await, "3s");
    assert_eq!(value(&client, "SHOW geqo").await, "off");
    let error = client.batch_execute("SELECT pg_sleep(60)").await.err().unwrap();
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));

    let options =
        SessionOptions { application_name: "test", statement_timeout: None, needs_session: false };
    let client = served(connect(&settings, &options).await.unwrap());
    assert_eq!(value(&client, "SHOW statement_timeout").await, "1h");
}

#[tokio::test]
async fn notifications_are_heard_while_queries_run_and_none_is_lost() {
    for string in [TLS_SERVER.string("either"), TLS_SERVER.cluster.url("postgres")] {
        let environment = TestEnvironment::new();
        let listener = session(&string, &environment).await.unwrap();
        let sender = served(session(&string, &environment).await.unwrap());
        let mut connection = listener.connection;
        let client = listener.client;
        let listening = tokio::spawn(async move {
            client.batch_execute("LISTEN news").await.unwrap();
            client
        });
        let mut heard = Vec::new();
        let mut sent = false;
        while heard.len() < 3 {
            tokio::select! {
                notification = connection.notification() => {
                    heard.push(notification.unwrap().unwrap().payload().to_owned());
                }
                () = tokio::time::sleep(Duration::from_millis(20)), if !sent => {
                    if listening.is_finished() {
                        sender.batch_execute("NOTIFY news, 'a'; NOTIFY news, 'b'; \
                                              NOTIFY news, 'c'").await.unwrap();
                        sent = true;
                    }
                }
            }
        }
        assert_eq!(heard, ["a", "b", "c"]);
        drop(listening.await.unwrap());
        assert!(connection.notification().await.is_none(), "the connection ends with its client");
    }
}

#[tokio::test]
async fn the_end_of_a_session_is_an_error_on_both_halves() {
    let environment = TestEnvironment::new();
    let session_to_end = session(&TLS_SERVER.string("either"), &environment).await.unwrap();
    let running = tokio::spawn(session_to_end.connection.run());
    // Without a prepared statement: the message that closes one could meet a server that has gone,
    // whose reset of the connection would overtake the reason.
    let process = session_to_end.client.simple_query("SELECT pg_backend_pid()").await.unwrap();
    let process: i32 = process.iter().find_map(process_of).unwrap();
    let superuser =
        served(session(&TLS_SERVER.cluster.url("postgres"), &environment).await.unwrap());
    superuser.execute("SELECT pg_terminate_backend($1)", &[&process]).await.unwrap();

    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::ADMIN_SHUTDOWN));
    assert!(session_to_end.client.batch_execute("SELECT 1").await.is_err());
}

fn process_of(message: &SimpleQueryMessage) -> Option<i32> {
    if let SimpleQueryMessage::Row(row) = message { row.get(0)?.parse().ok() } else { None }
}

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn what_the_server_remarks_is_logged_for_debugging() {
    let captured = Captured::default();
    let writer = captured.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let client =
        served(session(&TLS_SERVER.string("either"), &TestEnvironment::new()).await.unwrap());
    client.batch_execute("DO $$ BEGIN RAISE NOTICE 'mind the gap'; END $$").await.unwrap();
    let log = String::from_utf8(captured.0.lock().unwrap().clone()).unwrap();
    assert!(
        log.contains("DEBUG")
            && log.contains(
                "the server says event=\"notice\" severity=\"NOTICE\" code=\"00000\" \
                 reason=mind the gap"
            ),
        "{log}"
    );
}
