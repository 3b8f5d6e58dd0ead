//! Tokens whose account has not the right status.

use std::time::Duration;

use anyhow::Result;
use mailroom::queue::Queue;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::{all, at, clock, entry, ids, log, queue, state, token};

async fn set_status(client: &Client, token: i64, status: &str) -> Result<()> {
    let update = "UPDATE accounts SET status = $2::text::account_status FROM tokens
        WHERE accounts.id = tokens.account AND tokens.id = $1";
    client.execute(update, &[&token, &status]).await?;
    Ok(())
}

#[tokio::test]
async fn a_token_is_parked_until_its_account_has_the_status_that_it_needs() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let recovery = token(&client, "password_recovery").await?;
    let mut queue = queue(&database).await?;
    set_status(&client, recovery, "suspended").await?;
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    assert_eq!(state(&client, recovery).await?, at("parked", 0));
    assert_eq!(queue.peek(1).await?.due, 0);
    set_status(&client, recovery, "active").await?;
    assert_eq!(state(&client, recovery).await?, at("pending", 0));
    assert_eq!(queue.peek(1).await?.due, 1);
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [recovery]);
    Ok(())
}

#[tokio::test]
async fn a_status_that_is_just_being_changed_parks_nothing_and_is_not_waited_for() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    clock::stop(&client).await?;
    let recovery = token(&client, "password_recovery").await?;
    set_status(&client, recovery, "suspended").await?;
    let mut queue = queue(&database).await?;
    application.batch_execute("BEGIN").await?;
    set_status(&application, recovery, "active").await?;
    // Its trigger has found nothing parked, and the claim does not see the new status.
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    assert_eq!(state(&client, recovery).await?, at("pending", 0));
    application.batch_execute("COMMIT").await?;
    clock::forward(&client, Duration::from_millis(250)).await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [recovery]);
    Ok(())
}

#[tokio::test]
async fn a_transaction_that_does_not_see_the_parked_token_leaves_it_to_whoever_tends() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    let recovery = token(&client, "password_recovery").await?;
    set_status(&client, recovery, "suspended").await?;
    let mut queue = queue(&database).await?;
    application.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM accounts").await?;
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    set_status(&application, recovery, "active").await?;
    application.batch_execute("COMMIT").await?;
    assert_eq!(state(&client, recovery).await?, at("parked", 0));
    // A collector tidies up when it comes, and now and then.
    let mut queue = super::queue(&database).await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [recovery]);
    Ok(())
}

#[tokio::test]
async fn parked_tokens_end_when_they_expire_or_were_used_or_deleted() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let mut parked = Vec::new();
    for _ in 0..4 {
        let id = token(&client, "password_recovery").await?;
        set_status(&client, id, "suspended").await?;
        parked.push(id);
    }
    queue(&database).await?.settle_and_claim(Vec::new(), all(10)).await?;
    client
        .batch_execute(&format!(
            "UPDATE tokens SET consumed_at = 1 WHERE id = {};
            DELETE FROM tokens WHERE id = {};
            DELETE FROM accounts WHERE id = (SELECT account FROM tokens WHERE id = {})",
            parked[0], parked[1], parked[2]
        ))
        .await?;
    queue(&database).await?;
    for id in &parked[..3] {
        assert_eq!(log(&client, *id).await?, [entry(0, "cancelled")]);
    }
    assert_eq!(state(&client, parked[3]).await?, at("parked", 0));
    clock::forward(&client, Duration::from_secs(16 * 60)).await?;
    queue(&database).await?;
    assert_eq!(state(&client, parked[3]).await?, at("expired", 0));
    let left: i64 = client.query_one("SELECT count(*) FROM mailroom.deferred", &[]).await?.get(0);
    assert_eq!(left, 0);
    Ok(())
}

#[tokio::test]
async fn a_status_that_is_being_changed_for_long_is_looked_at_less_and_less_often() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    clock::stop(&client).await?;
    let recovery = token(&client, "password_recovery").await?;
    set_status(&client, recovery, "suspended").await?;
    let mut queue = queue(&database).await?;
    application.batch_execute("BEGIN; SELECT FROM accounts FOR UPDATE").await?;
    let pause = "SELECT (extract(epoch FROM due_at - put_off_at) * 1000)::bigint FROM mailroom.queue";
    let mut pauses = Vec::new();
    for _ in 0..9 {
        assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
        let pause: i64 = client.query_one(pause, &[]).await?.get(0);
        pauses.push(pause);
        clock::forward(&client, Duration::from_millis(u64::try_from(pause)?)).await?;
    }
    assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    Ok(())
}

#[tokio::test]
async fn a_token_for_an_address_that_its_account_no_longer_has_is_not_sent() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    let (seen, unseen) =
        (token(&client, "password_recovery").await?, token(&client, "password_recovery").await?);
    let change =
        "UPDATE accounts SET email = 'new ' || id WHERE id = (SELECT account FROM tokens WHERE id = $1)";
    client.execute(change, &[&seen]).await?;
    application.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM accounts").await?;
    let insert = "INSERT INTO tokens (account, action)
        SELECT account, action FROM tokens WHERE id = $1 RETURNING id";
    let newest: i64 = client.query_one(insert, &[&unseen]).await?.get(0);
    application.execute(change, &[&unseen]).await?;
    application.batch_execute("COMMIT").await?;
    let mut queue = queue(&database).await?;
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    for id in [seen, unseen, newest] {
        assert_eq!(log(&client, id).await?, [entry(0, "cancelled")], "{id}");
    }
    Ok(())
}

#[tokio::test]
async fn a_token_that_was_asked_for_later_waits_until_then() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let later = token(&client, "password_recovery").await?;
    let put_off =
        "UPDATE mailroom.queue SET put_off_at = clock_timestamp(), due_at = clock_timestamp() + interval '1 hour'";
    client.execute(put_off, &[]).await?;
    // A collector that comes makes due what lies in the future without a reason.
    let mut queue = queue(&database).await?;
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    let waits = "SELECT due_at > clock_timestamp() + interval '59 minutes' FROM mailroom.queue WHERE token = $1";
    assert!(client.query_one(waits, &[&later]).await?.get::<_, bool>(0));
    Ok(())
}
