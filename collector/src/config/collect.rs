//! The settings of `mailroom collect`.

use std::ffi::OsString;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use mailroom_verifier_core::Version;

use super::{
    CollectFlags, DeliverySettings, Origin, Setting, SettingError, Shown, Span, Variables, token_format,
    value,
};
use crate::line::LineFormat;
use crate::sink::SenderCommand;
use crate::telemetry::{LogFormat, LogLevel};

/// Rows of a batch; the upper end keeps a line, which is held in memory whole, below 10 MB.
const BATCH_LIMITS: RangeInclusive<usize> = 1..=10_000;
const BATCH_TIMEOUTS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3_600);
/// The lower end keeps an idle collector from asking the database without a pause.
const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);
const SENDER_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);
const LEASES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
const PREFETCH_BATCHES: RangeInclusive<usize> = 1..=1_000;

const CHANNEL_NAME: Setting = Setting { flag: "--channel-name", variable: "MAILROOM_CHANNEL_NAME" };
const QUEUE_NAME: Setting = Setting { flag: "--queue-name", variable: "MAILROOM_QUEUE_NAME" };
const QUEUE_KIND: Setting = Setting { flag: "--queue-kind", variable: "MAILROOM_QUEUE_KIND" };
const HEALTHCHECK_INTERVAL: Setting =
    Setting { flag: "--healthcheck-interval", variable: "MAILROOM_HEALTHCHECK_INTERVAL" };
const BATCH_TIMEOUT: Setting = Setting { flag: "--batch-timeout", variable: "MAILROOM_BATCH_TIMEOUT" };
const BATCH_LIMIT: Setting = Setting { flag: "--batch-limit", variable: "MAILROOM_BATCH_LIMIT" };
const POLL_INTERVAL: Setting = Setting { flag: "--poll-interval", variable: "MAILROOM_POLL_INTERVAL" };
const WAKE: Setting = Setting { flag: "--wake", variable: "MAILROOM_WAKE" };
const MISSING_SCHEMA: Setting = Setting { flag: "--missing-schema", variable: "MAILROOM_MISSING_SCHEMA" };
const RETENTION: Setting = Setting { flag: "--retention", variable: "MAILROOM_RETENTION" };
const PREFETCH: Setting = Setting { flag: "--prefetch", variable: "MAILROOM_PREFETCH" };
const LINE_FORMAT: Setting = Setting { flag: "--line-format", variable: "MAILROOM_LINE_FORMAT" };
const SENDER: Setting = Setting { flag: "--sender", variable: "MAILROOM_SENDER" };
const SENDER_TIMEOUT: Setting = Setting { flag: "--sender-timeout", variable: "MAILROOM_SENDER_TIMEOUT" };
const LEASE: Setting = Setting { flag: "--lease", variable: "MAILROOM_LEASE" };
const LOG_FORMAT: Setting = Setting { flag: "--log-format", variable: "MAILROOM_LOG_FORMAT" };
const LOG_LEVEL: Setting = Setting { flag: "--log-level", variable: "MAILROOM_LOG_LEVEL" };

/// Where the triggers of the queue `deliveries` announce tokens, and that of the base schema; and the only queue of either.
const DEFAULT_CHANNEL: &str = "token_insert";
const DEFAULT_QUEUE: &str = "mailroom";

/// The upper end is a hundred years.
const RETENTIONS: RangeInclusive<Duration> =
    Duration::from_secs(86_400)..=Duration::from_secs(36_500 * 86_400);

/// What `mailroom collect` runs with, apart from the database and the keys.
#[derive(Clone, Debug)]
pub struct CollectSettings {
    /// The format of the tokens.
    pub token_format: Version,
    /// The channel to listen on.
    pub channel: String,
    /// The label of `jobs.job_type` whose row keeps the cursor.
    pub queue_name: String,
    /// Which queue to collect from.
    pub queue_kind: QueueKind,
    /// What the queue `deliveries` does about tokens that do not go out at once.
    pub deliveries: DeliverySettings,
    /// How long a claimed batch is this collector's without being renewed.
    pub lease: Duration,
    /// How often all tokens beyond the cursor are read again, and the longest time between two polls and between two
    /// questions to the listening connection.
    pub healthcheck_interval: Duration,
    /// How long the first token of a batch waits for the others.
    pub batch_timeout: Duration,
    /// The most tokens of a batch.
    pub batch_limit: usize,
    /// How often to look without a notification; at most the health-check interval.
    pub poll_interval: Duration,
    /// What makes the collector look.
    pub wake: Wake,
    /// What to do at the start while the schema, or a right to it, is missing.
    pub missing_schema: MissingSchema,
    /// From which age on hand-overs are pruned from the log; `None` if they never are.
    pub retention: Option<Duration>,
    /// How many batches are on their way to the reader at once.
    pub prefetch: Prefetch,
    /// The form of the lines; a sender always gets [`LineFormat::Ndjson`].
    pub line_format: LineFormat,
    /// The program that gets the lines; standard output if there is none.
    pub sender: Option<SenderCommand>,
    /// How long a sender may answer nothing.
    pub sender_timeout: Duration,
    /// The form of log lines.
    pub log_format: LogFormat,
    /// The least important log lines to write.
    pub log_level: LogLevel,
}

