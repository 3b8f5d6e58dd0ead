//! How large everything is, and how long mails took, since the sample before.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::time::Instant;

use anyhow::Result;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::crew::{Crew, Place};
use super::load::Load;
use crate::report::percentile;
use crate::run::present_memory;

/// Receipts commit later than others with a larger id: so many before the last known one are looked
/// at again.
const LATE: i64 = 100_000;

const RECEIPTS: &str = "SELECT id, token, extract(epoch FROM accepted_at)::float8
    FROM mailroom.receipts WHERE id > $1";

const SIZES: &str = "SELECT sum(pg_table_size(relid))::float8, sum(pg_indexes_size(relid))::float8,
    sum(n_dead_tup)::float8 FROM pg_stat_user_tables WHERE schemaname = 'mailroom'";

const MEGABYTE: f64 = 1e6;

#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Since the start.
    pub(super) minute: f64,
    /// Registrations and mails, a second.
    pub(super) registered: f64,
    pub(super) sent: f64,
    /// How long mails took, in seconds.
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) waiting: f64,
    pub(super) dead_rows: f64,
    /// In megabytes; of processes and journals the mean.
    pub(super) tables: f64,
    pub(super) indexes: f64,
    pub(super) collector: f64,
    pub(super) sender: f64,
    pub(super) journal: f64,
    /// Of a collector and its sender.
    pub(super) descriptors: f64,
}

impl fmt::Display for Sample {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:5.1} min: {:.0}/s registered, {:.0}/s sent, half within {:.3} s, 99% within {:.3} \
             s, {} wait, {:.0} MB",
            self.minute,
            self.registered,
            self.sent,
            self.median,
            self.p99,
            self.waiting,
            self.tables + self.indexes
        )
    }
}

pub(super) struct Sampler {
    client: Client,
    last: i64,
    /// Receipts that were seen, as far as they are looked at again.
    seen: HashSet<i64>,
    /// Those of tokens that the writer has not heard of yet, or that were sent before.
    unknown: Vec<(i64, f64)>,
    taken: Instant,
    sent_twice: usize,
}

impl Sampler {
    pub(super) async fn start(database: &Database) -> Result<Self> {
        let client = database.connect().await?;
        Ok(Self {
            client,
            last: 0,
            seen: HashSet::new(),
            unknown: Vec::new(),
            taken: Instant::now(),
            sent_twice: 0,
        })
    }

    /// How many mails were accepted that had been before.
    pub(super) fn sent_twice(&self) -> usize {
        self.sent_twice + self.unknown.len()
    }

    pub(super) async fn take(
        &mut self,
        started: Instant,
        load: &Load,
        crew: &Crew,
    ) -> Result<Sample> {
        let seconds = self.taken.elapsed().as_secs_f64();
        self.taken = Instant::now();
        let rows = self.client.query(RECEIPTS, &[&(self.last - LATE)]).await?;
        let mut receipts = std::mem::take(&mut self.unknown);
        let mut times: Vec<f64> = Vec::new();
        let known = receipts.len();
        for row in rows {
            let id = row.get(0);
            if self.seen.insert(id) {
                self.last = self.last.max(id);
                receipts.push((row.get(1), row.get(2)));
            }
        }
        for (place, (token, at)) in receipts.into_iter().enumerate() {
            match load.sent(token, at) {
                Some(time) => times.push(time),
                None if place < known => self.sent_twice += 1,
                None => self.unknown.push((token, at)),
            }
        }
        self.seen.retain(|id| *id > self.last - LATE);
        let sizes = self.client.query_one(SIZES, &[]).await?;
        let processes = crew.each(Processes::of);
        let running: Vec<&Processes> = processes.iter().flatten().collect();
        let count = u32::try_from(running.len().max(1))?;
        let mean = |figure: fn(&Processes) -> f64| {
            running.iter().map(|processes| figure(processes)).sum::<f64>() / f64::from(count)
        };
        Ok(Sample {
            minute: started.elapsed().as_secs_f64() / 60.0,
            registered: f64::from(load.take_registered()) / seconds,
            sent: f64::from(u32::try_from(times.len())?) / seconds,
            median: percentile(&times, 50),
            p99: percentile(&times, 99),
            waiting: f64::from(u32::try_from(load.waiting())?),
            tables: sizes.get::<_, f64>(0) / MEGABYTE,
            indexes: sizes.get::<_, f64>(1) / MEGABYTE,
            dead_rows: sizes.get(2),
            collector: mean(|processes| processes.collector),
            sender: mean(|processes| processes.sender),
            journal: mean(|processes| processes.journal),
            descriptors: mean(|processes| processes.descriptors),
        })
    }
}

/// What a collector and its sender have.
struct Processes {
    collector: f64,
    sender: f64,
    journal: f64,
    descriptors: f64,
}

impl Processes {
    /// Nothing of those that just begin or end.
    fn of(place: &Place) -> Option<Self> {
        let (collector, sender) = place.processes()?;
        let journal = fs::metadata(place.journal()).ok()?.len();
        Some(Self {
            collector: memory(collector)?,
            sender: memory(sender)?,
            journal: f64::from(u32::try_from(journal).ok()?) / MEGABYTE,
            descriptors: descriptors(collector)? + descriptors(sender)?,
        })
    }
}

/// What a process has in RAM, in megabytes.
fn memory(process: u32) -> Option<f64> {
    Some(f64::from(present_memory(process).ok()?) * 1_024.0 / MEGABYTE)
}

fn descriptors(process: u32) -> Option<f64> {
    let count = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count();
    Some(f64::from(u32::try_from(count).ok()?))
}
