//! `mailroom send` in an installation of which everything is killed: senders, collectors, the
//! database, connections.
//!
//! Answers are dropped at every point: of the provider before and after it has accepted a mail, of
//! the sender, and of the database before and after it has committed a claim or a settlement.

mod ends;
mod installation;
mod provider;

use std::fs;

use anyhow::{Result, bail};
use mailroom_tests::machine::is_full;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::sending::Configuration;
use mailroom_tests::workload::register;

use installation::Installation;

/// For each kill.
const TOKENS: usize = 10;

const CONNECTIONS: usize = 2;

fn kills() -> usize {
    if is_full() { 1_000 } else { 40 }
}

fn resend(port: u16, seconds: u8) -> String {
    format!(
        "[resend]\nkey_file = \"key\"\nurl = \"http://127.0.0.1:{port}\"\ntimeout_seconds = \
         {seconds}\nconnections = {CONNECTIONS}\n"
    )
}

fn with_key(configuration: Configuration) -> Result<Configuration> {
    fs::write(configuration.path("key"), "re_test\n")?;
    Ok(configuration)
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_everything_lose_and_double_no_mail_of_a_provider_with_keys() -> Result<()> {
    let kills = kills();
    let Some(provider) = MailServer::start_api(&["--drop", "0.1"])? else { return Ok(()) };
    let mut installation = Installation::start([provider], 2, |ports| {
        with_key(Configuration::new(&resend(ports[0], 5))?)
    })?;
    installation.kill_everything(kills).await?;
    let people = kills * TOKENS;
    let ends = installation.ends(people).await?;
    let doubled = ends.mails[0].values().filter(|mails| mails.len() > 1).count();
    println!("{people} mails, {kills} kills, {} lost, {doubled} doubled", ends.lost(people));
    assert_eq!((ends.mails[0].len(), ends.lost(people), doubled), (people, 0, 0));
    Ok(())
}

/// One collector: what another one's journal says it would not know.
#[tokio::test(flavor = "multi_thread")]
async fn killing_everything_loses_no_mail_and_doubles_only_what_was_in_flight() -> Result<()> {
    let kills = kills();
    let Some(provider) = MailServer::start(&["--delay", "0.005"])? else { return Ok(()) };
    let mut installation = Installation::start([provider], 1, |ports| {
        Configuration::smtp(ports[0], &format!("timeout_seconds = 5\nconnections = {CONNECTIONS}"))
    })?;
    let risks = installation.kill_everything(kills).await?;
    let people = kills * TOKENS;
    let ends = installation.ends(people).await?;
    let (lost, doubled) = (ends.lost(people), ends.doubled(0).len());
    let (doubtful, listed) = (ends.doubtful.len(), ends.listed.len());
    println!(
        "{people} mails, {kills} kills, {lost} lost, {doubled} doubled of {doubtful} in doubt, \
        {listed} listed"
    );
    assert_eq!(lost, 0, "mails are lost");
    assert!(
        doubled <= CONNECTIONS * risks,
        "{doubled} of {risks} kills between a mail and its answer"
    );
    Ok(())
}

/// One collector, since its journal says which provider may have accepted a mail.
#[tokio::test(flavor = "multi_thread")]
async fn kills_of_everything_lose_no_mail_of_two_providers_that_fail_and_none_is_accepted_by_both()
-> Result<()> {
    let (rounds, orders) = if is_full() { (200, 2) } else { (6, 1) };
    for order in 0..orders {
        let Some(with_keys) = MailServer::start_api(&["--drop", "0.1"])? else { return Ok(()) };
        let Some(smtp) = MailServer::start(&["--delay", "0.005"])? else { return Ok(()) };
        let mut servers = [with_keys, smtp];
        servers.rotate_left(order);
        let mut installation = Installation::start(servers, 1, |ports| {
            let (resend, fallback) = (resend(ports[order], 2), ["smtp", "resend"][order]);
            let further = format!("timeout_seconds = 2\nconnections = {CONNECTIONS}\n{resend}");
            let configuration = Configuration::smtp(ports[1 - order], &further)?;
            configuration
                .write(&format!("fallback = \"{fallback}\"\n{}", configuration.text()?))?;
            with_key(configuration)
        })?;
        let risks = installation.trouble_everything(rounds).await?[1 - order];
        let mut ends = installation.ends(rounds * TOKENS).await?;
        ends.mails.rotate_left(order);
        let (lost, doubled) = (ends.lost(rounds * TOKENS), ends.doubled(1).len());
        let [by_key, by_smtp] = &ends.mails[..] else { bail!("there are two providers") };
        println!(
            "{} and {} mails, {rounds} kills, {lost} lost, {doubled} by SMTP doubled, {} in doubt",
            by_key.len(),
            by_smtp.len(),
            ends.doubtful.len()
        );
        let both = by_key.keys().filter(|to| by_smtp.contains_key(*to)).count();
        assert_eq!((both, lost), (0, 0), "accepted by both, and by none");
        assert!(by_key.values().all(|mails| mails.len() == 1), "doubled although there are keys");
        assert!(
            doubled <= CONNECTIONS * risks,
            "{doubled} of {risks} faults between a mail and its answer"
        );
        assert!(!by_key.is_empty() && !by_smtp.is_empty(), "both are used");
    }
    Ok(())
}

/// The provider takes every mail and never says so. Between the steps of its doubts (recorded in
/// the journal, sent, answered, settled) sender and collector are killed.
#[tokio::test(flavor = "multi_thread")]
async fn kills_between_the_steps_of_a_doubt_lose_no_mail_and_send_none_more_than_three_times()
-> Result<()> {
    const PEOPLE: usize = 10;
    let kills: usize = if is_full() { 40 } else { 8 };
    let Some(provider) = MailServer::start(&["--delay", "0.05"])? else { return Ok(()) };
    let mut installation = Installation::start([provider], 1, |ports| {
        Configuration::smtp(ports[0], &format!("timeout_seconds = 5\nconnections = {CONNECTIONS}"))
    })?;
    let client = installation.connect_for_hours().await?;
    // Each round has mails of its own: after eight crashes over it a mail is given up.
    let rounds = kills.div_ceil(8);
    for round in 0..rounds {
        register(&client, &format!("lost{round}-"), PEOPLE).await?;
        let listed = (round + 1) * PEOPLE;
        installation.list_as_maybe_delivered(&client, listed, kills / rounds).await?;
    }
    let counts = "SELECT count(*) FILTER (WHERE is_in_doubt), count(*), (SELECT count(*) FROM \
                  mailroom.delivery_log WHERE outcome IN ('sent', 'expired')), (SELECT count(*) \
                  FROM mailroom.queue) + (SELECT count(*) FROM mailroom.leases) FROM \
                  mailroom.dead_letters";
    let row = client.query_one(counts, &[]).await?;
    let [in_doubt, dead, other, left] = [0, 1, 2, 3].map(|column| row.get::<_, i64>(column));
    let people = i64::try_from(rounds * PEOPLE)?;
    assert_eq!((in_doubt, dead, other, left), (people, people, 0, 0));
    for collector in installation.collectors.drain(..) {
        collector.stop()?;
    }
    let mails = installation.providers[0].mails();
    let most = mails.values().map(Vec::len).max().unwrap_or_default();
    println!("{} mails, {kills} kills, {most} copies at most", mails.len());
    assert!(most <= 3, "{most} copies of a mail");
    assert!(mails.values().flatten().count() > rounds * PEOPLE, "mails are sent again");
    assert!(mails.values().flatten().all(|mail| mail == &mails[&mail.to][0]), "as it was");
    Ok(())
}
