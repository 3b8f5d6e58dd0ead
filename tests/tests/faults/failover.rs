//! A primary that dies in the middle of registrations, a standby that is promoted in its place, and
//! the old primary that comes back, fenced: docs/operate/failover-and-copies.md has the drill.

use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::failover::{Counts, Drill, migrate};
use mailroom_tests::postgres::{Cluster, REPLICATION_HBA, Shutdown, connect};
use tokio::time::sleep;

/// How many registrations each of the two servers takes at least.
const REGISTRATIONS: usize = 500;

/// A primary and its standby, which is asked before each commit or not, and how both are named.
async fn pair(is_synchronous: bool) -> Result<(Cluster, Cluster, String)> {
    let builder = || Cluster::builder().tcp().hba(REPLICATION_HBA);
    let primary = builder().start()?;
    let mut standby = builder().start()?;
    standby.stop(Shutdown::Fast)?;
    standby.follow(&primary)?;
    let superuser = connect(&primary.url("postgres")).await?;
    superuser.batch_execute("CREATE DATABASE drill").await?;
    migrate(&primary.url("drill"))?;
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
    Ok((primary, standby, servers))
}

/// A drill, of which the standby is asked before each commit or not.
async fn drill(is_synchronous: bool) -> Result<Counts> {
    let (mut primary, standby, servers) = pair(is_synchronous).await?;
    let mut drill = Drill::start(&servers, is_synchronous, false)?;
    drill.more(REGISTRATIONS).await?;

    // The primary dies with work in flight, and the standby takes its place.
    primary.stop(Shutdown::Immediate)?;
    let promoted = connect(&standby.url("drill")).await?;
    promoted.batch_execute("SELECT pg_promote()").await?;
    let elapsed = drill.goes_on().await?;
    println!("collected {elapsed:?} after the first write on the new primary");
    // The old one comes back while registrations go on. Nobody writes to it, or collects from it.
    primary.return_fenced()?;
    drill.more(REGISTRATIONS).await?;
    drill.note_old(&connect(&primary.url("drill")).await?).await?;
    let counts = drill.end(&promoted, true).await?;
    println!("synchronous: {is_synchronous}; {counts}");
    Ok(counts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_is_collected_from_and_loses_no_mail_of_its_own() -> Result<()> {
    drill(false).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_synchronous_commits_a_failover_leaves_no_mail_without_its_token() -> Result<()> {
    let Counts { twice, orphaned, .. } = drill(true).await?;
    ensure!(twice == 0, "{twice} mails went out twice");
    ensure!(orphaned == 0, "{orphaned} mails went out for what the old primary alone had");
    Ok(())
}

/// So does a leader of Patroni whose Patroni alone was killed, where nothing ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_whose_commits_wait_for_ever_is_left_for_the_promoted_one() -> Result<()> {
    let (primary, standby, servers) = pair(true).await?;
    let mut drill = Drill::start(&servers, true, false)?;
    drill.more(REGISTRATIONS).await?;
    let promoted = connect(&standby.url("drill")).await?;
    promoted.batch_execute("SELECT pg_promote()").await?;
    drill.register_at(&standby.url("drill"));
    let elapsed = drill.goes_on().await?;
    println!("collected {elapsed:?} after the first write, beside a primary of before");
    drill.more(REGISTRATIONS).await?;
    drill.note_old(&connect(&primary.url("drill")).await?).await?;
    let counts = drill.end(&promoted, true).await?;
    println!("{counts}");
    ensure!(counts.twice == 0 && counts.orphaned == 0, "{counts}");
    Ok(())
}
