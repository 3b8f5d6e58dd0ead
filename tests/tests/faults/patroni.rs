//! Leaders of Patroni that fail, one after the other, while collectors reach the leader in every
//! way there is: docs/operate/patroni.md has the settings.

use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::future::join_all;
use mailroom_tests::failover::{Counts, Drill, migrate};
use mailroom_tests::machine::skip;
use mailroom_tests::postgres::connect;
use mailroom_tests::postgres::patroni::{self, Nodes};
use mailroom_tests::stopwatch::Stopwatch;
use mailroom_tests::trial::PATIENCE;
use tokio::time::sleep;
use tokio_postgres::Client;

/// How many registrations there are at least, by each way, before a leader fails and after.
const REGISTRATIONS: usize = 100;

/// How the leader is reached. The last three are modes of `PgBouncer`, before `HAProxy`.
const WAYS: [&str; 5] = ["straight", "haproxy", "session", "transaction", "statement"];

/// A drill by each way.
struct Drills(Vec<(&'static str, Drill)>);

impl Drills {
    async fn more(&self) -> Result<()> {
        for (_, drill) in &self.0 {
            drill.more(REGISTRATIONS).await?;
        }
        Ok(())
    }

    /// Waits until each collects from the new leader.
    async fn go_on(&self, after: &str) -> Result<()> {
        let each =
            self.0.iter().map(async |(way, drill)| anyhow::Ok((way, drill.goes_on().await?)));
        for outcome in join_all(each).await {
            let (way, elapsed) = outcome?;
            println!("{after}, {way}: collected {elapsed:?} after the first write");
        }
        Ok(())
    }
}

/// A leader that is cut from etcd, once it is a standby: it is started again for that, on a busy
/// machine after the next one leads.
async fn demoted(url: &str) -> Result<Client> {
    let since = Stopwatch::start();
    loop {
        if let Ok(client) = connect(url).await
            && let Ok(row) = client.query_one("SELECT pg_is_in_recovery()", &[]).await
            && row.get(0)
        {
            return Ok(client);
        }
        let is_soon = since.elapsed() < PATIENCE;
        ensure!(is_soon, "a leader that is cut from etcd still takes writes, or is away");
        sleep(Duration::from_millis(200)).await;
    }
}

/// Kills a leader, lets it return, and cuts the next one from etcd. Returns the counts of each way.
async fn drill(is_synchronous: bool) -> Result<Vec<(&'static str, Counts)>> {
    let mut nodes = Nodes::start(is_synchronous).await?;
    let pools = WAYS[2..].iter().map(|mode| nodes.pool(mode)).collect::<Result<Vec<_>>>()?;
    let leader = nodes.leader_after(None).await?;
    let mut drills = Drills(Vec::new());
    for (number, way) in WAYS.into_iter().enumerate() {
        let superuser = connect(&nodes.one(leader, "postgres")).await?;
        superuser.batch_execute(&format!("CREATE DATABASE {way}")).await?;
        migrate(&nodes.one(leader, way))?;
        let servers = match way {
            "straight" => nodes.all(way),
            "haproxy" => nodes.through_haproxy(way),
            _ => pools[number - 2].url(way),
        };
        // Notifications pass in no other mode.
        let is_polling = ["transaction", "statement"].contains(&way);
        drills.0.push((way, Drill::start(&servers, is_synchronous, is_polling)?));
    }
    drills.more().await?;

    nodes.kill(leader)?;
    let failed = Stopwatch::start();
    let second = nodes.leader_after(Some(leader)).await?;
    println!("killed: another leader after {:?}", failed.elapsed());
    drills.go_on("killed").await?;
    for (way, drill) in &mut drills.0 {
        drill.note_old(&nodes.left(leader, way).await?).await?;
    }
    nodes.remove_left(leader)?;
    // Patroni rewinds it, and it follows the second one.
    nodes.start_again(leader)?;
    nodes.settled(is_synchronous).await?;
    drills.more().await?;

    nodes.cut(second)?;
    let failed = Stopwatch::start();
    nodes.leader_after(Some(second)).await?;
    println!("cut: another leader after {:?}", failed.elapsed());
    drills.go_on("cut").await?;
    for (way, drill) in &mut drills.0 {
        drill.note_old(&demoted(&nodes.one(second, way)).await?).await?;
    }
    nodes.join(second)?;
    drills.more().await?;
    let promotions = nodes.settled(is_synchronous).await?;

    // On a busy machine there may have been others, whose leaders nobody has looked at.
    println!("{promotions} promotions");
    let third = nodes.leader_after(None).await?;
    let mut counts = Vec::new();
    for (way, drill) in drills.0 {
        let ended = drill.end(&connect(&nodes.one(third, way)).await?, promotions == 2).await?;
        println!("synchronous: {is_synchronous}, {way}: {ended}");
        counts.push((way, ended));
    }
    Ok(counts)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_way_leads_to_patronis_leader_no_mail_of_the_last_one_is_lost() -> Result<()> {
    if !patroni::can_be_started() {
        skip("this user cannot make networks; run it as root");
        return Ok(());
    }
    drill(false).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_patroni_with_synchronous_commits_no_mail_comes_twice_or_is_orphaned() -> Result<()> {
    if !patroni::can_be_started() {
        skip("this user cannot make networks; run it as root");
        return Ok(());
    }
    for (way, Counts { twice, orphaned, .. }) in drill(true).await? {
        ensure!(twice == 0, "{way}: {twice} mails went out twice");
        ensure!(orphaned == 0, "{way}: {orphaned} mails went out for what an old leader had");
    }
    Ok(())
}
