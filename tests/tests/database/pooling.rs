//! Through `PgBouncer`, in each of its modes.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_connect::explain;
use mailroom_tests::collector::{self, Collector, wait_until};
use mailroom_tests::postgres::{Cluster, Database, Pool};
use mailroom_tests::program;
use mailroom_tests::rows::{logins, register, wait_for};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

const SHARED: &str = "a pooler in between gives each transaction another session";

/// Locks that a session can have beyond its transaction.
const HELD: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";

fn polling(url: &str) -> Result<Command> {
    let mut command = collector::command(url)?;
    command.args([
        "--wake",
        "poll",
        "--poll-interval",
        "200ms",
        "--batch-timeout",
        "0",
        "--prefetch",
        "1",
    ]);
    Ok(command)
}

fn run(url: &str, arguments: &[&str]) -> Result<Output> {
    let mut command = program::mailroom()?;
    command
        .args(arguments)
        .env("MAILROOM_DATABASE_URL", url)
        .output()
        .context("mailroom does not start")
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Others who use the pool, so that a statement seldom gets the session of the one before.
fn others(url: &str) -> Vec<JoinHandle<Result<()>>> {
    let other = |url: String| async move {
        let client = connect(&url).await?;
        loop {
            client.batch_execute("SELECT pg_sleep(random() / 100)").await?;
        }
    };
    (0..4).map(|_| tokio::spawn(other(url.to_owned()))).collect()
}

#[tokio::test]
async fn a_collector_that_polls_works_in_every_mode_and_leaves_nothing_in_the_sessions()
-> Result<()> {
    let cluster = Cluster::start()?;
    for mode in ["session", "transaction", "statement"] {
        let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
        let direct = database.connect().await?;
        let pool = Pool::start(&cluster, mode, if mode == "session" { 12 } else { 3 })?;
        let url = pool.url(database.name());
        let others = others(&url);
        let mut collectors =
            (0..2).map(|_| Collector::start(&mut polling(&url)?)).collect::<Result<Vec<_>>>()?;
        let lines = collectors.iter_mut().map(Collector::lines).collect::<Result<Vec<_>>>()?;
        for round in 0..10 {
            register(&direct, 40 * round + 1..=40 * round + 40).await?;
            sleep(Duration::from_millis(100));
        }
        wait_until(|| {
            run(&url, &["status", "--json"])
                .is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains("\"depth\":0"))
        })?;
        for arguments in
            [&["retry", "--all-dead"][..], &["prune", "--older-than", "1d"], &["status"]]
        {
            let said = run(&url, arguments)?;
            assert!(said.status.success(), "{mode}: {arguments:?}: {}", complaint(&said));
        }
        // In these modes a session that somebody used is still there.
        if mode != "session" {
            wait_for(&direct, HELD, 0_i64).await.context(mode)?;
            let timeout = "SELECT current_setting('statement_timeout')";
            let own: String = direct.query_one(timeout, &[]).await?.get(0);
            for _ in 0..10 {
                let client = connect(&url).await?;
                let set = client.query_typed_one(timeout, &[]).await?;
                assert_eq!(set.get::<_, &str>(0), own, "{mode}");
            }
        }
        let mut sent = BTreeSet::new();
        let mut logs = String::new();
        for (collector, lines) in collectors.into_iter().zip(lines) {
            logs += &collector.stop()?;
            for item in lines.rest()? {
                assert!(sent.insert(item.login), "{mode}: sent twice");
            }
        }
        assert_eq!(sent, logins(1..=400).into_iter().collect(), "{mode}");
        assert!(!logs.contains("WARN") && !logs.contains("ERROR"), "{mode}: {logs}");
        assert!(others.iter().all(|other| !other.is_finished()), "{mode}: {}", pool.log());
        others.iter().for_each(JoinHandle::abort);
    }
    Ok(())
}

