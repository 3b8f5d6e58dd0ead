//! Connections that fail as networks do.

use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::collector;
use mailroom_tests::fleet::Member;
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::proxy::Proxy;
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{Deadlines, FAR, NEAR, PAST_NEAR, Trial, faults, tokens};
use tokio::time::sleep;

/// A queue with a collector that reaches it through a proxy, and one that is not disturbed.
async fn beside_a_proxy(
    cluster: &Cluster,
    deadlines: Deadlines,
) -> Result<(Trial, Proxy, Vec<Member>)> {
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let mut trial = Trial::start(database).await?;
    trial.deadlines = deadlines;
    let proxy = Proxy::start(cluster.port())?;
    // The pauses keep something on its way at any moment.
    let pace = Pace { pause: Duration::from_millis(5), ..Pace::default() };
    let disturbed = trial.collector_at("disturbed", &proxy.url(trial.database.name()), pace)?;
    let other = trial.collector("other", pace)?;
    Ok((trial, proxy, vec![disturbed, other]))
}

#[tokio::test]
async fn connections_cut_between_commit_and_answer_lose_and_repeat_nothing() -> Result<()> {
    const TOKENS: usize = 1_250;
    let cuts = faults(16);
    let cluster = Cluster::builder().tcp().start()?;
    let (mut trial, proxy, collectors) = beside_a_proxy(&cluster, FAR).await?;
    for cut in 1..=cuts {
        proxy.cut_after(&["mailroom.claim(", "mailroom.heartbeat("], 1);
        trial.register(TOKENS).await?;
        // If it does not claim, because it is connecting, it says that it lives some seconds later.
        let begin = Instant::now();
        while proxy.cuts() < cut && begin.elapsed() < collector::PATIENCE {
            sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(proxy.cuts(), cut, "no statement was caught");
        trial.history.note("cuts after COMMIT");
    }
    let tally = trial.end(collectors).await?;
    assert_eq!((tally.tokens, tally.arrived, tally.duplicated), (cuts * TOKENS, cuts * TOKENS, 0));
    Ok(())
}

#[tokio::test]
async fn connections_that_stall_for_longer_than_a_lease_lose_nothing() -> Result<()> {
    let cluster = Cluster::builder().tcp().start()?;
    let (mut trial, proxy, collectors) = beside_a_proxy(&cluster, NEAR).await?;
    trial.register(tokens() / 2).await?;
    trial.moment(0, Duration::ZERO).await?;
    proxy.stall();
    trial.history.note_at_risk("stalls", &trial.client).await?;
    trial.register(tokens() / 2).await?;
    sleep(PAST_NEAR).await;
    proxy.resume();
    let tally = trial.end(collectors).await?;
    assert_eq!((tally.tokens, tally.arrived), (tokens(), tokens()));
    Ok(())
}

#[tokio::test]
async fn half_open_connections_are_found_and_lose_nothing() -> Result<()> {
    let cluster = Cluster::builder().tcp().start()?;
    let (mut trial, proxy, mut collectors) = beside_a_proxy(&cluster, NEAR).await?;
    trial.register(tokens() / 2).await?;
    trial.moment(0, Duration::ZERO).await?;
    proxy.half_open();
    trial.history.note_at_risk("half-open connections", &trial.client).await?;
    trial.register(tokens() / 2).await?;
    sleep(PAST_NEAR).await;
    proxy.restore();
    // The old connections stay as they are, and are known to be of no use.
    collectors[0].collector().wait_for_log("collecting again", 1)?;
    let tally = trial.end(collectors).await?;
    assert_eq!((tally.tokens, tally.arrived), (tokens(), tokens()));
    Ok(())
}
