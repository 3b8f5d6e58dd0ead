//! What a migration is doing.

use std::fmt;
use std::time::Duration;

use super::migration::{Direction, Migration};

/// Takes what happens while migrations run, for people who wait.
pub(super) type Report<'a> = &'a mut (dyn FnMut(Progress<'_>) + Send);

/// Something that happened while migrations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Another session migrates the same schema; it is waited for.
    Waiting {
        /// The server process of that session, if it is still there.
        process: Option<i32>,
    },
    /// A migration begins.
    Started {
        /// Which one.
        migration: &'a Migration,
        /// Which way.
        direction: Direction,
    },
    /// A migration did not get a lock in time and let others pass.
    Postponed {
        /// Which one.
        migration: &'a Migration,
        /// Which way.
        direction: Direction,
        /// What it waits before the next attempt.
        pause: Duration,
    },
    /// A migration was committed.
    Finished {
        /// Which one.
        migration: &'a Migration,
        /// Which way.
        direction: Direction,
        /// How long its transaction was open.
        took: Duration,
    },
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { process: Some(process) } => {
                write!(formatter, "waiting for the migration that server process {process} runs")
            }
            Self::Waiting { process: None } => formatter.write_str("waiting for another migration"),
            Self::Started { migration, direction } => write!(formatter, "{migration}: going {direction}"),
            Self::Postponed { migration, pause, .. } => {
                let pause = pause.as_secs_f32();
                write!(formatter, "{migration}: others hold a lock it needs; trying again in {pause} s")
            }
            Self::Finished { migration, direction, took } => {
                write!(formatter, "{migration}: went {direction} in {:.1} s", took.as_secs_f32())
            }
        }
    }
}
