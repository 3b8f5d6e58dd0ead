//! What this process has said of mails lately: the broker gives out again what it did not hear, and
//! cannot be asked for a verdict.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::message::Verdict;

/// How many mails are remembered.
const MOST: usize = 20_000;

#[derive(Default)]
pub(super) struct Memory(Mutex<State>);

#[derive(Default)]
struct State {
    verdicts: HashMap<String, Verdict>,
    order: VecDeque<String>,
}

impl Memory {
    pub(super) fn note(&self, verdict: &Verdict) {
        // What a provider has answered may be long.
        let verdict = Verdict { reason: None, receipt: None, ..verdict.clone() };
        let key = verdict.key.clone();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.verdicts.insert(key.clone(), verdict).is_none() {
            state.order.push_back(key);
        }
        if state.order.len() > MOST
            && let Some(oldest) = state.order.pop_front()
        {
            state.verdicts.remove(&oldest);
        }
    }

    pub(super) fn verdict_on(&self, key: &str) -> Option<Verdict> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.verdicts.get(key).cloned()
    }
}
