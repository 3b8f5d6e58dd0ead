//! A broker that is away, or that could lose mails, and a mail server that is away.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_nats::jetstream::consumer;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy};
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::{self, Collector, wait_until};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::port;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::proxy::Proxy;
use mailroom_tests::rows::{register, wait_for};
use mailroom_tests::sending::{Configuration, Sending, batch};
use tokio::time::sleep;

use super::{
    client, collecting, counted, publish, reached, refusal, relay, relay_of, sender,
    wait_for_recipients, wait_for_waiting, wait_until_given_out_again,
};

#[tokio::test]
async fn a_broker_that_is_away_costs_no_token_an_attempt_and_none_is_dead() -> Result<()> {
    let Some(mut nats) = Nats::reserve(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    register(&rows, 1..=50).await?;
    let mut command = collector::command(database.url())?;
    let through = relay_of(&command, &nats);
    command.args(["--batch-timeout", "0", "--poll-interval", "200ms", "--sender", &through]);
    let collector = Collector::start(&mut command)?;
    collector.wait_for_log("the sender is unavailable: ", 1)?;
    nats.run()?;
    let away = "SELECT count(*) FROM mailroom.deliveries WHERE state = 'handed_over'";
    wait_for(&rows, away, 50_i64).await?;
    let broker = client(&nats).await?;
    wait_for_waiting(&broker, 50).await?;
    let log = collector.stop()?;
    let query = "SELECT count(*) FILTER (WHERE outcome::text = 'handed_over'),
        count(*) FILTER (WHERE outcome::text NOT IN ('handed_over', 'unanswered'))
            FROM mailroom.delivery_attempts";
    let row = rows.query_one(query, &[]).await?;
    let found: (i64, i64) = (row.get(0), row.get(1));
    ensure!(found == (50, 0), "{found:?}; the log:\n{log}");
    Ok(())
}

#[tokio::test]
async fn a_stream_that_drops_mails_gets_none() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let good = Config {
        name: "mailroom".to_owned(),
        subjects: vec!["mailroom.mail.>".to_owned()],
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        ..Config::default()
    };
    for (bad, expected) in [
        (Config { max_age: Duration::from_secs(60), ..good.clone() }, "drops mails by their age"),
        (Config { max_bytes: 1_000_000, ..good.clone() }, "drops the oldest mail"),
        // Before a sender has asked for mails.
        (Config { retention: RetentionPolicy::Interest, ..good.clone() }, "`retention: workqueue`"),
    ] {
        let broker = client(&nats).await?;
        broker.create_stream(bad).await?;
        refusal(&mut relay(&nats)?, expected)?;
        broker.delete_stream("mailroom").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_full_broker_refuses_mails_and_drops_none() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let broker = client(&nats).await?;
    let mut stream = broker.get_stream("mailroom").await?;
    let config = Config { max_messages: 1, ..stream.info().await?.config.clone() };
    broker.update_stream(config).await?;
    relay.write(&batch("b", &[(2, "bob@x.test")]))?;
    let answer = relay.answer()?;
    ensure!(answer.get("unavailable").is_some() && answer.get("ok").is_none(), "{answer}");
    wait_for_waiting(&broker, 1).await
}

#[tokio::test]
async fn mails_wait_at_the_broker_while_the_mail_server_is_away() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    // A port that nobody else gets while the server is away.
    let port = port::free()?;
    let refusing = ["--port", &port.to_string(), "--refuse", "MAIL=421"];
    let Some(server) = MailServer::start(&refusing)? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "b", &[(1, "ada@x.test"), (2, "bob@x.test")])?;
    let configuration = Configuration::smtp(port, "")?;
    let sender = sender(&nats, &configuration)?;
    let broker = client(&nats).await?;
    wait_until_given_out_again(&broker).await?;
    drop(server);
    let port = port.to_string();
    let server = MailServer::start(&["--port", &port])?.context("it started before")?;
    wait_for_recipients(&server, 2)?;
    wait_for_waiting(&broker, 0).await?;
    let (_, said) = sender.stop()?;
    ensure!(said.contains("the sender is unavailable"), "{said}");
    ensure!(reached(&server).values().all(|count| *count == 1), "{:?}", reached(&server));
    Ok(())
}

#[tokio::test]
async fn tls_is_demanded_of_another_machine_and_a_wrong_certificate_is_refused() -> Result<()> {
    let Some(mut nats) = Nats::reserve(&[])? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    std::fs::write(path("certificate.pem"), made.cert.pem())?;
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem())?;
    std::fs::write(path("password"), "a secret\n")?;
    nats.set_arguments(&[
        "--tls",
        "--tlscert",
        &path("certificate.pem"),
        "--tlskey",
        &path("key.pem"),
        "--user",
        "relay",
        "--pass",
        "a secret",
    ]);
    nats.run()?;
    let url = format!("tls://localhost:{}", nats.port());
    let arguments =
        ["relay", "--to", &url, "--user", "relay", "--password-file", &path("password")];
    let relay = |further: &[&str]| {
        let mut command = program::mailroom()?;
        command.args(arguments).args(further);
        Sending::run(&mut command)
    };
    let mut trusting = relay(&["--authority", &path("certificate.pem")])?;
    publish(&mut trusting, "b", &[(1, "ada@x.test")])?;
    let mut doubting = relay(&[])?;
    doubting.write(&batch("b", &[(2, "bob@x.test")]))?;
    let answer = doubting.answer()?;
    ensure!(answer.get("unavailable").is_some(), "{answer}");
    let (_, said) = doubting.finish()?;
    ensure!(!said.contains("a secret"), "{said}");
    Ok(())
}

