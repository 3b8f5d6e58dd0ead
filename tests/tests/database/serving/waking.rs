use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use serde_json::json;

use super::{ALL, Serve, enqueue, table, table_of_all};
use crate::sleeping::{Called, wait_for_rest};

#[tokio::test]
async fn collectors_without_a_session_are_woken_by_calls_and_by_what_is_enqueued() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let called = Called::start(&database)?;
    let serve =
        Serve::start_with(database.url(), &table_of_all(), &["--wake", called.address.as_str()])?;
    // A row that another client has made.
    client.account("a").at("x.test").insert().await?;
    let woken = serve.post("/v1/wake", "{}")?;
    assert_eq!((woken.status, woken.body), (202, json!({ "collectors": 1 })));
    assert_eq!(called.next_login()?, "a");
    // One that this server has made needs no call.
    wait_for_rest(&client).await?;
    let asked = json!({ "action": "activate", "email_or_login": "a", "cooldown": 0 });
    assert_eq!(serve.post("/v1/request", &asked.to_string())?.status, 202);
    assert_eq!(called.next_login()?, "a");
    called.collector.stop()?;
    serve.program.stop()?;
    Ok(())
}

#[tokio::test]
async fn nobody_wakes_without_the_right_and_more_often_than_its_rate() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let called = Called::start(&database)?;
    let tokens = [
        table("waker", "edge", "rights = [\"wake\"]\nrate = \"1/d\""),
        table("sender", "shop", "rights = [\"enqueue\"]\nrate = \"off\""),
    ];
    let serve =
        Serve::start_with(database.url(), &tokens.concat(), &["--wake", called.address.as_str()])?;
    for (token, body, status, code) in [
        ("hunter2", "{}", 401, "MAILROOM_TOKEN"),
        ("sender", "{}", 403, "MAILROOM_RIGHT"),
        ("waker", r#"{"collector":"x"}"#, 400, "MAILROOM_REQUEST"),
        ("waker", "{}", 202, ""),
        ("waker", "{}", 429, "MAILROOM_RATE"),
    ] {
        let answer = serve.post_as(token, "/v1/wake", body)?;
        assert_eq!((answer.status, answer.code()), (status, code), "{token} {body}");
    }
    // It asks nobody but the collector, so that it works also while the database sleeps.
    let sessions = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'mailroom serve'";
    assert_eq!(client.query_one(sessions, &[]).await?.get::<_, i64>(0), 0);
    let log = serve.program.stop()?;
    assert!(!log.contains("hunter2") && !log.contains("waker"), "{log}");
    called.collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn whoever_wakes_hears_that_no_collector_was_reached() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let without = Serve::start(database.url())?;
    let answer = without.post_as(ALL, "/v1/wake", "{}")?;
    assert_eq!((answer.status, answer.code()), (500, "MAILROOM_SETUP"), "{answer:?}");
    without.program.stop()?;

    let called = Called::start(&database)?;
    let arguments = ["--wake", called.address.as_str(), "--wake", "127.0.0.1:1"];
    let serve = Serve::start_with(database.url(), &table_of_all(), &arguments)?;
    wait_for_rest(&client).await?;
    assert_eq!(serve.post("/v1/wake", "{}")?.body, json!({ "collectors": 1 }));
    called.collector.stop()?;
    let answer = serve.post_once("/v1/wake", "{}")?;
    assert_eq!((answer.status, answer.code()), (503, "MAILROOM_AWAY"), "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("5"));
    // What is enqueued is enqueued all the same.
    enqueue(&serve, "notice", "7")?;
    let log = serve.program.stop()?;
    assert!(log.contains("event=collector_not_woken"), "{log}");
    Ok(())
}

/// What listens in place of a collector.
fn listener() -> Result<(TcpListener, String)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    Ok((listener, address))
}

#[tokio::test]
async fn a_collector_that_answers_nothing_keeps_no_other_waiting() -> Result<()> {
    let database = Database::migrated()?;
    for _ in 0..10 {
        let (silent, its_address) = listener()?;
        let (answering, address) = listener()?;
        let arguments = ["--wake", its_address.as_str(), "--wake", address.as_str()];
        let serve = Serve::start_with(database.url(), &table_of_all(), &arguments)?;
        let began = Instant::now();
        for call in 0..3 {
            enqueue(&serve, "notice", &call.to_string())?;
            let (mut called, _) = answering.accept()?;
            called.write_all(b"HTTP/1.1 202 Accepted\r\n\r\n")?;
        }
        // The first call of the silent one still waits: the other was not called after it.
        let (mut first, _) = silent.accept()?;
        first.set_nonblocking(true)?;
        let mut request = Vec::new();
        let read = first.read_to_end(&mut request);
        // Short: after five seconds the server ends a call, and then nothing is shown.
        if began.elapsed() > Duration::from_secs(4) {
            continue;
        }
        let open = read.expect_err("its call is over");
        assert_eq!(open.kind(), ErrorKind::WouldBlock);
        assert!(request.starts_with(b"POST /wake "), "{}", String::from_utf8_lossy(&request));
        serve.program.stop()?;
        return Ok(());
    }
    anyhow::bail!("the machine is too busy: nothing took less than four seconds")
}
