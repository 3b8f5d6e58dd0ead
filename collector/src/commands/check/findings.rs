//! What was looked at: a line for each thing.

use std::fmt::Display;

use crate::commands::{CommandError, print};

/// How bad a finding is, as `mailroom status` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Ok = 0,
    Warning = 1,
    Critical = 2,
    /// It could not be looked at.
    Unknown = 3,
}

/// Prints findings as they come, and remembers the worst.
#[derive(Debug, Default)]
pub(super) struct Findings {
    worst: Level,
}

impl Findings {
    /// Prints a line: a sign, the name of what was looked at, and what was found or helps.
    pub(super) fn add(
        &mut self,
        level: Level,
        name: &str,
        sentence: impl Display,
    ) -> Result<(), CommandError> {
        let sign = match level {
            Level::Ok => '✓',
            Level::Warning => '!',
            Level::Critical | Level::Unknown => '✗',
        };
        self.worst = self.worst.max(level);
        print(format_args!("{sign} {name:<10} {sentence}")).map(drop)
    }

    pub(super) fn worst(&self) -> u8 {
        self.worst as u8
    }
}

/// Prints what was not looked at, because nobody has asked for it.
#[cfg(feature = "send")]
pub(super) fn skip(name: &str, sentence: &str) -> Result<(), CommandError> {
    print(format_args!("- {name:<10} {sentence}")).map(drop)
}
