//! What providers said of mails that they accepted, and the story of a mail.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom::config::DeliverySettings;
use mailroom::queue::{Batch, DeliveriesQueue, Nack, Queue, Receipt, Settlement};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::{SETTINGS, all, clock, queue, queue_with, state};

async fn enqueue(client: &Client, address: &str) -> Result<i64> {
    Ok(client.mail("invite").to(address).enqueue().await?)
}

async fn claim(queue: &mut DeliveriesQueue) -> Result<Batch> {
    queue.settle_and_claim(Vec::new(), all(10)).await?.batches.pop().context("it is due")
}

fn receipt(answer: &str) -> Receipt {
    Receipt {
        provider: "smtp".to_owned(),
        message_id: Some(format!("{answer}-id")),
        answer: format!("250 2.0.0 queued as {answer}"),
    }
}

/// Everything that is known of an address, in a line each.
async fn story(client: &Client, about: &str) -> Result<Vec<String>> {
    let query = format!(
        "SELECT concat_ws(' ', token, event, attempt, action, provider, message_id, detail) \
         FROM mailroom.trace({about})"
    );
    Ok(client.query(&query, &[]).await?.iter().map(|row| row.get(0)).collect())
}

async fn count(client: &Client, rows: &str) -> Result<i64> {
    Ok(client.query_one(&format!("SELECT count(*) FROM {rows}"), &[]).await?.get(0))
}

#[tokio::test]
async fn a_receipt_tells_the_story_of_a_mail_also_when_its_token_is_pruned() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    client.batch_execute("UPDATE stopped_clock SET moment = '2030-01-01 00:00:00Z'").await?;
    let mut queue = queue(&database).await?;
    let (ada, other) =
        (enqueue(&client, "Ada@X.test").await?, enqueue(&client, "other@x.test").await?);
    let batch = claim(&mut queue).await?;
    let settlement = Settlement {
        nacks: vec![(ada, Nack::Retry { after: None, reason: "451 later".to_owned() })],
        receipts: vec![(other, receipt("A")), (77, receipt("B"))],
        ..Settlement::of(batch.id, Vec::new())
    };
    queue.settle_and_claim(vec![settlement], None).await?;
    clock::forward(&client, Duration::from_secs(5)).await?;
    let batch = claim(&mut queue).await?;
    let settlement =
        Settlement { receipts: vec![(ada, receipt("C"))], ..Settlement::of(batch.id, Vec::new()) };
    // Said twice, as after an answer that was lost.
    queue.settle_and_claim(vec![settlement.clone()], None).await?;
    queue.settle_and_claim(vec![settlement], None).await?;
    assert_eq!(count(&client, "mailroom.receipts").await?, 2);
    let expected = [
        format!("{ada} enqueued invite its link ends at 2030-01-08T00:00:00Z"),
        format!("{ada} retry 1 451 later"),
        format!("{ada} accepted 2 invite smtp C-id 250 2.0.0 queued as C"),
        format!("{ada} sent 2"),
    ];
    assert_eq!(story(&client, &format!("ARRAY[{ada}::bigint]")).await?, expected);
    assert_eq!(story(&client, "address => 'aDA@x.TEST'").await?, expected);
    assert_eq!(story(&client, "address => 'nobody@x.test'").await?, [""; 0]);

    // Nobody reads or tries addresses by the receipts.
    let hash = "mailroom.receipts WHERE address_hash = substr(sha256(convert_to('ada@x.test', \
                'UTF8')), 1, 16)";
    assert_eq!(
        (
            count(&client, hash).await?,
            count(&client, "mailroom.receipts WHERE octet_length(address_hash) = 16").await?
        ),
        (0, 2)
    );

    // The token goes first, the log and the receipts later.
    clock::forward(&client, Duration::from_secs(10 * 86_400)).await?;
    let before = "mailroom.clock() - interval '1 day'";
    client.batch_execute(&format!("SELECT mailroom.prune_tokens({before}, 0, 100)")).await?;
    assert_eq!(count(&client, "mailroom.issued_tokens").await?, 0);
    assert_eq!(story(&client, "address => 'ada@x.test'").await?, expected[1..]);
    client.batch_execute(&format!("SELECT mailroom.prune_attempts({before}, 0, 100)")).await?;
    assert_eq!(story(&client, "address => 'ada@x.test'").await?, [""; 0]);
    assert_eq!(count(&client, "mailroom.receipts").await?, 0);
    Ok(())
}

