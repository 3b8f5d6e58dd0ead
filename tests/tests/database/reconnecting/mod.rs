//! A collector whose database goes away and comes back.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::collector::{self, Collector, Lines, read_one_line, wait_until};
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::proxy::Proxy;
use mailroom_tests::rows::{CURSOR, cursor, logins, register, wait_for};
use mailroom_tests::stopwatch::Stopwatch;
use rustix::io::ioctl_fionread;
use rustix::process::Signal;
use tokio_postgres::Client;

/// A collector that sends what there is at once.
fn eager(url: &str) -> Result<Command> {
    let mut command = collector::on_base_schema(url)?;
    command.args(["--batch-timeout", "0"]);
    Ok(command)
}

fn next_logins(lines: &Lines, count: usize) -> Result<Vec<String>> {
    Ok(lines.next_items(count)?.into_iter().map(|item| item.login).collect())
}

#[tokio::test]
async fn a_database_that_is_unreachable_at_the_start_is_waited_for_and_said_once() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
    cluster.stop(Shutdown::Fast)?;
    let mut collector = Collector::start(&mut eager(database.url())?)?;
    collector.wait_for_log("not collecting", 1)?;
    collector.wait_for_log("not listening", 1)?;
    sleep(Duration::from_secs(3));
    assert!(collector.is_running()?);
    let log = collector.log();
    assert_eq!(log.matches("trying again").count(), 2, "{log}");
    cluster.start_again()?;
    let client = database.connect().await?;
    register(&client, 1..=5).await?;
    assert_eq!(next_logins(&collector.lines()?, 5)?, logins(1..=5));
    collector.stop()?;
    Ok(())
}

/// Whoever reads that lines were lost looks for mails that came twice.
#[tokio::test]
async fn only_a_stop_that_could_not_record_what_was_sent_says_so() -> Result<()> {
    for (has_sent, on_base_schema) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut cluster = Cluster::start()?;
        let database = Database::create_on(&cluster.url("postgres"))?;
        let (database, mut command) = if on_base_schema {
            let database = database.load_base_schema()?;
            let command = collector::on_base_schema(database.url())?;
            (database, command)
        } else {
            let database = database.migrate()?;
            let command = collector::command(database.url())?;
            (database, command)
        };
        let mut collector = Collector::start(command.args(["--batch-timeout", "0"]))?;
        collector.wait_until_it_collects()?;
        let mut output = collector.output()?;
        if has_sent {
            register(&database.connect().await?, 1..=1).await?;
            wait_until(|| ioctl_fionread(&output).is_ok_and(|count| count > 0))?;
        }
        cluster.stop(Shutdown::Immediate)?;
        if has_sent {
            read_one_line(&mut output)?;
        }
        let log = collector.stop()?;
        assert_eq!(log.contains("settlement_lost"), has_sent, "{on_base_schema}: {log}");
    }
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_away_costs_nothing() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
    // A batch of less than ten waits for others, long enough for the server to go away meanwhile.
    let mut collector = Collector::start(
        collector::on_base_schema(database.url())?.args(["--batch-timeout", "1m"]),
    )?;
    let lines = collector.lines()?;
    // Longer than any answer is waited for, then as short as a restart can be.
    for (round, (how, seconds)) in (0..).zip([(Shutdown::Immediate, 12), (Shutdown::Fast, 0)]) {
        let first = 100 * round + 1;
        let client = database.connect().await?;
        register(&client, first..=first + 49).await?;
        assert_eq!(next_logins(&lines, 50)?, logins(first..=first + 49));
        register(&client, first + 50..=first + 56).await?;
        cluster.stop(how)?;
        lines.expect_none(Duration::from_secs(seconds))?;
        assert!(collector.is_running()?);
        cluster.start_again()?;
        let client = database.connect().await?;
        register(&client, first + 57..=first + 99).await?;
        assert_eq!(next_logins(&lines, 50)?, logins(first + 50..=first + 99));
        for again in ["collecting again", "listening again"] {
            collector.wait_for_log(again, usize::try_from(round)? + 1)?;
        }
    }
    lines.expect_none(Duration::from_secs(1))?;
    let log = collector.stop()?;
    // Said when it begins and when it ends, and once in between with the reason that replaced the
    // first one; not at every attempt.
    for activity in ["collecting", "listening"] {
        let logged = |text: &str| log.matches(&format!("{text}{activity}")).count();
        assert_eq!(logged("WARN not "), 2, "{log}");
        assert!(logged("WARN still not ") <= 1, "{log}");
        assert_eq!(log.matches(&format!("INFO {activity} again ")).count(), 2, "{log}");
    }
    assert!(log.lines().count() < 30, "{log}");
    // A crash leaves a gap in the ids.
    let client = database.connect().await?;
    let last: i64 = client.query_one("SELECT max(id) FROM tokens", &[]).await?.get(0);
    assert_eq!(cursor(&client).await?, last);
    Ok(())
}

