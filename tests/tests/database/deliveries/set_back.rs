//! The server's clock is set back while tokens wait, are refused, or are on their way.

use std::time::Duration;

use anyhow::Result;
use mailroom::queue::{Batch, DeliveriesQueue, Nack, Queue, Settlement};
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::{ALMOST, all, at, clock, entry, ids, log, queue, sent, state, token};

const HOUR: i64 = 3_600_000;

async fn claim(queue: &mut DeliveriesQueue) -> Result<Vec<Batch>> {
    Ok(queue.settle_and_claim(Vec::new(), all(10)).await?.batches)
}

/// A token that was returned with this nack.
async fn returned(client: &Client, queue: &mut DeliveriesQueue, nack: Nack) -> Result<i64> {
    let id = token(client, "activation").await?;
    let batch = claim(queue).await?.remove(0);
    assert_eq!(ids(std::slice::from_ref(&batch)), [id]);
    let settlement = Settlement::of(batch.id, vec![(id, nack)]);
    queue.settle_and_claim(vec![settlement], None).await?;
    Ok(id)
}

fn refusal(after: Duration) -> Nack {
    Nack::Retry { after: Some(after), reason: "busy".to_owned() }
}

#[tokio::test]
async fn what_came_back_is_due_and_what_was_refused_keeps_its_pause() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let mut one = queue(&database).await?;
    let before = returned(&client, &mut one, refusal(Duration::from_secs(60))).await?;
    let unanswered = returned(&client, &mut one, Nack::Unanswered).await?;
    clock::turn(&client, -HOUR).await?;
    // A collector sweeps when it comes, and now and then.
    let mut other = queue(&database).await?;
    assert_eq!(ids(&claim(&mut other).await?), [unanswered]);

    let afterwards = returned(&client, &mut other, refusal(Duration::from_secs(60))).await?;
    let mut third = queue(&database).await?;
    assert!(claim(&mut third).await?.is_empty());
    clock::forward(&client, Duration::from_secs(60)).await?;
    let mut again = ids(&claim(&mut third).await?);
    again.sort_unstable();
    assert_eq!(again, [before, afterwards]);
    Ok(())
}

#[tokio::test]
async fn a_lease_of_a_collector_that_is_gone_lapses_after_its_own_length() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let id = token(&client, "activation").await?;
    let mut gone = queue(&database).await?;
    assert_eq!(claim(&mut gone).await?.len(), 1);
    drop(gone);
    clock::turn(&client, -HOUR).await?;
    let mut other = queue(&database).await?;
    clock::forward(&client, ALMOST).await?;
    assert_eq!(other.peek(1).await?.next, Some(Duration::from_secs(1)));
    clock::forward(&client, Duration::from_secs(1)).await?;
    assert_eq!(other.peek(1).await?.due, 1);
    assert_eq!(ids(&claim(&mut other).await?), [id]);
    assert_eq!(log(&client, id).await?, [entry(1, "lapsed")]);
    Ok(())
}

#[tokio::test]
async fn a_collector_that_lives_keeps_its_lease_and_finds_what_comes() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let held = token(&client, "activation").await?;
    let mut queue = queue(&database).await?;
    let batch = claim(&mut queue).await?.remove(0);
    for _ in 0..2 {
        queue.peek(1).await?;
    }
    clock::turn(&client, -HOUR).await?;
    let id = token(&client, "activation").await?;
    // Its low watermark lies behind that one until its next peek.
    queue.peek(1).await?;
    assert_eq!(ids(&claim(&mut queue).await?), [id]);
    queue.open().await?;
    assert_eq!(queue.heartbeat().await?, []);
    queue.settle_and_claim(vec![sent(batch.id)], None).await?;
    assert_eq!(state(&client, held).await?, at("sent", 1));
    Ok(())
}

#[tokio::test]
async fn a_token_that_expires_while_it_waits_for_another_try_is_counted_when_it_does() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let mut queue = queue(&database).await?;
    let id = returned(&client, &mut queue, refusal(Duration::from_secs(86_400))).await?;
    // It lives for a quarter of an hour, and half a minute of that is too little to be sent.
    clock::forward(&client, Duration::from_secs(14 * 60)).await?;
    assert!(claim(&mut queue).await?.is_empty());
    assert_eq!(state(&client, id).await?, at("queued", 1));
    let next = queue.peek(1).await?.next;
    assert!(next.is_some_and(|next| next <= Duration::from_secs(40)), "{next:?}");
    clock::forward(&client, Duration::from_secs(40)).await?;
    assert!(claim(&mut queue).await?.is_empty());
    assert_eq!(state(&client, id).await?, at("expired", 1));
    Ok(())
}

#[tokio::test]
async fn a_lease_that_lapses_before_its_place_in_the_queue_holds_the_low_watermark() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    token(&client, "activation").await?;
    let mut gone = queue(&database).await?;
    assert_eq!(claim(&mut gone).await?.len(), 1);
    drop(gone);
    clock::turn(&client, -HOUR).await?;
    queue(&database).await?;
    let is_held = "SELECT peek.oldest_place <= leases.ends_at AND leases.ends_at < leases.due_at
        FROM mailroom.leases, mailroom.peek(NULL, 1) AS peek";
    assert!(client.query_one(is_held, &[]).await?.get::<_, bool>(0));
    Ok(())
}
