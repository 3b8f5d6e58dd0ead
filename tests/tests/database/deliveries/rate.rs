//! A rate that the claims of all collectors share. By a clock that the test turns,
//! so that an hour takes seconds.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom::config::{DeliverySettings, Rate};
use mailroom::queue::{Claim, ClaimRequest, DeliveriesQueue, Queue, Settlement};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_verifier_core::Action;
use tokio_postgres::Client;

use super::{SETTINGS, all, clock, ids, queue_with, sent, token};

const ONE: ClaimRequest =
    ClaimRequest { batches: 1, limit: 1, partial: true, rescan: true, spares_doubtful: false };

#[test]
fn a_rate_is_a_whole_number_with_a_unit() {
    for (text, burst, shown) in [
        ("14/s", 15, "14/s"),
        ("23/min", 1, "23/min"),
        ("120/min", 3, "2/s"),
        ("007/h", 1, "7/h"),
        ("1/d", 1, "1/d"),
        ("8640000000/d", 100_001, "100000/s"),
        ("3000/month", usize::MAX, "3000/month"),
        ("14/s,3000/month", 15, "14/s,3000/month"),
        ("3000/month,60/min", 2, "1/s,3000/month"),
    ] {
        let rate = Rate::parse(text).map(|rate| (rate.burst(), rate.to_string()));
        assert_eq!(rate, Some((burst, shown.to_owned())));
    }
    for text in [
        "",
        "14",
        "/s",
        "0/s",
        "0/d",
        "-1/s",
        "+1/s",
        "1.5/s",
        "14/",
        "14/m",
        "14 /s",
        "14/ s",
        "14/s ",
        "14/S",
        "s/14",
        "１/s",
        "½/s",
        "1/s/s",
        "1e3/s",
        "0x1/s",
        "1/s\0",
        "0/month",
        "1/mon",
        "1/month,2/month",
        "1/s,2/s",
        "1/s,",
        ",1/month",
        "1/s, 1/month",
        "1/s,1/month,1/d",
        "100000000001/month",
        "100001/s",
        "8640000001/d",
        "99999999999999999999/d",
        "18446744073709551615/s",
        "off",
    ] {
        assert_eq!(Rate::parse(text), None, "{text}");
    }
}

pub(super) fn at_rate(text: &str) -> Result<DeliverySettings> {
    Ok(DeliverySettings { rate: Some(Rate::parse(text).context("it is a rate")?), ..SETTINGS })
}

/// Tokens that do not expire during a test, so many of each priority.
pub(super) async fn backlog(client: &Client, count: usize) -> Result<()> {
    client.batch_execute("UPDATE mailroom.actions SET lifetime = '2 days'").await?;
    for action in ["change_email", "invite"] {
        client.mail(action).enqueue_times(count).await?;
    }
    Ok(())
}

/// A collector as the loop of the program works: it claims, settles with the next claim, and sleeps
/// for as long as it is told.
struct Simulated {
    queue: DeliveriesQueue,
    /// The next claim, in milliseconds since the beginning.
    next: i64,
    unsettled: Vec<Settlement>,
}

