//! A rate, kept by running collectors.

use std::collections::VecDeque;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::collector::{self, Collector, Lines, wait_until};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::machine::is_full;
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::rows::{register, wait_for};
use tokio::time::sleep;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

fn command(database: &Database, rate: &str) -> Result<Command> {
    let mut command = collector::command(database.url())?;
    command.args(["--rate", rate, "--batch-timeout", "0", "--poll-interval", "100ms"]);
    // Of any action.
    command.args(["--token-format", "v2", "--line-format", "ndjson"]);
    Ok(command)
}

fn start(database: &Database, rate: &str) -> Result<(Collector, Lines)> {
    let mut collector = Collector::start(&mut command(database, rate)?)?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    Ok((collector, lines))
}

/// Writes down when each claim began, and when it had its places, by the database's clock. As many
/// tokens as it took are enqueued, so that there are some however long the test takes.
async fn record_claims(client: &Client) -> Result<()> {
    let record = "CREATE TABLE claims (began_at timestamptz, at timestamptz, tokens integer);
        CREATE FUNCTION record_claim() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO public.claims VALUES (NEW.claimed_at, clock_timestamp(),
                cardinality(NEW.tokens));
            PERFORM mailroom.enqueue('invite', 'a@x.test')
                FROM generate_series(1, cardinality(NEW.tokens));
            RETURN NULL;
        END;
        $$;
        CREATE TRIGGER record_claim AFTER INSERT ON mailroom.leases
            FOR EACH ROW EXECUTE FUNCTION record_claim()";
    Ok(client.batch_execute(record).await?)
}

/// The claims: two times in milliseconds since the first one, and how many tokens.
async fn claims(client: &Client) -> Result<Vec<(i64, i64, i64)>> {
    let query = "SELECT floor(extract(epoch FROM began_at - min(at) OVER ()) * 1000)::bigint,
            ceil(extract(epoch FROM at - min(at) OVER ()) * 1000)::bigint, tokens::bigint
        FROM claims ORDER BY at";
    Ok(client
        .query(query, &[])
        .await?
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect())
}

/// That nothing of the rate is left unused is shown by a clock that a test turns: a machine may be
/// too busy to use all of it.
#[tokio::test]
async fn collectors_that_come_and_go_and_are_killed_share_it_and_never_exceed_it() -> Result<()> {
    let (rate, per_day, rounds) = ("20/s", 1_728_000, if is_full() { 80 } else { 8 });
    let database = Database::migrated()?;
    let client = database.connect().await?;
    record_claims(&client).await?;
    client.mail("invite").enqueue_times(200).await?;
    let mut collectors = VecDeque::new();
    for _ in 0..3 {
        collectors.push_back(start(&database, rate)?);
    }
    for round in 0..rounds {
        let (newest, lines) = start(&database, rate)?;
        // More claims than a second has, so that it shares the rate with the others.
        for _ in 0..6 {
            lines.next_line()?;
        }
        collectors.push_back((newest, lines));
        let (leaving, _lines) = collectors.pop_front().context("there are three")?;
        let _log = if round % 2 == 0 { leaving.kill()? } else { leaving.stop()? };
    }
    drop(collectors);
    let claims = claims(&client).await?;
    for (first, (begin, ..)) in claims.iter().enumerate() {
        let mut count = 0;
        for (_, end, tokens) in &claims[first..] {
            count += tokens;
            let most = (end - begin + 1_000) * per_day / 86_400_000 + 1;
            assert!(count <= most, "{count} tokens from {begin} to {end} ms, not {most}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_collector_sleeps_until_the_rate_allows_the_next_token_and_ends_at_once() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    let (collector, lines) = start(&database, "1/h")?;
    lines.next_line()?;
    // It neither claims again nor holds the lock by which writers know that a collector is idle.
    let last_claim = "SELECT query_start::text FROM pg_stat_activity
        WHERE datname = current_database() AND query LIKE '%mailroom.claim%'
            AND pid <> pg_backend_pid()";
    let idle_locks =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1835100524
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    // What it took is settled, and what it asks then is answered.
    wait_for(&client, "SELECT count(*) FROM mailroom.leases", 0_i64).await?;
    sleep(Duration::from_secs(3)).await;
    let mut seen = Vec::new();
    for _ in 0..15 {
        sleep(Duration::from_millis(100)).await;
        seen.extend(client.query(last_claim, &[]).await?.iter().map(|row| row.get::<_, String>(0)));
        assert_eq!(client.query_one(idle_locks, &[]).await?.get::<_, i64>(0), 0);
    }
    seen.dedup();
    assert!(seen.len() <= 1, "{seen:?}");
    // The next token is allowed in an hour.
    collector.stop()?;
    assert!(lines.next_line().is_err());
    Ok(())
}

#[tokio::test]
async fn a_role_without_rights_cannot_hold_the_lock_under_which_places_are_reserved() -> Result<()>
{
    // A server of its own, because roles belong to the whole server.
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let (client, stranger) = (database.connect().await?, database.connect().await?);
    stranger
        .batch_execute(
            "CREATE ROLE stranger; GRANT USAGE ON SCHEMA mailroom TO stranger; SET ROLE stranger",
        )
        .await?;
    // Of the advisory locks that name something of the schema all that reserving might use; the
    // idle lock has another number.
    let advisory = "SELECT count(pg_advisory_lock(1918989413, oid::integer)) FROM pg_class
        WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'mailroom')";
    assert!(stranger.query_one(advisory, &[]).await?.get::<_, i64>(0) > 10);
    stranger.batch_execute("BEGIN").await?;
    for mode in ["ACCESS SHARE", "ROW EXCLUSIVE", "SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE"] {
        let lock = format!("SAVEPOINT before; LOCK TABLE mailroom.rate_lock IN {mode} MODE NOWAIT");
        let refused = stranger.batch_execute(&lock).await.expect_err("it may not be locked");
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{mode}");
        stranger.batch_execute("ROLLBACK TO before").await?;
    }
    register(&client, 1..=3).await?;
    let (collector, lines) = start(&database, "1/s")?;
    for _ in 0..2 {
        lines.next_line()?;
    }
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_collector_with_another_rate_or_budget_is_warned_of_by_those_that_notice() -> Result<()> {
    for (own, others) in [
        (["20/s", "600/min"], ["864000/d", "1728000/d"]),
        (["80000/month", "90000/month"], ["90000/month", "80000/month"]),
    ] {
        let database = Database::migrated()?;
        let client = database.connect().await?;
        register(&client, 1..=300).await?;
        let mut collectors = [start(&database, own[0])?, start(&database, own[1])?];
        let both = |collectors: &[(Collector, Lines); 2]| {
            collectors
                .iter()
                .all(|(collector, _)| collector.log().contains("claimed from at another rate"))
        };
        wait_until(|| both(&collectors))?;
        for (collector, _) in &mut collectors {
            assert!(collector.is_running()?);
        }
        let logs = collectors.map(|(collector, _)| collector.stop());
        for (log, other) in logs.into_iter().zip(others) {
            let log = log?;
            assert_eq!(
                (
                    log.matches("claimed from at another rate").count(),
                    log.contains(&format!("other_rate={other}"))
                        || log.contains(&format!("other_rate=\"{other}\"")),
                ),
                (1, true),
                "{log}"
            );
        }
    }
    Ok(())
}
