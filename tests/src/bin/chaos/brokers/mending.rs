//! Faults that last, and what ends them.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mailroom_tests::mail_server::Arrival;
use mailroom_tests::proxy::Proxy;
use rustix::process::Signal;
use tokio::time::sleep;

use super::site::{Site, send};

/// Whom a fault befalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Broker,
    Relay,
    Machine(usize),
    MailServer,
}

/// What ends a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mend {
    Nothing,
    StartBroker,
    ContinueBroker,
    ResumeAll,
    StartSender(usize),
    ContinueSender(usize),
    Cut(usize),
    Resume(usize),
    Restore(usize),
    ContinueRelay(Option<u32>),
    StartCollector,
    AcceptMails,
}

/// A fault that was.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) name: &'static str,
    pub(super) who: Who,
    pub(super) from: Instant,
    /// Nothing as long as it lasts.
    pub(super) to: Option<Instant>,
    due: Instant,
    pub(super) mend: Mend,
}

impl Site {
    /// Remembers a fault that has begun.
    pub(super) fn note(&mut self, name: &'static str, who: Who, time: Duration, mend: Mend) {
        let from = Instant::now();
        self.notes.push(Note { name, who, from, to: None, due: from + time, mend });
    }

    /// Lets time pass, and ends the faults whose time is over.
    pub(super) async fn pass(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            for place in 0..self.notes.len() {
                let Note { to, due, mend, .. } = self.notes[place].clone();
                if to.is_none() && due <= Instant::now() {
                    self.mend(mend).with_context(|| format!("{mend:?}"))?;
                    self.notes[place].to = Some(Instant::now());
                }
            }
            if Instant::now() >= end {
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends all faults.
    pub(super) async fn mend_all(&mut self) -> Result<()> {
        while self.notes.iter().any(|note| note.to.is_none()) {
            self.pass(Duration::from_millis(100)).await?;
        }
        Ok(())
    }

    fn mend(&mut self, mend: Mend) -> Result<()> {
        match mend {
            Mend::Nothing => {}
            Mend::StartBroker => {
                // It may have been killed twice.
                if self.broker.pause().is_err() {
                    self.broker.run()?;
                }
                self.broker.resume()?;
            }
            Mend::ContinueBroker => _ = self.broker.resume(),
            Mend::ResumeAll => self.ways.iter().for_each(Proxy::resume),
            Mend::StartSender(machine) => {
                if self.machines[machine].sending.is_none() {
                    self.start_sender(machine)?;
                }
            }
            Mend::ContinueSender(machine) => {
                if let Some(sending) = &self.machines[machine].sending {
                    sending.signal(Signal::CONT)?;
                }
            }
            Mend::Cut(way) => self.ways[way].cut(),
            Mend::Resume(way) => self.ways[way].resume(),
            Mend::Restore(way) => self.ways[way].restore(),
            Mend::ContinueRelay(relay) => send(relay, Signal::CONT),
            Mend::StartCollector => {
                if self.collector.is_none() {
                    self.start_collector()?;
                }
            }
            Mend::AcceptMails => self.server.refuse(false),
        }
        Ok(())
    }

    /// What happened about two arrivals of a mail, in seconds after the first one.
    pub(super) fn about(&self, first: &Arrival, second: &Arrival) -> String {
        let span = Duration::from_secs(60);
        let seconds = |at: Instant| {
            let later = at.saturating_duration_since(first.at).as_secs_f64();
            later - first.at.saturating_duration_since(at).as_secs_f64()
        };
        let (one, other, after) = (&first.hello, &second.hello, seconds(second.at));
        let mut text = format!("by {one}, and by {other} after {after:.1} s;");
        for note in &self.notes {
            let end = note.to.unwrap_or(note.from);
            if note.from < second.at && end + span > first.at {
                let (from, to) = (seconds(note.from), seconds(end));
                write!(text, " {} of {:?} {from:.1} to {to:.1},", note.name, note.who).ok();
            }
        }
        text
    }
}
