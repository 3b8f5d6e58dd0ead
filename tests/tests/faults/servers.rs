//! A server that goes away, and sessions that it ends.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::postgres::{Cluster, Database, Shutdown};
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::Trial;
use tokio::time::sleep;

use crate::TOKENS;

const RESTARTS: usize = 10;
const TERMINATIONS: usize = 50;

#[tokio::test]
async fn a_server_stopped_fast_and_at_once_ten_times_loses_and_repeats_nothing() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let mut trial = Trial::start(database).await?;
    let pace = Pace { pause: Duration::from_millis(1), ..Pace::default() };
    let collectors = vec![trial.collector("one", pace)?, trial.collector("two", pace)?];
    for restart in 0..RESTARTS {
        trial.register(TOKENS / RESTARTS).await?;
        sleep(trial.up_to(Duration::from_millis(300))).await;
        cluster.stop(if restart % 2 == 0 { Shutdown::Fast } else { Shutdown::Immediate })?;
        sleep(trial.up_to(Duration::from_millis(500))).await;
        cluster.start_again()?;
        trial.connect_again().await?;
        trial.history.note("restarts of the server");
    }
    let tally = trial.end(collectors).await?;
    // Both collectors live, so each keeps what it holds and settles it later.
    assert_eq!((tally.tokens, tally.arrived, tally.duplicated), (TOKENS, TOKENS, 0));
    Ok(())
}

#[tokio::test]
async fn all_sessions_ended_fifty_times_lose_and_repeat_nothing() -> Result<()> {
    let mut trial = Trial::start(Database::migrated()?).await?;
    let pace = Pace { pause: Duration::from_millis(1), ..Pace::default() };
    let collectors = vec![trial.collector("one", pace)?, trial.collector("two", pace)?];
    for _ in 0..TERMINATIONS {
        trial.register(TOKENS / TERMINATIONS).await?;
        sleep(trial.up_to(Duration::from_millis(200))).await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()";
        trial.client.execute(end, &[]).await?;
        trial.history.note("terminations of all sessions");
    }
    let tally = trial.end(collectors).await?;
    // Both collectors live, so each keeps what it holds and settles it later.
    assert_eq!((tally.tokens, tally.arrived, tally.duplicated), (TOKENS, TOKENS, 0));
    Ok(())
}
