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
use crate::sending::{Sending, batch, item};

/// Publishes activations, which the broker must store: on a busy machine it may not answer at
/// first, and then they are given to it again, as a collector would.
pub fn publish(relay: &mut Sending, name: &str, people: &[(i64, &str)]) -> Result<()> {
    let mut answer = Value::Null;
    wait_until(|| {
        let asked = relay.write(&batch(name, people)).and_then(|()| relay.answer());
        answer = asked.unwrap_or_else(|error| Value::String(format!("{error:#}")));
        answer["unavailable"].is_null()
    })
    .with_context(|| format!("not stored: {answer}"))?;
    let ids: Vec<i64> = people.iter().map(|(id, _)| *id).collect();
    let mut stored: Vec<i64> = serde_json::from_value(answer["ok"].clone())
        .with_context(|| format!("not stored: {answer}"))?;
    stored.sort_unstable();
    ensure!(stored == ids, "{answer}");
    Ok(())
}

/// An activation that expires so soon.
pub fn expiring(id: i64, email: &str, seconds: i64) -> Result<String> {
    let mut item = item(id, email);
    item["expires_at"] = json!(now()? + seconds);
    Ok(json!({"v": 1, "batch": "b", "items": [item]}).to_string())
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