/// Runs three collectors for so many seconds. Returns when how many tokens were claimed, and how
/// many were lost with killed collectors.
async fn simulate(
    database: &Database,
    rates: [&str; 3],
    limit: usize,
    seconds: i64,
) -> Result<(Vec<(i64, usize)>, usize)> {
    let client = database.connect().await?;
    let want =
        ClaimRequest { batches: 4, limit, partial: true, rescan: false, spares_doubtful: false };
    let mut collectors = Vec::new();
    for (next, rate) in [0, 150, 4_000].into_iter().zip(rates) {
        let queue = queue_with(database, at_rate(rate)?).await?;
        collectors.push(Simulated { queue, next, unsettled: Vec::new() });
    }
    let (mut now, mut claims, mut lost) = (0, Vec::new(), 0);
    let (mut replaced, mut round) = (0, 0_i64);
    loop {
        let (index, next) = collectors
            .iter()
            .map(|one| one.next)
            .enumerate()
            .min_by_key(|(_, next)| *next)
            .context("three")?;
        if next > seconds * 1_000 {
            return Ok((claims, lost));
        }
        clock::turn(&client, next - now).await?;
        now = next;
        round += 1;
        let one = &mut collectors[index];
        let claim =
            one.queue.settle_and_claim(std::mem::take(&mut one.unsettled), Some(want)).await?;
        let count = ids(&claim.batches).len();
        if count > 0 {
            claims.push((now, count));
        }
        one.unsettled = claim.batches.iter().map(|batch| sent(batch.id)).collect();
        // Machines are late by some milliseconds.
        let pause =
            claim.wait.map_or(20, |wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        one.next = now + pause + round * 7_919 % 41;
        // Each fortieth of the time another one goes,
        // every fourth by a kill with a claim that nobody got.
        if now / (seconds * 25) > replaced && count > 0 {
            replaced += 1;
            let is_killed = replaced % 4 == 0;
            if is_killed {
                lost += count;
            } else {
                one.queue.settle_and_claim(std::mem::take(&mut one.unsettled), None).await?;
            }
            let queue = queue_with(database, at_rate(rates[index])?).await?;
            *one = Simulated { queue, next: now + 900, unsettled: Vec::new() };
        }
    }
}

/// No stretch of time has more than the rate allows for it and a second, and one more.
fn assert_never_exceeded(claims: &[(i64, usize)], per_day: i64) {
    for (first, (begin, _)) in claims.iter().enumerate() {
        let mut count = 0;
        for (end, claimed) in &claims[first..] {
            count += claimed;
            let most = (end - begin + 1_000) * per_day / 86_400_000 + 1;
            assert!(
                i64::try_from(count).is_ok_and(|count| count <= most),
                "{count} tokens from {begin} to {end} ms, not {most}"
            );
        }
    }
}

#[tokio::test]
async fn an_hour_of_backlog_has_no_more_than_the_rate_and_at_least_99_percent_of_it() -> Result<()>
{
    for (rate, per_day, limit, seconds, all) in
        [("23/min", 33_120, 1, 3_600, 1_380), ("20/s", 1_728_000, 10, 60, 1_200)]
    {
        let database = Database::migrated()?;
        let client = database.connect().await?;
        clock::stop(&client).await?;
        backlog(&client, 900 + all / 2).await?;
        let (claims, lost) = simulate(&database, [rate; 3], limit, seconds).await?;
        assert_never_exceeded(&claims, per_day);
        let handed_over = claims.iter().map(|(_, count)| count).sum::<usize>() - lost;
        assert!(lost > 0 && handed_over * 100 >= all * 99, "{handed_over} of {all}, {lost} lost");
    }
    Ok(())
}

#[tokio::test]
async fn of_different_rates_the_highest_is_not_exceeded() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    backlog(&client, 400).await?;
    let (claims, _) = simulate(&database, ["20/s", "7/s", "1/min"], 10, 30).await?;
    assert_never_exceeded(&claims, 1_728_000);
    let count: usize = claims.iter().map(|(_, count)| count).sum();
    assert!(count > 300, "{count} tokens");
    Ok(())
}

/// Claims until the rate is spent.
async fn exhaust(queue: &mut DeliveriesQueue) -> Result<(usize, Claim)> {
    let mut count = 0;
    loop {
        let claim = queue.settle_and_claim(Vec::new(), all(10)).await?;
        count += ids(&claim.batches).len();
        if claim.wait.is_some() || claim.batches.is_empty() {
            return Ok((count, claim));
        }
    }
}

