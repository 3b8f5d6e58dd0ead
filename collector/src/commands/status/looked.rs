//! What a look at the queue comes to: the exit status, and its word for monitors.

use std::process::ExitCode;

use super::alarms::{Alarm, Level};

/// In the order in which one of several counts: what is critical is said also where another one
/// cannot be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Looked {
    Fine,
    Warning,
    /// It cannot look, or was called in the wrong way.
    Unknown,
    Critical,
}

impl Looked {
    pub(super) fn at(alarms: &[Alarm]) -> Self {
        Self::worst(alarms.iter().map(|alarm| match alarm.level {
            Level::Warning => Self::Warning,
            Level::Critical => Self::Critical,
        }))
    }

    pub(super) fn worst(several: impl Iterator<Item = Self>) -> Self {
        several.max().unwrap_or(Self::Fine)
    }

    pub(super) fn of_code(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::Fine,
            Some(1) => Self::Warning,
            Some(2) => Self::Critical,
            _ => Self::Unknown,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Fine => "OK",
            Self::Warning => "WARNING",
            Self::Unknown => "UNKNOWN",
            Self::Critical => "CRITICAL",
        }
    }
}

impl From<Looked> for ExitCode {
    fn from(looked: Looked) -> Self {
        Self::from(match looked {
            Looked::Fine => 0,
            Looked::Warning => 1,
            Looked::Critical => 2,
            Looked::Unknown => 3,
        })
    }
}

/// What was found of one of several databases.
pub(super) struct Answer {
    pub(super) looked: Looked,
    /// What its `mailroom status` printed, or why it cannot look.
    pub(super) text: String,
}