/// It may store what it was asked when it goes on, after the relay has given the mail back.
#[tokio::test]
async fn a_broker_that_answers_nothing_costs_an_answer_and_stores_each_mail_once() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    nats.pause()?;
    relay.write(&batch("b", &[(2, "bob@x.test")]))?;
    let answer = relay.answer()?;
    ensure!(answer.get("unavailable").is_some() && answer.get("ok").is_none(), "{answer}");
    nats.resume()?;
    publish(&mut relay, "c", &[(2, "bob@x.test")])?;
    wait_for_waiting(&client(&nats).await?, 2).await
}

/// Its collector takes a relay for hung that says nothing for half a minute, and counts an attempt
/// of each mail.
#[tokio::test]
async fn many_mails_wait_no_longer_than_one_for_a_broker_that_is_away() -> Result<()> {
    let Some(mut nats) = Nats::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    // It has looked at what it is connected to by then.
    publish(&mut relay, "b", &[(2, "bob@x.test")])?;
    nats.kill()?;
    let names: Vec<_> = (3..=30).map(|id| format!("p{id}@x.test")).collect();
    let people: Vec<_> = (3..).zip(names.iter().map(String::as_str)).collect();
    // Those that are on their way, and those that need the streams.
    for name in ["c", "d"] {
        relay.write(&batch(name, &people))?;
        // One after the other they would wait for two minutes, five seconds each.
        let answer = relay.answer().with_context(|| name.to_owned())?;
        ensure!(answer.get("unavailable").is_some() && answer.get("ok").is_none(), "{answer}");
    }
    nats.run()?;
    publish(&mut relay, "e", &people)?;
    wait_for_waiting(&client(&nats).await?, 30).await
}

/// Another program may make it anew, by what that was told.
#[tokio::test]
async fn signs_of_life_come_in_time_after_somebody_has_made_them_more_urgent() -> Result<()> {
    // A busy machine may be silent for three seconds, but not each time.
    const TIMES: i64 = 3;
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&["--delay", "8"])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let url = nats.url();
    let sender = Sending::start(&configuration, &["--from", &url, "--redeliver-after", "600"])?;
    let broker = client(&nats).await?;
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    wait_for_recipients(&server, 1)?;
    wait_for_waiting(&broker, 0).await?;
    let stream = broker.get_stream("mailroom").await?;
    let config = stream.consumer_info("mailroom-other").await?.config;
    let config = consumer::Config { ack_wait: Duration::from_secs(3), ..config };
    stream.create_consumer(config).await?;
    // It asks for mails every three seconds.
    sleep(Duration::from_secs(8)).await;
    for id in 2..2 + TIMES {
        publish(&mut relay, &format!("b{id}"), &[(id, &format!("p{id}@x.test"))])?;
        wait_for_recipients(&server, usize::try_from(id)?)?;
        wait_for_waiting(&broker, 0).await?;
    }
    let (_, said) = sender.stop()?;
    let again = counted(&said, "delivered again");
    ensure!(said.contains("4 sent") && again < TIMES.unsigned_abs(), "{said}");
    Ok(())
}

/// As after a firewall has forgotten it: no end of the connection is ever seen.
#[tokio::test]
async fn a_connection_that_carries_nothing_more_is_made_anew_within_a_minute() -> Result<()> {
    let Some(nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let way = Proxy::start(nats.port())?;
    let mut relay = relay(&nats)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let url = format!("nats://127.0.0.1:{}", way.port());
    let sender = Sending::start(&configuration, &["--from", &url])?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    wait_for_recipients(&server, 1)?;
    way.silence();
    publish(&mut relay, "b", &[(2, "bob@x.test")])?;
    wait_until(|| reached(&server).len() == 2)?;
    sender.stop()?;
    Ok(())
}

#[tokio::test]
async fn two_relays_with_different_brokers_share_a_queue() -> Result<()> {
    const MAILS: i32 = 40;
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let (Some(first), Some(second)) = (Nats::start(&[])?, Nats::start(&[])?) else {
        return Ok(());
    };
    let state =
        |state: &str| format!("SELECT count(*) FROM mailroom.deliveries WHERE state = '{state}'");
    // Each has mails that the other one knows nothing of.
    for (part, nats) in [(0, &first), (1, &second)] {
        let collector = Collector::start(&mut collecting(&database, nats)?)?;
        register(&rows, part * MAILS + 1..=(part + 1) * MAILS).await?;
        wait_for(&rows, &state("handed_over"), i64::from((part + 1) * MAILS)).await?;
        collector.stop()?;
    }
    let mut running = Vec::new();
    for nats in [&first, &second] {
        let collector = Collector::start(&mut collecting(&database, nats)?)?;
        let configuration = Configuration::smtp(server.port, "")?;
        let sender = sender(nats, &configuration)?;
        running.push((collector, sender, configuration));
    }
    wait_for(&rows, &state("sent"), i64::from(2 * MAILS)).await?;
    let reached = reached(&server);
    ensure!(reached.values().all(|count| *count == 1), "{reached:?}");
    for (collector, sender, _configuration) in running {
        collector.stop()?;
        sender.stop()?;
    }
    Ok(())
}
