//! What happened, counted, and said on standard error: once a minute at most, and at the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often it is said, and how often the same fault is.
const PAUSE: Duration = Duration::from_secs(60);

/// The counts of a program.
#[derive(Debug)]
pub(crate) struct Counts {
    program: &'static str,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    counts: BTreeMap<&'static str, u64>,
    said: BTreeMap<&'static str, u64>,
    said_at: Instant,
    fault: Option<(String, Instant)>,
}

impl Counts {
    pub(crate) fn new(program: &'static str) -> Self {
        let state = State {
            counts: BTreeMap::new(),
            said: BTreeMap::new(),
            said_at: Instant::now(),
            fault: None,
        };
        Self { program, state: Mutex::new(state) }
    }

    /// One more of these.
    pub(crate) fn add(&self, what: &'static str) {
        *self.state().counts.entry(what).or_default() += 1;
    }

    /// Says the counts if a minute is over and there is something new.
    pub(crate) fn say_sometimes(&self) {
        if self.state().said_at.elapsed() >= PAUSE {
            self.say();
        }
    }

    /// Says the counts if there is something new.
    pub(crate) fn say(&self) {
        let mut state = self.state();
        state.said_at = Instant::now();
        if state.counts == state.said {
            return;
        }
        state.said = state.counts.clone();
        let sentence = sentence(&state.counts);
        drop(state);
        self.report(&sentence);
    }

    /// Says a fault; the same one once a minute.
    pub(crate) fn fault(&self, fault: &str) {
        let mut state = self.state();
        let is_said =
            state.fault.as_ref().is_some_and(|(said, at)| said == fault && at.elapsed() < PAUSE);
        if is_said {
            return;
        }
        state.fault = Some((fault.to_owned(), Instant::now()));
        drop(state);
        self.report(fault);
    }

    /// Says something on standard error. If that is closed, the work goes on.
    pub(crate) fn report(&self, sentence: &str) {
        writeln!(std::io::stderr(), "{}: {sentence}", self.program).ok();
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sentence(counts: &BTreeMap<&'static str, u64>) -> String {
    let mut text = "since the start: ".to_owned();
    for (place, (what, count)) in counts.iter().enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        write!(text, "{comma}{count} {what}").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_a_sentence() {
        let counts = BTreeMap::from([("published", 3), ("were there before", 1)]);
        assert_eq!(sentence(&counts), "since the start: 3 published, 1 were there before");
    }
}
