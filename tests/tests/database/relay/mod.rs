//! `mailroom relay` and `mailroom send --from`, with a real broker and a real mail server.

mod foreign;
mod kills;
mod outages;
mod repeated;
mod through;

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result};
use async_nats::jetstream::{self, Context as JetStream};
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::wait_until;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::program;
use mailroom_tests::sending::{Configuration, Sending, batch, item};
use serde_json::{Value, json};

/// A relay of this test, which writes the lines.
fn relay(nats: &Nats) -> Result<Sending> {
    Sending::run(program::mailroom()?.args(["relay", "--to", &nats.url()]))
}

/// A sender that takes mails from the broker, and leaves them to others after two seconds.
fn sender(nats: &Nats, configuration: &Configuration) -> Result<Sending> {
    let further = ["--from", &nats.url(), "--redeliver-after", "2"];
    Sending::start(configuration, &further)
}

/// The value of `--sender` for a collector.
fn relay_of(program: &Command, nats: &Nats) -> String {
    format!("'{}' relay --to {}", program.get_program().to_string_lossy(), nats.url())
}

/// Publishes activations, which the broker must store.
fn publish(relay: &mut Sending, name: &str, people: &[(i64, &str)]) -> Result<()> {
    relay.write(&batch(name, people))?;
    let answer = relay.answer()?;
    let ids: Vec<i64> = people.iter().map(|(id, _)| *id).collect();
    let mut stored: Vec<i64> = serde_json::from_value(answer["ok"].clone())
        .with_context(|| format!("not stored: {answer}"))?;
    stored.sort_unstable();
    anyhow::ensure!(stored == ids, "{answer}");
    Ok(())
}

/// An activation that expires so soon.
fn expiring(id: i64, email: &str, seconds: i64) -> Result<String> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let mut item = item(id, email);
    item["expires_at"] = json!(i64::try_from(now)? + seconds);
    Ok(json!({"v": 1, "batch": "b", "items": [item]}).to_string())
}

async fn client(nats: &Nats) -> Result<JetStream> {
    Ok(jetstream::new(async_nats::connect(nats.url()).await?))
}

/// How many mails the broker has.
async fn waiting(client: &JetStream) -> Result<u64> {
    Ok(client.get_stream("mailroom").await?.get_info().await?.state.messages)
}

/// Waits until the broker has so many mails.
async fn wait_for_waiting(client: &JetStream, count: u64) -> Result<()> {
    for _ in 0..800 {
        if waiting(client).await.is_ok_and(|found| found == count) {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    anyhow::bail!("the broker has {:?} mails instead of {count}", waiting(client).await)
}

/// Waits until no mail can be read at the broker. What it counts itself is wrong after a kill:
/// nats-server 2.9.10 counts some that it has deleted.
async fn wait_until_none_is_left(client: &JetStream) -> Result<()> {
    let stream = client.get_stream("mailroom").await?;
    let last = stream.get_info().await?.state.last_sequence;
    let mut left: Vec<u64> = (1..=last).collect();
    for _ in 0..80 {
        let mut still = Vec::new();
        for sequence in left {
            if stream.get_raw_message(sequence).await.is_ok() {
                still.push(sequence);
            }
        }
        left = still;
        if left.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    anyhow::bail!("the broker still has the mails {left:?}")
}

/// The texts below a subject, the last one of each.
async fn last_of(client: &JetStream, subject: &str) -> Result<Value> {
    let stream = client.get_stream("mailroom-verdicts").await?;
    let message = stream.get_last_raw_message_by_subject(subject).await;
    let message = message.with_context(|| format!("there is nothing at {subject}"))?;
    Ok(serde_json::from_slice(&message.payload)?)
}

/// How often a mail reached each recipient.
fn reached(server: &MailServer) -> BTreeMap<String, usize> {
    let mut reached = BTreeMap::new();
    for mail in server.mails() {
        *reached.entry(mail.to).or_default() += 1;
    }
    reached
}

/// Waits until mails have come for so many recipients.
fn wait_for_recipients(server: &MailServer, count: usize) -> Result<()> {
    wait_until(|| reached(server).len() >= count)
        .with_context(|| format!("{} of {count} recipients were reached", reached(server).len()))
}
