//! What the proxy waits for to cut a connection.

use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Trap {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    statements: Vec<String>,
    /// How many more to catch.
    left: usize,
    /// How many were caught, committed and cut.
    sprung: usize,
}

impl Trap {
    /// Catches the next `times` of these statements and no others.
    pub(super) fn set(&self, statements: &[&str], times: usize) {
        let mut state = self.state();
        state.statements = statements.iter().map(|&statement| statement.to_owned()).collect();
        state.left = times;
    }

    /// Whether this statement is one of them.
    pub(super) fn wants(&self, statement: &str) -> bool {
        self.state().statements.iter().any(|wanted| statement.contains(wanted.as_str()))
    }

    /// Takes one of the statements that are left to catch, if there is one.
    pub(super) fn spring(&self) -> bool {
        let mut state = self.state();
        let springs = state.left > 0;
        state.left -= usize::from(springs);
        springs
    }

    /// One was cut.
    pub(super) fn note(&self) {
        self.state().sprung += 1;
    }

    pub(super) fn sprung(&self) -> usize {
        self.state().sprung
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
