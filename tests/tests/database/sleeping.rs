//! `MAILROOM_WAKE=call`: while nothing is due no session keeps the database awake, and no mail is
//! lost by that.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::application::Application;
use mailroom_tests::collector::{self, Collector, Lines};
use mailroom_tests::http;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::wait_for;
use tokio::time::sleep;
use tokio_postgres::Client;

/// Sessions of Mailroom.
const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name LIKE 'mailroom%'";

/// How long a collector has nothing to do before it rests.
const LINGER: Duration = Duration::from_secs(5);

/// A collector that is woken by calls, and polls once a day.
pub(crate) struct Called {
    pub(crate) collector: Collector,
    pub(crate) lines: Lines,
    pub(crate) address: String,
}

impl Called {
    pub(crate) fn start(database: &Database) -> Result<Self> {
        Self::start_with(database, &[])
    }

    fn start_with(database: &Database, settings: &[(&str, &str)]) -> Result<Self> {
        let mut command = collector::command(database.url())?;
        command.envs([
            ("MAILROOM_WAKE", "call"),
            ("MAILROOM_METRICS_ADDRESS", "0"),
            ("MAILROOM_POLL_INTERVAL", "24h"),
            ("MAILROOM_BATCH_TIMEOUT", "0"),
            ("MAILROOM_LOG_LEVEL", "debug"),
        ]);
        let mut collector = Collector::start(command.envs(settings.iter().copied()))?;
        let lines = collector.lines()?;
        collector.wait_for_log("metrics are served", 1)?;
        let log = collector.log();
        // The first line has settings, among them the address that was asked for.
        let address = log.split_once("metrics are served").context("an address")?.1;
        let address = address.split_once("address=").context("an address")?.1;
        let address = address.split_whitespace().next().context("an address")?.to_owned();
        collector.wait_until_it_collects()?;
        Ok(Self { collector, lines, address })
    }

    fn ask(&self, request: &str) -> Result<(u16, String, String)> {
        http::ask(&self.address, request.as_bytes())
    }

    fn wake(&self) -> Result<()> {
        let (status, _, body) = self.ask("POST /wake HTTP/1.1\r\nhost: x\r\n\r\n")?;
        assert_eq!((status, body.as_str()), (202, "ok\n"));
        Ok(())
    }

    pub(crate) fn next_login(&self) -> Result<String> {
        Ok(self.lines.next_items(1)?.swap_remove(0).login)
    }
}

/// Waits until nobody of Mailroom is connected, which a collector says before.
pub(crate) async fn wait_for_rest(client: &Client) -> Result<()> {
    wait_for(client, SESSIONS, 0_i64).await?;
    wait_for(client, "SELECT bool_and(state = 'resting') FROM mailroom.collectors", true).await
}

#[tokio::test]
async fn no_session_is_left_while_nothing_is_due_and_a_call_has_mails_sent() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let called = Called::start(&database)?;
    for round in 0..2 {
        wait_for_rest(&application.client).await?;
        let login = format!("a{round}");
        application.register(&login).await?;
        // Nobody has told it.
        called.lines.expect_none(Duration::from_secs(1))?;
        called.wake()?;
        assert_eq!(called.next_login()?, login);
    }
    wait_for_rest(&application.client).await?;
    let (ready, ..) = called.ask("GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n")?;
    let (_, _, metrics) = called.ask("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")?;
    assert_eq!(ready, 200);
    assert!(metrics.contains("\nmailroom_resting 1\n"), "{metrics}");
    // It is not missed, also when it was seen last hours ago.
    let hours = "UPDATE mailroom.collectors SET seen_at = seen_at - interval '20 hours',
        started_at = started_at - interval '20 hours'";
    application.client.batch_execute(hours).await?;
    for (arguments, expected) in
        [(&["status"][..], ": rests since"), (&["status", "--runs"], "rests")]
    {
        let mut command = program::mailroom()?;
        let output =
            command.args(arguments).env("MAILROOM_DATABASE_URL", database.url()).output()?;
        let said = String::from_utf8(output.stdout)?;
        assert!(output.status.success() && said.contains(expected), "{said}");
    }
    let log = called.collector.stop()?;
    assert!(log.contains("nothing is due"), "{log}");
    let state = "SELECT state FROM mailroom.collectors";
    wait_for(&application.client, state, "ended".to_owned()).await
}

