//! How bad is what was found: the words and exit statuses of `status` and `check`, which are those
//! of monitoring plugins ("Monitoring Plugins Development Guidelines", section 2.3).

use std::process::ExitCode;

/// The number of each is the exit status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    #[default]
    Ok = 0,
    Warning = 1,
    Critical = 2,
    /// It could not be looked at, or the command was called in the wrong way.
    Unknown = 3,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Unknown => "unknown",
        }
    }

    /// What a process of this program has ended with.
    pub(super) fn of_exit_status(status: Option<i32>) -> Self {
        match status {
            Some(0) => Self::Ok,
            Some(1) => Self::Warning,
            Some(2) => Self::Critical,
            _ => Self::Unknown,
        }
    }
}

impl From<Level> for ExitCode {
    fn from(level: Level) -> Self {
        Self::from(level as u8)
    }
}
