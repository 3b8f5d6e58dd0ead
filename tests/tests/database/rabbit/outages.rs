//! A broker that takes nothing, that somebody else has set up, or that does not know its user.

use anyhow::{Result, ensure};
use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use mailroom_tests::collector::Collector;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rabbit::Rabbit;
use mailroom_tests::rows::{register, wait_for};
use mailroom_tests::sending::{Configuration, Sending, batch};
use mailroom_tests::through_broker::all_sent_once;

use super::{
    client, collecting, publish, reached, refusal, relay, sender, wait_for_recipients,
    wait_for_waiting, waiting,
};

#[tokio::test]
async fn an_alarm_of_rabbitmq_stops_the_collector_and_loses_no_mail() -> Result<()> {
    const QUEUE: &str = "alarmed";
    const LEVEL: &str = "set_vm_memory_high_watermark";
    let Some(rabbit) = Rabbit::start()? else { return Ok(()) };
    let Some(server) = MailServer::start(&["--delay", "0.1"])? else { return Ok(()) };
    let database = Database::migrated()?;
    let rows = database.connect().await?;
    let collector = Collector::start(&mut collecting(&database, &rabbit, QUEUE)?)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    register(&rows, 1..=40).await?;
    wait_for_recipients(&server, 5)?;
    rabbit.control(&[LEVEL, "absolute", "1"])?;
    register(&rows, 41..=80).await?;
    collector.wait_for_log("it has an alarm of its memory or disk", 1)?;
    let waits = "SELECT count(*) > 0 FROM mailroom.deliveries
        WHERE state NOT IN ('handed_over', 'sent')";
    wait_for(&rows, waits, true).await?;
    rabbit.control(&[LEVEL, "0.4"])?;
    let ended = all_sent_once(&rows, &server, 80).await;
    let (log, (_, said)) = (collector.stop()?, sender.stop()?);
    ended.map_err(|error| error.context(format!("{said}\n{log}")))
}