/// Which queue to collect from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// `jobs.last_seq`, on an untouched base schema.
    Cursor,
    /// Rows that are queued, leased and logged.
    Deliveries,
}

/// What to do at the start while the schema, or a right to it, is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingSchema {
    /// Wait for it, as for a database that is away.
    Wait,
    /// End with the reason.
    Exit,
}

/// What makes the collector look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Notifications; the poll covers those that are lost.
    Hint,
    /// The poll alone. Saves a connection, and the database never announces anything to this collector.
    Poll,
}

impl QueueKind {
    /// As the setting spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cursor => "cursor",
            Self::Deliveries => "deliveries",
        }
    }
}

impl MissingSchema {
    /// As the setting spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Exit => "exit",
        }
    }
}

impl Wake {
    /// As the setting spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Poll => "poll",
        }
    }
}

/// How many batches may be on their way to the reader at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// As many as the reader takes within about a second.
    Auto,
    /// This many, however slow the reader is.
    Batches(usize),
}

/// As the setting spells it.
impl fmt::Display for Prefetch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => formatter.write_str("auto"),
            Self::Batches(count) => count.fmt(formatter),
        }
    }
}

impl CollectSettings {
    /// Reads flags and variables.
    ///
    /// # Errors
    /// The first value that is not allowed, and a health-check interval below the batch timeout.
    pub fn read(flags: &CollectFlags, variables: Variables<'_>) -> Result<Self, SettingError> {
        let f = flags;
        let (_, log_format) = LOG_FORMAT.value(f.log_format.as_ref(), variables, "text", |text| {
            value::one_of(text, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
        })?;
        let (_, log_level) = LOG_LEVEL.value(f.log_level.as_ref(), variables, "info", |text| {
            use LogLevel::{Debug, Error, Info, Warn};
            value::one_of(text, &[("error", Error), ("warn", Warn), ("info", Info), ("debug", Debug)])
        })?;
        let (channel_origin, channel) =
            CHANNEL_NAME.value(f.channel_name.as_ref(), variables, DEFAULT_CHANNEL, value::name)?;
        let (name_origin, queue_name) =
            QUEUE_NAME.value(f.queue_name.as_ref(), variables, DEFAULT_QUEUE, value::name)?;
        let (_, batch_limit) = BATCH_LIMIT.value(f.batch_limit.as_ref(), variables, "10", |text| {
            value::whole_number(text, &BATCH_LIMITS)
        })?;
        let batch_timeout = batch_timeout(f.batch_timeout.as_ref(), variables)?;
        let (interval_origin, healthcheck_interval) =
            HEALTHCHECK_INTERVAL.value(f.healthcheck_interval.as_ref(), variables, "270000", |text| {
                value::duration(text, &INTERVALS)
            })?;
        let (_, poll_interval) = POLL_INTERVAL
            .value(f.poll_interval.as_ref(), variables, "5s", |text| value::duration(text, &INTERVALS))?;
        let (_, wake) = WAKE.value(f.wake.as_ref(), variables, "hint", |text| {
            value::one_of(text, &[("hint", Wake::Hint), ("poll", Wake::Poll)])
        })?;
        let (_, missing_schema) =
            MISSING_SCHEMA.value(f.missing_schema.as_ref(), variables, "wait", |text| {
                value::one_of(text, &[("wait", MissingSchema::Wait), ("exit", MissingSchema::Exit)])
            })?;
        let (_, retention) = RETENTION.value(f.retention.as_ref(), variables, "30d", retention_or_off)?;
        let (_, prefetch) = PREFETCH.value(f.prefetch.as_ref(), variables, "auto", prefetch)?;

        let sender = sender(f.sender.as_ref(), variables)?;
        let (_, line_format) = LINE_FORMAT.value(f.line_format.as_ref(), variables, "csv", |text| {
            value::one_of(text, &[("csv", LineFormat::Csv), ("ndjson", LineFormat::Ndjson)])
        })?;
        let sender_timeout = sender_timeout(f.sender_timeout.as_ref(), variables)?;
        let (lease_origin, lease) =
            LEASE.value(f.lease.as_ref(), variables, "90s", |text| value::duration(text, &LEASES))?;
        let (kind_origin, queue_kind) = queue_kind(f.queue_kind.as_ref(), variables)?;

        if lease < 2 * sender_timeout {
            return Err(SettingError::LeaseTooShort {
                lease_origin,
                lease: Span(lease),
                timeout: Span(sender_timeout),
                timeout_name: SENDER_TIMEOUT.variable,
            });
        }
        // An environment that was made for a cursor would leave the collector deaf, or in doubt about what it collects.
        if queue_kind == QueueKind::Deliveries && wake == Wake::Hint && channel != DEFAULT_CHANNEL {
            return Err(SettingError::ChannelOfDeliveries {
                origin: channel_origin,
                value: Shown::new(&channel),
                announced: DEFAULT_CHANNEL,
            });
        }
        if queue_kind == QueueKind::Deliveries && queue_name != DEFAULT_QUEUE {
            return Err(SettingError::NameOfDeliveries {
                origin: name_origin,
                value: Shown::new(&queue_name),
            });
        }
        if sender.is_some() && queue_kind == QueueKind::Cursor {
            return Err(SettingError::SenderOfCursor { kind_origin });
        }
        if healthcheck_interval < batch_timeout {
            return Err(SettingError::HealthcheckBelowTimeout {
                interval_origin,
                interval: Span(healthcheck_interval),
                timeout: Span(batch_timeout),
                timeout_name: BATCH_TIMEOUT.variable,
            });
        }
        Ok(Self {
            token_format: token_format(f.token_format.as_ref(), variables)?,
            channel,
            queue_name,
            queue_kind,
            deliveries: DeliverySettings::read(&f.deliveries, variables)?,
            healthcheck_interval,
            batch_timeout,
            batch_limit,
            poll_interval: poll_interval.min(healthcheck_interval),
            wake,
            missing_schema,
            retention,
            prefetch,
            line_format: if sender.is_some() { LineFormat::Ndjson } else { line_format },
            sender,
            sender_timeout,
            lease,
            log_format,
            log_level,
        })
    }
}

/// What decides which ages are an alarm.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// How long the first token of a batch waits for the others.
    pub batch: Duration,
    /// How long a sender may answer nothing.
    pub sender: Duration,
}

