//! Streams that are gone while relay and sender run: an empty broker is put in the place of theirs.
//! To delete them would be no measure: nats-server 2.9.10 deletes files of those that replace them.

use anyhow::{Context, Result, ensure};
use mailroom_tests::broker::Nats;
use mailroom_tests::collector::wait_long_until;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::sending::{Configuration, Sending, batch, key};

use super::{
    client, last_of, publish, reached, relay, sender, wait_for_recipients, wait_for_waiting,
    wait_until_given_out_again, waiting,
};

/// Publishes a mail as soon as the streams are there again. Whoever comes first makes them, the
/// sender or the relay.
fn publish_again(relay: &mut Sending, mails: &[(i64, &str)]) -> Result<()> {
    loop {
        relay.write(&batch("again", mails))?;
        let answer = relay.answer()?;
        if answer.get("unavailable").is_none() {
            ensure!(answer["ok"].is_array(), "{answer}");
            return Ok(());
        }
    }
}

#[tokio::test]
async fn they_are_made_anew_and_mails_go_on() -> Result<()> {
    let Some(mut nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    wait_for_recipients(&server, 1)?;
    nats.replace()?;
    publish_again(&mut relay, &[(2, "bob@x.test")])?;
    wait_for_recipients(&server, 2)?;
    let broker = client(&nats).await?;
    wait_for_waiting(&broker, 0).await?;
    sender.stop()?;
    ensure!(reached(&server).values().all(|count| *count == 1), "{:?}", reached(&server));
    Ok(())
}

/// Another sender would get the second one while this one sends it.
#[tokio::test]
async fn what_is_given_back_and_is_gone_gives_back_no_other_one() -> Result<()> {
    let Some(mut nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&["--delay", "15"])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "slow@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    // What the broker has given out may still be on its way to the sender.
    wait_long_until(|| !server.recipients().is_empty()).context("the sender has no mail")?;
    nats.replace()?;
    publish_again(&mut relay, &[(2, "ada@x.test")])?;
    wait_for_recipients(&server, 1)?;
    wait_for_waiting(&client(&nats).await?, 0).await?;
    let (_, said) = sender.stop()?;
    ensure!(said.contains("1 refused for now, 1 sent"), "{said}");
    ensure!(!said.contains("delivered again"), "{said}");
    Ok(())
}

/// A stream that is made anew counts from one: the second mail, which is refused for now, has the
/// number of the first one.
#[tokio::test]
async fn what_is_said_of_a_mail_that_is_gone_ends_no_other_one() -> Result<()> {
    let Some(mut nats) = Nats::start(&[])? else { return Ok(()) };
    let Some(server) = MailServer::start(&["--hold", "0"])? else { return Ok(()) };
    let mut relay = relay(&nats)?;
    publish(&mut relay, "a", &[(1, "ada@x.test")])?;
    let configuration = Configuration::smtp(server.port, "")?;
    let sender = sender(&nats, &configuration)?;
    let broker = client(&nats).await?;
    // What the broker has given out may still be on its way to the sender.
    wait_long_until(|| !server.recipients().is_empty()).context("the sender has no mail")?;
    nats.replace()?;
    publish_again(&mut relay, &[(2, "content-450@x.test")])?;
    server.release();
    wait_until_given_out_again(&broker).await?;
    wait_for_recipients(&server, 1)?;
    // It ends when it has said what became of the first one.
    let (_, said) = sender.stop()?;
    last_of(&broker, &format!("mailroom.verdict.{}", key(1))).await?;
    ensure!(waiting(&broker).await? == 1, "the second one is gone: {said}");
    Ok(())
}
