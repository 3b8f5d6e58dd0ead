//! A server that goes away, and sessions that it ends.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{Trial, faults};
use tokio::time::sleep;

#[tokio::test]
async fn a_server_stopped_fast_and_at_once_loses_and_repeats_nothing() -> Result<()> {
    const TOKENS: usize = 2_000;
    let restarts = faults(10);
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let mut trial = Trial::start(database).await?;
    let pace = Pace { pause: Duration::from_millis(1), ..Pace::default() };
    let collectors = vec![trial.collector("one", pace)?, trial.collector("two", pace)?];
    for restart in 0..restarts {
        trial.register(TOKENS).await?;
        // Each way of stopping meets work.
        trial.moment(restart / 2, Duration::from_millis(300)).await?;
        trial.history.note_and_look("restarts of the server", &trial.client).await?;
        cluster.stop(if restart % 2 == 0 { Shutdown::Fast } else { Shutdown::Immediate })?;
        sleep(trial.up_to(Duration::from_millis(500))).await;
        cluster.start_again()?;
        trial.connect_again().await?;
    }
    let tally = trial.end(collectors).await?;
    // Both collectors live, so each keeps what it holds and settles it later.
    let tokens = restarts * TOKENS;
    assert_eq!((tally.tokens, tally.arrived, tally.duplicated), (tokens, tokens, 0));
    Ok(())
}

#[tokio::test]
async fn all_sessions_ended_again_and_again_lose_and_repeat_nothing() -> Result<()> {
    const TOKENS: usize = 400;
    let terminations = faults(50);
    let mut trial = Trial::start(Database::migrated()?).await?;
    let pace = Pace { pause: Duration::from_millis(1), ..Pace::default() };
    let collectors = vec![trial.collector("one", pace)?, trial.collector("two", pace)?];
    for termination in 0..terminations {
        trial.register(TOKENS).await?;
        trial.moment(termination, Duration::from_millis(200)).await?;
        trial.history.note_and_look("terminations of all sessions", &trial.client).await?;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        trial.client.execute(end, &[]).await?;
    }
    let tally = trial.end(collectors).await?;
    // Both collectors live, so each keeps what it holds and settles it later.
    let tokens = terminations * TOKENS;
    assert_eq!((tally.tokens, tally.arrived, tally.duplicated), (tokens, tokens, 0));
    Ok(())
}