/// Ends the sessions of all collectors of the current database.
async fn end_sessions(client: &Client) -> Result<()> {
    let query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name LIKE 'mailroom%' AND datname = current_database()";
    client.execute(query, &[]).await?;
    Ok(())
}

#[tokio::test]
async fn sessions_that_are_ended_again_and_again_lose_and_repeat_nothing() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let mut collector = Collector::start(&mut eager(database.url())?)?;
    let lines = collector.lines()?;
    let rounds = 30;
    for round in 0..rounds {
        register(&client, 500 * round + 1..=500 * round + 500).await?;
        sleep(Duration::from_millis(u64::try_from(round * 37 % 150)?));
        end_sessions(&client).await?;
    }
    let mut sent = next_logins(&lines, usize::try_from(500 * rounds)?)?;
    lines.expect_none(Duration::from_secs(1))?;
    // What the reader had when a session ended is remembered, so nothing came twice.
    sent.sort_unstable();
    let mut expected = logins(1..=500 * rounds);
    expected.sort_unstable();
    assert_eq!(sent, expected);
    collector.stop()?;
    assert_eq!(cursor(&client).await?, i64::from(500 * rounds));
    Ok(())
}

#[tokio::test]
async fn tokens_announced_while_nobody_listened_are_found_on_listening_again() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let mut command = eager(database.url())?;
    let mut collector =
        Collector::start(command.args(["--poll-interval", "1h", "--healthcheck-interval", "1h"]))?;
    let lines = collector.lines()?;
    collector.wait_for_log("listening on", 1)?;
    for number in 1..=3 {
        let query = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
            WHERE application_name = 'mailroom collect (listener)'
                AND datname = current_database()";
        client.execute(query, &[]).await?;
        register(&client, number..=number).await?;
        assert_eq!(next_logins(&lines, 1)?, logins(number..=number));
    }
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn connections_that_fall_silent_are_replaced() -> Result<()> {
    let cluster = Cluster::builder().tcp().start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
    let client = database.connect().await?;
    let proxy = Proxy::start(cluster.port())?;
    let mut collector = Collector::start(&mut eager(&proxy.url(database.name()))?)?;
    let lines = collector.lines()?;
    register(&client, 1..=1).await?;
    assert_eq!(next_logins(&lines, 1)?, logins(1..=1));
    let start = Instant::now();
    proxy.silence();
    register(&client, 2..=2).await?;
    // The server still believes in the old session, which holds the lock.
    assert_eq!(next_logins(&lines, 1)?, logins(2..=2));
    println!("the silent connections were replaced after {:?}", start.elapsed());
    collector.wait_for_log("again lasted_ms=", 2)?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_queue_connection_that_falls_silent_is_replaced_within_ten_seconds_at_any_moment()
-> Result<()> {
    let cluster = Cluster::builder().tcp().start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let proxy = Proxy::start(cluster.port())?;
    // What it asks of the queue comes at any moments, and not from its connection that listens,
    // which it has not.
    let mut command = collector::command(&proxy.url(database.name()))?;
    let collector = Collector::start(command.args(["--wake", "poll", "--poll-interval", "3s"]))?;
    collector.wait_until_it_collects()?;
    for round in 1..=2_u32 {
        sleep(Duration::from_millis(2_500) + Duration::from_millis(1_100) * round);
        let start = Stopwatch::start();
        proxy.silence();
        collector.wait_for_log(
            "this collector has the queue `deliveries` again",
            usize::try_from(round)?,
        )?;
        // Nine seconds, the pause before connecting, and what a busy machine takes; the kernel
        // gives up after minutes.
        assert!(start.elapsed() < Duration::from_secs(60), "round {round}: {:?}", start.elapsed());
        println!("replaced after {:?}", start.elapsed());
    }
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_stop_while_the_database_stalls_takes_no_longer_than_any_other() -> Result<()> {
    let cluster = Cluster::builder().tcp().start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let client = database.connect().await?;
    register(&client, 1..=40).await?;
    let proxy = Proxy::start(cluster.port())?;
    let mut command = collector::command(&proxy.url(database.name()))?;
    let mut collector =
        Collector::start(command.args(["--batch-timeout", "0", "--prefetch", "4"]))?;
    let mut output = collector.output()?;
    let unread =
        |wanted: u64| wait_until(|| ioctl_fionread(&output).is_ok_and(|unread| unread >= wanted));
    unread(3_000)?;
    proxy.stall();
    // The settlement of this line, and whatever is asked then, gets no answer.
    collector::read_one_line(&mut output)?;
    sleep(Duration::from_millis(500));
    let start = Stopwatch::start();
    collector.signal(Signal::TERM)?;
    let (status, log) = collector.wait()?;
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("could not record"), "{log}");
    // Six seconds for the reader, three for the database, and what a busy machine takes.
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}\n{log}", start.elapsed());
    Ok(())
}

