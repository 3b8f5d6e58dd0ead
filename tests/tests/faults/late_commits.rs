//! Transactions that commit in another order than that of their ids.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::postgres::Database;
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{Trial, faults, tokens};
use mailroom_tests::workload::LateWriters;

#[tokio::test]
async fn commits_out_of_order_by_fifty_writers_lose_and_repeat_nothing() -> Result<()> {
    let mut trial = Trial::start(Database::migrated()?).await?;
    let collectors =
        vec![trial.collector("one", Pace::default())?, trial.collector("two", Pace::default())?];
    let writers = LateWriters {
        writers: 50,
        transactions: faults(40),
        accounts: 13,
        delay: Duration::from_millis(400),
        seed: trial.random.u64(..),
    };
    let committed = writers.write(&trial.database).await?;
    let tally = trial.end(collectors).await?;
    assert!(committed > tokens(), "{committed} tokens are too few");
    assert_eq!((tally.tokens, tally.arrived, tally.duplicated), (committed, committed, 0));
    Ok(())
}