#[tokio::test]
async fn what_needs_a_session_works_in_a_pool_of_sessions() -> Result<()> {
    let cluster = Cluster::start()?;
    let pool = Pool::start(&cluster, "session", 8)?;
    let database = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
    let url = pool.url(database.name());
    let direct = database.connect().await?;
    register(&direct, 1..=3).await?;
    let mut collector =
        Collector::start(collector::on_base_schema(&url)?.args(["--batch-timeout", "0"]))?;
    assert_eq!(collector.lines()?.next_items(3)?.len(), 3);
    collector.wait_for_log("listening on", 1)?;
    collector.stop()?;
    let said = run(&url, &["migrate", "up", "--baseline", "0"])?;
    assert!(said.status.success(), "{}", complaint(&said));
    let mut collector = Collector::start(collector::command(&url)?.args([
        "--batch-timeout",
        "0",
        "--poll-interval",
        "4m",
    ]))?;
    let lines = collector.lines()?;
    collector.wait_for_log("listening on", 1)?;
    for number in 4..8 {
        register(&direct, number..=number).await?;
        assert_eq!(lines.next_batch()?.len(), 1);
    }
    let log = collector.stop()?;
    assert!(!log.contains("WARN"), "{log}");
    Ok(())
}

#[tokio::test]
async fn what_needs_a_session_refuses_a_pool_of_transactions_and_says_what_helps() -> Result<()> {
    let cluster = Cluster::start()?;
    let base = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
    let migrated = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    for mode in ["transaction", "statement"] {
        let pool = Pool::start(&cluster, mode, 3)?;
        let said = run(&pool.url(base.name()), &["migrate", "up", "--baseline", "0"])?;
        assert_eq!(said.status.code(), Some(1), "{mode}");
        let said = complaint(&said);
        assert!(said.contains(SHARED) && said.contains("pool_mode=session"), "{mode}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");

        // Neither asks more often than every few seconds, and each says it once.
        let cursor = Collector::start(&mut collector::on_base_schema(&pool.url(base.name()))?)?;
        let mut hearing = Collector::start(
            collector::command(&pool.url(migrated.name()))?.args(["--batch-timeout", "0"]),
        )?;
        register(&migrated.connect().await?, if mode == "statement" { 11..=13 } else { 1..=3 })
            .await?;
        assert_eq!(hearing.lines()?.next_items(3)?.len(), 3, "it polls");
        // Only when two statements have met two sessions of the pool.
        cursor.wait_for_log("not collecting", 1)?;
        hearing.wait_for_log("not listening", 1)?;
        sleep(Duration::from_secs(8));
        for (collector, activity) in [(cursor, "not collecting"), (hearing, "not listening")] {
            let log = collector.stop()?;
            assert!(log.contains(activity) && log.contains("MAILROOM_WAKE=poll"), "{mode}: {log}");
            assert_eq!(log.matches(SHARED).count(), log.matches("WARN").count(), "{mode}: {log}");
            assert!(log.lines().count() < 12, "{mode}: {log}");
        }
        let client = base.connect().await?;
        // The pooler ends the last statements of the collectors a moment after them.
        wait_for(&client, HELD, 0_i64).await.context(mode)?;
    }
    Ok(())
}

#[tokio::test]
async fn errors_that_only_a_pooler_makes_name_it_and_the_mend() -> Result<()> {
    let cluster = Cluster::start()?;
    let client =
        connect(&format!("host={} user=postgres dbname=postgres", cluster.socket_dir().display()))
            .await?;
    for (statements, code) in
        [("PREPARE s AS SELECT 1; PREPARE s AS SELECT 1", "42P05"), ("EXECUTE nothing", "26000")]
    {
        let said = explain(&client.batch_execute(statements).await.expect_err("it is refused"));
        assert!(
            said.contains(code) && said.contains(SHARED) && said.contains("MAILROOM_WAKE=poll"),
            "{said}"
        );
    }
    let pool = Pool::start(&cluster, "transaction", 2)?;
    let said = run(&(pool.url("postgres") + "&options=-csearch_path%3Dmail"), &["status"])?;
    let said = complaint(&said);
    assert!(said.contains("take `options` out") && said.contains("ALTER ROLE"), "{said}");
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let pool = Pool::start(&cluster, "statement", 2)?;
    let said = run(&pool.url(database.name()), &["subject", "export", "7"])?;
    assert_eq!(said.status.code(), Some(1));
    let said = complaint(&said);
    assert!(said.contains("(PgBouncer: pool_mode=transaction)"), "{said}");

    // What needs a transaction is not looked at, and all else is.
    let said = run(&pool.url(database.name()), &["check"])?;
    let printed = String::from_utf8(said.stdout)?;
    assert_ne!(said.status.code(), Some(3), "{printed}");
    for line in ["✓ rights ", "! format ", "- name "] {
        assert!(printed.contains(&format!("\n{line}")), "{line}: {printed}");
    }
    Ok(())
}
