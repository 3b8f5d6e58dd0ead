//! What senders at a broker say, in the database.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_nats::jetstream::Context as JetStream;
use async_nats::jetstream::consumer::{DeliverPolicy, Info};
use async_nats::jetstream::stream::{Config, RetentionPolicy};
use futures_util::TryStreamExt as _;
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::Collector;
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::{register, wait_for};
use mailroom_tests::sending::Configuration;
use serde_json::{Value, json};
use tokio_postgres::Client;

use super::{
    client, collecting, impatient, reached, sender, wait_for_recipients, wait_for_waiting,
};

/// Registers a person with this address, and answers the id and the key of the token.
async fn person(rows: &Client, email: &str) -> Result<(i64, String)> {
    rows.account(email).email(email).insert().await?;
    let query = "SELECT id, encode(consumed_id, 'hex') FROM mailroom.issued_tokens
        WHERE recipient_email = $1";
    let row = rows.query_one(query, &[&email]).await?;
    Ok((row.get(0), row.get(1)))
}

async fn wait_for_state(rows: &Client, token: i64, state: &str) -> Result<()> {
    let query = format!("SELECT state FROM mailroom.deliveries WHERE token = {token}");
    wait_for(rows, &query, state.to_owned()).await
}

/// What the log says of a token, in the order in which it was written.
async fn outcomes(rows: &Client, token: i64) -> Result<Vec<String>> {
    let query =
        "SELECT outcome::text FROM mailroom.delivery_log WHERE $1 = ANY (tokens) ORDER BY id";
    Ok(rows.query(query, &[&token]).await?.iter().map(|row| row.get(0)).collect())
}

/// Writes a verdict as a sender does.
async fn say(broker: &JetStream, token: &(i64, String), verdict: Value) -> Result<()> {
    let (id, key) = token;
    let mut all =
        json!({"v": 1, "id": id, "key": key, "action": "activate", "at": 5, "attempt": 1});
    all.as_object_mut().context("an object")?.extend(
        verdict.as_object().context("an object")?.iter().map(|(k, v)| (k.clone(), v.clone())),
    );
    broker.publish(format!("mailroom.verdict.{key}"), all.to_string().into()).await?.await?;
    Ok(())
}

/// The consumer of the only database.
async fn consumer(broker: &JetStream) -> Result<Info> {
    let stream = broker.get_stream("mailroom-verdicts").await?;
    let names: Vec<String> = stream.consumer_names().try_collect().await?;
    let [name] = &names[..] else { anyhow::bail!("consumers: {names:?}") };
    Ok(stream.consumer_info(name).await?)
}

/// Waits until every verdict is done with that the broker has.
async fn wait_until_all_are_heard(broker: &JetStream) -> Result<()> {
    super::wait_for_count(broker, "verdicts that are not done with", 0, async || {
        let info = consumer(broker).await?;
        Ok(info.num_pending + u64::try_from(info.num_ack_pending)?)
    })
    .await
}

#[tokio::test]
async fn a_dead_letter_of_a_sender_is_one_of_the_database_and_can_be_put_back() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let (doubtful, _) = person(&rows, "gone-first@x.test").await?;
    let collector =
        Collector::start(collecting(&database, &nats)?.args(["--suppress-unknown", "on"]))?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    // A server that has accepted nothing yet may say so of everybody: nobody is suppressed.
    wait_for_state(&rows, doubtful, "dead").await?;
    let (accepted, _) = person(&rows, "ada@x.test").await?;
    wait_for_state(&rows, accepted, "sent").await?;
    let (gone, _) = person(&rows, "gone@x.test").await?;
    let (refused, _) = person(&rows, "rcpt-550-first@x.test").await?;
    for token in [gone, refused] {
        wait_for_state(&rows, token, "dead").await?;
    }
    let suppressed = "SELECT string_agg(address || ' ' || detail, ', ' ORDER BY address)
        FROM mailroom.suppressed_addresses";
    let suppressed: Option<String> = rows.query_one(suppressed, &[]).await?.get(0);
    let said = "550 5.1.1 no such user";
    let expected = format!("gone@x.test {said}, rcpt-550-first@x.test {said}");
    ensure!(suppressed.as_ref() == Some(&expected), "{suppressed:?}");
    let lift = "SELECT mailroom.lift_suppression('rcpt-550-first@x.test')";
    rows.query_one(lift, &[]).await?;
    let mut retry = program::mailroom()?;
    retry.args(["retry", &refused.to_string()]).env("MAILROOM_DATABASE_URL", database.url());
    let retried = String::from_utf8(retry.output()?.stdout)?;
    ensure!(retried == "1 token waits again\n", "{retried}");
    wait_for_state(&rows, refused, "sent").await?;
    wait_for_recipients(&server, 2)?;
    let found = outcomes(&rows, refused).await?;
    ensure!(found == ["handed_over", "dead", "handed_over", "sent"], "{found:?}");
    let log = collector.stop()?;
    ensure!(log.contains("tokens_dead") || log.contains("are given up"), "{log}");
    ensure!(!log.contains("x.test"), "an address is in the log:\n{log}");
    sender.stop()?;
    Ok(())
}