#[tokio::test]
async fn an_advance_whose_answer_is_lost_repeats_nothing() -> Result<()> {
    let cluster = Cluster::builder().tcp().start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=40).await?;
    let proxy = Proxy::start(cluster.port())?;
    let mut command = eager(&proxy.url(database.name()))?;
    let mut collector =
        Collector::start(command.args(["--poll-interval", "1h", "--healthcheck-interval", "1h"]))?;
    let mut output = collector.output()?;
    collector.wait_until_it_collects()?;
    // Four lines are in the pipe and nothing is asked of the database until one is taken.
    let mut sent = collector::items(&collector::read_one_line(&mut output)?)?;
    wait_for(&client, CURSOR, 10_i64).await?;
    // The answer of that has come by then.
    sleep(Duration::from_secs(2));
    proxy.swallow_answers();
    sent.extend(collector::items(&collector::read_one_line(&mut output)?)?);
    // The server has moved the cursor, and the collector does not know.
    wait_for(&client, CURSOR, 20_i64).await?;
    assert_eq!(collector.log().matches("not collecting").count(), 0, "{}", collector.log());
    proxy.cut();
    let lines = Lines::of(output.into());
    sent.extend(lines.next_items(20)?);
    let sent: Vec<_> = sent.into_iter().map(|item| item.login).collect();
    assert_eq!(sent, logins(1..=40));
    lines.expect_none(Duration::from_secs(1))?;
    wait_for(&client, CURSOR, 40_i64).await?;
    let log = collector.stop()?;
    assert!(!log.contains("moved the cursor"), "{log}");
    Ok(())
}

#[tokio::test]
async fn what_the_reader_took_while_the_database_was_away_is_recorded_afterwards() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=40).await?;
    let mut collector = Collector::start(&mut eager(database.url())?)?;
    let mut output = collector.output()?;
    let first = collector::read_one_line(&mut output)?;
    // What is not in the pipe when the database goes away is cancelled;
    // logins of one digit make a line shorter.
    let others = 3 * (first.len() as u64 - 100);
    wait_until(|| ioctl_fionread(&output).is_ok_and(|unread| unread >= others))?;
    cluster.stop(Shutdown::Fast)?;
    // Lines that are in the pipe are taken without the database.
    for _ in 0..3 {
        collector::read_one_line(&mut output)?;
    }
    collector.wait_for_log("not collecting", 1)?;
    cluster.start_again()?;
    let client = database.connect().await?;
    wait_for(&client, CURSOR, 40_i64).await?;
    let lines = Lines::of(output.into());
    lines.expect_none(Duration::from_secs(1))?;
    wait_until(|| collector.log().contains("collecting again"))?;
    collector.stop()?;
    Ok(())
}
