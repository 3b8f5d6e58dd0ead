//! What answers count for.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::{Collector, wait_until};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::proxy::Proxy;
use mailroom_tests::rows::register;

use super::test_sender::TestSender;
use super::{command, leased, reason, state, wait_for_state};

#[tokio::test]
async fn only_what_a_sender_has_acknowledged_is_sent() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=11).await?;
    let mut sender = TestSender::new()?;
    let collector = Collector::start(&mut command(&database, &sender)?)?;
    let first = sender.next_batch()?;
    assert_eq!((first.ids(), first.attempts()), (vec![1], vec![1]));
    assert_eq!(state(&client, 1).await?, "leased");
    sender.answer(&first, "\"ok\":[1]")?;
    wait_for_state(&client, &[1], "sent").await?;
    let second = sender.next_batch()?;
    assert_eq!(second.ids(), (2..=11).collect::<Vec<_>>());
    // Late, within the timeout.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(state(&client, 2).await?, "leased");
    sender.answer(&second, "\"ok\":\"all\"")?;
    wait_for_state(&client, &second.ids(), "sent").await?;
    collector.stop()?;
    assert_eq!(leased(&client).await?, 0);
    Ok(())
}

#[tokio::test]
async fn partial_answers_add_up_and_each_token_gets_its_verdict() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=6).await?;
    let mut sender = TestSender::new()?;
    let collector = Collector::start(&mut command(&database, &sender)?)?;
    sender.pass_the_trial()?;
    let batch = sender.next_batch()?;
    assert_eq!(batch.ids(), [2, 3, 4, 5, 6]);
    sender.answer(&batch, "\"ok\":[3]")?;
    sender.answer(
        &batch,
        "\"dead\":[{\"id\":4,\"reason\":\"550\\u0000 <ada@example.test>:\\nno such user\"}]",
    )?;
    sender.answer(
        &batch,
        "\"ok\":[5],\"retry\":[{\"id\":2,\"after_ms\":100,\"reason\":\"451 busy\"}]",
    )?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // One of them has no verdict.
    assert_eq!(state(&client, 3).await?, "leased");
    sender.answer(&batch, "\"ok\":\"all\"")?;
    wait_for_state(&client, &[3, 5, 6], "sent").await?;
    assert_eq!(state(&client, 4).await?, "dead");
    assert_eq!(reason(&client, 4).await?, "550 [address] no such user");
    let again = sender.next_batch()?;
    assert_eq!((again.ids(), again.attempts()), (vec![2], vec![2]));
    sender.answer(&again, "\"ok\":\"all\"")?;
    wait_for_state(&client, &[2], "sent").await?;
    let log = collector.stop()?;
    assert!(
        log.contains(
            "tokens are given up and get no mail: token 4: 550 [address] no such user (after 1 \
             attempt) count=1 ids=[4] attempts=1 put_back=\"mailroom retry 4\""
        ),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn invalid_answers_are_ignored_and_logged_and_change_no_verdict() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    let mut sender = TestSender::new()?;
    let collector = Collector::start(&mut command(&database, &sender)?)?;
    let trial = sender.pass_the_trial()?;
    let batch = sender.next_batch()?;
    assert_eq!(batch.ids(), [2, 3]);

    sender.answer(&batch, "\"ok\":[2]")?;
    for (line, logged) in [
        ("ready", "is ignored: it is no answer: it is no JSON at byte 1"),
        ("{\"batch\":\"ada@example.test\",\"ok\":\"all\"}", "`batch` is no id of a batch"),
        (
            "{\"batch\":\"01234567-89ab-cdef-0011-223344556677\",\"ok\":\"all\"}",
            "the sender never got its batch batch=01234567-89ab-cdef-0011-223344556677",
        ),
    ] {
        sender.write_line(line)?;
        collector.wait_for_log(logged, 1)?;
    }
    for (rest, logged) in [
        ("\"ok\":[\"3\"]", "a value has the wrong type or is out of range"),
        ("\"ok\":[3],\"sent\":[]", "it has a field that the protocol does not know"),
        ("\"ok\":[99,1]", "it is for tokens that are not in the batch"),
        // A second verdict, which contradicts the first one.
        ("\"dead\":[{\"id\":2}]", "it repeats verdicts"),
    ] {
        sender.answer(&batch, rest)?;
        collector.wait_for_log(logged, 1)?;
    }
    sender.answer(&trial, "\"dead\":[{\"id\":1}]")?;
    collector.wait_for_log("its batch was answered in full before", 1)?;
    sender.write_line(&"x".repeat(3_000_000))?;
    collector.wait_for_log("is ignored: it is longer than 1000000 bytes", 1)?;
    assert_eq!(state(&client, 3).await?, "leased");
    // Two verdicts in one answer: the one that loses no mail counts.
    sender.answer(
        &batch,
        "\"ok\":[3],\"dead\":[{\"id\":3}],\"retry\":[{\"id\":3,\"after_ms\":3600000}]",
    )?;
    wait_for_state(&client, &[3], "queued").await?;
    assert_eq!([state(&client, 1).await?, state(&client, 2).await?], ["sent", "sent"]);
    let log = collector.stop()?;
    assert!(!log.contains("ada@example.test"), "{log}");
    Ok(())
}

