use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mailroom_tests::collector::{Collector, wait_until};
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::program;
use mailroom_tests::rows::wait_for;

use super::{ALL, Serve, answer, enqueue, queued, request, table_of_all};

const RECHECK: &str = r#"{"subject_id":"7"}"#;

#[tokio::test]
async fn a_database_that_is_away_is_said_so_and_the_link_stays_good() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let serve = Serve::start(database.url())?;
    let token = enqueue(&serve, "invite", "7")?;
    let client = database.connect().await?;
    let (secret, _) = queued(&client, &token).await?;
    drop(client);
    cluster.stop(Shutdown::Immediate)?;
    for _ in 0..3 {
        let answer = serve.redeem_once("invite", &secret)?;
        assert!(
            (answer.status, answer.code()) == (503, "MAILROOM_AWAY")
                // The connection ends while it is used.
                || (answer.status, answer.code()) == (504, "MAILROOM_UNKNOWN"),
            "{answer:?}"
        );
    }
    let answer = serve.redeem_once("invite", &secret)?;
    assert_eq!((answer.status, answer.code()), (503, "MAILROOM_AWAY"), "{answer:?}");
    assert!(answer.header("retry-after").is_some());
    cluster.start_again()?;
    let mut used = None;
    wait_until(|| {
        used = serve.redeem_once("invite", &secret).ok();
        used.as_ref().is_some_and(|answer| answer.status == 200)
    })?;
    assert_eq!(used.context("an answer")?.body["verdict"], "ok");
    let log = serve.program.stop()?;
    assert!(log.contains("the database cannot be used"), "{log}");
    // The database goes before its server.
    drop(database);
    Ok(())
}

#[tokio::test]
async fn a_database_that_is_read_only_or_not_set_up_is_said_so() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let name = database.name();
    let serve = Serve::start(database.url())?;
    let token = enqueue(&serve, "invite", "7")?;
    let (secret, _) = queued(&client, &token).await?;
    serve.program.stop()?;
    let set =
        |value: &str| format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}");
    client.batch_execute(&set("on")).await?;
    let serve = Serve::start(database.url())?;
    let answer = serve.redeem_once("invite", &secret)?;
    assert_eq!((answer.status, answer.code()), (503, "MAILROOM_AWAY"), "{answer:?}");
    client.batch_execute("SET default_transaction_read_only = off").await?;
    client.batch_execute(&set("off")).await?;
    // A session that refuses is not used again, so that a demoted server is left.
    assert_eq!(serve.redeem_once("invite", &secret)?.body["verdict"], "ok");
    // A role without the right, and a database without the functions.
    client.batch_execute(&format!("CREATE ROLE {name} LOGIN")).await?;
    let empty = Database::create()?;
    for url in [database.url_of(name), empty.url().to_owned()] {
        let serve = Serve::start(&url)?;
        let answer = serve.post("/v1/recheck", RECHECK)?;
        assert_eq!((answer.status, answer.code()), (500, "MAILROOM_SETUP"), "{answer:?}");
        let log = serve.program.stop()?;
        assert!(log.contains("SQLSTATE"), "{log}");
    }
    client.batch_execute(&format!("DROP ROLE {name}")).await?;
    Ok(())
}