#[tokio::test]
async fn a_burst_is_what_a_second_allows_and_one_more_however_long_nobody_claimed() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    backlog(&client, 200).await?;
    let mut queue = queue_with(&database, at_rate("20/s")?).await?;
    for (pause, expected) in
        [(0, 21), (0, 0), (49, 0), (1, 1), (999, 19), (1_000, 20), (3_600_000, 21)]
    {
        clock::turn(&client, pause).await?;
        let (count, claim) = exhaust(&mut queue).await?;
        assert_eq!(count, expected, "after {pause} ms");
        assert!(
            claim.wait.is_some_and(|wait| wait <= Duration::from_millis(200)),
            "{:?}",
            claim.wait
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_clock_that_is_set_back_or_a_rate_that_is_raised_costs_the_time_of_one_token()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    backlog(&client, 10).await?;
    let mut daily = queue_with(&database, at_rate("1/d")?).await?;
    let (count, claim) = exhaust(&mut daily).await?;
    // It looks again each minute, in case the clock is set.
    assert_eq!((count, claim.wait), (1, Some(Duration::from_secs(60))));
    for turned in [0, -3_600_000] {
        clock::turn(&client, turned).await?;
        let mut queue = queue_with(&database, at_rate("6/min")?).await?;
        let claim = queue.settle_and_claim(Vec::new(), Some(ONE)).await?;
        assert_eq!((claim.batches.len(), claim.wait), (0, Some(Duration::from_secs(10))));
        clock::turn(&client, 10_000).await?;
        let claim = queue.settle_and_claim(Vec::new(), Some(ONE)).await?;
        assert_eq!(claim.batches.len(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn recoveries_go_first_and_every_seventh_place_is_an_activation() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    backlog(&client, 400).await?;
    for (rate, step) in [("1/s", 1_000), ("40/s", 110)] {
        let mut queues = [
            queue_with(&database, at_rate(rate)?).await?,
            queue_with(&database, at_rate(rate)?).await?,
        ];
        let mut seconds = [Vec::new(), Vec::new()];
        for _ in 0..30 {
            for (queue, seconds) in queues.iter_mut().zip(&mut seconds) {
                let claim = queue.settle_and_claim(Vec::new(), all(10)).await?;
                let tokens = claim.batches.into_iter().flat_map(|batch| batch.tokens);
                let is_invitation =
                    |action| matches!(action, Action::Further(further) if further.name == "invite");
                seconds.extend(tokens.map(|token| is_invitation(token.action)));
                clock::turn(&client, step).await?;
            }
        }
        for seconds in seconds {
            let first = seconds.iter().position(|is_second| *is_second).context("there is one")?;
            assert!(first < 7 && seconds.len() >= 29, "{first} of {}", seconds.len());
            for (place, is_second) in seconds.iter().enumerate() {
                assert_eq!(*is_second, place % 7 == first, "{rate}, place {place}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_sent_takes_no_place_and_what_does_not_fill_a_batch_neither() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    for _ in 0..5 {
        let used = token(&client, "activation").await?;
        client.execute("UPDATE tokens SET consumed_at = 1 WHERE id = $1", &[&used]).await?;
    }
    let good = token(&client, "activation").await?;
    let mut queue = queue_with(&database, at_rate("1/s")?).await?;
    let pair =
        ClaimRequest { batches: 1, limit: 2, partial: false, rescan: true, spares_doubtful: false };
    let claim = queue.settle_and_claim(Vec::new(), Some(pair)).await?;
    assert_eq!((claim.batches, claim.waiting, claim.wait), (vec![], 1, None));
    let claim = queue.settle_and_claim(Vec::new(), Some(ONE)).await?;
    assert_eq!((ids(&claim.batches), claim.wait), (vec![good], None));
    Ok(())
}

const RESERVE: &str = "SELECT granted::integer, wait FROM mailroom.spend(86400, NULL, 10, 10)";

#[tokio::test]
async fn no_claim_waits_for_another_and_one_that_fails_gives_no_place_back() -> Result<()> {
    let database = Database::migrated()?;
    let (one, two) = (database.connect().await?, database.connect().await?);
    clock::stop(&one).await?;
    one.batch_execute("BEGIN").await?;
    assert_eq!(one.query_one(RESERVE, &[]).await?.get::<_, i32>(0), 2);
    let locks =
        "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'ExclusiveLock'
        AND (relation = 'mailroom.rate_lock'::regclass OR locktype = 'advisory')";
    assert_eq!(one.query_one(locks, &[]).await?.get::<_, i64>(0), 0);
    two.batch_execute("SET statement_timeout = '80s'").await?;
    for end in ["SELECT", "ROLLBACK"] {
        one.batch_execute(end).await?;
        let row = two.query_one(RESERVE, &[]).await?;
        assert_eq!((row.get::<_, i32>(0), row.get::<_, Option<i64>>(1)), (0, Some(1_000)));
    }
    Ok(())
}

#[tokio::test]
async fn of_claims_at_the_same_time_none_gets_the_place_of_another() -> Result<()> {
    let database = Database::migrated()?;
    clock::stop(&database.connect().await?).await?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let client = database.connect().await?;
        tasks.spawn(async move {
            let mut granted = 0;
            for _ in 0..250 {
                let reserve = "SELECT granted::integer FROM mailroom.spend(86400000, NULL, 1, 1)";
                granted += client.query_one(reserve, &[]).await?.get::<_, i32>(0);
            }
            anyhow::Ok(granted)
        });
    }
    let mut granted = 0;
    while let Some(task) = tasks.join_next().await {
        granted += task??;
    }
    assert_eq!(granted, 1_001);
    Ok(())
}

#[tokio::test]
async fn what_was_claimed_before_a_crash_of_the_server_is_spent_after_it() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    backlog(&database.connect().await?, 10).await?;
    let mut queue = queue_with(&database, at_rate("1/h")?).await?;
    assert_eq!(exhaust(&mut queue).await?.0, 1);
    cluster.stop(Shutdown::Immediate)?;
    cluster.start_again()?;
    let mut queue = queue_with(&database, at_rate("1/h")?).await?;
    assert_eq!(exhaust(&mut queue).await?.0, 0);
    Ok(())
}

#[tokio::test]
async fn nothing_grows_under_an_old_snapshot() -> Result<()> {
    let database = Database::migrated()?;
    let (client, backup) = (database.connect().await?, database.connect().await?);
    backup.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM accounts").await?;
    let sizes = "SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
        WHERE relnamespace = 'mailroom'::regnamespace AND relkind IN ('r', 'S')";
    let before: i64 = client.query_one(sizes, &[]).await?.get(0);
    let reserve = "SELECT sum(granted)::bigint FROM generate_series(1, 100),
            mailroom.spend(8640000000, NULL, 1, 1)";
    for _ in 0..50 {
        assert!(client.query_one(reserve, &[]).await?.get::<_, i64>(0) > 0);
    }
    assert_eq!(client.query_one(sizes, &[]).await?.get::<_, i64>(0), before);
    Ok(())
}