/// It may store what it was asked when it goes on, after the relay has given the mail back.
#[tokio::test]
async fn a_rabbitmq_that_answers_nothing_costs_an_answer_and_loses_no_mail() -> Result<()> {
    const QUEUE: &str = "mute";
    let Some(rabbit) = Rabbit::start()? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    rabbit.pause()?;
    relay.write(&batch("b", &[(2, "bob@x.test")]))?;
    let answer = relay.answer()?;
    ensure!(answer.get("unavailable").is_some() && answer.get("ok").is_none(), "{answer}");
    rabbit.resume()?;
    publish(&mut relay, "c", &[(2, "bob@x.test")])?;
    let (_connection, broker) = client(&rabbit).await?;
    // Whether it still reads what was on its way when it was stopped is a matter of time, and so
    // is how often it was given to it.
    let stored = waiting(&broker, "mute.other").await?;
    ensure!(stored >= 2, "{stored} messages");
    // One machine sends it once.
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    wait_for_recipients(&server, 2)?;
    wait_for_waiting(&broker, "mute.other", 0).await?;
    let (_, said) = sender.stop()?;
    ensure!(reached(&server).values().all(|count| *count == 1), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_queue_of_rabbitmq_that_could_lose_mails_gets_none() -> Result<()> {
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let (_connection, broker) = client(&rabbit).await?;
    for (queue, argument) in [("first", "x-dead-letter-exchange"), ("lapsed", "x-queue-type")] {
        let (name, none) = (format!("foreign-{queue}"), FieldTable::default());
        let foreign = format!("{name}.{queue}");
        let options = QueueDeclareOptions::durable();
        broker.queue_declare(foreign.as_str().into(), options, none).await?;
        let sentence = format!("the queue {foreign} is there with other arguments");
        let reason = refusal(&mut relay(&rabbit, &name)?, &sentence)?;
        for part in [&sentence, "name another --queue", argument] {
            ensure!(reason.contains(part), "{reason}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn queues_that_somebody_deletes_are_made_anew_by_rabbitmq() -> Result<()> {
    const QUEUE: &str = "deleted";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&rabbit, QUEUE)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&rabbit, QUEUE, &configuration, &[])?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    wait_for_recipients(&server, 1)?;
    let (_connection, broker) = client(&rabbit).await?;
    wait_for_waiting(&broker, "deleted.verdicts", 1).await?;
    for queue in ["first", "other", "verdicts"] {
        let name = format!("{QUEUE}.{queue}").into();
        broker.queue_delete(name, QueueDeleteOptions::default()).await?;
    }
    // It is returned, and not lost, as long as there is no queue for it.
    relay.write(&batch("b", &[(2, "bob@x.test")]))?;
    while relay.answer()?.get("unavailable").is_some() {
        relay.write(&batch("b", &[(2, "bob@x.test")]))?;
    }
    wait_for_recipients(&server, 2)?;
    wait_for_waiting(&broker, "deleted.verdicts", 1).await?;
    sender.stop()?;
    ensure!(reached(&server).values().all(|count| *count == 1), "{:?}", reached(&server));
    Ok(())
}

#[tokio::test]
async fn verdicts_of_another_database_are_not_taken_from_rabbitmq() -> Result<()> {
    const QUEUE: &str = "claimed";
    let Some(rabbit) = Rabbit::shared()? else { return Ok(()) };
    let (_connection, broker) = client(&rabbit).await?;
    let mut arguments = FieldTable::default();
    let other = AMQPValue::LongString("claimed.another".into());
    arguments.insert("alternate-exchange".into(), other);
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let exchange = "claimed.ledger".into();
    broker.exchange_declare(exchange, ExchangeKind::Topic, options, arguments).await?;
    let database = Database::migrated()?;
    let collector = Collector::start(&mut collecting(&database, &rabbit, QUEUE)?)?;
    collector.wait_for_log("the verdicts at claimed are those of another database", 1)?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn rabbitmq_has_tls_and_a_wrong_password_is_said_and_not_repeated() -> Result<()> {
    let Some(mut rabbit) = Rabbit::reserve()? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    std::fs::write(path("certificate.pem"), made.cert.pem())?;
    std::fs::write(path("key.pem"), made.signing_key.serialize_pem())?;
    std::fs::write(path("password"), "a secret\n")?;
    std::fs::write(path("wrong"), "another secret\n")?;
    rabbit.configure(&format!(
        "listeners.tcp = none\nlisteners.ssl.1 = 127.0.0.1:{}\nssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\ndefault_user = relay\ndefault_pass = a secret\n",
        rabbit.port(),
        path("certificate.pem"),
        path("key.pem")
    ))?;
    rabbit.run()?;
    let url = format!("amqps://localhost:{}", rabbit.port());
    let certificate = path("certificate.pem");
    let relay = |password: &str, further: &[&str]| {
        let mut command = program::mailroom()?;
        command.args(["relay", "--to", &url, "--user", "relay"]);
        command.args(["--password-file", &path(password)]).args(further);
        Sending::run(&mut command)
    };
    let trusting = ["--authority", &certificate];
    // A user that may do nothing is told from a broker that is away; what the book says is enough.
    for (own, expected) in [("^another$", false), ("^mailroom([.].*)?$", true)] {
        rabbit.control(&["set_permissions", "relay", own, own, own])?;
        if !expected {
            refusal(&mut relay("password", &trusting)?, "may not do what is needed")?;
        }
    }
    publish(&mut relay("password", &trusting)?, "b", &[(1, "ada@x.test")])?;
    let mut doubting = relay("password", &[])?;
    refusal(&mut doubting, "certificate")?;
    let mut wrong = relay("wrong", &trusting)?;
    let reason = refusal(&mut wrong, "correct --user and --password-file")?;
    for relay in [doubting, wrong] {
        let (_, said) = relay.finish()?;
        ensure!(!said.contains("secret") && !reason.contains("secret"), "{said}");
    }
    Ok(())
}
