//! Mails through a broker: what tests of each broker give to `mailroom relay` and find at the mail
//! server.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio_postgres::Client;

use crate::collector::{wait_long_until, wait_until};
use crate::mail_server::MailServer;
use crate::rows::{WITHOUT_VERDICT, wait_for};
use crate::sending::{Sending, item};

/// Publishes activations, which the broker must store.
pub fn publish(relay: &mut Sending, name: &str, people: &[(i64, &str)]) -> Result<()> {
    let items: Vec<Value> = people.iter().map(|(id, email)| item(*id, email)).collect();
    publish_items(relay, name, &items)
}

/// Publishes what lines carry, which the broker must store.
pub fn publish_items(relay: &mut Sending, name: &str, items: &[Value]) -> Result<()> {
    let answer = answer_to(relay, name, items)?;
    let ids: Vec<i64> = items.iter().filter_map(|item| item["id"].as_i64()).collect();
    let mut stored: Vec<i64> = serde_json::from_value(answer["ok"].clone())
        .with_context(|| format!("not stored: {answer}"))?;
    stored.sort_unstable();
    ensure!(stored == ids, "{answer}");
    Ok(())
}

/// What a relay answers that reaches its broker: on a busy machine that may not answer at first,
/// and then the mails are given to it again, as a collector would.
pub fn answer_to(relay: &mut Sending, name: &str, items: &[Value]) -> Result<Value> {
    answer_that(relay, name, items, |answer| answer["unavailable"].is_null())
        .context("the broker stays away")
}

/// Why a relay takes no mail, once the reason has these words: on a busy machine it may be at first
/// that the broker does not answer.
pub fn refusal(relay: &mut Sending, words: &str) -> Result<String> {
    let reason = |answer: &Value| answer["unavailable"]["reason"].as_str().map(str::to_owned);
    let is_it = |answer: &Value| reason(answer).is_none_or(|reason| reason.contains(words));
    let answer = answer_that(relay, "b", &[item(1, "ada@x.test")], is_it)?;
    reason(&answer).with_context(|| format!("it takes the mail: {answer}"))
}

/// Asks a relay until it answers as wanted.
fn answer_that(
    relay: &mut Sending,
    name: &str,
    items: &[Value],
    is_wanted: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let line = json!({"v": 1, "batch": name, "items": items}).to_string();
    let mut answer = Ok(Value::Null);
    wait_until(|| {
        answer = relay.write(&line).and_then(|()| relay.answer());
        answer.as_ref().map_or(true, &is_wanted)
    })
    .with_context(|| format!("it answers {answer:?}"))?;
    answer
}

/// An activation that expires so soon.
pub fn expiring(id: i64, email: &str, seconds: i64) -> Result<Value> {
    let mut item = item(id, email);
    item["expires_at"] = json!(now()? + seconds);
    Ok(item)
}

/// In seconds since 1970.
pub fn now() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?)
}

/// How often a mail reached each recipient.
pub fn reached(server: &MailServer) -> BTreeMap<String, usize> {
    let mut reached = BTreeMap::new();
    for mail in server.mails() {
        *reached.entry(mail.to).or_default() += 1;
    }
    reached
}

/// Waits until mails have come for so many recipients.
pub fn wait_for_recipients(server: &MailServer, count: usize) -> Result<()> {
    wait_long_until(|| reached(server).len() >= count)
        .with_context(|| format!("{} of {count} recipients were reached", reached(server).len()))
}

/// How often something happened, as a program says at its end.
pub fn counted(said: &str, what: &str) -> u64 {
    let last = said.lines().rfind(|line| line.contains("since the start: "));
    let counts = last.and_then(|line| line.split_once("since the start: "));
    let mut counts = counts.into_iter().flat_map(|(_, counts)| counts.split(", "));
    let count = counts.find_map(|count| count.strip_suffix(what)?.trim().parse().ok());
    count.unwrap_or(0)
}

/// How many recipients a mail reached more than once.
pub fn doubled(server: &MailServer) -> usize {
    reached(server).values().filter(|count| **count > 1).count()
}

/// Waits until so many mails were sent and have their verdicts; each was sent once, and none is a
/// dead letter.
pub async fn all_sent_once(rows: &Client, server: &MailServer, mails: usize) -> Result<()> {
    wait_for_recipients(server, mails)?;
    wait_for(rows, WITHOUT_VERDICT, 0_i64).await?;
    ensure!(reached(server).len() == mails, "{} were sent", reached(server).len());
    ensure!(reached(server).values().all(|count| *count == 1), "{:?}", reached(server));
    let dead = "SELECT count(*) FROM mailroom.dead_letters";
    ensure!(rows.query_one(dead, &[]).await?.get::<_, i64>(0) == 0, "dead letters");
    Ok(())
}
