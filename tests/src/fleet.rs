//! Collectors that run, and end in every way there is.

use std::process::{Command, ExitStatus};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use crate::collector::{self, Collector};
use crate::recorder::{Pace, Recorder};
use crate::stopwatch::Stopwatch;

/// A collector and the thread that reads its lines.
#[derive(Debug)]
pub struct Member {
    name: String,
    collector: Collector,
    reader: Option<JoinHandle<()>>,
}

impl Member {
    /// Starts a collector whose lines are noted under a name.
    pub fn run(name: &str, command: &mut Command, recorder: &Recorder, pace: Pace) -> Result<Self> {
        let mut collector = Collector::start(command)?;
        let output = collector.output()?;
        let reader = recorder.read(name, output.into(), pace);
        Ok(Self { name: name.to_owned(), collector, reader: Some(reader) })
    }

    /// The name that its lines are noted under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process.
    pub fn collector(&mut self) -> &mut Collector {
        &mut self.collector
    }

    /// Ends it in the middle of whatever it is doing. What it has written is read to the end.
    pub fn kill(mut self) -> Result<String> {
        let log = self.collector.kill()?;
        join(self.reader.take())?;
        Ok(log)
    }

    /// Asks it to end, and waits until it did so in order, at most for `patience`.
    pub fn stop(self, patience: Duration) -> Result<String> {
        let name = self.name.clone();
        // What it logs first comes after it has begun to hear signals,
        // which end any program before.
        collector::wait_until(|| !self.collector.log().is_empty())?;
        self.collector.signal(Signal::TERM)?;
        let started = Stopwatch::start();
        let (status, log) = self.wait()?;
        let elapsed = started.elapsed();
        ensure!(
            status.success(),
            "{name} ended with {status} when it was asked to; its log:\n{log}"
        );
        ensure!(elapsed < patience, "{name} took {elapsed:?} to end; its log:\n{log}");
        Ok(log)
    }

    /// Waits for its end; returns how it ended and all that it logged.
    pub fn wait(mut self) -> Result<(ExitStatus, String)> {
        let ended = self.collector.wait()?;
        join(self.reader.take())?;
        Ok(ended)
    }
}

fn join(reader: Option<JoinHandle<()>>) -> Result<()> {
    let reader = reader.context("it is joined once")?;
    reader.join().ok().context("the thread that reads lines has ended by a fault of the test")
}
