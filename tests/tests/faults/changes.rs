//! Accounts and tokens that change while their mail is on its way.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::history::claimed;
use mailroom_tests::postgres::Database;
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{Trial, faults};
use mailroom_tests::workload::{Change, unsuspend_all};

#[tokio::test]
async fn tokens_deleted_used_and_suspended_while_claimed_harm_no_other() -> Result<()> {
    const TOKENS: usize = 250;
    let rounds = faults(80);
    let mut trial = Trial::start(Database::migrated()?).await?;
    let pace = Pace { pause: Duration::from_millis(5), ..Pace::default() };
    let collectors = vec![trial.collector("one", pace)?, trial.collector("two", pace)?];
    let mut changed = 0;
    for number in 0..rounds {
        trial.register(TOKENS).await?;
        // Each kind of change meets work.
        trial.moment(number / Change::ALL.len(), Duration::from_millis(50)).await?;
        let mut tokens: Vec<i64> = claimed(&trial.client).await?.into_iter().collect();
        tokens.sort_unstable();
        tokens.retain(|_| trial.random.u8(0..4) == 0);
        trial.history.learn(&trial.client).await?;
        let change = Change::ALL[number % Change::ALL.len()];
        changed += change.apply(&trial.client, &tokens).await?;
        trial.history.note("changes of claimed tokens");
        if trial.random.u8(0..8) == 0 {
            unsuspend_all(&trial.client).await?;
        }
    }
    assert!(
        changed > u64::try_from(rounds * TOKENS / 100)?,
        "only {changed} were changed: nothing was claimed"
    );
    unsuspend_all(&trial.client).await?;
    println!("{changed} changed");
    let tally = trial.end(collectors).await?;
    assert_eq!((tally.tokens, tally.duplicated), (rounds * TOKENS, 0));
    Ok(())
}
