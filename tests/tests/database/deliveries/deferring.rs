//! Tokens that are put off because their subject is not eligible for them.

use std::time::Duration;

use anyhow::Result;
use mailroom::queue::{ClaimRequest, Queue};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::{all, at, clock, ended, ids, log, queue, state, token};

async fn set_status(client: &Client, token: i64, status: &str) -> Result<()> {
    let update = "UPDATE accounts SET status = $2::text::account_status FROM tokens
        WHERE accounts.id = tokens.account AND tokens.id = $1";
    client.execute(update, &[&token, &status]).await?;
    Ok(())
}

#[tokio::test]
async fn a_token_is_deferred_until_its_account_has_the_status_that_it_needs() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let recovery = token(&client, "password_recovery").await?;
    let mut queue = queue(&database).await?;
    set_status(&client, recovery, "suspended").await?;
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    assert_eq!(state(&client, recovery).await?, at("deferred", 0));
    assert_eq!(queue.peek(1).await?.due, 0);
    set_status(&client, recovery, "active").await?;
    assert_eq!(state(&client, recovery).await?, at("queued", 0));
    assert_eq!(queue.peek(1).await?.due, 1);
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [recovery]);
    Ok(())
}

#[tokio::test]
async fn a_status_that_is_just_being_changed_is_not_waited_for() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    clock::stop(&client).await?;
    let recovery = token(&client, "password_recovery").await?;
    set_status(&client, recovery, "suspended").await?;
    let mut queue = queue(&database).await?;
    application.batch_execute("BEGIN").await?;
    set_status(&application, recovery, "active").await?;
    // Its trigger has found nothing deferred, and the claim does not see the new status.
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    assert_eq!(state(&client, recovery).await?, at("deferred", 0));
    application.batch_execute("COMMIT").await?;
    clock::forward(&client, Duration::from_millis(250)).await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [recovery]);
    Ok(())
}

#[tokio::test]
async fn a_transaction_that_does_not_see_the_deferred_token_leaves_it_to_the_end_of_its_pause()
-> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    clock::stop(&client).await?;
    let recovery = token(&client, "password_recovery").await?;
    set_status(&client, recovery, "suspended").await?;
    let mut queue = queue(&database).await?;
    application
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM accounts")
        .await?;
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    set_status(&application, recovery, "active").await?;
    application.batch_execute("COMMIT").await?;
    assert_eq!(state(&client, recovery).await?, at("deferred", 0));
    clock::forward(&client, Duration::from_millis(250)).await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [recovery]);
    Ok(())
}

#[tokio::test]
async fn deferred_tokens_end_when_they_are_used_or_deleted_or_when_they_expire() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let mut deferred = Vec::new();
    for _ in 0..4 {
        let id = token(&client, "password_recovery").await?;
        set_status(&client, id, "suspended").await?;
        deferred.push(id);
    }
    let mut queue = queue(&database).await?;
    queue.settle_and_claim(Vec::new(), all(10)).await?;
    client
        .batch_execute(&format!(
            "UPDATE tokens SET consumed_at = 1 WHERE id = {};
            DELETE FROM tokens WHERE id = {};
            DELETE FROM accounts WHERE id = (SELECT account FROM tokens WHERE id = {})",
            deferred[0], deferred[1], deferred[2]
        ))
        .await?;
    for (id, reason) in
        deferred.iter().zip(["it was used", "it was deleted", "its account was deleted"])
    {
        assert_eq!(log(&client, *id).await?, [ended("cancelled", reason)]);
    }
    assert_eq!(state(&client, deferred[3]).await?, at("deferred", 0));
    clock::forward(&client, Duration::from_secs(16 * 60)).await?;
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    assert_eq!(state(&client, deferred[3]).await?, at("expired", 0));
    let left: i64 = client.query_one("SELECT count(*) FROM mailroom.queue", &[]).await?.get(0);
    assert_eq!(left, 0);
    Ok(())
}

#[tokio::test]
async fn a_subject_that_stays_ineligible_is_asked_for_less_and_less_often() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    clock::stop(&client).await?;
    let recovery = token(&client, "password_recovery").await?;
    set_status(&client, recovery, "suspended").await?;
    let mut queue = queue(&database).await?;
    // Nor is it waited for.
    application.batch_execute("BEGIN; SELECT FROM accounts FOR UPDATE").await?;
    let pause =
        "SELECT (extract(epoch FROM due_at - put_off_at) * 1000)::bigint FROM mailroom.queue";
    for longest in [250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
        assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
        let pause: i64 = client.query_one(pause, &[]).await?.get(0);
        assert!((longest / 2..=longest).contains(&pause), "{pause} ms of {longest}");
        clock::forward(&client, Duration::from_millis(u64::try_from(pause)? + 1)).await?;
    }
    assert_eq!(state(&client, recovery).await?, at("deferred", 0));
    Ok(())
}

#[tokio::test]
async fn what_waits_for_nobody_to_become_eligible_leaves_the_tokens_behind_it_their_turn()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.accounts(numbered("", 1..=3_000)).insert().await?;
    client.batch_execute("UPDATE accounts SET status = 'suspended'").await?;
    let good = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    let want = ClaimRequest {
        batches: 1,
        limit: 1,
        partial: false,
        rescan: false,
        spares_doubtful: false,
    };
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), Some(want)).await?.batches), [good]);
    Ok(())
}

#[tokio::test]
async fn a_token_for_an_address_that_its_account_no_longer_has_is_not_sent() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    let (seen, unseen) =
        (token(&client, "password_recovery").await?, token(&client, "password_recovery").await?);
    let change = "UPDATE accounts SET email = 'new ' || id WHERE id = (SELECT account FROM tokens \
                  WHERE id = $1)";
    client.execute(change, &[&seen]).await?;
    application
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM accounts")
        .await?;
    let insert = "INSERT INTO tokens (account, action)
        SELECT account, action FROM tokens WHERE id = $1 RETURNING id";
    let newest: i64 = client.query_one(insert, &[&unseen]).await?.get(0);
    application.execute(change, &[&unseen]).await?;
    application.batch_execute("COMMIT").await?;
    let mut queue = queue(&database).await?;
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    let changed = "the application cancelled the tokens of its subject";
    let unseen_change = "its address is not the one that its subject has now";
    for (id, reason) in [(seen, changed), (unseen, changed), (newest, unseen_change)] {
        assert_eq!(log(&client, id).await?, [ended("cancelled", reason)], "{id}");
    }
    Ok(())
}

#[tokio::test]
async fn a_token_that_was_asked_for_later_waits_until_then() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let later = token(&client, "password_recovery").await?;
    let put_off = "UPDATE mailroom.queue SET put_off_at = clock_timestamp(), \
                   due_at = clock_timestamp() + interval '1 hour'";
    client.execute(put_off, &[]).await?;
    // A collector that comes makes due what lies in the future without a reason.
    let mut queue = queue(&database).await?;
    assert!(queue.settle_and_claim(Vec::new(), all(10)).await?.batches.is_empty());
    let waits = "SELECT due_at > clock_timestamp() + interval '59 minutes' FROM mailroom.queue \
                 WHERE token = $1";
    assert!(client.query_one(waits, &[&later]).await?.get::<_, bool>(0));
    Ok(())
}
