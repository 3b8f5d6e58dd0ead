//! The end of a run: all mails get theirs.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mailroom_tests::collector::Collector;
use tokio::time::sleep;

use super::people::Person;
use super::site::{MACHINES, Site};

/// How often it is said what is still to be drained.
const SHOWN_EVERY: Duration = Duration::from_secs(30);

/// After how long without progress it is said what the broker has.
const TOLD_AFTER: Duration = Duration::from_secs(100);

impl Site {
    /// Waits until each mail has its end.
    pub(super) async fn drain(&mut self, patience: Duration) -> Result<()> {
        let query = "SELECT state || ' ' || count(*) FROM mailroom.waiting
            WHERE state <> 'dead' GROUP BY state ORDER BY state";
        let (began, mut since, mut shown) = (Instant::now(), Instant::now(), Instant::now());
        let (mut last, mut is_told) = (None, false);
        loop {
            self.ensure_all_run()?;
            let rows = self.rows.query(query, &[]).await?;
            let states: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            if states.is_empty() {
                println!("  drained after {} s", began.elapsed().as_secs());
                return Ok(());
            }
            if last.as_ref() != Some(&states) {
                since = Instant::now();
            }
            if since.elapsed() > TOLD_AFTER && !is_told {
                is_told = true;
                println!("  {}", self.broker.remains()?);
            }
            if since.elapsed() > patience {
                bail!("{states:?} stay for {patience:?}: {}", self.remains().await?);
            }
            if shown.elapsed() > SHOWN_EVERY {
                shown = Instant::now();
                println!("  {} s of draining: {states:?}", began.elapsed().as_secs());
            }
            last = Some(states);
            sleep(Duration::from_millis(500)).await;
        }
    }

    /// What is known of the mails that have no end.
    async fn remains(&mut self) -> Result<String> {
        let log = self.collector.as_ref().map(Collector::log).unwrap_or_default();
        let start = log.len().saturating_sub(2_000);
        let mut text = log.get(start..).unwrap_or(&log).to_owned();
        let query = "SELECT token, email, waiting.state::text, attempts::int
            FROM mailroom.waiting JOIN tokens ON tokens.id = token
            JOIN accounts ON accounts.id = account WHERE waiting.state <> 'dead' LIMIT 20";
        let arrivals = self.server.arrivals();
        for row in self.rows.query(query, &[]).await? {
            let (token, address): (i64, String) = (row.get(0), row.get(1));
            let came = arrivals.iter().filter(|arrival| arrival.to == address).count();
            let (state, attempts): (String, i32) = (row.get(2), row.get(3));
            write!(
                text,
                "\n{token} {address}: {state}, {attempts} attempts, arrived {came} times"
            )?;
        }
        write!(text, "\n{}", self.broker.remains()?)?;
        for machine in 0..MACHINES {
            if let Some(sending) = self.machines[machine].sending.take() {
                let (status, said) = sending.stop()?;
                write!(text, "\nmachine {machine} ended with {status}: {said}")?;
            }
        }
        Ok(text)
    }

    /// Recoveries that come after a hundred of activations, all of which wait at the broker, are
    /// sent before most of them.
    pub(super) async fn recoveries_overtake(&mut self, patience: Duration) -> Result<()> {
        const OTHERS: usize = 150;
        const RECOVERIES: usize = 10;
        const FIRST: usize = 10_000_000;
        for machine in 0..MACHINES {
            self.stop_sender(machine)?;
        }
        let before = self.server.arrivals().len();
        for number in FIRST..FIRST + OTHERS {
            Person::Plain.register(&self.rows, number, 86_400).await?;
        }
        self.wait_for_handed_over(OTHERS, patience).await?;
        for number in FIRST..FIRST + RECOVERIES {
            Person::Recovering.register(&self.rows, number, 86_400).await?;
        }
        self.wait_for_handed_over(OTHERS + RECOVERIES, patience).await?;
        for machine in 0..MACHINES {
            self.start_sender(machine)?;
        }
        self.drain(patience).await?;
        let arrivals = self.server.arrivals();
        let person = |place: &usize| Person::of(&arrivals[*place].to) == Some(Person::Recovering);
        let last = (before..arrivals.len()).rfind(person).context("no recovery came")? - before;
        println!("  the last of {RECOVERIES} recoveries came {last}th, before {OTHERS} others");
        ensure!(last < RECOVERIES + OTHERS / 2, "others were sent before recoveries");
        Ok(())
    }

    async fn wait_for_handed_over(&self, count: usize, patience: Duration) -> Result<()> {
        let begin = Instant::now();
        let query = "SELECT count(*) FROM mailroom.handed_over";
        let wanted = i64::try_from(count)?;
        while self.rows.query_one(query, &[]).await?.get::<_, i64>(0) != wanted {
            ensure!(begin.elapsed() < patience, "the relay does not take {count} mails");
            sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}
