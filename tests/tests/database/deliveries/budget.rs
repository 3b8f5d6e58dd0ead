//! A budget of a calendar month that the claims of all collectors share.

use anyhow::{Context, Result};
use mailroom::queue::{ClaimRequest, DeliveriesQueue, Nack, Queue, Settlement};
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::program;
use serde_json::Value;
use tokio_postgres::Client;

use super::rate::{at_rate, backlog};
use super::{clock, ids, queue_with, sent};

const HOUR: i64 = 3_600_000;

/// Whatever there is, in batches of three.
const WANT: ClaimRequest =
    ClaimRequest { batches: 100, limit: 3, partial: true, rescan: true, spares_doubtful: false };

/// Stops the clock an hour before a month ends (UTC), with tokens that live longer.
async fn at_the_end_of_a_month(client: &Client) -> Result<()> {
    clock::stop(client).await?;
    let to_the_end = "UPDATE stopped_clock SET moment = (date_trunc('month',
            (moment AT TIME ZONE 'UTC') + interval '1 month') - interval '1 hour')
        AT TIME ZONE 'UTC'";
    client.batch_execute(to_the_end).await?;
    backlog(client, 50).await
}

/// Claims what there is, settles it as sent, and returns how many there were, and how long to wait.
async fn claim(queue: &mut DeliveriesQueue) -> Result<(usize, Option<u128>)> {
    let claim = queue.settle_and_claim(Vec::new(), Some(WANT)).await?;
    let settlements = claim.batches.iter().map(|batch| sent(batch.id)).collect();
    queue.settle_and_claim(settlements, None).await?;
    Ok((ids(&claim.batches).len(), claim.wait.map(|wait| wait.as_millis())))
}

async fn used(client: &Client) -> Result<i64> {
    Ok(client.query_one("SELECT used FROM mailroom.measure_budget()", &[]).await?.get(0))
}

#[tokio::test]
async fn no_more_is_claimed_in_a_month_than_its_budget_by_all_collectors_together() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    at_the_end_of_a_month(&client).await?;
    let budget = at_rate("10/month")?;
    let mut first = queue_with(&database, budget).await?;
    let mut second = queue_with(&database, budget).await?;
    let some = ClaimRequest { batches: 2, ..WANT };
    let claimed = first.settle_and_claim(Vec::new(), Some(some)).await?;
    assert_eq!((ids(&claimed.batches).len(), claimed.wait), (6, None));
    assert_eq!(claim(&mut second).await?, (4, Some(60_000)));
    assert_eq!(claim(&mut first).await?, (0, Some(60_000)));
    // A process that is started, and one that is killed, change nothing of it.
    drop((first, second));
    let mut third = queue_with(&database, budget).await?;
    assert_eq!(claim(&mut third).await?, (0, Some(60_000)));
    // What a higher budget allows goes out at once.
    let mut raised = queue_with(&database, at_rate("12/month")?).await?;
    assert_eq!(claim(&mut raised).await?, (2, Some(60_000)));
    // The last second, and the next month.
    clock::turn(&client, HOUR - 1_000).await?;
    assert_eq!(claim(&mut third).await?, (0, Some(1_000)));
    clock::turn(&client, 1_000).await?;
    assert_eq!(claim(&mut third).await?, (10, Some(60_000)));
    assert_eq!(used(&client).await?, 10);
    Ok(())
}

#[tokio::test]
async fn a_rate_and_a_budget_hold_together() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    at_the_end_of_a_month(&client).await?;
    let mut queue = queue_with(&database, at_rate("2/s,7/month")?).await?;
    let mut claimed = Vec::new();
    for _ in 0..8 {
        claimed.push(claim(&mut queue).await?.0);
        clock::turn(&client, 1_000).await?;
    }
    assert_eq!(claimed.iter().sum::<usize>(), 7, "{claimed:?}");
    assert!(claimed.iter().all(|count| *count <= 3), "{claimed:?}");
    Ok(())
}

#[tokio::test]
async fn a_crash_of_the_server_forgets_nothing_of_a_budget() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate_with(&[])?;
    let client = database.connect().await?;
    at_the_end_of_a_month(&client).await?;
    let mut queue = queue_with(&database, at_rate("10/month")?).await?;
    let some = ClaimRequest { batches: 2, ..WANT };
    let claimed = queue.settle_and_claim(Vec::new(), Some(some)).await?;
    assert_eq!(ids(&claimed.batches).len(), 6);
    drop((queue, client));
    cluster.stop(Shutdown::Immediate)?;
    cluster.start_again()?;
    let mut queue = queue_with(&database, at_rate("10/month")?).await?;
    assert_eq!(claim(&mut queue).await?.0, 4);
    Ok(())
}

