//! Attempts that ended in doubt: nobody knows whether the provider accepted the mail.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom::queue::{Batch, ClaimRequest, DeliveriesQueue, Nack, Queue, Settlement};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::{LEASE, at, clock, log, queue, state};

const REASON: &str = "the connection was lost after the final dot";

fn in_doubt() -> Nack {
    Nack::InDoubt { reason: REASON.to_owned() }
}

fn with_reason(attempt: i32, outcome: &str, reason: &str) -> (i32, String, Option<String>) {
    (attempt, outcome.to_owned(), Some(reason.to_owned()))
}

/// A mail that lives for so long.
async fn enqueue(client: &Client, action: &str) -> Result<i64> {
    Ok(client.mail(action).payload(r#"{"a": 1}"#).enqueue().await?)
}

async fn claim(queue: &mut DeliveriesQueue) -> Result<Option<Batch>> {
    let want =
        ClaimRequest { batches: 1, limit: 10, partial: true, rescan: true, spares_doubtful: false };
    Ok(queue.settle_and_claim(Vec::new(), Some(want)).await?.batches.pop())
}

async fn settle(queue: &mut DeliveriesQueue, batch: &Batch, nack: Nack) -> Result<()> {
    let settlement = Settlement::of(batch.id, vec![(batch.tokens[0].id, nack)]);
    // Said twice, as after an answer that was lost.
    queue.settle_and_claim(vec![settlement.clone()], None).await?;
    queue.settle_and_claim(vec![settlement], None).await?;
    Ok(())
}

/// Claims the only token that is due, which has so many doubts, and leaves it in doubt once more.
async fn doubt(queue: &mut DeliveriesQueue, doubts: u32) -> Result<()> {
    let batch = claim(queue).await?.context("it is due")?;
    assert_eq!(batch.tokens[0].doubts, doubts);
    settle(queue, &batch, in_doubt()).await
}

async fn text(client: &Client, query: &str) -> Result<String> {
    Ok(client.query_one(&format!("SELECT ({query})::text"), &[]).await?.get(0))
}

async fn dead(client: &Client) -> Result<String> {
    let columns = "token || ' ' || attempts || ' ' || failures || ' ' || doubts || ' ' || \
                   is_in_doubt || ' ' || (secret IS NULL) || ' ' || reason";
    text(client, &format!("SELECT string_agg({columns}, '; ') FROM mailroom.dead_letters")).await
}

async fn stopped() -> Result<(Database, Client, DeliveriesQueue)> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let queue = queue(&database).await?;
    Ok((database, client, queue))
}

#[tokio::test]
async fn a_token_in_doubt_is_repeated_after_one_and_five_minutes_and_then_listed() -> Result<()> {
    let (database, client, mut first) = stopped().await?;
    let id = enqueue(&client, "invite").await?;
    doubt(&mut first, 0).await?;
    assert_eq!(state(&client, id).await?, at("queued", 1));
    let query = "SELECT doubts FROM mailroom.deliveries";
    assert_eq!(text(&client, query).await?, "1");
    clock::forward(&client, Duration::from_secs(59)).await?;
    assert_eq!(claim(&mut first).await?, None);
    clock::forward(&client, Duration::from_secs(1)).await?;
    // Another collector knows the count, and so does one
    // that takes over what a dead one had claimed.
    let mut second = queue(&database).await?;
    assert_eq!(claim(&mut second).await?.context("it is due")?.tokens[0].doubts, 1);
    assert_eq!(text(&client, query).await?, "1");
    drop(second);
    clock::forward(&client, LEASE).await?;
    first.heartbeat().await?;
    first = queue(&database).await?;
    // What comes back unsent, or refused, has as many doubts as before.
    let batch = claim(&mut first).await?.context("it has lapsed")?;
    assert_eq!((batch.tokens[0].doubts, batch.tokens[0].attempt), (1, 3));
    first.release(&[batch.id]);
    first.settle_and_claim(Vec::new(), None).await?;
    for nack in [
        Nack::Unanswered,
        Nack::Unavailable { after: None, reason: "421".to_owned() },
        Nack::Retry { after: None, reason: "451".to_owned() },
    ] {
        let batch = claim(&mut first).await?.context("it is due")?;
        assert_eq!(batch.tokens[0].doubts, 1);
        settle(&mut first, &batch, nack).await?;
    }
    clock::forward(&client, Duration::from_secs(60)).await?;
    doubt(&mut first, 1).await?;
    clock::forward(&client, Duration::from_secs(299)).await?;
    assert_eq!(claim(&mut first).await?, None);
    clock::forward(&client, Duration::from_secs(1)).await?;
    doubt(&mut first, 2).await?;
    // Refusals are bounded by three here, and only the one refusal counts.
    let reason = format!("may have been delivered: {REASON}");
    assert_eq!(dead(&client).await?, format!("{id} 7 1 3 true false {reason}"));
    assert_eq!(state(&client, id).await?, at("dead", 7));
    assert_eq!(
        log(&client, id).await?,
        [
            with_reason(1, "in_doubt", REASON),
            (2, "lapsed".to_owned(), None),
            (3, "unanswered".to_owned(), None),
            with_reason(4, "unanswered", "421"),
            with_reason(5, "retry", "451"),
            with_reason(6, "in_doubt", REASON),
            with_reason(7, "dead", &reason),
        ]
    );
    let counts = "SELECT (in_doubt, in_doubt_last_hour, dead_in_doubt, dead_letters, expired) \
                  FROM mailroom.status()";
    assert_eq!(text(&client, counts).await?, "(0,2,1,1,0)");
    Ok(())
}

#[tokio::test]
async fn what_expires_in_doubt_is_listed_as_maybe_delivered_and_never_as_expired() -> Result<()> {
    let (_database, client, mut queue) = stopped().await?;
    let id = enqueue(&client, "invite").await?;
    doubt(&mut queue, 0).await?;
    let waiting = "SELECT (in_doubt, in_doubt_last_hour, dead_in_doubt) FROM mailroom.status()";
    assert_eq!(text(&client, waiting).await?, "(1,1,0)");
    clock::forward(&client, Duration::from_secs(7 * 86_400)).await?;
    assert_eq!(claim(&mut queue).await?, None);
    let reason = "may have been delivered: it expired after an attempt in doubt";
    assert_eq!(dead(&client).await?, format!("{id} 1 0 1 true true {reason}"));
    let expected = [with_reason(1, "in_doubt", REASON), with_reason(1, "dead", reason)];
    assert_eq!(log(&client, id).await?, expected);
    assert_eq!(text(&client, "SELECT count(*) FROM mailroom.payloads").await?, "0");
    Ok(())
}

#[tokio::test]
async fn what_was_used_or_cancelled_after_a_doubt_is_cancelled_and_no_dead_letter() -> Result<()> {
    let (_database, client, mut queue) = stopped().await?;
    let cancelled = enqueue(&client, "invite").await?;
    doubt(&mut queue, 0).await?;
    clock::forward(&client, Duration::from_secs(1)).await?;
    client.execute("SELECT mailroom.cancel($1)", &[&cancelled]).await?;
    assert_eq!(state(&client, cancelled).await?, at("cancelled", 1));
    // Used while the third attempt is under way: the mail has arrived.
    let used = enqueue(&client, "invite").await?;
    for (doubts, pause) in [(0, 60), (1, 300)] {
        doubt(&mut queue, doubts).await?;
        clock::forward(&client, Duration::from_secs(pause)).await?;
    }
    let batch = claim(&mut queue).await?.context("it is due")?;
    client
        .batch_execute("SELECT mailroom.redeem(secrets[1], 'invite') FROM mailroom.leases")
        .await?;
    settle(&mut queue, &batch, in_doubt()).await?;
    assert_eq!(state(&client, used).await?, at("cancelled", 3));
    assert_eq!(text(&client, "SELECT count(*) FROM mailroom.dead_letters").await?, "0");
    assert_eq!(text(&client, "SELECT count(*) FROM mailroom.payloads").await?, "0");
    Ok(())
}

#[tokio::test]
async fn a_dead_letter_in_doubt_is_put_back_only_on_demand_and_once_more_in_doubt_is_dead_again()
-> Result<()> {
    let (_database, client, mut queue) = stopped().await?;
    let doubtful = enqueue(&client, "invite").await?;
    for doubts in 0..3 {
        doubt(&mut queue, doubts).await?;
        clock::forward(&client, Duration::from_secs(300)).await?;
    }
    let plain = enqueue(&client, "invite").await?;
    let batch = claim(&mut queue).await?.context("it is due")?;
    settle(&mut queue, &batch, Nack::Dead { reason: "550".to_owned() }).await?;
    let retried = "SELECT string_agg(token || ' ' || is_in_doubt, ', ') FROM mailroom.retry_all()";
    assert_eq!(text(&client, retried).await?, format!("{plain} false"));
    let retried = retried.replace("retry_all()", "retry_all(in_doubt => true)");
    assert_eq!(text(&client, &retried).await?, format!("{doubtful} true"));
    let batch = claim(&mut queue).await?.context("both are due")?;
    let doubts: Vec<_> = batch.tokens.iter().map(|token| (token.id, token.doubts)).collect();
    assert_eq!(doubts, [(plain, 0), (doubtful, 3)]);
    let nacks = vec![(doubtful, in_doubt())];
    queue.settle_and_claim(vec![Settlement::of(batch.id, nacks)], None).await?;
    assert_eq!(state(&client, plain).await?.0, "sent");
    assert!(dead(&client).await?.starts_with(&format!("{doubtful} 4 0 4 true")));
    // One that has expired gets a new token, and is not called expired.
    clock::forward(&client, Duration::from_secs(8 * 86_400)).await?;
    let retried = format!("SELECT is_in_doubt FROM mailroom.retry(ARRAY[{doubtful}::bigint])");
    assert_eq!(text(&client, &retried).await?, "true");
    let last = log(&client, doubtful).await?.pop();
    let reason = "may have been delivered: a new mail was made in its place";
    assert_eq!(last, Some(with_reason(4, "dead", reason)));
    let batch = claim(&mut queue).await?.context("the new one")?;
    assert_eq!((batch.tokens[0].doubts, batch.tokens[0].id > plain), (0, true));
    Ok(())
}

#[tokio::test]
async fn a_token_in_doubt_waits_since_it_was_due_first_until_it_is_known_or_listed() -> Result<()> {
    let (_database, client, mut queue) = stopped().await?;
    enqueue(&client, "invite").await?;
    clock::forward(&client, Duration::from_secs(10)).await?;
    doubt(&mut queue, 0).await?;
    let shown = "SELECT (in_doubt_oldest_ms, oldest_due_ms, dead_in_doubt_last_hour) \
                 FROM mailroom.status()";
    assert_eq!(text(&client, shown).await?, "(10000,,0)");
    clock::forward(&client, Duration::from_secs(60)).await?;
    assert_eq!(text(&client, shown).await?, "(70000,0,0)");
    // Neither an outage nor a refusal between the attempts makes it anything new,
    // and it is no outage itself.
    for nack in [
        Nack::Unavailable { after: None, reason: "421".to_owned() },
        Nack::Retry { after: Some(Duration::from_secs(30)), reason: "451".to_owned() },
    ] {
        let batch = claim(&mut queue).await?.context("it is due")?;
        assert_eq!(text(&client, shown).await?, "(70000,,0)");
        settle(&mut queue, &batch, nack).await?;
    }
    assert_eq!(text(&client, shown).await?, "(70000,,0)");
    clock::forward(&client, Duration::from_secs(30)).await?;
    doubt(&mut queue, 1).await?;
    clock::forward(&client, Duration::from_secs(300)).await?;
    assert_eq!(text(&client, shown).await?, "(400000,0,0)");
    doubt(&mut queue, 2).await?;
    assert_eq!(text(&client, shown).await?, "(,,1)");
    clock::forward(&client, Duration::from_secs(3_601)).await?;
    assert_eq!(text(&client, shown).await?, "(,,0)");
    Ok(())
}

#[tokio::test]
async fn a_token_in_doubt_that_is_looked_at_again_waits_since_it_was_due_first() -> Result<()> {
    let (_database, client, mut queue) = stopped().await?;
    let subject = client.account("ada").insert().await?;
    doubt(&mut queue, 0).await?;
    clock::forward(&client, Duration::from_secs(60)).await?;
    // It is put off, as one whose subject is not eligible now, and the subject may be so again.
    client.batch_execute("UPDATE mailroom.queue SET deferrals = 1").await?;
    assert_eq!(text(&client, &format!("mailroom.recheck('{subject}')")).await?, "1");
    let shown = "SELECT (in_doubt_oldest_ms, oldest_due_ms) FROM mailroom.status()";
    assert_eq!(text(&client, shown).await?, "(60000,0)");
    Ok(())
}

#[tokio::test]
async fn a_sender_on_trial_gets_other_tokens_than_those_in_doubt() -> Result<()> {
    let (_database, client, mut queue) = stopped().await?;
    client.batch_execute("UPDATE mailroom.actions SET priority = 0 WHERE name = 'notice'").await?;
    let mut doubtful = Vec::new();
    for action in ["notice", "invite"] {
        doubtful.push(enqueue(&client, action).await?);
        doubt(&mut queue, 0).await?;
    }
    clock::forward(&client, Duration::from_secs(60)).await?;
    let other = enqueue(&client, "invite").await?;
    let spares = |spares_doubtful| {
        Some(ClaimRequest { batches: 1, limit: 10, partial: true, rescan: true, spares_doubtful })
    };
    let ids = |batches: &[Batch]| super::ids(batches);
    let claimed = queue.settle_and_claim(Vec::new(), spares(true)).await?;
    assert_eq!((ids(&claimed.batches), claimed.waiting), (vec![other], 0));
    let claimed = queue.settle_and_claim(Vec::new(), spares(true)).await?;
    assert_eq!(ids(&claimed.batches), [0_i64; 0]);
    let mut claimed = ids(&queue.settle_and_claim(Vec::new(), spares(false)).await?.batches);
    claimed.sort_unstable();
    assert_eq!(claimed, doubtful);
    Ok(())
}

#[tokio::test]
async fn a_clock_that_is_set_back_makes_nothing_in_doubt_due_before_its_pause() -> Result<()> {
    let (_database, client, mut queue) = stopped().await?;
    enqueue(&client, "invite").await?;
    doubt(&mut queue, 0).await?;
    clock::turn(&client, -3_600_000).await?;
    client.execute("SELECT mailroom.sweep(NULL, 100)", &[]).await?;
    clock::forward(&client, Duration::from_secs(59)).await?;
    assert_eq!(claim(&mut queue).await?, None);
    clock::forward(&client, Duration::from_secs(1)).await?;
    doubt(&mut queue, 1).await
}
