//! What a sender may say beyond `ok`, `retry`, `dead` and `unavailable`, as the line announces it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::collector::{Collector, PATIENCE, wait_until};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use mailroom_tests::sending::KNOWS;
use rustix::process::Signal;
use tokio_postgres::Client;

use super::test_sender::TestSender;
use super::{command, reason, state, wait_for_state};

async fn number(client: &Client, query: &str) -> Result<i64> {
    Ok(client.query_one(&format!("SELECT ({query})::bigint"), &[]).await?.get(0))
}

/// Waits until the only token waits with so many doubts, and lets its pause be over.
async fn end_pause(client: &Client, doubts: i64) -> Result<()> {
    let end =
        "UPDATE mailroom.queue SET due_at = now(), put_off_at = NULL WHERE doubts = $1::bigint";
    for _ in 0..6_000 {
        if client.execute(end, &[&doubts]).await? == 1 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("no token waits with {doubts} doubts")
}

#[tokio::test]
async fn a_sender_that_leaves_a_mail_in_doubt_is_told_how_often_and_gets_it_three_times()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut sender = TestSender::new()?;
    register(&client, 1..=1).await?;
    let collector = Collector::start(&mut command(&database, &sender)?)?;
    sender.pass_the_trial()?;
    register(&client, 2..=2).await?;
    for doubts in 0..3 {
        let batch = sender.next_batch()?;
        assert_eq!(batch.knows, KNOWS);
        assert_eq!(batch.items[0]["doubts"].as_i64(), Some(doubts).filter(|doubts| *doubts > 0));
        sender.answer(&batch, "\"in_doubt\":[{\"id\":2,\"reason\":\"lost after the dot\"}]")?;
        if doubts < 2 {
            end_pause(&client, doubts + 1).await?;
        }
    }
    wait_for_state(&client, &[2], "dead").await?;
    assert_eq!(reason(&client, 2).await?, "may have been delivered: lost after the dot");
    // That was no outage, and no trial: others went on all the time.
    register(&client, 3..=3).await?;
    let batch = sender.next_batch()?;
    let receipt =
        "{\"id\":3,\"provider\":\"smtp\",\"message_id\":\"ABC\",\"answer\":\"250 to ada@x.test\"}";
    sender.answer(&batch, &format!("\"exact\":true,\"ok\":[3],\"receipts\":[{receipt}]"))?;
    wait_for_state(&client, &[3], "sent").await?;
    let row = client
        .query_one("SELECT token, provider, message_id, answer FROM mailroom.receipts", &[])
        .await?;
    assert_eq!((row.get::<_, i64>(0), row.get::<_, &str>(1)), (3, "smtp"));
    assert_eq!((row.get::<_, &str>(2), row.get::<_, &str>(3)), ("ABC", "250 to [address]"));
    let log = collector.stop()?;
    assert!(log.contains("tokens_in_doubt") || log.contains("nobody knows whether"), "{log}");
    assert!(!log.contains("refuses everything") && !log.contains("tokens expired"), "{log}");
    Ok(())
}