#[tokio::test]
async fn what_was_given_to_no_provider_is_returned_to_the_budget() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    at_the_end_of_a_month(&client).await?;
    let mut queue = queue_with(&database, at_rate("10/month")?).await?;
    let some = ClaimRequest { batches: 2, limit: 5, ..WANT };
    let claimed = queue.settle_and_claim(Vec::new(), Some(some)).await?;
    let [first, second] = &claimed.batches[..] else { anyhow::bail!("{claimed:?}") };
    assert_eq!(used(&client).await?, 10);
    let reason = || "busy".to_owned();
    let nacks = vec![
        (first.tokens[0].id, Nack::Unavailable { after: None, reason: reason() }),
        (first.tokens[1].id, Nack::Untried { after: None, reason: reason() }),
        (first.tokens[2].id, Nack::Retry { after: None, reason: reason() }),
        (first.tokens[3].id, Nack::Unanswered),
    ];
    queue.settle_and_claim(vec![Settlement::of(first.id, nacks)], None).await?;
    queue.release(&[second.id]);
    queue.settle_and_claim(Vec::new(), None).await?;
    queue.leave("the test is over").await?;
    assert_eq!(used(&client).await?, 3, "one was sent, one refused, and of one nobody knows");
    Ok(())
}

#[tokio::test]
async fn what_was_claimed_in_another_month_is_not_returned_to_the_budget_of_this_one() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    at_the_end_of_a_month(&client).await?;
    let mut queue = queue_with(&database, at_rate("10/month")?).await?;
    let some = ClaimRequest { batches: 1, limit: 5, ..WANT };
    let old = queue.settle_and_claim(Vec::new(), Some(some)).await?;
    assert_eq!(ids(&old.batches).len(), 5);
    clock::turn(&client, HOUR).await?;
    let some = ClaimRequest { batches: 1, limit: 3, ..WANT };
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), Some(some)).await?.batches).len(), 3);
    queue.release(&[old.batches[0].id]);
    queue.settle_and_claim(Vec::new(), None).await?;
    queue.leave("the test is over").await?;
    assert_eq!(used(&client).await?, 3);
    Ok(())
}

#[tokio::test]
async fn a_clock_that_is_set_back_renews_no_budget() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    at_the_end_of_a_month(&client).await?;
    let mut queue = queue_with(&database, at_rate("4/month")?).await?;
    assert_eq!(claim(&mut queue).await?.0, 4);
    clock::turn(&client, HOUR).await?;
    assert_eq!(claim(&mut queue).await?.0, 4, "of the new month");
    clock::turn(&client, -60_000).await?;
    assert_eq!(claim(&mut queue).await?.0, 0);
    clock::turn(&client, 60_000).await?;
    assert_eq!(claim(&mut queue).await?.0, 0);
    // A clock that was wrong by a year holds nobody up for a year, and what was counted stays.
    client
        .batch_execute(
            "SELECT setval('mailroom.budget_spent', last_value + 12000000000000)
        FROM mailroom.budget_spent",
        )
        .await?;
    assert_eq!(used(&client).await?, 4);
    clock::turn(&client, 31 * 24 * HOUR).await?;
    assert_eq!(used(&client).await?, 4);
    Ok(())
}

#[tokio::test]
async fn status_says_what_is_used_and_left_and_until_when() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    at_the_end_of_a_month(&client).await?;
    let status = |arguments: &[&str]| -> Result<String> {
        let mut command = program::mailroom()?;
        command.arg("status").args(arguments).env("MAILROOM_DATABASE_URL", database.url());
        Ok(String::from_utf8(command.output()?.stdout)?)
    };
    let shown: Value = serde_json::from_str(&status(&["--json"])?)?;
    assert_eq!(shown["budget"], Value::Null);
    let mut queue = queue_with(&database, at_rate("10/month")?).await?;
    let some = ClaimRequest { batches: 3, ..WANT };
    queue.settle_and_claim(Vec::new(), Some(some)).await?;
    let shown: Value = serde_json::from_str(&status(&["--json"])?)?;
    let budget = &shown["budget"];
    assert_eq!((&budget["used"], &budget["left"]), (&9.into(), &1.into()), "{shown}");
    assert!(budget["ends_at"].as_str().context("an end")?.ends_with("-01T00:00:00Z"), "{shown}");
    // An hour before the end it lasts.
    assert_eq!(budget["lasts_until"], Value::Null, "{shown}");
    assert_eq!(claim(&mut queue).await?.0, 1);
    let shown: Value = serde_json::from_str(&status(&["--json"])?)?;
    assert_eq!(shown["levels"]["budget.used_percent"], "critical", "{shown}");
    let text = status(&[])?;
    assert!(text.contains("10 of 10 used this month, 0 left until 20"), "{text}");
    // Without a budget there is nothing to say.
    let mut unlimited = queue_with(&database, super::SETTINGS).await?;
    assert!(claim(&mut unlimited).await?.0 > 10);
    let shown: Value = serde_json::from_str(&status(&["--json"])?)?;
    assert_eq!(shown["budget"], Value::Null);
    Ok(())
}