#[tokio::test]
async fn the_receipts_of_the_largest_batch_are_kept_within_the_time_of_a_statement() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let recipients = (1..=10_000).map(|number| format!("{number}@example.test"));
    client.mail("invite").enqueue_to_each(recipients).await?;
    let mut queue = queue(&database).await?;
    let claimed = queue.settle_and_claim(Vec::new(), all(10_000)).await?.batches.pop();
    let batch = claimed.context("they are due")?;
    let receipts: Vec<_> = batch.tokens.iter().map(|token| (token.id, receipt("A"))).collect();
    assert_eq!(receipts.len(), 10_000);
    let settlement = Settlement { receipts, ..Settlement::of(batch.id, Vec::new()) };
    queue.settle_and_claim(vec![settlement], None).await?;
    assert_eq!(count(&client, "mailroom.receipts").await?, 10_000);
    Ok(())
}

#[tokio::test]
async fn a_story_has_what_ended_a_mail_and_where_it_waits() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    client.batch_execute("UPDATE stopped_clock SET moment = '2030-01-01 00:00:00Z'").await?;
    let mut queue = queue(&database).await?;
    let [used, cancelled, waiting] = [
        enqueue(&client, "a@x.test").await?,
        enqueue(&client, "a@x.test").await?,
        enqueue(&client, "b@x.test").await?,
    ];
    let redeem = "SELECT mailroom.redeem(secret, 'invite') FROM mailroom.queue WHERE token = $1";
    client.execute(redeem, &[&used]).await?;
    client.execute("SELECT mailroom.cancel($1)", &[&cancelled]).await?;
    client
        .execute("SELECT mailroom.suppress('b@x.test', 'bounce', 'ses', '550 gone')", &[])
        .await?;
    let enqueued =
        |token: i64| format!("{token} enqueued invite its link ends at 2030-01-08T00:00:00Z");
    let ended =
        |token: i64, reason: &str| vec![enqueued(token), format!("{token} cancelled 0 {reason}")];
    let mut first = ended(used, "it was used");
    first.push(format!("{used} redeemed its link was used"));
    first.extend(ended(cancelled, "the application cancelled it"));
    first.push(format!("{cancelled} ended its link was cancelled"));
    assert_eq!(story(&client, "address => 'a@x.test'").await?, first);
    let suppressed =
        format!("{waiting} suppressed ses the address gets no mails (bounce): 550 gone");
    assert_eq!(
        story(&client, "address => 'b@x.test'").await?,
        [enqueued(waiting), suppressed.clone(), format!("{waiting} waiting 0 it is due")]
    );
    queue.settle_and_claim(Vec::new(), all(10)).await?;
    let dead = format!("{waiting} dead 0 its address is suppressed (bounce)");
    let seen = story(&client, "address => 'b@x.test'").await?;
    assert_eq!((seen.len(), seen.contains(&dead), seen.contains(&suppressed)), (3, true, true));
    Ok(())
}