impl Timeouts {
    /// Reads the variables.
    ///
    /// # Errors
    /// The first value that is not allowed.
    pub fn read(variables: Variables<'_>) -> Result<Self, SettingError> {
        Ok(Self { batch: batch_timeout(None, variables)?, sender: sender_timeout(None, variables)? })
    }
}

fn batch_timeout(flag: Option<&OsString>, variables: Variables<'_>) -> Result<Duration, SettingError> {
    let parse = |text: &str| value::duration(text, &BATCH_TIMEOUTS);
    Ok(BATCH_TIMEOUT.value(flag, variables, "5000", parse)?.1)
}

fn sender_timeout(flag: Option<&OsString>, variables: Variables<'_>) -> Result<Duration, SettingError> {
    let parse = |text: &str| value::duration(text, &SENDER_TIMEOUTS);
    Ok(SENDER_TIMEOUT.value(flag, variables, "30s", parse)?.1)
}

/// The command is not shown when it cannot be used: its arguments may be secret.
fn sender(flag: Option<&OsString>, variables: Variables<'_>) -> Result<Option<SenderCommand>, SettingError> {
    let (origin, text) = SENDER.text(flag, variables, "")?;
    if matches!(origin, Origin::Default(_)) {
        return Ok(None);
    }
    SenderCommand::parse(&text).map(Some).map_err(|_| SettingError::NoCommand { origin })
}

/// An age from which what is done may be forgotten.
///
/// # Errors
/// Anything but a whole number of hours or days, from one day on.
pub fn retention(text: &str) -> Result<Duration, value::NotAllowed> {
    value::age(text, &RETENTIONS)
}

fn retention_or_off(text: &str) -> Result<Option<Duration>, value::NotAllowed> {
    if text == "off" {
        return Ok(None);
    }
    retention(text).map(Some).map_err(|value::NotAllowed(ages)| value::NotAllowed(format!("`off` or {ages}")))
}

fn queue_kind(
    flag: Option<&OsString>,
    variables: Variables<'_>,
) -> Result<(Origin, QueueKind), SettingError> {
    let kinds = [("cursor", QueueKind::Cursor), ("deliveries", QueueKind::Deliveries)];
    QUEUE_KIND.value(flag, variables, "deliveries", |text| {
        value::one_of(text, &kinds).map_err(|_| {
            value::NotAllowed("`deliveries` or, on a schema before migration 15, `cursor`".to_owned())
        })
    })
}

fn prefetch(text: &str) -> Result<Prefetch, value::NotAllowed> {
    if text == "auto" {
        return Ok(Prefetch::Auto);
    }
    value::whole_number(text, &PREFETCH_BATCHES)
        .map(Prefetch::Batches)
        .map_err(|value::NotAllowed(numbers)| value::NotAllowed(format!("`auto` or {numbers}")))
}

#[cfg(test)]
mod tests;
