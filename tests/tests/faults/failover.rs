//! A primary that dies in the middle of registrations, a standby that is promoted in its place, and
//! the old primary that comes back, fenced: docs/operate/failover-and-copies.md has the drill.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::wait_long_until;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::fleet::Member;
use mailroom_tests::postgres::{Cluster, REPLICATION_HBA, Shutdown};
use mailroom_tests::program;
use mailroom_tests::recorder::{Pace, Recorder, SecretBytes};
use mailroom_tests::stopwatch::Stopwatch;
use mailroom_tests::trial::PATIENCE;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};

/// How many registrations each of the two servers takes at least.
const REGISTRATIONS: usize = 500;

async fn connect(cluster: &Cluster, database: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(&cluster.url(database), NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The secrets of all tokens that a server has.
async fn secrets(cluster: &Cluster) -> Result<HashSet<SecretBytes>> {
    let client = connect(cluster, "drill").await?;
    let rows = client.query("SELECT secret FROM tokens", &[]).await?;
    let secret = |row: &tokio_postgres::Row| row.get::<_, &[u8]>(0).try_into();
    Ok(rows.iter().map(secret).collect::<Result<_, _>>()?)
}

/// Registers people one by one at whichever server takes writes, until it is told to stop, and
/// counts those whose commits were acknowledged.
async fn register(servers: String, committed: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    let mut number = 0_usize;
    while !stop.load(Ordering::Relaxed) {
        let Ok((client, connection)) = tokio_postgres::connect(&servers, NoTls).await else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let serving = tokio::spawn(connection);
        while !stop.load(Ordering::Relaxed) {
            number += 1;
            // One whose commit nobody has acknowledged may be there or not.
            if client.account(&format!("p{number}")).insert().await.is_err() {
                break;
            }
            committed.fetch_add(1, Ordering::Relaxed);
        }
        serving.abort();
    }
}

/// A drill, of which the standby is asked before each commit or not. Returns how many mails went
/// out twice, and how many for what the old primary alone had.
async fn drill(is_synchronous: bool) -> Result<(usize, usize)> {
    let builder = || Cluster::builder().tcp().hba(REPLICATION_HBA);
    let mut primary = builder().start()?;
    let mut standby = builder().start()?;
    standby.stop(Shutdown::Fast)?;
    standby.follow(&primary)?;
    let superuser = connect(&primary, "postgres").await?;
    superuser.batch_execute("CREATE DATABASE drill").await?;
    let migrated = program::mailroom()?
        .args(["migrate", "up"])
        .env("MAILROOM_DATABASE_URL", primary.url("drill"))
        .output()?;
    ensure!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    if is_synchronous {
        for setting in ["synchronous_standby_names = '*'", "synchronous_commit = 'remote_apply'"] {
            superuser.batch_execute(&format!("ALTER SYSTEM SET {setting}")).await?;
        }
        superuser.batch_execute("SELECT pg_reload_conf()").await?;
        let mut waits = false;
        while !waits {
            let state = "SELECT coalesce(bool_or(sync_state = 'sync'), false)
                FROM pg_stat_replication";
            waits = superuser.query_one(state, &[]).await?.get(0);
            sleep(Duration::from_millis(20)).await;
        }
    }
    let ports = format!("{},{}", primary.port(), standby.port());
    let servers = format!(
        "host=127.0.0.1,127.0.0.1 port={ports} user=postgres dbname=drill \
         target_session_attrs=read-write"
    );
    let recorder = Recorder::new()?;
    let mut command = mailroom_tests::collector::command(&servers)?;
    command.args(["--queue-kind", "deliveries", "--batch-timeout", "20ms"]);
    command.args(["--poll-interval", "500ms", "--line-format", "ndjson"]);
    // What the new primary believes to be claimed, though it was settled, is soon claimed again.
    // Where it knows all, nothing is taken over from a collector that lives.
    let [lease, timeout] = if is_synchronous { ["5m", "60s"] } else { ["15s", "7s"] };
    command.args(["--lease", lease, "--sender-timeout", timeout]);
    let collector = Member::run("one", &mut command, &recorder, Pace::default())?;
    let (committed, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let registering =
        tokio::spawn(register(servers.clone(), Arc::clone(&committed), Arc::clone(&stop)));
    wait_for(&committed, REGISTRATIONS).await?;

    // The primary dies with work in flight, and the standby takes its place.
    primary.stop(Shutdown::Immediate)?;
    let before = committed.load(Ordering::Relaxed);
    let promoted = connect(&standby, "drill").await?;
    promoted.batch_execute("SELECT pg_promote()").await?;
    wait_for(&committed, before + 1).await?;
    let (since, arrived) = (Stopwatch::start(), recorder.tokens());
    while recorder.tokens() == arrived {
        sleep(Duration::from_millis(10)).await;
        ensure!(since.elapsed() < PATIENCE, "nothing is collected from the new primary");
    }
    println!("collected {:?} after the first write on the new primary", since.elapsed());
    // The old one comes back while registrations go on. Nobody writes to it, or collects from it.
    primary.return_fenced()?;
    wait_for(&committed, before + REGISTRATIONS).await?;
    stop.store(true, Ordering::Relaxed);
    registering.await?;

    let survived = secrets(&standby).await?;
    let all_arrived = || {
        let seen = recorder.seen();
        survived.iter().all(|secret| seen.tokens.contains_key(secret))
    };
    wait_long_until(all_arrived).context("mails of the timeline that survives are lost")?;
    let waiting = "SELECT count(*) FROM mailroom.queue";
    let drained = || async { anyhow::Ok(promoted.query_one(waiting, &[]).await?.get::<_, i64>(0)) };
    while drained().await? > 0 {
        sleep(Duration::from_millis(50)).await;
    }
    collector.stop(PATIENCE)?;
    let of_old = secrets(&primary).await?;
    let seen = recorder.seen();
    ensure!(seen.faults.is_empty(), "{:?}", seen.faults);
    let strange = seen
        .tokens
        .keys()
        .filter(|secret| !survived.contains(*secret) && !of_old.contains(*secret));
    ensure!(strange.count() == 0, "mails went out for tokens that no server has");
    let lost = of_old.difference(&survived).count();
    let orphaned = seen.tokens.keys().filter(|secret| !survived.contains(*secret)).count();
    let twice = seen.tokens.values().filter(|handovers| handovers.len() > 1).count();
    // What was registered after the promotion went out once.
    let new_twice = seen
        .tokens
        .iter()
        .filter(|(secret, handovers)| !of_old.contains(*secret) && handovers.len() > 1);
    ensure!(new_twice.count() == 0, "mails of the new primary went out twice");
    println!(
        "synchronous: {is_synchronous}; {} tokens survived and all went out, {twice} of them \
         twice; the old primary alone had {lost}, of which {orphaned} had gone out",
        survived.len()
    );
    Ok((twice, orphaned))
}

async fn wait_for(count: &AtomicUsize, least: usize) -> Result<()> {
    let since = Stopwatch::start();
    while count.load(Ordering::Relaxed) < least {
        sleep(Duration::from_millis(5)).await;
        ensure!(since.elapsed() < 3 * PATIENCE, "only {count:?} of {least} registrations");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_is_collected_from_and_loses_no_mail_of_its_own() -> Result<()> {
    drill(false).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_synchronous_commits_a_failover_leaves_no_mail_without_its_token() -> Result<()> {
    let (twice, orphaned) = drill(true).await?;
    ensure!(twice == 0, "{twice} mails went out twice");
    ensure!(orphaned == 0, "{orphaned} mails went out for what the old primary alone had");
    Ok(())
}
