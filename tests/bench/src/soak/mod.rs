//! What grows when it runs for long: registrations at a steady rate become mails, while a snapshot
//! is held open all the time, backups are made, keys are rotated, and collectors come and go.
//!
//! A time is from the commit of a registration until its collector has recorded that the mail was
//! accepted, by `mailroom send` at Postfix' `smtp-sink`.

mod backup;
mod crew;
mod load;
mod plot;
mod sample;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mailroom_tests::postgres::{Cluster, Database};
use serde_json::json;
use tokio::time::sleep;

use crate::report::{Report, Table, rounded};
use crate::sink::Sink;
use backup::Backups;
use crew::Crew;
use load::Load;
use sample::{Sample, Sampler};

/// How often it is looked how large everything is.
const PERIOD: Duration = Duration::from_secs(10);

/// How long is waited for the last mails.
const PATIENCE: Duration = Duration::from_secs(300);

/// The first minutes, in which caches fill and files get their first size.
const WARMING_UP: f64 = 5.0;

#[derive(clap::Args)]
pub(crate) struct Soak {
    /// For how long people register
    #[arg(long, value_name = "N", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    minutes: u32,

    /// How many register a second
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,

    /// Where to draw what was measured, such as docs/pictures/soak.svg
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

pub(crate) async fn measure(server: &Cluster, options: &Soak) -> Result<Report> {
    let database = Database::create_on(&server.url("postgres"))?;
    let database = database.migrate_with(&["--without-accounts"])?;
    let sink = Sink::start()?;
    let crew = Crew::start(database.url(), sink.port)?;
    let pinned = database.connect().await?;
    pinned.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await?;
    let backups = Backups::start(server);
    let mut load = Load::start(&database, options.rate).await?;
    let mut measuring = Sampler::start(&database).await?;

    let started = Instant::now();
    let end = started + Duration::from_secs(60 * u64::from(options.minutes));
    let mut samples = Vec::new();
    while Instant::now() < end {
        sleep(PERIOD).await;
        let sample = measuring.take(started, &load, &crew).await?;
        eprintln!("{sample}");
        samples.push(sample);
        if !crew.is_changing() {
            crew.stop()?;
            bail!("collectors no longer come and go");
        }
    }
    let registered = load.stop().await?;
    let patience = Instant::now() + PATIENCE;
    while load.waiting() > 0 && Instant::now() < patience {
        sleep(Duration::from_secs(1)).await;
        measuring.take(started, &load, &crew).await?;
    }
    let (backups, ended) = (backups.stop()?, crew.stop()?);
    drop(pinned);
    ensure!(load.waiting() == 0, "{} mails were not sent", load.waiting());

    if let Some(file) = &options.plot {
        fs::write(file, plot::svg(&samples))
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    let sent_twice = measuring.sent_twice();
    let title = format!(
        "{registered} registrations in {} minutes, {} a second wanted: each sent, {sent_twice} of \
         them twice; {backups} backups, {ended} collectors ended",
        options.minutes, options.rate
    );
    Ok(report(&title, &samples))
}

/// A figure of samples, and how it is called.
type Figure = (&'static str, &'static str, fn(&Sample) -> f64);

const FIGURES: [Figure; 11] = [
    ("sent_per_s", "mails sent, a second", |sample| sample.sent),
    ("p50_s", "half of them sent within, s", |sample| sample.median),
    ("p99_s", "99% of them sent within, s", |sample| sample.p99),
    ("waiting", "mails that wait", |sample| sample.waiting),
    ("dead_rows", "dead rows", |sample| sample.dead_rows),
    ("table_mb", "tables, MB", |sample| sample.tables),
    ("index_mb", "indexes, MB", |sample| sample.indexes),
    ("collector_mb", "memory of a collector, MB", |sample| sample.collector),
    ("sender_mb", "memory of a sender, MB", |sample| sample.sender),
    ("descriptors", "open files of both", |sample| sample.descriptors),
    ("journal_mb", "journal of a sender, MB", |sample| sample.journal),
];

/// The first third of what comes after the warm-up, beside the last one.
fn report(title: &str, samples: &[Sample]) -> Report {
    let warm: Vec<&Sample> = samples.iter().filter(|sample| sample.minute > WARMING_UP).collect();
    let third = warm.len().div_ceil(3);
    let mut table = Table::new(title, &[&"first third", &"last third", &"ratio"]);
    let mut json = json!({});
    for (name, said, figure) in FIGURES {
        let mean = |part: &[&Sample]| {
            let count = u32::try_from(part.len()).unwrap_or(u32::MAX);
            part.iter().map(|sample| figure(sample)).sum::<f64>() / f64::from(count.max(1))
        };
        let (first, last) = (mean(&warm[..third]), mean(&warm[warm.len() - third..]));
        let ratio = if first > 0.0 { last / first } else { 1.0 };
        let [first, last, ratio] =
            [(first, 2), (last, 2), (ratio, 3)].map(|(value, places)| rounded(value, places));
        table.row(said, &[&first, &last, &ratio]);
        json[name] = json!({ "first_third": first, "last_third": last, "ratio": ratio });
    }
    Report { table, json }
}
