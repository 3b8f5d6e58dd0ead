//! A server whose disk is full: nothing is lost, and nothing doubled without a reason.

use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::history::Watch;
use mailroom_tests::machine::skip;
use mailroom_tests::postgres::{Cluster, Database, disk};
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{NEAR, PAST_NEAR, Trial, tokens};
use rustix::process::Signal;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

/// Holds all tokens several times over.
const MEGABYTES: u32 = 192;

#[tokio::test]
async fn a_disk_that_is_full_for_a_while_loses_nothing() -> Result<()> {
    if !disk::can_be_made() {
        skip("this user cannot mount a small disk; run it as root");
        return Ok(());
    }
    let cluster = Cluster::builder().disk(MEGABYTES).start()?;
    let administrator = connect(&cluster.url("postgres")).await?;
    let tablespace = format!("CREATE TABLESPACE small LOCATION '{}'", cluster.disk().display());
    administrator.batch_execute(&tablespace).await?;
    let database = Database::create_on(&cluster.url("postgres"))?;
    let moved = format!("ALTER DATABASE {} SET TABLESPACE small", database.name());
    administrator.batch_execute(&moved).await?;
    let mut trial = Trial::start(database.migrate()?).await?;
    trial.deadlines = NEAR;

    // Two seconds for half of the tokens.
    let lines = tokens() / 2 / 10;
    let pace = Pace { pause: Duration::from_secs(4) / u32::try_from(lines)?, ..Pace::default() };
    let mut collectors = vec![trial.collector("one", pace)?, trial.collector("two", pace)?];
    trial.register(tokens() / 4).await?;
    trial.moment(0, Duration::ZERO).await?;
    // They stand still until the disk is full, so that something still waits then, however long it
    // takes to fill it.
    for collector in &mut collectors {
        collector.collector().signal(Signal::STOP)?;
    }
    trial.register(tokens() / 4).await?;
    disk::fill(&administrator, &cluster.disk()).await?;
    trial.history.note_at_risk("full disks", &trial.client).await?;
    ensure!(trial.register(tokens()).await.is_err(), "the disk is not full");
    // Rows that are deleted make room, so that something is claimed at any time
    // and cannot be settled.
    let watch = Watch::start(&trial.database);
    for collector in &mut collectors {
        collector.collector().signal(Signal::CONT)?;
        collector.collector().wait_for_log("No space left on device", 1)?;
    }
    // Nobody can take over a lease now.
    sleep(PAST_NEAR).await;
    disk::free(&administrator, &cluster.disk()).await?;
    trial.register(tokens() / 2).await?;
    trial.history.put_at_risk(watch.end().await?);
    let tally = trial.end(collectors).await?;
    ensure!(tally.arrived == tally.tokens && tally.tokens == tokens(), "{tally}");
    Ok(())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