#[tokio::test]
async fn a_call_that_comes_as_the_rest_begins_ends_it() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let called = Called::start(&database)?;
    wait_for_rest(&application.client).await?;
    // Around the moment at which the sessions are ended, which takes some milliseconds.
    for (round, shift) in [-20_i64, -5, 0, 2, 4, 6, 8, 12, 20].into_iter().enumerate() {
        let login = format!("a{round}");
        application.register(&login).await?;
        called.wake()?;
        assert_eq!(called.next_login()?, login);
        let pause = u64::try_from(shift + 5_000)?;
        sleep(Duration::from_millis(pause)).await;
    }
    wait_for(&application.client, "SELECT count(*) FROM mailroom.queue", 0_i64).await?;
    called.collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn what_falls_due_later_is_sent_then_without_a_call() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let called = Called::start(&database)?;
    application.client.batch_execute("BEGIN").await?;
    application.register("later").await?;
    let put_off = "UPDATE mailroom.queue SET due_at = clock_timestamp() + interval '60 seconds',
        attempts = 1, failures = 1, put_off_at = clock_timestamp()";
    application.client.batch_execute(put_off).await?;
    application.client.batch_execute("COMMIT").await?;
    called.wake()?;
    wait_for_rest(&application.client).await?;
    // It rests, and knows when it is due.
    wait_for(&application.client, "SELECT count(*) FROM mailroom.queue", 1_i64).await?;
    assert_eq!(called.next_login()?, "later");
    called.collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn what_a_killed_collector_had_is_sent_without_a_call() -> Result<()> {
    const LEASE: [(&str, &str); 2] =
        [("MAILROOM_LEASE", "30s"), ("MAILROOM_SENDER_TIMEOUT", "15s")];
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let silent = [LEASE[0], LEASE[1], ("MAILROOM_SENDER", "sleep 600")];
    let killed = Called::start_with(&database, &silent)?;
    application.register("ada").await?;
    killed.wake()?;
    wait_for(&application.client, "SELECT count(*) FROM mailroom.leases", 1_i64).await?;
    killed.collector.kill()?;
    let called = Called::start_with(&database, &LEASE)?;
    assert_eq!(called.next_login()?, "ada");
    called.collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn what_nobody_calls_for_is_found_when_the_poll_interval_is_over() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let interval = LINGER * 5;
    let interval = format!("{}s", interval.as_secs());
    let called = Called::start_with(&database, &[("MAILROOM_POLL_INTERVAL", &interval)])?;
    wait_for_rest(&application.client).await?;
    application.register("ada").await?;
    assert_eq!(called.next_login()?, "ada");
    called.collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn an_outage_that_a_call_finds_is_waited_for() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let called = Called::start(&database)?;
    wait_for_rest(&application.client).await?;
    application.register("ada").await?;
    let name = database.name();
    let other = Database::create()?;
    let admin = other.connect().await?;
    admin.batch_execute(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await?;
    called.wake()?;
    called.collector.wait_for_log("outage", 1)?;
    admin.batch_execute(&format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await?;
    assert_eq!(called.next_login()?, "ada");
    called.collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn only_a_program_wakes_and_only_a_collector_that_is_woken_by_calls() -> Result<()> {
    let database = Database::migrated()?;
    let called = Called::start(&database)?;
    let post = "POST /wake HTTP/1.1\r\nhost: x\r\n";
    for (request, status) in [
        ("GET /wake HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(), 405),
        (format!("{post}origin: http://evil.test\r\n\r\n"), 403),
        (format!("{post}origin: null\r\n\r\n"), 403),
        (format!("{post}sec-fetch-site: same-origin\r\n\r\n"), 403),
        (format!("{}\r\n", post.replace("/wake", "/wake?x")), 202),
        (format!("{}\r\n", post.replace("/wake", "/metrics")), 405),
    ] {
        assert_eq!(called.ask(&request)?.0, status, "{request}");
    }
    let listening = Called::start_with(&database, &[("MAILROOM_WAKE", "listen")])?;
    assert_eq!(listening.ask(&format!("{post}\r\n"))?.0, 405);
    called.collector.stop()?;
    listening.collector.stop()?;
    Ok(())
}
