//! What a refusal counts for, and what comes back through no fault of its own.

use std::time::Duration;

use anyhow::Result;
use mailroom::config::DeliverySettings;
use mailroom::queue::{Batch, ClaimRequest, DeliveriesQueue, Nack, Queue, QueueError, Settlement};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::{SETTINGS, at, clock, ids, log, queue, queue_with, state, token, tokens};

/// As the settings are unless somebody bounds refusals.
const UNBOUNDED: DeliverySettings = DeliverySettings { bounds_refusals: false, ..SETTINGS };

async fn claim(queue: &mut DeliveriesQueue, limit: usize) -> Result<Vec<Batch>> {
    let want =
        ClaimRequest { batches: 1, limit, partial: true, rescan: true, spares_doubtful: false };
    Ok(queue.settle_and_claim(Vec::new(), Some(want)).await?.batches)
}

/// Claims a single token and settles it with `nack`.
async fn settle_next(queue: &mut DeliveriesQueue, nack: Nack) -> Result<i64> {
    let batch = claim(queue, 1).await?.remove(0);
    let id = batch.tokens[0].id;
    settle(queue, &batch, vec![(id, nack)]).await?;
    Ok(id)
}

async fn settle(queue: &mut DeliveriesQueue, batch: &Batch, nacks: Vec<(i64, Nack)>) -> Result<()> {
    queue.settle_and_claim(vec![Settlement::of(batch.id, nacks)], None).await?;
    Ok(())
}

fn refused() -> Nack {
    Nack::Retry { after: None, reason: "451 greylisted".to_owned() }
}

fn failed() -> Nack {
    Nack::Failed { reason: "the sender has ended".to_owned() }
}

fn unavailable(after: Option<Duration>) -> Nack {
    Nack::Unavailable { after, reason: "421 away".to_owned() }
}

/// An activation that lives for so many seconds.
async fn token_of(client: &Client, seconds: i64) -> Result<i64> {
    Ok(client.token().living(seconds).insert().await?.0.id)
}

/// In how many milliseconds a waiting token is due, and how many failures it has.
async fn due_in(client: &Client, token: i64) -> Result<(i64, i16)> {
    let query =
        "SELECT round(extract(epoch FROM due_at - mailroom.clock()) * 1000)::bigint, failures
        FROM mailroom.queue WHERE token = $1";
    let row = client.query_one(query, &[&token]).await?;
    Ok((row.get(0), row.get(1)))
}

#[tokio::test]
async fn a_refused_token_is_tried_until_it_expires_unless_refusals_are_bounded() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let id = token_of(&client, 900).await?;
    let mut queue = queue_with(&database, UNBOUNDED).await?;
    let (mut refusals, mut elapsed) = (0, 0);
    loop {
        let Some(batch) = claim(&mut queue, 1).await?.pop() else { break };
        settle(&mut queue, &batch, vec![(id, refused())]).await?;
        refusals += 1;
        let (pause, failures) = due_in(&client, id).await?;
        assert!(pause <= 60_000 && failures == 0, "{pause} ms, {failures} failures");
        elapsed += pause;
        clock::turn(&client, pause + 1).await?;
    }
    // Every minute and more often, for all of its life but the last half of a minute.
    assert!(
        (15..=60).contains(&refusals) && (868_000..=873_000).contains(&elapsed),
        "{refusals}, {elapsed} ms"
    );
    assert_eq!(state(&client, id).await?, at("expired", refusals));
    Ok(())
}

#[tokio::test]
async fn a_token_of_days_is_tried_again_at_most_once_an_hour_in_the_end() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let id = token_of(&client, 3 * 86_400).await?;
    let mut queue = queue_with(&database, UNBOUNDED).await?;
    let mut pauses = Vec::new();
    for _ in 0..25 {
        settle_next(&mut queue, refused()).await?;
        let (pause, _) = due_in(&client, id).await?;
        pauses.push(pause);
        clock::turn(&client, pause + 1).await?;
    }
    assert!(pauses[..6].iter().all(|pause| *pause <= 32_000), "{pauses:?}");
    assert!(pauses[13..].iter().all(|pause| (1_800_000..=3_600_000).contains(pause)), "{pauses:?}");
    Ok(())
}

#[tokio::test]
async fn ending_or_silencing_the_sender_is_bounded_and_earlier_refusals_do_not_count() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let id = token(&client, "activation").await?;
    let mut queue = queue_with(&database, UNBOUNDED).await?;
    let course =
        [refused(), refused(), refused(), refused(), failed(), refused(), failed(), failed()];
    for nack in course {
        assert_eq!(state(&client, id).await?.0, "queued");
        settle_next(&mut queue, nack).await?;
        clock::forward(&client, Duration::from_secs(61)).await?;
    }
    assert_eq!(state(&client, id).await?, at("dead", 8));
    Ok(())
}