#[tokio::test]
async fn connections_that_are_all_in_use_are_waited_for_and_then_said_so() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let serve = Serve::start_with(database.url(), &table_of_all(), &["--connections", "1"])?;
    let token = enqueue(&serve, "invite", "7")?;
    let (secret, _) = queued(&client, &token).await?;
    let lock = client.transaction().await?;
    lock.batch_execute("SELECT FROM mailroom.issued_tokens FOR UPDATE").await?;
    let is_over = AtomicBool::new(false);
    let (waiting, busy) = thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            // Again where a busy machine was late with the other one.
            loop {
                let answer = serve.redeem_once("invite", &secret)?;
                if answer.status != 503 || is_over.load(Ordering::Relaxed) {
                    return anyhow::Ok(answer);
                }
            }
        });
        let busy = scope.spawn(|| {
            // Until the one connection is in use; then there is none for three seconds.
            let mut last = None;
            let waited = wait_until(|| {
                last = serve.post_once("/v1/recheck", RECHECK).ok();
                last.as_ref().is_some_and(|answer| answer.status == 503)
            });
            is_over.store(true, Ordering::Relaxed);
            waited?;
            last.context("an answer")
        });
        (waiting.join(), busy.join())
    });
    let busy = busy.map_err(|_| anyhow::anyhow!("a panic"))??;
    assert_eq!(busy.code(), "MAILROOM_AWAY", "{busy:?}");
    // A statement ends by the server's own limit, and is taken back.
    let waiting = waiting.map_err(|_| anyhow::anyhow!("a panic"))??;
    assert_eq!((waiting.status, waiting.code()), (503, "MAILROOM_AWAY"), "{waiting:?}");
    lock.rollback().await?;
    assert_eq!(serve.redeem("invite", &secret, None)?.body["verdict"], "ok");
    Ok(())
}

#[tokio::test]
async fn a_call_whose_caller_leaves_ends_before_another_one_gets_its_connection() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let watch = database.connect().await?;
    let serve = Serve::start_with(database.url(), &table_of_all(), &["--connections", "1"])?;
    for round in 0..10 {
        let token = enqueue(&serve, "invite", &round.to_string())?;
        let (secret, _) = queued(&client, &token).await?;
        let lock = client.transaction().await?;
        lock.batch_execute("SELECT FROM mailroom.issued_tokens FOR UPDATE").await?;
        let mut left = serve.connect()?;
        let body = format!(r#"{{"action":"invite","secret":"{}"}}"#, hexadecimal(&secret));
        let began = Instant::now();
        left.write_all(request(ALL, "/v1/redeem", &body).as_bytes())?;
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock')";
        wait_for(&watch, waits, true).await?;
        drop(left);
        let busy = serve.post_once("/v1/recheck", RECHECK)?;
        lock.rollback().await?;
        // Short: after eight seconds the server ends what waits, and then nothing is shown.
        if began.elapsed() > Duration::from_secs(7) {
            continue;
        }
        // It was in use still, and not handed on with a statement that somebody else waits for.
        assert_eq!((busy.status, busy.code()), (503, "MAILROOM_AWAY"), "{busy:?}");
        let mut next = None;
        wait_until(|| {
            next = serve.redeem_once("invite", &secret).ok();
            next.as_ref().is_some_and(|answer| answer.status == 200)
        })?;
        // What had begun was done.
        assert_eq!(next.context("an answer")?.body["verdict"], "used");
        return Ok(());
    }
    anyhow::bail!("the machine is too busy: nothing took less than seven seconds")
}

#[tokio::test]
async fn a_socket_is_for_its_user_and_group_and_what_a_crash_left_is_no_hindrance() -> Result<()> {
    let database = Database::migrated()?;
    let folder = tempfile::tempdir()?;
    let (tokens, socket) = (folder.path().join("serve.toml"), folder.path().join("s"));
    std::fs::write(&tokens, table_of_all())?;
    let start = || {
        let mut command = program::mailroom()?;
        command.args(["serve", "--tokens"]).arg(&tokens);
        command.arg("--listen").arg(format!("unix:{}", socket.display()));
        command.env("MAILROOM_DATABASE_URL", database.url());
        let program = Collector::start(&mut command)?;
        program.wait_for_log("are served", 1)?;
        Ok::<_, anyhow::Error>(program)
    };
    let asked = || {
        let mut stream = UnixStream::connect(&socket)?;
        stream.write_all(request(ALL, "/v1/recheck", RECHECK).as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        answer(&text)
    };
    let killed = start()?;
    assert_eq!(asked()?.status, 200);
    assert_eq!(std::fs::metadata(&socket)?.permissions().mode() & 0o777, 0o660);
    killed.kill()?;
    assert!(socket.exists());
    let program = start()?;
    assert_eq!(asked()?.status, 200);
    program.stop()?;
    assert!(!socket.exists());
    Ok(())
}
