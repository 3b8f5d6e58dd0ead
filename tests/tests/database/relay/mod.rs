//! `mailroom relay` and `mailroom send --from`, with a real broker and a real mail server.

mod cluster;
mod foreign;
mod full_disk;
mod kills;
mod lost_streams;
mod outages;
mod repeated;
mod through;
mod verdicts;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use async_nats::jetstream::{self, Context as JetStream};
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::{self, PATIENCE};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::sending::{Configuration, Sending};
use mailroom_tests::through_broker::{
    counted, doubled, expiring, now, publish, publish_items, reached, refusal, wait_for_recipients,
};
use serde_json::Value;
use tokio::time::sleep;

/// A relay of this test, which writes the lines.
fn relay(nats: &Nats) -> Result<Sending> {
    Sending::run(program::mailroom()?.args(["relay", "--to", &nats.url()]))
}

/// A sender that takes mails from the broker.
fn sender(nats: &Nats, configuration: &Configuration) -> Result<Sending> {
    Sending::start(configuration, &["--from", &nats.url()])
}

/// One whose mails go to others after two seconds without a sign of life, for kills. A machine that
/// is busy is that silent, too, so that counts of what it has done are not exact.
fn impatient(nats: &Nats, configuration: &Configuration, further: &[&str]) -> Result<Sending> {
    let url = nats.url();
    let arguments = ["--from", &url, "--redeliver-after", "2"];
    Sending::start(configuration, &[&arguments, further].concat())
}

/// The value of `--sender` for a collector.
fn relay_of(program: &Command, nats: &Nats) -> String {
    format!("'{}' relay --to {}", program.get_program().to_string_lossy(), nats.url())
}

/// A collector that gives mails to the broker, and records what their senders say.
fn collecting(database: &Database, nats: &Nats) -> Result<Command> {
    let mut command = collector::command(database.url())?;
    let through = relay_of(&command, nats);
    command.args(["--batch-timeout", "0", "--poll-interval", "200ms", "--sender", &through]);
    command.args(["--verdicts-from", &nats.url()]);
    Ok(command)
}

/// Publishes activations of these ids, each for an address of its own.
fn publish_many(relay: &mut Sending, ids: RangeInclusive<i64>) -> Result<()> {
    for id in ids {
        publish(relay, &format!("b{id}"), &[(id, &format!("p{id}@x.test"))])?;
    }
    Ok(())
}

async fn client(nats: &Nats) -> Result<JetStream> {
    client_of(&[nats.url()]).await
}

/// How long a broker may take for an answer, which may never come: four times it is asked while
/// something is waited for. The client's own five seconds are too few for a busy machine.
const ANSWER: Duration = Duration::from_secs(20);

/// Somebody who looks at the streams.
async fn client_of(urls: &[String]) -> Result<JetStream> {
    let options = async_nats::ConnectOptions::new().connection_timeout(ANSWER);
    let mut client = jetstream::new(options.request_timeout(Some(ANSWER)).connect(urls).await?);
    client.set_timeout(ANSWER);
    Ok(client)
}

/// How many mails the broker has.
async fn waiting(client: &JetStream) -> Result<u64> {
    Ok(client.get_stream("mailroom").await?.get_info().await?.state.messages)
}

/// Waits until the broker has so many mails, while their number changes. Only for a broker that
/// was not killed: nats-server 2.9.10 counts mails then that it has deleted.
async fn wait_for_waiting(client: &JetStream, count: u64) -> Result<()> {
    wait_for_count(client, "mails", count, async || waiting(client).await).await
}

/// Waits until the broker has given out a mail again, which its sender has given back.
async fn wait_until_given_out_again(client: &JetStream) -> Result<()> {
    wait_for_count(client, "senders with a mail again", 1, async || {
        let stream = client.get_stream("mailroom").await?;
        let consumer = stream.consumer_info("mailroom-other").await?;
        Ok(u64::from(consumer.num_redelivered > 0))
    })
    .await
}

/// Waits until no mail can be read at the broker, whatever it counts.
async fn wait_until_none_is_left(client: &JetStream) -> Result<()> {
    wait_for_count(client, "readable mails", 0, async || {
        let stream = client.get_stream("mailroom").await?;
        let last = stream.get_info().await?.state.last_sequence;
        let mut left = 0;
        for sequence in 1..=last {
            match stream.get_raw_message(sequence).await {
                Ok(_) => left += 1,
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(left)
    })
    .await
}

/// Waits until the broker has recorded so many verdicts of a kind, each on another mail.
async fn wait_for_verdicts(client: &JetStream, kind: &str, count: u64) -> Result<()> {
    wait_for_count(client, kind, count, async || {
        let stream = client.get_stream("mailroom-verdicts").await?;
        let last = stream.get_info().await?.state.last_sequence;
        let mut keys = BTreeSet::new();
        for sequence in 1..=last {
            let message = stream.get_raw_message(sequence).await?;
            let verdict: Value = serde_json::from_slice(&message.payload)?;
            if message.subject.starts_with("mailroom.verdict.") && verdict["verdict"] == kind {
                keys.insert(verdict["key"].to_string());
            }
        }
        Ok(u64::try_from(keys.len())?)
    })
    .await
}

/// Waits until a count is as wanted. As long as it changes, something goes on, however slowly. What
/// fails is asked again.
async fn wait_for_count(
    client: &JetStream,
    what: &str,
    wanted: u64,
    count: impl AsyncFn() -> Result<u64>,
) -> Result<()> {
    let (mut last, mut since) = (None, Instant::now());
    while since.elapsed() < PATIENCE {
        let found = count().await;
        if found.as_ref().is_ok_and(|found| *found == wanted) {
            return Ok(());
        }
        let found = found.map_err(|error| error.to_string());
        if last.as_ref() != Some(&found) {
            (last, since) = (Some(found), Instant::now());
        }
        sleep(Duration::from_millis(50)).await;
    }
    let state = client.get_stream("mailroom").await?.get_info().await?.state;
    anyhow::bail!("the broker has {last:?} {what} instead of {wanted}: {state:?}")
}

/// The texts below a subject, the last one of each.
async fn last_of(client: &JetStream, subject: &str) -> Result<Value> {
    let stream = client.get_stream("mailroom-verdicts").await?;
    let message = stream.get_last_raw_message_by_subject(subject).await;
    let message = message.with_context(|| format!("there is nothing at {subject}"))?;
    Ok(serde_json::from_slice(&message.payload)?)
}