#[tokio::test]
async fn verdicts_come_twice_late_and_early_and_the_database_tells_the_truth() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    let broker = client(&nats).await?;
    let token = person(&rows, "ada@x.test").await?;
    wait_for_state(&rows, token.0, "handed_over").await?;
    // In doubt, twice said; sent; and then what came before once more.
    let doubt = json!({"verdict": "in_doubt", "doubts": 1, "reason": "cut"});
    let sent =
        json!({"verdict": "sent", "receipt": {"id": token.0, "provider": "smtp", "answer": "250"}});
    for verdict in [&doubt, &doubt, &sent, &sent, &doubt] {
        say(&broker, &token, verdict.clone()).await?;
    }
    wait_for_state(&rows, token.0, "sent").await?;
    // One on a token that is gone, one of another database, one that is none.
    say(&broker, &(987_654, token.1.clone()), sent.clone()).await?;
    say(&broker, &(token.0, "00".repeat(16)), json!({"verdict": "dead"})).await?;
    broker.publish(format!("mailroom.verdict.{}", token.1), "a secret".into()).await?.await?;
    wait_until_all_are_heard(&broker).await?;
    let found = outcomes(&rows, token.0).await?;
    ensure!(found == ["handed_over", "in_doubt", "sent"], "{found:?}");
    let receipts = "SELECT count(*) FROM mailroom.receipts";
    ensure!(rows.query_one(receipts, &[]).await?.get::<_, i64>(0) == 1, "receipts");
    // Before the collector has settled: its token is in the queue.
    let log = collector.stop()?;
    ensure!(!log.contains("a secret") && !log.contains("x.test"), "{log}");
    let early = person(&rows, "eva@x.test").await?;
    say(&broker, &early, json!({"verdict": "sent"})).await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    wait_for_state(&rows, early.0, "sent").await?;
    let found = outcomes(&rows, early.0).await?;
    ensure!(found == ["handed_over", "sent"], "{found:?}");
    wait_until_all_are_heard(&broker).await?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn no_verdict_is_lost_when_collectors_senders_and_the_broker_are_killed() -> Result<()> {
    const MAILS: i32 = 400;
    const PARTS: i32 = 4;
    let Some(mut nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&["--delay", "0.02"])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    // One journal: what a killed sender has sent is known to the next one.
    let configuration = Configuration::smtp(server.port, "")?;
    for part in 0..PARTS {
        let mut command = collecting(&database, &nats)?;
        let collector =
            Collector::start(command.args(["--lease", "4s", "--sender-timeout", "2s"]))?;
        let sender = impatient(&nats, &configuration, &[])?;
        let sent = "SELECT count(*) FROM mailroom.deliveries WHERE state = 'sent'";
        let before: i64 = rows.query_one(sent, &[]).await?.get(0);
        register(&rows, part * MAILS / PARTS + 1..=(part + 1) * MAILS / PARTS).await?;
        let some = format!(
            "SELECT count(*) > {before} + 5 FROM mailroom.deliveries \
            WHERE state = 'sent'"
        );
        wait_for(&rows, &some, true).await?;
        collector.kill()?;
        sender.kill()?;
        if part % 2 == 0 {
            nats.kill()?;
            nats.run()?;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    let sender = impatient(&nats, &configuration, &[])?;
    let sent = "SELECT count(*) FROM mailroom.deliveries WHERE state = 'sent'";
    wait_for(&rows, sent, i64::from(MAILS)).await?;
    ensure!(reached(&server).len() == usize::try_from(MAILS)?, "{:?}", reached(&server).len());
    let twice = "SELECT count(*) FROM (SELECT token FROM mailroom.delivery_attempts
        WHERE outcome = 'sent' GROUP BY token HAVING count(*) > 1) AS doubled";
    ensure!(rows.query_one(twice, &[]).await?.get::<_, i64>(0) == 0, "settled twice as sent");
    let left = "SELECT count(*) FROM mailroom.waiting";
    ensure!(rows.query_one(left, &[]).await?.get::<_, i64>(0) == 0, "something is left");
    wait_until_all_are_heard(&client(&nats).await?).await?;
    collector.stop()?;
    sender.stop()?;
    Ok(())
}

#[tokio::test]
async fn what_expires_at_the_broker_without_a_verdict_is_listed_and_an_alarm() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let (lost, _) = person(&rows, "ada@x.test").await?;
    let (used, _) = person(&rows, "eva@x.test").await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    for token in [lost, used] {
        wait_for_state(&rows, token, "handed_over").await?;
    }
    wait_for_waiting(&client(&nats).await?, 2).await?;
    rows.batch_execute(&format!(
        "UPDATE mailroom.issued_tokens SET consumed_at = created_at WHERE id = {used};
         UPDATE mailroom.handed_over SET expires_at = extract(epoch FROM now()) - 600"
    ))
    .await?;
    // Whoever has used the link has the mail.
    wait_for_state(&rows, used, "sent").await?;
    let erased = "SELECT count(*) FROM mailroom.handed_over WHERE secret IS NULL";
    wait_for(&rows, erased, 1_i64).await?;
    let status = || -> Result<Value> {
        let mut command = program::mailroom()?;
        command.args(["status", "--json"]).env("MAILROOM_DATABASE_URL", database.url());
        Ok(serde_json::from_slice(&command.output()?.stdout)?)
    };
    let found = status()?;
    let expected = json!([1, 1, 1]);
    let shown = &found["handed_over"];
    let shown = json!([shown["waiting"], shown["overdue"], shown["overdue_last_hour"]]);
    ensure!(shown == expected, "{found}");
    ensure!(found["levels"]["handed_over.overdue_last_hour"] == "warning", "{found}");
    let measured = "SELECT tokens FROM mailroom.measure() WHERE state = 'overdue'";
    ensure!(rows.query_one(measured, &[]).await?.get::<_, i64>(0) == 1, "it is not measured");
    // A verdict that comes later takes it off the list.
    let key: String = rows
        .query_one(
            "SELECT encode(consumed_id, 'hex') FROM mailroom.issued_tokens WHERE id = $1",
            &[&lost],
        )
        .await?
        .get(0);
    say(&client(&nats).await?, &(lost, key), json!({"verdict": "expired"})).await?;
    wait_for_state(&rows, lost, "expired").await?;
    ensure!(status()?["handed_over"]["overdue"] == 0, "{}", status()?);
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn two_databases_at_one_queue_each_get_what_is_theirs() -> Result<()> {
    const MAILS: i32 = 40;
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut collectors = Vec::new();
    for name in ["a", "b"] {
        let database = Database::migrated()?;
        let rows = database.connect().await?;
        let collector = Collector::start(&mut collecting(&database, &nats)?)?;
        collectors.push((name, database, rows, collector));
    }
    for (name, _, rows, _) in &collectors {
        rows.accounts(numbered(name, 1..=MAILS)).at("x.test").insert().await?;
    }
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    wait_for_recipients(&server, 2 * usize::try_from(MAILS)?)?;
    for (_, _, rows, collector) in collectors {
        let sent = "SELECT count(*) FROM mailroom.deliveries WHERE state = 'sent'";
        wait_for(&rows, sent, i64::from(MAILS)).await?;
        collector.wait_for_log("event=verdicts_unknown", 1)?;
        collector.stop()?;
    }
    // They did not have to be asked for.
    let stream = client(&nats).await?.get_stream("mailroom-verdicts").await?;
    let names: Vec<String> = stream.consumer_names().try_collect().await?;
    ensure!(names.len() == 2, "{names:?}");
    sender.stop()?;
    Ok(())
}

/// As where a standby takes over that had not received the last commits.
#[tokio::test]
async fn a_verdict_whose_commit_was_lost_is_recorded_again() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    let broker = client(&nats).await?;
    let token = person(&rows, "ada@x.test").await?;
    wait_for_state(&rows, token.0, "handed_over").await?;
    rows.batch_execute("CREATE TABLE before AS SELECT * FROM mailroom.handed_over").await?;
    say(&broker, &token, json!({"verdict": "sent"})).await?;
    wait_for_state(&rows, token.0, "sent").await?;
    wait_until_all_are_heard(&broker).await?;
    rows.batch_execute(
        "BEGIN; DELETE FROM mailroom.delivery_log WHERE outcome = 'sent';
         INSERT INTO mailroom.handed_over SELECT * FROM before;
         UPDATE mailroom.handed_over SET handed_over_at = handed_over_at - interval '1 hour';
         COMMIT",
    )
    .await?;
    wait_for_state(&rows, token.0, "sent").await?;
    let found = outcomes(&rows, token.0).await?;
    ensure!(found == ["handed_over", "sent"], "{found:?}");
    collector.wait_for_log("event=verdicts_found", 1)?;
    collector.stop()?;
    Ok(())
}

