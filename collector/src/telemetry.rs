//! Log lines on standard error.
//!
//! They carry ids, counts and the database's messages. Tokens, secrets, codes, keys, connection strings, email
//! addresses and logins never appear in one: logs are kept longer, and read by more people, than any of these may be.

use std::io;

use tracing::level_filters::LevelFilter;

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One line of text: time, level, message, fields.
    Text,
    /// One JSON object a line: `timestamp`, `level`, `fields` with `message`.
    Json,
}

/// The least important log lines that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// What needs somebody to act.
    Error,
    /// What is wrong but mends itself, and rows that are passed.
    Warn,
    /// Changes of state.
    Info,
    /// Every look at the database.
    Debug,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
        }
    }
}

/// Starts writing log lines. A second call changes nothing.
pub fn start(format: LogFormat, level: LogLevel) {
    let lines = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        // Telling on standard error that standard error cannot be written would panic.
        .log_internal_errors(false)
        .with_max_level(LevelFilter::from(level))
        .with_target(false);
    let started = match format {
        LogFormat::Text => lines.with_ansi(false).try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    // Only a second call fails, and then lines are being written already.
    started.ok();
}
