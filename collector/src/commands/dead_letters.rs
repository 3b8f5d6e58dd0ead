//! Which dead letters a command is about.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde_json::json;

use super::{Outcome, print, report};
use crate::config::{digits, heading};

/// Some dead letters, or all of them.
#[derive(clap::Args)]
pub(super) struct DeadLetters {
    /// Ids of dead letters
    #[arg(
        value_name = "ID",
        value_parser = token_id,
        allow_negative_numbers = true,
        required_unless_present = "all_dead"
    )]
    pub(super) ids: Vec<i64>,

    /// All dead letters
    #[arg(long, conflicts_with = "ids")]
    pub(super) all_dead: bool,

    /// Print a line of JSON for each token
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(super) json: bool,
}

impl DeadLetters {
    /// Says which of the ids that were named are not of these dead letters. The exit code is 0 if
    /// there are none.
    pub(super) fn report_others(&self, found: &BTreeSet<i64>) -> Outcome {
        let named: BTreeSet<i64> = self.ids.iter().copied().collect();
        for id in named.difference(found) {
            if self.json {
                print(json!({ "token": id, "outcome": "no_dead_letter" }))?;
            } else {
                report(format_args!("mailroom: token {id} is no dead letter"));
            }
        }
        Ok(if named.is_subset(found) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn token_id(text: &str) -> Result<i64, &'static str> {
    digits(text).filter(|id| *id > 0).ok_or("an id is a whole number from 1 to 9223372036854775807")
}
