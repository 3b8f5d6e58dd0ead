//! A server whose disk is full: nothing is lost, and nothing doubled without a reason.
//!
//! Without libtest, which cannot say that a test was skipped: only root can make a small disk.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::postgres::{Cluster, Database, disk};
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{NEAR, Trial};
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

const TITLE: &str = "a_disk_that_is_full_for_a_while_loses_nothing";

const TOKENS: usize = 20_000;

/// Holds all tokens several times over.
const MEGABYTES: u32 = 192;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if !disk::can_be_made() {
        println!("skipped: {TITLE}: this user cannot mount a small disk; run it as root");
        println!("test result: ok. 0 passed; 0 failed; 1 ignored");
        return ExitCode::SUCCESS;
    }
    if let Err(error) = lose_nothing().await {
        println!("test {TITLE} ... FAILED\n{error:#}");
        println!("test result: FAILED. 0 passed; 1 failed; 0 ignored");
        return ExitCode::FAILURE;
    }
    println!("test {TITLE} ... ok");
    println!("test result: ok. 1 passed; 0 failed; 0 ignored");
    ExitCode::SUCCESS
}

async fn lose_nothing() -> Result<()> {
    let cluster = Cluster::builder().disk(MEGABYTES).start()?;
    let administrator = connect(&cluster.url("postgres")).await?;
    let tablespace = format!("CREATE TABLESPACE small LOCATION '{}'", cluster.disk().display());
    administrator.batch_execute(&tablespace).await?;
    let database = Database::create_on(&cluster.url("postgres"))?;
    let moved = format!("ALTER DATABASE {} SET TABLESPACE small", database.name());
    administrator.batch_execute(&moved).await?;
    let mut trial = Trial::start(database.migrate()?).await?;
    trial.deadlines = NEAR;

    let pace = Pace { pause: Duration::from_millis(2), ..Pace::default() };
    let mut collectors = vec![trial.collector("one", pace)?, trial.collector("two", pace)?];
    trial.register(TOKENS / 2).await?;
    sleep(Duration::from_millis(200)).await;
    disk::fill(&administrator, &cluster.disk()).await?;
    trial.history.note_at_risk("full disks", &trial.client).await?;
    ensure!(trial.register(TOKENS).await.is_err(), "the disk is not full");
    for collector in &mut collectors {
        collector.collector().wait_for_log("No space left on device", 1)?;
    }
    // Longer than a lease, which nobody can take over now.
    sleep(Duration::from_secs(20)).await;
    disk::free(&administrator, &cluster.disk()).await?;
    trial.register(TOKENS / 2).await?;
    let tally = trial.end(collectors).await?;
    ensure!(tally.arrived == tally.tokens && tally.tokens == TOKENS, "{tally}");
    Ok(())
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