#[tokio::test]
async fn what_comes_back_from_an_unavailable_sender_has_no_failure_and_its_place() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let first = tokens(&client, "activation", 4).await?;
    let mut queue = queue(&database).await?;
    let batch = claim(&mut queue, 4).await?.remove(0);
    clock::forward(&client, Duration::from_secs(5)).await?;
    let later = token(&client, "activation").await?;
    // With all other outcomes in the same settlement.
    let dead = Nack::Dead { reason: "550".to_owned() };
    let nacks = vec![(first[1], dead), (first[2], refused()), (first[3], unavailable(None))];
    settle(&mut queue, &batch, nacks).await?;
    assert_eq!(state(&client, first[0]).await?, at("sent", 1));
    assert_eq!(state(&client, first[1]).await?, at("dead", 1));
    assert_eq!(due_in(&client, first[3]).await?, (-5_000, 0));
    assert_eq!(
        log(&client, first[3]).await?,
        [(1, "unanswered".to_owned(), Some("421 away".to_owned()))]
    );
    let again = claim(&mut queue, 4).await?;
    assert_eq!(ids(&again), [first[3], later]);
    assert_eq!(again[0].tokens[0].attempt, 2);
    // However often: that makes no dead letter.
    settle(&mut queue, &again[0], vec![(first[3], unavailable(None)), (later, unavailable(None))])
        .await?;
    for _ in 0..40 {
        settle_next(&mut queue, unavailable(None)).await?;
    }
    assert_eq!(state(&client, first[3]).await?.0, "queued");
    Ok(())
}

#[tokio::test]
async fn what_was_not_tried_waits_as_the_sender_wants_and_is_never_given_up_for_it() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    // However long it lives.
    let id = token_of(&client, 7 * 24 * 3_600).await?;
    let mut queue = queue_with(&database, DeliverySettings { max_attempts: 2, ..SETTINGS }).await?;
    let untried = |after| Nack::Untried { after, reason: "not its turn".to_owned() };
    let backoff = i64::try_from(SETTINGS.backoff.as_millis())?;
    for (after, pause) in [(None, backoff), (Some(Duration::from_secs(20)), 20_000)] {
        for _ in 0..10 {
            settle_next(&mut queue, untried(after)).await?;
            assert_eq!(due_in(&client, id).await?, (pause, 0));
            clock::turn(&client, pause + 1).await?;
        }
    }
    assert_eq!(log(&client, id).await?.len(), 20);
    let unanswered = |(_, outcome, reason): &(_, String, Option<String>)| {
        outcome == "unanswered" && reason.as_deref() == Some("not its turn")
    };
    assert!(log(&client, id).await?.iter().all(unanswered));
    // Refusals of its own count as ever.
    for expected in ["queued", "dead"] {
        settle_next(&mut queue, refused()).await?;
        assert_eq!(state(&client, id).await?.0, expected);
        clock::forward(&client, Duration::from_secs(61)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_was_on_trial_comes_back_behind_the_others() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let waiting = tokens(&client, "activation", 3).await?;
    let mut queue = queue(&database).await?;
    let mut tried = Vec::new();
    for _ in 0..6 {
        clock::forward(&client, Duration::from_secs(1)).await?;
        tried.push(settle_next(&mut queue, unavailable(Some(Duration::ZERO))).await?);
    }
    assert_eq!(tried, [waiting.clone(), waiting.clone()].concat());
    // With a pause it is not even due, whoever tidies up.
    let id = settle_next(&mut queue, unavailable(Some(Duration::from_millis(7_500)))).await?;
    assert_eq!(due_in(&client, id).await?, (7_500, 0));
    clock::forward(&client, Duration::from_secs(1)).await?;
    queue.open().await?;
    queue.heartbeat().await?;
    assert_eq!(due_in(&client, id).await?, (6_500, 0));
    assert_eq!(ids(&claim(&mut queue, 10).await?), waiting[1..]);
    Ok(())
}

#[tokio::test]
async fn a_token_of_days_that_was_on_trial_comes_back_within_a_minute() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let mut queue = queue_with(&database, UNBOUNDED).await?;
    // A thousandth of its life, but at most a minute.
    for (hours, pause) in [(12, 43_172), (7 * 24, 60_000), (365 * 24, 60_000)] {
        let id = token_of(&client, hours * 3_600).await?;
        settle_next(&mut queue, unavailable(Some(Duration::from_millis(7_500)))).await?;
        let (due, failures) = due_in(&client, id).await?;
        assert!(
            (pause - 2..=pause).contains(&due) && failures == 0,
            "{hours} hours: {due} ms, {failures}"
        );
    }
    // As long as the sender wants it.
    let id = token_of(&client, 7 * 86_400).await?;
    settle_next(&mut queue, unavailable(Some(Duration::from_secs(300)))).await?;
    assert_eq!(due_in(&client, id).await?, (300_000, 0));
    Ok(())
}

#[tokio::test]
async fn a_schema_that_an_earlier_version_made_is_named() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.batch_execute("DROP FUNCTION mailroom.claim").await?;
    let error = queue(&database).await.expect_err("the function is missing");
    let error = error.downcast::<QueueError>()?;
    assert!(matches!(error, QueueError::Unusable(_)), "{error}");
    assert!(
        error.to_string().contains(
            "run `mailroom migrate up`, or set MAILROOM_QUEUE_KIND to \
             `cursor` for the base schema"
        ),
        "{error}"
    );
    Ok(())
}
