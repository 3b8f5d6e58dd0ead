//! Readers of standard output that go away.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::collector::{Collector, read_one_line};
use mailroom_tests::history::claimed;
use mailroom_tests::postgres::Database;
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{NDJSON, Trial, faults};
use tokio::time::sleep;

#[tokio::test]
async fn a_pipe_closed_by_its_reader_loses_nothing_and_leaves_nothing_claimed() -> Result<()> {
    const TOKENS: usize = 1_000;
    let closings = faults(20);
    let mut trial = Trial::start(Database::migrated()?).await?;
    for closing in 0..closings {
        trial.register(TOKENS).await?;
        let mut collector = Collector::start(trial.command(trial.database.url())?.args(NDJSON))?;
        let mut output = collector.output()?;
        for _ in 0..trial.random.usize(1..TOKENS / 10) {
            // Byte by byte: what is read ahead would be taken, and is not noted.
            let line = read_one_line(&mut output)?;
            trial.recorder.take(&closing.to_string(), line.as_bytes());
        }
        sleep(trial.up_to(Duration::from_millis(50))).await;
        // What was read and is not settled now may be given back.
        trial.history.note_at_risk("closed pipes", &trial.client).await?;
        drop(output);
        let (status, log) = collector.wait()?;
        ensure!(!status.success(), "the collector ended with {status}; its log:\n{log}");
        assert_eq!(claimed(&trial.client).await?, HashSet::new(), "{log}");
    }
    let last = trial.collector("last", Pace::default())?;
    let tally = trial.end(vec![last]).await?;
    assert_eq!((tally.tokens, tally.arrived), (closings * TOKENS, closings * TOKENS));
    Ok(())
}
