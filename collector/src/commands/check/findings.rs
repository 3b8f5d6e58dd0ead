//! What was looked at: a line for each thing.

use std::fmt::Display;

use serde_json::json;

use crate::colour::{ERROR, OK, WARNING};
use crate::commands::level::Level;
use crate::commands::{CommandError, print, print_coloured};

/// Prints findings as they come, and remembers the worst.
#[derive(Debug, Default)]
pub(super) struct Findings {
    worst: Level,
    /// Whether each is a line of JSON.
    is_json: bool,
}

impl Findings {
    pub(super) fn new(is_json: bool) -> Self {
        Self { worst: Level::Ok, is_json }
    }

    /// Prints a line: a sign, the name of what was looked at, and what was found or helps.
    pub(super) fn add(
        &mut self,
        level: Level,
        name: &str,
        sentence: impl Display,
    ) -> Result<(), CommandError> {
        let (sign, colour) = match level {
            Level::Ok => ('✓', OK),
            Level::Warning => ('!', WARNING),
            Level::Critical | Level::Unknown => ('✗', ERROR),
        };
        self.worst = self.worst.max(level);
        if self.is_json {
            return print_json(level.name(), name, &sentence.to_string());
        }
        print_coloured(format_args!("{colour}{sign}{colour:#} {name:<10} {sentence}")).map(drop)
    }

    pub(super) fn worst(&self) -> Level {
        self.worst
    }

    /// Prints what was not looked at, and why.
    pub(super) fn skip(&self, name: &str, sentence: &str) -> Result<(), CommandError> {
        if self.is_json {
            return print_json("skipped", name, sentence);
        }
        print(format_args!("- {name:<10} {sentence}")).map(drop)
    }
}

fn print_json(level: &str, name: &str, sentence: &str) -> Result<(), CommandError> {
    print(json!({ "name": name, "level": level, "message": sentence })).map(drop)
}
