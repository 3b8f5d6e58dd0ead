//! Each event that makes a token due while all collectors are idle, followed by silence.

use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::application::Application;
use mailroom_tests::collector::{self, Collector, Lines};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::rows::wait_for;

/// A collector without a poll; settings can be added.
fn idle_collector(database: &Database, settings: &[&str]) -> Result<(Collector, Lines)> {
    let mut command = collector::command(database.url())?;
    command.args([
        "--batch-timeout",
        "0",
        "--poll-interval",
        "24h",
        "--healthcheck-interval",
        "24h",
    ]);
    let mut collector = Collector::start(command.args(settings))?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    collector.wait_for_log("listening on", 1)?;
    Ok((collector, lines))
}

fn next_login(lines: &Lines) -> Result<String> {
    Ok(lines.next_items(1)?.swap_remove(0).login)
}

async fn become_idle() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

#[tokio::test]
async fn a_change_of_status_wakes_for_deferred_tokens() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let (collector, lines) = idle_collector(&database, &[])?;
    for round in 0..5 {
        let login = format!("a{round}");
        application.client.batch_execute("BEGIN").await?;
        let account = application.register(&login).await?;
        application.set_status(account, "suspended").await?;
        application.client.batch_execute("COMMIT").await?;
        become_idle().await;
        application.set_status(account, "provisioned").await?;
        assert_eq!(next_login(&lines)?, login);
        // The recovery of an account that is not active waits for its activation.
        application.insert_token(account, "password_recovery").await?;
        become_idle().await;
        application.set_status(account, "active").await?;
        assert_eq!(next_login(&lines)?, login);
    }
    collector.stop()?;
    Ok(())
}