#[tokio::test]
async fn a_settlement_of_another_collectors_batch_keeps_no_receipt() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    clock::stop(&client).await?;
    let (mut slow, mut other) = (queue(&database).await?, queue(&database).await?);
    let id = enqueue(&client, "a@x.test").await?;
    let batch = claim(&mut slow).await?;
    clock::forward(&client, super::LEASE).await?;
    other.heartbeat().await?;
    clock::forward(&client, Duration::from_secs(11)).await?;
    other = queue(&database).await?;
    let taken_over = claim(&mut other).await?;
    for (queue, batch, said) in [(&mut slow, batch, "A"), (&mut other, taken_over, "B")] {
        let settlement = Settlement {
            receipts: vec![(id, receipt(said))],
            ..Settlement::of(batch.id, Vec::new())
        };
        queue.settle_and_claim(vec![settlement], None).await?;
    }
    let kept = client.query("SELECT attempt, answer FROM mailroom.receipts", &[]).await?;
    let kept: Vec<(i32, String)> = kept.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(kept, [(2, "250 2.0.0 queued as B".to_owned())]);
    Ok(())
}

#[tokio::test]
async fn an_unknown_address_is_suppressed_where_that_is_switched_on_and_the_role_may() -> Result<()>
{
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let unknown = |id| (id, Nack::UnknownAddress { reason: "550 5.1.1 no such user".to_owned() });
    let on = DeliverySettings { suppress_unknown: true, ..SETTINGS };
    for (settings, suppressed) in [(SETTINGS, 0), (on, 1)] {
        let mut queue = queue_with(&database, settings).await?;
        let id = enqueue(&client, "gone@x.test").await?;
        let settlement = Settlement::of(claim(&mut queue).await?.id, vec![unknown(id)]);
        queue.settle_and_claim(vec![settlement.clone(), settlement], None).await?;
        assert_eq!(state(&client, id).await?.0, "dead");
        let letter = format!("mailroom.dead_letters WHERE token = {id} AND is_suppressed");
        let address = "mailroom.suppressions WHERE address = 'gone@x.test' AND reason = 'bounce' \
                       AND provider = 'smtp'";
        assert_eq!(
            (count(&client, &letter).await?, count(&client, address).await?),
            (suppressed, suppressed)
        );
    }
    // A role without the right settles like any other.
    client
        .batch_execute(
            "TRUNCATE mailroom.suppressions; CREATE ROLE collects LOGIN;
            GRANT EXECUTE ON FUNCTION mailroom.settle, mailroom.release, mailroom.claim,
                mailroom.list_actions, mailroom.heartbeat, mailroom.sweep, mailroom.peek
                TO collects",
        )
        .await?;
    let id = enqueue(&client, "gone@x.test").await?;
    let url = database.url().replace("//postgres@", "//collects@");
    let connection = mailroom_connect::ConnectionSettings::resolve(
        &url,
        &mailroom_connect::Environment::of_process(),
    )?;
    let version = mailroom_verifier_core::Version::V2;
    let mut queue = DeliveriesQueue::new(connection, on, super::LEASE, version)?;
    queue.open().await?;
    let batch = claim(&mut queue).await?;
    queue.settle_and_claim(vec![Settlement::of(batch.id, vec![unknown(id)])], None).await?;
    assert_eq!(
        (state(&client, id).await?.0.as_str(), count(&client, "mailroom.suppressions").await?),
        ("dead", 0)
    );
    client.batch_execute("DROP OWNED BY collects; DROP ROLE collects").await?;
    Ok(())
}

#[tokio::test]
async fn no_settlement_waits_for_an_application_that_suppresses_the_same_address() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let settings = DeliverySettings { suppress_unknown: true, ..SETTINGS };
    let mut queue = queue_with(&database, settings).await?;
    let id = enqueue(&client, "gone@x.test").await?;
    let batch = claim(&mut queue).await?;
    let open = database.connect().await?;
    open.batch_execute("BEGIN; SELECT mailroom.suppress('gone@x.test', 'manual')").await?;
    // It would wait for ever.
    let nack = Nack::UnknownAddress { reason: "550 5.1.1 no such user".to_owned() };
    queue.settle_and_claim(vec![Settlement::of(batch.id, vec![(id, nack)])], None).await?;
    assert_eq!(state(&client, id).await?.0, "dead");
    open.batch_execute("COMMIT").await?;
    Ok(())
}