/// On a site with a single mail nobody else shows whether a new sender works.
#[tokio::test]
async fn a_mail_in_doubt_that_waits_alone_reaches_a_sender_that_has_answered_nothing_yet()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut sender = TestSender::new()?;
    register(&client, 1..=1).await?;
    client.execute("UPDATE mailroom.queue SET doubts = 1", &[]).await?;
    let collector = Collector::start(&mut command(&database, &sender)?)?;
    // It waits a minute for others.
    for _ in 0..3_000 {
        if sender.unseen().is_ok_and(|count| count > 0) {
            break;
        }
        sleep(Duration::from_millis(100));
    }
    let batch = sender.next_batch()?;
    assert_eq!((batch.ids(), batch.items[0]["doubts"].as_i64()), (vec![1], Some(1)));
    sender.answer(&batch, "\"ok\":\"all\"")?;
    wait_for_state(&client, &[1], "sent").await?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn signs_of_work_keep_a_slow_sender_alive_and_no_longer_than_a_stop_allows() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut sender = TestSender::new()?;
    register(&client, 1..=1).await?;
    let mut command = command(&database, &sender)?;
    let mut collector =
        Collector::start(command.args(["--sender-timeout", "20s", "--lease", "40s"]))?;
    sender.pass_the_trial()?;
    register(&client, 2..=2).await?;
    let batch = sender.next_batch()?;
    let working = format!("{{\"working\":[\"{}\"]}}", batch.name);
    for _ in 0..125 {
        sender.write_line(&working)?;
        sleep(Duration::from_millis(500));
    }
    // Three times the timeout, and longer than the lease, which was renewed.
    assert_eq!((state(&client, 2).await?.as_str(), sender.processes().len()), ("leased", 1));
    assert_eq!(
        number(&client, "SELECT count(*) FROM mailroom.delivery_log WHERE outcome = 'lapsed'")
            .await?,
        0
    );
    sender.answer(&batch, "\"ok\":\"all\"")?;
    wait_for_state(&client, &[2], "sent").await?;
    // Without signs it is hung.
    register(&client, 3..=3).await?;
    sender.next_batch()?;
    sender.wait_for_start(2)?;
    wait_until(|| sender.unseen().is_ok_and(|count| count > 0))?;
    let batch = sender.next_batch()?;
    let working = format!("{{\"working\":[\"{}\"]}}", batch.name);
    sender.write_line(&working)?;
    let began = Instant::now();
    collector.signal(Signal::TERM)?;
    while collector.is_running()? {
        assert!(began.elapsed() < PATIENCE, "it goes on while there are signs of work");
        sender.write_line(&working)?;
        sleep(Duration::from_millis(200));
    }
    assert_eq!(state(&client, 3).await?, "queued");
    Ok(())
}

#[tokio::test]
async fn refusals_of_a_sender_that_says_whose_fault_they_are_are_those_of_the_tokens() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut sender = TestSender::new()?;
    register(&client, 1..=6).await?;
    let collector = Collector::start(command(&database, &sender)?.args(["--batch-limit", "1"]))?;
    let batch = sender.next_batch()?;
    sender.answer(&batch, "\"exact\":true,\"ok\":\"all\"")?;
    for _ in 0..5 {
        let batch = sender.next_batch()?;
        let id = batch.ids()[0];
        sender.answer(
            &batch,
            &format!("\"exact\":true,\"retry\":[{{\"id\":{id},\"after_ms\":3600000}}]"),
        )?;
    }
    let refused = "SELECT count(*) FROM mailroom.delivery_log WHERE outcome = 'retry'";
    for _ in 0..6_000 {
        if number(&client, refused).await? == 5 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(number(&client, refused).await?, 5);
    assert!(!collector.stop()?.contains("refuses everything"));
    Ok(())
}

#[tokio::test]
async fn a_payload_that_some_sender_cannot_read_costs_its_own_mail_alone() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut sender = TestSender::new()?;
    // The first three are at the edge of what enqueue() takes;
    // the others were never enqueued like that.
    for payload in [
        format!("{}{}", "[".repeat(100), "]".repeat(100)),
        format!("[-{}]", "9".repeat(308)),
        format!("\"{}\"", "x".repeat(8_190)),
    ] {
        client.mail("notice").payload(payload).enqueue().await?;
    }
    client.mail("notice").payload("1").enqueue_times(3).await?;
    client
        .batch_execute(
            "UPDATE mailroom.payloads SET payload = (repeat('[', 101) || repeat(']', 101))::jsonb
                WHERE token = 4;
            UPDATE mailroom.payloads SET payload = '[1e400]' WHERE token = 5;
            UPDATE mailroom.payloads SET payload = to_jsonb(repeat('x', 8191)) WHERE token = 6",
        )
        .await?;
    let collector = Collector::start(command(&database, &sender)?.args(["--token-format", "v2"]))?;
    let mut came = Vec::new();
    while came.len() < 3 {
        let batch = sender.next_batch()?;
        came.extend(batch.ids());
        sender.answer(&batch, "\"ok\":\"all\"")?;
    }
    wait_for_state(&client, &[1, 2, 3], "sent").await?;
    wait_for_state(&client, &[4, 5, 6], "dead").await?;
    for (token, contains) in [
        (4, "more than 100 levels"),
        (5, "a number that is too large"),
        (6, "more than 8192 bytes"),
    ] {
        assert_eq!(reason(&client, token).await?, format!("its payload contains {contains}"));
    }
    collector.stop()?;
    Ok(())
}
