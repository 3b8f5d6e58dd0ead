//! How much a sender gets at once.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{register, wait_for};

use super::test_sender::TestSender;
use super::{command, leased, wait_for_state};

/// Answers once, and then neither reads nor says anything more.
const STOPS_READING: &str = "bash -c 'read -r line; name=${line#*batch\\\":\\\"}; \
    echo \"{\\\"batch\\\":\\\"${name:0:36}\\\",\\\"ok\\\":\\\"all\\\"}\"; sleep 1000'";

/// Writes down how many tokens are claimed after each claim: it may be so many for a moment only.
const RECORD_CLAIMED: &str = "
    CREATE TABLE claimed (count bigint);
    CREATE FUNCTION record_claimed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.claimed SELECT sum(cardinality(tokens)) FROM mailroom.leases;
        RETURN NULL;
    END;
    $$;
    CREATE TRIGGER record_claimed AFTER INSERT ON mailroom.leases
        FOR EACH STATEMENT EXECUTE FUNCTION record_claimed()";

#[tokio::test]
async fn a_sender_that_stops_reading_holds_no_more_than_the_prefetch() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=5_000).await?;
    client.batch_execute(RECORD_CLAIMED).await?;
    let mut command = command(&database, &TestSender::new()?)?;
    command.args(["--sender", STOPS_READING, "--batch-limit", "100", "--prefetch", "4"]);
    let collector = Collector::start(&mut command)?;
    wait_for_state(&client, &[1], "sent").await?;
    // What its pipe does not hold is cancelled, to be checked again when it is sent.
    let is_cancelled = "SELECT max(count) >= 400 AND (SELECT sum(cardinality(tokens))
            FROM mailroom.leases) BETWEEN 100 AND 399 FROM claimed";
    wait_for(&client, is_cancelled, Some(true)).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let most = client.query_one("SELECT max(count) FROM claimed", &[]).await?;
    assert_eq!(most.get::<_, i64>(0), 400);
    let left = leased(&client).await?;
    assert!((100..400).contains(&left), "{left} tokens are claimed");
    drop(collector);
    Ok(())
}

#[tokio::test]
async fn a_slow_sender_gets_few_batches_so_recoveries_overtake_activations() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=200).await?;
    let ada = client.account("ada").at("x.test").active().insert().await?;
    let mut sender = TestSender::new()?;
    let collector = Collector::start(&mut command(&database, &sender)?)?;
    sender.pass_the_trial()?;
    // Each batch takes longer than a second until there is one at a time, several times: a busy
    // machine may be late with another one once.
    let (mut batches, mut alone) = (0, 0);
    while alone < 3 {
        let batch = sender.next_batch()?;
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        alone = if sender.unseen()? == 0 { alone + 1 } else { 0 };
        sender.answer(&batch, "\"ok\":\"all\"")?;
        batches += 1;
        assert!(batches < 17, "it still gets several batches at once");
    }
    client.token().recovery().of(ada).insert().await?;
    // What was claimed or on its way before goes first: a batch or two of the twenty.
    let mut before = 0;
    loop {
        let next = sender.next_batch()?;
        if let Some(place) = next.items.iter().position(|item| item["action"] == "recover") {
            // Every seventh place is an activation's, and the first one can be that.
            assert!(place <= 1 && next.items[place]["login"] == "ada", "{next:?}");
            break;
        }
        sender.answer(&next, "\"ok\":\"all\"")?;
        before += 1;
        assert!(before <= 3, "{before} batches of activations went before the recovery");
    }
    drop(collector);
    Ok(())
}

#[tokio::test]
async fn an_adaptive_collector_gives_its_sender_full_batches_of_a_backlog_and_a_lone_token_at_once()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=301).await?;
    let mut sender = TestSender::new()?;
    let mut command = collector::command(database.url())?;
    // No timeout can be what sends these batches.
    command.args(["--batch-timeout", "1h", "--healthcheck-interval", "1h", "--batch-limit", "100"]);
    let collector = Collector::start(command.args(["--adaptive", "--sender", &sender.command()]))?;
    sender.pass_the_trial()?;
    for (number, expected) in [(0, 100), (0, 100), (0, 100), (302, 1), (303, 1)] {
        if expected == 1 {
            register(&client, number..=number).await?;
        }
        let batch = sender.next_batch()?;
        assert_eq!(batch.items.len(), expected);
        sender.answer(&batch, "\"ok\":\"all\"")?;
    }
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn claims_are_renewed_while_a_slow_sender_works() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=17).await?;
    let mut sender = TestSender::new()?;
    let mut command = command(&database, &sender)?;
    command.args(["--lease", "40s", "--sender-timeout", "20s", "--batch-limit", "16"]);
    let collector = Collector::start(&mut command)?;
    sender.pass_the_trial()?;
    let batch = sender.next_batch()?;
    assert_eq!(batch.ids(), (2..=17).collect::<Vec<_>>());
    // An answer now and then keeps the sender from being ended;
    // together they take longer than two leases.
    for id in batch.ids() {
        tokio::time::sleep(Duration::from_millis(5_100)).await;
        assert_eq!(sender.unseen()?, 0, "the batch was claimed again");
        sender.answer(&batch, &format!("\"ok\":[{id}]"))?;
    }
    wait_for_state(&client, &batch.ids(), "sent").await?;
    let query = "SELECT count(*) FROM mailroom.delivery_attempts WHERE attempt > 1 \
                 OR outcome::text <> 'sent'";
    assert_eq!(client.query_one(query, &[]).await?.get::<_, i64>(0), 0);
    collector.stop()?;
    Ok(())
}
