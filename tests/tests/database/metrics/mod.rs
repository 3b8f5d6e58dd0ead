//! `--metrics-address`: what `mailroom collect`, `mailroom send` and `mailroom bounces` serve, and
//! that nobody who asks delays a mail.

mod prometheus;
mod senders;
mod serving;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{self, Collector, wait_until};
use mailroom_tests::http;

/// A collector that serves metrics, and where.
struct Served {
    collector: Collector,
    address: String,
}

impl Served {
    /// Starts one on a database, with these settings besides.
    fn start(database_url: &str, settings: &[(&str, &str)]) -> Result<Self> {
        let mut command = collector::command(database_url)?;
        command.env("MAILROOM_METRICS_ADDRESS", "0").envs(settings.iter().copied());
        let collector = Collector::start(&mut command)?;
        collector.wait_for_log("metrics are served", 1)?;
        let log = collector.log();
        let line =
            log.lines().find(|line| line.contains("metrics are served")).context("a line")?;
        let address = line.split_once("address=").context("an address")?.1;
        let address = address.split_whitespace().next().context("an address")?.to_owned();
        Ok(Self { collector, address })
    }

    /// Sends bytes, and returns the status, the head and the body of the answer.
    fn exchange(&self, bytes: &[u8]) -> Result<(u16, String, String)> {
        http::ask(&self.address, bytes)
    }

    fn get(&self, path: &str) -> Result<(u16, String)> {
        get(&self.address, path)
    }

    /// The values of all series, by name and labels.
    fn values(&self) -> Result<BTreeMap<String, f64>> {
        values(&self.address)
    }

    /// Waits until a series has a value.
    fn wait_for(&self, series: &str, value: f64) -> Result<()> {
        let mut last = None;
        let has_it = || {
            last = self.values().ok().and_then(|values| values.get(series).copied());
            last.is_some_and(|last| (last - value).abs() < f64::EPSILON)
        };
        wait_until(has_it).with_context(|| format!("{series} is {last:?}: {:?}", self.values()))
    }

    /// Waits until a path is answered with this status.
    fn wait_for_status(&self, path: &str, status: u16) -> Result<String> {
        let mut last = None;
        let has_it = || {
            last = self.get(path).ok();
            last.as_ref().is_some_and(|last| last.0 == status)
        };
        wait_until(has_it).with_context(|| {
            format!("{path} is {last:?}, not {status}:\n{}", self.collector.log())
        })?;
        Ok(last.context("an answer")?.1)
    }
}

fn get(address: &str, path: &str) -> Result<(u16, String)> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
    let (status, _, body) = http::ask(address, request.as_bytes())?;
    Ok((status, body))
}

fn values(address: &str) -> Result<BTreeMap<String, f64>> {
    let (status, body) = get(address, "/metrics")?;
    ensure!(status == 200, "{status}: {body}");
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let series = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').context("a value")?;
        Ok((name.to_owned(), value.parse()?))
    });
    series.collect()
}