/// The open transaction with the highest xid of all is in no snapshot, as if it had not begun.
#[tokio::test]
async fn a_commit_wakes_that_was_open_while_the_collector_woke_for_another_and_became_idle_again()
-> Result<()> {
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let (first, second) =
        (Application::connect(&database).await?, Application::connect(&database).await?);
    let (collector, lines) = idle_collector(&database, &[])?;
    for round in 0..3 {
        // Longer than between two times at which it asks where to begin.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let (short, long) = (format!("short{round}"), format!("long{round}"));
        first.client.batch_execute("BEGIN").await?;
        first.register(&short).await?;
        second.client.batch_execute("BEGIN").await?;
        second.register(&long).await?;
        first.client.batch_execute("COMMIT").await?;
        assert_eq!(next_login(&lines)?, short);
        become_idle().await;
        second.client.batch_execute("COMMIT").await?;
        // It polls once a day.
        assert_eq!(next_login(&lines)?, long);
    }
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn an_idle_collector_polls_when_a_token_falls_due() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let (collector, lines) = idle_collector(&database, &[])?;
    for round in 0..3 {
        let login = format!("a{round}");
        application.client.batch_execute("BEGIN").await?;
        application.register(&login).await?;
        let start = Instant::now();
        // As after a refusal.
        let put_off =
            "UPDATE mailroom.queue SET due_at = clock_timestamp() + interval '1500 ms', attempts
                = 1, failures = 1,
                put_off_at = clock_timestamp()";
        application.client.batch_execute(put_off).await?;
        application.client.batch_execute("COMMIT").await?;
        // It polls once a day.
        assert_eq!(next_login(&lines)?, login);
        assert!(start.elapsed() >= Duration::from_millis(1_500), "{:?}", start.elapsed());
    }
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn leases_of_a_killed_collector_are_taken_over_by_an_idle_one() -> Result<()> {
    const PEOPLE: usize = 2_000;
    // As `short_leased` has it, in batches of ten.
    const PREFETCHED: usize = 500;
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    // Nobody reads its lines, so it keeps what it has claimed.
    let holder = Collector::start(&mut short_leased(&database)?)?;
    holder.wait_until_it_collects()?;
    mailroom_tests::rows::register(&application.client, 1..=i32::try_from(PEOPLE)?).await?;
    let leased = "SELECT coalesce(sum(cardinality(tokens)), 0) FROM mailroom.leases";
    let leased = async || -> Result<usize> {
        Ok(usize::try_from(application.client.query_one(leased, &[]).await?.get::<_, i64>(0))?)
    };
    // What its pipe does not hold is cancelled after a second.
    let (mut before, mut held) = (0, leased().await?);
    while held != before || held == 0 || held >= PREFETCHED {
        tokio::time::sleep(Duration::from_secs(5)).await;
        before = std::mem::replace(&mut held, leased().await?);
    }
    let mut other = Collector::start(&mut short_leased(&database)?)?;
    let lines = other.lines()?;
    let mut came = lines.next_items(PEOPLE - held)?.len();
    // It is idle, and the holder lives and renews its leases.
    lines.expect_none(Duration::from_secs(50))?;
    holder.kill()?;
    came += lines.next_items(held)?.len();
    assert_eq!(came, PEOPLE);
    other.stop()?;
    Ok(())
}

fn short_leased(database: &Database) -> Result<std::process::Command> {
    let mut command = collector::command(database.url())?;
    command.args([
        "--batch-timeout",
        "0",
        "--poll-interval",
        "24h",
        "--healthcheck-interval",
        "24h",
    ]);
    command.args(["--lease", "40s", "--prefetch", "50"]).env("MAILROOM_SENDER_TIMEOUT", "1s");
    Ok(command)
}

#[tokio::test]
async fn a_storm_of_notifications_about_nothing_costs_few_polls_and_hides_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let counting = format!("ALTER DATABASE {} SET track_functions = 'pl'", database.name());
    application.client.batch_execute(&counting).await?;
    let stranger = database.connect().await?;
    let (collector, lines) = idle_collector(&database, &["--batch-limit", "1"])?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        stranger.batch_execute("NOTIFY token_insert").await?;
    }
    // The collector's session reports its counts at the next statement;
    // it is pinged every four seconds.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let are_known = "SELECT count(*) > 0 FROM pg_stat_user_functions
        WHERE funcname IN ('claim', 'peek')";
    wait_for(&application.client, are_known, true).await?;
    let polls = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions
        WHERE funcname IN ('claim', 'peek')";
    let polls: i64 = application.client.query_one(polls, &[]).await?.get(0);
    // Five a second once it has backed off.
    let most = 15 * i64::try_from(start.elapsed().as_secs())?;
    assert!((1..most).contains(&polls), "{polls} polls in {:?}", start.elapsed());
    for number in 0..200 {
        stranger.batch_execute("NOTIFY token_insert").await?;
        if number % 20 == 19 {
            let login = format!("a{number}");
            application.register(&login).await?;
            assert_eq!(next_login(&lines)?, login);
        }
    }
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn output_that_nobody_takes_keeps_no_notifications_on_the_server() -> Result<()> {
    // A server of its own: those who listen to other databases keep notifications, too.
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let application = Application::connect(&database).await?;
    let mut command = collector::command(database.url())?;
    command.args([
        "--batch-timeout",
        "0",
        "--poll-interval",
        "24h",
        "--healthcheck-interval",
        "24h",
    ]);
    // Nobody reads its lines.
    let collector = Collector::start(&mut command)?;
    collector.wait_until_it_collects()?;
    collector.wait_for_log("listening on", 1)?;
    mailroom_tests::rows::register(&application.client, 1..=5_000).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let text = "x".repeat(7_000);
    for _ in 0..200 {
        application.client.execute("SELECT pg_notify('token_insert', $1)", &[&text]).await?;
    }
    // Read by the collector, though its output is blocked.
    let is_read = "SELECT pg_notification_queue_usage() < 1e-5";
    wait_for(&application.client, is_read, true).await?;
    collector.kill()?;
    Ok(())
}
