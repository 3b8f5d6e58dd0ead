//! What strangers' addresses cost others: a thousand of them, and a good mail every second between.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{Collector, PATIENCE, wait_long_until, wait_until};
use mailroom_tests::mail_server::{Mail, MailServer};
use mailroom_tests::postgres::Database;
use mailroom_tests::sending::Configuration;
use tokio_postgres::Client;

use crate::mailroom_send::command;

/// How many good mails there are, one a second.
const GOOD: usize = 20;

/// A recovery for somebody of a domain of their own.
async fn recover(client: &Client, email: &str) -> Result<()> {
    let insert = "WITH person AS (
            INSERT INTO accounts (email, login, status, activated_at)
            VALUES ($1, $1, 'active', 1) RETURNING id
        )
        INSERT INTO tokens (account, action) SELECT id, 'password_recovery' FROM person";
    client.execute(insert, &[&email]).await?;
    Ok(())
}

/// Good mails are delivered soon while a thousand strangers have given such addresses, each of
/// another domain. The server has accepted a mail before.
async fn hold_up_nobody(
    server: &MailServer,
    configuration: &Configuration,
    strangers: &str,
) -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let collector = Collector::start(&mut command(&database, configuration)?)?;
    recover(&client, "first@x.test").await?;
    wait_until(|| !server.mails().is_empty())?;
    client
        .execute(
            "INSERT INTO accounts (email, login)
             SELECT $1::text || n || '@d' || n || '.test', 'p' || n
                 FROM generate_series(1, 1000) AS n",
            &[&strangers],
        )
        .await?;
    deliver_soon(&client, server, strangers).await?;
    collector.stop()?;
    Ok(())
}

/// Issues a good mail every second, and waits until all are delivered.
async fn deliver_soon(client: &Client, server: &MailServer, strangers: &str) -> Result<()> {
    let (start, mut issued, mut delays) = (Instant::now(), BTreeMap::new(), BTreeMap::new());
    while delays.len() < GOOD {
        let number = issued.len();
        if number < GOOD && start.elapsed() >= Duration::from_secs(1) * u32::try_from(number)? {
            let email = format!("good{number}@g{number}.test");
            recover(client, &email).await?;
            issued.insert(email, Instant::now());
        }
        for mail in server.mails() {
            if let Some(issued) = issued.get(&mail.to) {
                delays.entry(mail.to).or_insert_with(|| issued.elapsed());
            }
        }
        let waiting = issued.iter().filter(|(email, _)| !delays.contains_key(*email));
        for (email, issued) in waiting {
            ensure!(issued.elapsed() < PATIENCE, "{email} waits behind {strangers}: {delays:?}");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let longest = delays.values().max().copied().unwrap_or_default();
    println!("behind {strangers} good mails waited for {longest:?} at most: {:?}", delays.values());
    Ok(())
}

/// An activation for somebody of a domain of their own.
async fn activate(client: &Client, email: &str) -> Result<()> {
    let insert = "INSERT INTO accounts (email, login) VALUES ($1, $1)";
    client.execute(insert, &[&email]).await?;
    Ok(())
}

/// Mails that matter no more than the strangers' go out before most of these, which came sooner. It
/// is counted how many of these each one waits for, not how long, which the machine decides, too.
#[tokio::test]
async fn recipients_over_whom_a_server_takes_longer_than_is_usual() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let collector = Collector::start(&mut command(&database, &configuration)?)?;
    activate(&client, "first@x.test").await?;
    wait_until(|| !server.mails().is_empty())?;
    client
        .execute(
            "INSERT INTO accounts (email, login)
             SELECT 'late-' || n || '@d' || n || '.test', 'p' || n
                 FROM generate_series(1, 300) AS n",
            &[],
        )
        .await?;
    wait_until(|| server.mails().len() > 1)?;
    let mut sent_before = Vec::new();
    for number in 0..GOOD {
        activate(&client, &format!("good{number}@g{number}.test")).await?;
        sent_before.push(server.mails().len());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let is_good = |mail: &Mail| mail.to.starts_with("good");
    wait_long_until(|| server.mails().iter().filter(|mail| is_good(mail)).count() == GOOD)?;
    let mails = server.mails();
    let waits_for = |(number, before): (usize, &usize)| {
        let email = format!("good{number}@g{number}.test");
        let later = mails[*before..].iter().take_while(|mail| mail.to != email);
        later.filter(|mail| !is_good(mail)).count()
    };
    let mut counts: Vec<_> = sent_before.iter().enumerate().map(waits_for).collect();
    println!("mails to strangers that each good one waited for: {counts:?}");
    counts.sort_unstable();
    ensure!(counts[GOOD / 2] < 100, "good mails waited for {counts:?} of 300 mails to strangers");
    collector.stop()?;
    Ok(())
}

async fn by_smtp(strangers: &str) -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    hold_up_nobody(&server, &configuration, strangers).await
}

async fn by_http(provider: &str, strangers: &str) -> Result<()> {
    let Some(server) = MailServer::start_api(&[])? else { return Ok(()) };
    let url = format!("http://127.0.0.1:{}", server.port);
    let table = format!("[{provider}]\nkey_file = \"key\"\nurl = \"{url}\"\n");
    let configuration = Configuration::new(&table)?;
    fs::write(configuration.path("key"), "re_test\n").context("the key")?;
    hold_up_nobody(&server, &configuration, strangers).await
}

/// Before any other mail there are a hundred to one domain, over which the server takes its time.
async fn of_one_domain(strangers: &str) -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client
        .execute(
            "INSERT INTO accounts (email, login)
             SELECT $1::text || n || '@d.test', 'p' || n FROM generate_series(1, 100) AS n",
            &[&strangers],
        )
        .await?;
    let collector = Collector::start(&mut command(&database, &configuration)?)?;
    deliver_soon(&client, &server, strangers).await?;
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
    by_smtp("rcpt-554-").await
}

#[tokio::test]
async fn recipients_that_do_not_exist() -> Result<()> {
    by_smtp("gone-").await
}

#[tokio::test]
async fn recipients_about_whom_a_server_says_nothing() -> Result<()> {
    by_smtp("mute-rcpt-").await
}

#[tokio::test]
async fn recipients_for_whom_a_server_does_not_ask_for_the_content() -> Result<()> {
    by_smtp("mute-data-").await
}

#[tokio::test]
async fn recipients_whose_contents_get_no_answer() -> Result<()> {
    by_smtp("silent-").await
}

#[tokio::test]
async fn recipients_over_whose_contents_a_server_hangs_up() -> Result<()> {
    by_smtp("lost-").await
}

#[tokio::test]
async fn recipients_whose_mails_an_api_cannot_process() -> Result<()> {
    by_http("postmark", "status-500-").await
}

#[tokio::test]
async fn recipients_whose_mails_an_api_with_keys_cannot_process() -> Result<()> {
    by_http("resend", "status-500-").await
}
