//! Four databases, each with a collector, a sender and a key of its own, whose links say where they
//! belong: docs/operate/several-databases.md.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{Collector, KEY, wait_long_until};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::mail_server::{Mail, MailServer};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::rows::wait_for;
use mailroom_tests::sending::Configuration;
use mailroom_verifier_core::{Action, Expected, KeyRing, Moment, SharedKey, UntrustedToken};
use sha2::{Digest as _, Sha256};
use tokio_postgres::Client;

use crate::mailroom_send;

const SHARDS: usize = 4;
const PEOPLE: usize = 200;

/// A database with all that belongs to it.
struct Shard {
    number: usize,
    database: Database,
    client: Client,
    configuration: Configuration,
    key: String,
    collector: Collector,
}

impl Shard {
    async fn start(cluster: &Cluster, number: usize, server: &MailServer) -> Result<Self> {
        let database =
            Database::create_on(&cluster.url("postgres"))?.migrate_with(&["--without-accounts"])?;
        let client = database.connect().await?;
        let configuration = Configuration::smtp(server.port, "")?;
        let base = format!("base = \"https://example.test/s{number}\"");
        let text = configuration.text()?.replace("base = \"https://example.test\"", &base);
        configuration.write(&text)?;
        let key = format!("{number}{}", &KEY[1..]);
        let collector = collect(&database, &configuration, &key)?;
        Ok(Self { number, database, client, configuration, key, collector })
    }

    /// Kills its collector, whose sender ends by that, and starts another one.
    fn kill(&mut self) -> Result<()> {
        let next = collect(&self.database, &self.configuration, &self.key)?;
        std::mem::replace(&mut self.collector, next).kill()?;
        Ok(())
    }

    /// The secret of a token that this shard's collector has signed.
    fn verify(&self, token: &str) -> Result<Option<Vec<u8>>> {
        let key = SharedKey::from_hex(&self.key).ok().context("the key is one")?;
        let ring = KeyRing::new([key.into()]).ok().context("one key is a ring")?;
        let expected = Expected { action: Action::Activate, code: None, binding: None };
        let now = Moment::at(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
        let genuine = UntrustedToken::parse(token)?.verify(&ring, expected, now);
        Ok(genuine.ok().map(|token| token.secret().as_bytes().to_vec()))
    }

    async fn redeem(&self, secret: &[u8]) -> Result<(String, Option<String>)> {
        let query = "SELECT verdict::text, subject_id FROM mailroom.redeem($1, 'activate')";
        let row = self.client.query_one(query, &[&secret]).await?;
        Ok((row.get(0), row.get(1)))
    }
}

fn collect(database: &Database, configuration: &Configuration, key: &str) -> Result<Collector> {
    let mut command = mailroom_send::command(database, configuration)?;
    command.env("MAILROOM_SECRET_KEY", key);
    command.args(["--lease", "10s", "--sender-timeout", "5s"]);
    Collector::start(&mut command)
}

/// Where a subject's tokens are, as the page says.
fn shard_of(subject: &str) -> usize {
    usize::from(Sha256::digest(subject)[0]) % SHARDS
}

/// The shard that a mail's link names, and its token.
fn link_of(mail: &Mail) -> Result<(usize, String)> {
    let (_, rest) = mail.text.split_once("https://example.test/s").context(mail.text.clone())?;
    let (shard, rest) = rest.split_once("/activate?token=").context(mail.text.clone())?;
    let is_of_token = |sign: char| sign.is_ascii_alphanumeric() || "-_".contains(sign);
    let end = rest.find(|sign| !is_of_token(sign)).unwrap_or(rest.len());
    Ok((shard.parse()?, rest[..end].to_owned()))
}

#[tokio::test]
async fn four_databases_send_links_that_lead_back_to_them_whatever_is_killed_beside() -> Result<()>
{
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let cluster = Cluster::start()?;
    let mut shards = Vec::new();
    for number in 0..SHARDS {
        shards.push(Shard::start(&cluster, number, &server).await?);
    }
    let mut made = [0_i64; SHARDS];
    for person in 0..PEOPLE {
        let subject = format!("person {person}");
        let shard = shard_of(&subject);
        let mail = shards[shard].client.mail("activate").to(format!("p{person}@x.test"));
        mail.subject(subject).enqueue().await?;
        made[shard] += 1;
        // One is killed, another loses its connections; two are left alone.
        match person % 40 {
            10 => shards[0].kill()?,
            30 => {
                let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                    WHERE datname = $1 AND application_name LIKE 'mailroom%'";
                let name = shards[1].database.name();
                shards[0].client.query_one(cut, &[&name]).await?;
            }
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    ensure!(made.iter().all(|made| *made > 20), "{made:?}");
    wait_long_until(|| server.mails().len() >= PEOPLE)?;
    for (shard, made) in shards.iter().zip(made) {
        let sent = "SELECT count(*) FROM mailroom.deliveries WHERE state = 'sent'";
        wait_for(&shard.client, sent, made).await.with_context(|| shard.collector.log())?;
    }

    // A kill can double a mail, and never its link.
    let mut links = BTreeMap::new();
    for mail in server.mails() {
        let link = link_of(&mail)?;
        let known = links.entry(mail.to.clone()).or_insert_with(|| link.clone());
        ensure!(*known == link, "{} has two links", mail.to);
    }
    ensure!(links.len() == PEOPLE, "{} of {PEOPLE} got a mail", links.len());
    for person in 0..PEOPLE {
        let subject = format!("person {person}");
        let (shard, token) = &links[&format!("p{person}@x.test")];
        ensure!(*shard == shard_of(&subject), "{subject} is sent from {shard}");
        let secret = shards[*shard].verify(token)?.context("its own shard knows its link")?;
        for other in shards.iter().filter(|other| other.number != *shard) {
            ensure!(other.verify(token)?.is_none(), "a link counts in two shards");
        }
        ensure!(shards[*shard].redeem(&secret).await? == ("ok".into(), Some(subject)));
    }
    Ok(())
}