/// As of a newer sender, whose verdict waits for its own collector.
#[tokio::test]
async fn a_verdict_that_cannot_be_read_keeps_no_other_from_being_found() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    let broker = client(&nats).await?;
    let odd = person(&rows, "ada@x.test").await?;
    let token = person(&rows, "bob@x.test").await?;
    for (id, _) in [&odd, &token] {
        wait_for_state(&rows, *id, "handed_over").await?;
    }
    rows.batch_execute("CREATE TABLE before AS SELECT * FROM mailroom.handed_over").await?;
    broker.publish(format!("mailroom.verdict.{}", odd.1), "odd".into()).await?.await?;
    say(&broker, &token, json!({"verdict": "sent"})).await?;
    wait_for_state(&rows, token.0, "sent").await?;
    wait_until_all_are_heard(&broker).await?;
    rows.batch_execute(
        "BEGIN; DELETE FROM mailroom.delivery_log WHERE outcome = 'sent';
         DELETE FROM mailroom.handed_over;
         INSERT INTO mailroom.handed_over SELECT * FROM before;
         UPDATE mailroom.handed_over SET handed_over_at = handed_over_at - interval '1 hour';
         COMMIT",
    )
    .await?;
    wait_for_state(&rows, token.0, "sent").await?;
    wait_for_state(&rows, odd.0, "handed_over").await?;
    collector.stop()?;
    Ok(())
}

