//! Collectors that are killed.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::postgres::Database;
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{NEAR, Trial, faults};

const TOKENS: usize = 200;

/// Kills one of so many collectors at a random moment, again and again,
/// and starts another in its place.
async fn kill_again_and_again(number: usize) -> Result<()> {
    let kills = faults(100);
    let mut trial = Trial::start(Database::migrated()?).await?;
    trial.deadlines = NEAR;
    let mut collectors = Vec::new();
    for kill in 0..kills {
        while collectors.len() < number {
            // A reader of any speed, so that more or less is on its way when the end comes.
            let pace = Pace { pause: trial.up_to(Duration::from_millis(2)), ..Pace::default() };
            collectors.push(trial.collector(&format!("{kill}"), pace)?);
        }
        trial.register(TOKENS).await?;
        trial.moment(kill, Duration::from_millis(200)).await?;
        let victim = collectors.swap_remove(trial.random.usize(..number));
        victim.kill()?;
        trial.history.note_at_risk("kills", &trial.client).await?;
    }
    collectors.push(trial.collector("last", Pace::default())?);
    let tally = trial.end(collectors).await?;
    assert_eq!((tally.tokens, tally.arrived), (kills * TOKENS, kills * TOKENS));
    Ok(())
}

#[tokio::test]
async fn a_collector_killed_at_random_moments_loses_nothing() -> Result<()> {
    kill_again_and_again(1).await
}

#[tokio::test]
async fn three_collectors_killed_at_random_moments_lose_nothing() -> Result<()> {
    kill_again_and_again(3).await
}