/// Acknowledges the next batch; returns the tokens in it that are tried for the second time.
fn send_all(sender: &mut TestSender) -> Result<Vec<i64>> {
    let batch = sender.next_batch()?;
    sender.answer(&batch, "\"ok\":\"all\"")?;
    let attempts = batch.ids().into_iter().zip(batch.attempts());
    Ok(attempts.filter(|(_, attempt)| *attempt == 2).map(|(id, _)| id).collect())
}

#[tokio::test]
async fn a_batch_that_is_forgotten_while_others_are_answered_is_tried_again() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=21).await?;
    let mut sender = TestSender::new()?;
    let mut command = command(&database, &sender)?;
    command.args(["--sender-timeout", "40s", "--prefetch", "2"]);
    let collector = Collector::start(&mut command)?;
    sender.pass_the_trial()?;
    let (forgotten, answered) = (sender.next_batch()?, sender.next_batch()?);
    sender.answer(&answered, "\"ok\":\"all\"")?;
    // Answers for other batches keep it from being taken for hung.
    let mut again = Vec::new();
    let said = "the sender has forgotten batches; their tokens are tried again count=1";
    for number in 22.. {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if collector.log().contains(said) {
            break;
        }
        assert!(number < 100, "the batch is not forgotten:\n{}", collector.log());
        register(&client, number..=number).await?;
        again.extend(send_all(&mut sender)?);
    }
    sender.answer(&forgotten, "\"dead\":[]")?;
    collector.wait_for_log("its batch was not waited for any longer", 1)?;
    // Each after a pause of its own.
    while again.len() < 10 {
        again.extend(send_all(&mut sender)?);
    }
    again.sort_unstable();
    assert_eq!(again, forgotten.ids());
    wait_for_state(&client, &again, "sent").await?;
    assert_eq!(sender.processes().len(), 1);
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn dead_letters_are_logged_once_also_if_the_response_to_the_settlement_is_lost() -> Result<()>
{
    let cluster = Cluster::builder().tcp().start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let client = database.connect().await?;
    let proxy = Proxy::start(cluster.port())?;
    let mut sender = TestSender::new()?;
    let mut command = command(&database, &sender)?;
    command.env("MAILROOM_DATABASE_URL", proxy.url(database.name()));
    let collector = Collector::start(&mut command)?;
    register(&client, 1..=1).await?;
    let batch = sender.next_batch()?;
    let id = batch.ids()[0];
    proxy.cut_after(&["mailroom.claim("], 1);
    sender.answer(&batch, &format!("\"dead\":[{{\"id\":{id},\"reason\":\"550 unknown\"}}]"))?;
    wait_for_state(&client, &[id], "dead").await?;
    wait_until(|| proxy.cuts() == 1)?;
    collector.wait_for_log("550 unknown (after 1 attempt)", 1)?;
    let log = collector.stop()?;
    assert_eq!(log.matches("tokens are given up").count(), 1, "{log}");
    let row = client
        .query_one("SELECT count(*) FROM mailroom.delivery_attempts WHERE outcome = 'dead'", &[])
        .await?;
    assert_eq!(row.get::<_, i64>(0), 1);
    Ok(())
}
