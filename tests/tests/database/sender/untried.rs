//! Mails that a sender has not tried: nothing is known against them, and they prove nothing.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::collector::Collector;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{register, wait_for};

use super::test_sender::TestSender;
use super::{LEASED, command, leased, wait_for_state};

#[tokio::test]
async fn a_mail_that_is_held_back_ten_times_is_delivered_where_two_refusals_end_it() -> Result<()> {
    for (verdict, expected) in [("untried", "sent"), ("retry", "dead")] {
        let database = Database::migrated()?;
        let client = database.connect().await?;
        let mut sender = TestSender::new()?;
        register(&client, 1..=1).await?;
        let collector =
            Collector::start(command(&database, &sender)?.args(["--max-attempts", "2"]))?;
        sender.pass_the_trial()?;
        register(&client, 2..=2).await?;
        let answer = format!(
            "\"exact\":true,\"{verdict}\":[{{\"id\":2,\"after_ms\":100,\"reason\":\"rate\"}}]"
        );
        let times = if expected == "sent" { 10 } else { 2 };
        for attempt in 1..=times {
            let batch = sender.next_batch()?;
            assert_eq!((batch.ids(), batch.attempts()), (vec![2], vec![attempt]));
            sender.answer(&batch, &answer)?;
        }
        if expected == "sent" {
            let batch = sender.next_batch()?;
            sender.answer(&batch, "\"ok\":[2]")?;
        }
        wait_for_state(&client, &[2], expected).await?;
        let log = collector.stop()?;
        let is_told = log.contains("has not tried tokens, and gives them back: token 2: rate");
        assert_eq!(is_told, expected == "sent", "{log}");
    }
    Ok(())
}

#[tokio::test]
async fn mails_that_were_not_tried_never_end_an_outage() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut sender = TestSender::new()?;
    register(&client, 1..=1).await?;
    let mut command = command(&database, &sender)?;
    let collector = Collector::start(command.args(["--batch-limit", "1", "--prefetch", "4"]))?;
    sender.pass_the_trial()?;
    register(&client, 2..=9).await?;
    let first = sender.next_batch()?;
    sender.answer(&first, "\"exact\":true,\"unavailable\":{\"reason\":\"421\"}")?;
    collector.wait_for_log("the sender is unavailable: 421", 1)?;
    // What was in flight comes back, too.
    while leased(&client).await? > 0 {
        while sender.unseen()? > 0 {
            let batch = sender.next_batch()?;
            sender.answer(&batch, "\"unavailable\":{}")?;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut untried = Vec::new();
    while untried.len() < 5 {
        let batch = sender.next_batch()?;
        // The one before is settled by then.
        wait_for(&client, LEASED, 1_i64).await.context("not one batch alone is on trial")?;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(sender.unseen()?, 0, "a second batch beside one on trial: {batch:?}");
        let id = batch.ids()[0];
        sender.answer(
            &batch,
            &format!("\"untried\":[{{\"id\":{id},\"after_ms\":3600000,\"reason\":\"held\"}}]"),
        )?;
        untried.push(id);
    }
    untried.sort_unstable();
    untried.dedup();
    assert_eq!(untried.len(), 5, "each waits as long as the sender wants");
    // One that was tried ends it, and the others come together.
    let batch = sender.next_batch()?;
    sender.answer(&batch, "\"ok\":\"all\"")?;
    for _ in 0..2 {
        let batch = sender.next_batch()?;
        sender.answer(&batch, "\"ok\":\"all\"")?;
    }
    collector.wait_for_log("sending again", 1)?;
    let log = collector.stop()?;
    assert_eq!(log.matches("sending again").count(), 1, "{log}");
    Ok(())
}
