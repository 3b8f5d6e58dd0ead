//! What strangers' addresses cost others: a thousand of them, and a good mail every second between.
//!
//! It is counted how many mails to strangers the server is asked about between a good mail and its
//! turn, and not how long that takes, which the machine decides, too.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{Collector, wait_long_until, wait_until};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::sending::Configuration;
use tokio_postgres::Client;

use crate::mailroom_send::command;

/// How many good mails there are, one a second.
const GOOD: usize = 20;

/// So many mails to strangers a good one may wait for, of a thousand, about which the server says
/// nothing. Four connections give up a recipient after two seconds: it is what they do in ten.
const MOST: usize = 20;

/// The same of those that it answers at once, hundreds in ten seconds.
const MOST_AT_ONCE: usize = 200;

/// What a good mail is for.
#[derive(Clone, Copy)]
enum Purpose {
    /// Something that goes before the strangers' activations.
    Recovery,
    /// The same as theirs.
    Activation,
}

/// A token for somebody of a domain of their own.
async fn issue(client: &Client, purpose: Purpose, email: &str) -> Result<()> {
    let account = client.account(email).email(email);
    match purpose {
        Purpose::Activation => {
            account.insert().await?;
        }
        Purpose::Recovery => {
            let account = account.active().insert().await?;
            client.token().recovery().of(account).insert().await?;
        }
    }
    Ok(())
}

/// So many activations for strangers, each of a domain of its own or all of one.
async fn issue_to_strangers(
    client: &Client,
    count: i32,
    strangers: &str,
    is_one_domain: bool,
) -> Result<()> {
    let emails = (1..=count).map(|number| {
        let domain = if is_one_domain { String::new() } else { number.to_string() };
        format!("{strangers}{number}@d{domain}.test")
    });
    client.accounts(numbered("p", 1..=count)).emails(emails).insert().await?;
    Ok(())
}

/// Issues a good mail every second. Returns of each, in growing order, how many mails to strangers
/// the server was asked about between, once it has taken all good ones.
async fn waits(client: &Client, server: &MailServer, purpose: Purpose) -> Result<Vec<usize>> {
    let good = |number: usize| format!("good{number}@g{number}.test");
    let mut asked_before = Vec::new();
    for number in 0..GOOD {
        issue(client, purpose, &good(number)).await?;
        asked_before.push(server.recipients().len());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let is_good = |to: &str| to.starts_with("good");
    wait_long_until(|| server.mails().iter().filter(|mail| is_good(&mail.to)).count() == GOOD)?;
    let recipients = server.recipients();
    let waits_for = |(number, before): (usize, usize)| {
        let email = good(number);
        let later = recipients[before..].iter().take_while(|to| **to != email);
        later.filter(|to| !is_good(to)).count()
    };
    let mut waits: Vec<_> = asked_before.into_iter().enumerate().map(waits_for).collect();
    println!("mails to strangers that each good one waited for: {waits:?}");
    waits.sort_unstable();
    Ok(waits)
}

/// Good mails are delivered soon while a thousand strangers have given such addresses, each of
/// another domain. The server has accepted a mail before.
async fn hold_up_nobody(
    server: &MailServer,
    configuration: &Configuration,
    strangers: &str,
    most: usize,
) -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let collector = Collector::start(&mut command(&database, configuration)?)?;
    issue(&client, Purpose::Recovery, "first@x.test").await?;
    wait_until(|| !server.mails().is_empty())?;
    issue_to_strangers(&client, 1_000, strangers, false).await?;
    let waits = waits(&client, server, Purpose::Recovery).await?;
    ensure!(waits[GOOD - 1] < most, "good mails waited for {waits:?} mails to strangers");
    collector.stop()?;
    Ok(())
}

/// Mails that matter no more than the strangers' go out before most of these, which came sooner.
#[tokio::test]
async fn recipients_over_whom_a_server_takes_longer_than_is_usual() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let collector = Collector::start(&mut command(&database, &configuration)?)?;
    issue(&client, Purpose::Activation, "first@x.test").await?;
    wait_until(|| !server.mails().is_empty())?;
    issue_to_strangers(&client, 300, "late-", false).await?;
    wait_until(|| server.mails().len() > 1)?;
    let waits = waits(&client, &server, Purpose::Activation).await?;
    ensure!(waits[GOOD / 2] < 100, "good mails waited for {waits:?} of 300 mails to strangers");
    collector.stop()?;
    Ok(())
}

async fn by_smtp(strangers: &str, most: usize) -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    hold_up_nobody(&server, &configuration, strangers, most).await
}

async fn by_http(provider: &str, strangers: &str, most: usize) -> Result<()> {
    let Some(server) = MailServer::start_api(&[])? else { return Ok(()) };
    let url = format!("http://127.0.0.1:{}", server.port);
    let table = format!("[{provider}]\nkey_file = \"key\"\nurl = \"{url}\"\n");
    let configuration = Configuration::new(&table)?;
    fs::write(configuration.path("key"), "re_test\n").context("the key")?;
    hold_up_nobody(&server, &configuration, strangers, most).await
}

/// Before any other mail there are a hundred to one domain, over which the server takes its time.
async fn of_one_domain(strangers: &str) -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    issue_to_strangers(&client, 100, strangers, true).await?;
    let collector = Collector::start(&mut command(&database, &configuration)?)?;
    let waits = waits(&client, &server, Purpose::Recovery).await?;
    ensure!(waits[GOOD - 1] < MOST, "good mails waited for {waits:?} mails to strangers");
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn recipients_of_one_domain_over_whom_a_server_takes_its_time() -> Result<()> {
    of_one_domain("slow-").await
}

#[tokio::test]
async fn recipients_of_one_domain_whose_contents_get_no_answer() -> Result<()> {
    of_one_domain("silent-").await
}

#[tokio::test]
async fn recipients_that_are_refused_in_words_of_no_place() -> Result<()> {
    by_smtp("rcpt-554-", MOST_AT_ONCE).await
}

#[tokio::test]
async fn recipients_that_do_not_exist() -> Result<()> {
    by_smtp("gone-", MOST_AT_ONCE).await
}

#[tokio::test]
async fn recipients_about_whom_a_server_says_nothing() -> Result<()> {
    by_smtp("mute-rcpt-", MOST).await
}

#[tokio::test]
async fn recipients_for_whom_a_server_does_not_ask_for_the_content() -> Result<()> {
    by_smtp("mute-data-", MOST).await
}

#[tokio::test]
async fn recipients_whose_contents_get_no_answer() -> Result<()> {
    by_smtp("silent-", MOST).await
}

#[tokio::test]
async fn recipients_over_whose_contents_a_server_hangs_up() -> Result<()> {
    by_smtp("lost-", MOST_AT_ONCE).await
}

#[tokio::test]
async fn recipients_whose_mails_an_api_cannot_process() -> Result<()> {
    by_http("postmark", "status-500-", MOST_AT_ONCE).await
}

#[tokio::test]
async fn recipients_whose_mails_an_api_with_keys_cannot_process() -> Result<()> {
    by_http("resend", "status-500-", MOST_AT_ONCE).await
}