/// A killed broker knows what it has given out better than what it has stored: it gives the number
/// of a verdict that it has forgotten to a new one.
#[tokio::test]
async fn a_broker_that_forgets_verdicts_gives_out_new_ones_and_not_all_again() -> Result<()> {
    let Some(mut nats) = Nats::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    let broker = client(&nats).await?;
    let mut tokens = Vec::new();
    for number in 1..=4 {
        let token = person(&rows, &format!("p{number}@x.test")).await?;
        wait_for_state(&rows, token.0, "handed_over").await?;
        tokens.push(token);
    }
    let sent = json!({"verdict": "sent"});
    say(&broker, &tokens[0], sent.clone()).await?;
    wait_for_state(&rows, tokens[0].0, "sent").await?;
    wait_until_all_are_heard(&broker).await?;
    let stored = nats.copy_of_messages("mailroom-verdicts")?;
    for token in &tokens[1..3] {
        say(&broker, token, sent.clone()).await?;
        wait_for_state(&rows, token.0, "sent").await?;
    }
    wait_until_all_are_heard(&broker).await?;
    nats.stop()?;
    nats.replace_messages("mailroom-verdicts", &stored)?;
    nats.run()?;
    super::wait_for_count(&broker, "consumers that begin anew", 1, async || {
        let policy = consumer(&broker).await?.config.deliver_policy;
        Ok(u64::from(matches!(policy, DeliverPolicy::ByStartTime { .. })))
    })
    .await?;
    say(&broker, &tokens[3], sent).await?;
    wait_for_state(&rows, tokens[3].0, "sent").await?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_stream_that_gives_each_verdict_to_one_reader_is_refused() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let name = "mailroom-verdicts".to_owned();
    let subjects = vec!["mailroom.verdict.>".to_owned(), "mailroom.dead.>".to_owned()];
    let retention = RetentionPolicy::WorkQueue;
    let config = Config { name, subjects, retention, ..Config::default() };
    client(&nats).await?.create_stream(config).await?;
    let database = Database::migrated()?;
    let collector = Collector::start(&mut collecting(&database, &nats)?)?;
    collector.wait_for_log("the stream mailroom-verdicts deletes verdicts", 1)?;
    collector.stop()?;
    Ok(())
}
