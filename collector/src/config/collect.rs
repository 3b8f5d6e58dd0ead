//! The settings of `mailroom collect`.

use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches};
use mailroom_verifier_core::Version;
use tracing::level_filters::LevelFilter;

use super::heading;
use super::rate::{RateLimit, rate_or_off};
use super::setting::{
    Setting, Shown, duration, installation, listening_address_or_off, log_level, name, one_of,
    prefetch, refused, retention, retention_or_off, sender, switch, token_format, whole_number,
};
use super::{
    LineFormat, ListeningAddress, MissingSchema, PrefetchLimit, QueueKind, Retention,
    TOKEN_RETENTION, Wake,
};
use crate::log::LogFormat;
use crate::log::display::HumanDuration;
use crate::sender_command::SenderCommand;

/// Where the triggers of both schemas announce tokens, and the only queue of either.
const DEFAULT_CHANNEL: &str = "token_insert";
const DEFAULT_QUEUE: &str = "mailroom";

/// How often a collector that is woken by calls polls, unless something else is asked for.
const POLL_OF_CALLED: Duration = Duration::from_secs(3_600);

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;

/// All but the database and the keys. The names of flags and variables are those of the fields.
#[derive(Clone, clap::Args)]
pub struct CollectSettings {
    /// Format of the tokens: v1, v2 or v3; default: what the installation has recorded, v1 for the
    /// queue `cursor`
    #[arg(long, value_name = "FORMAT", value_parser = Setting(token_format))]
    #[arg(env = "MAILROOM_TOKEN_FORMAT")]
    #[arg(help_heading = heading::KEYS)]
    pub token_format: Option<Version>,

    /// Name of the installation whose mails to send, as `mailroom migrate bind --name` gave it
    #[arg(long, value_name = "NAME", value_parser = Setting(installation))]
    #[arg(env = "MAILROOM_INSTALLATION")]
    #[arg(help_heading = heading::DATABASE)]
    pub installation: Option<String>,

    #[command(flatten)]
    pub deliveries: DeliverySettings,

    /// How long a batch stays claimed without a heartbeat of its collector, 1s to 24h, not below
    /// twice the sender's timeout
    #[arg(long, value_name = "TIME", value_parser = Setting(duration(1_000..=DAY)))]
    #[arg(env = "MAILROOM_LEASE", default_value = "90s", allow_negative_numbers = true)]
    #[arg(help_heading = heading::CLAIMS)]
    pub lease: Duration,

    #[command(flatten)]
    pub timeouts: TimeoutSettings,

    /// Most tokens of a batch, which is one line, 1 to 10000
    // The upper end keeps a line, which is held in memory whole, below 10 MB.
    #[arg(long, value_name = "N", value_parser = Setting(whole_number(1..=10_000)))]
    #[arg(env = "MAILROOM_BATCH_LIMIT", default_value = "10", allow_negative_numbers = true)]
    #[arg(help_heading = heading::BATCHES)]
    pub batch_limit: usize,

    /// Whether batch limit and timeout adapt to the traffic and to the sender's response time, up
    /// to their settings
    #[arg(long, value_name = "WHETHER", value_parser = Setting(switch), action = ArgAction::Set)]
    #[arg(env = "MAILROOM_ADAPTIVE", default_value = "off")]
    #[arg(num_args = 0..=1, default_missing_value = "on")]
    #[arg(help_heading = heading::BATCHES)]
    pub adaptive: bool,

    /// How often to poll without having been woken, 100ms to 24h; 1h unless it is set, where the
    /// collector is woken by calls
    #[arg(long, value_name = "TIME", value_parser = Setting(duration(100..=DAY)))]
    #[arg(env = "MAILROOM_POLL_INTERVAL", default_value = "5s", allow_negative_numbers = true)]
    #[arg(help_heading = heading::CLAIMS)]
    pub poll_interval: Duration,

    /// What wakes the collector: listen (notifications and polling), poll (polling alone) or call
    /// (`POST /wake` at the address of metrics, and polling; without a session meanwhile)
    #[arg(long, value_name = "HOW", value_parser = Setting(one_of::<Wake>))]
    #[arg(env = "MAILROOM_WAKE", default_value = "listen")]
    #[arg(help_heading = heading::CLAIMS)]
    pub wake: Wake,

    /// Collect what is due, wait for the answers, and end
    #[arg(long, help_heading = heading::CLAIMS)]
    pub once: bool,

    /// What to do at the start while the schema or a right to it is missing: wait or exit
    #[arg(long, value_name = "WHAT", value_parser = Setting(one_of::<MissingSchema>))]
    #[arg(env = "MAILROOM_MISSING_SCHEMA", default_value = "wait")]
    #[arg(help_heading = heading::CLAIMS)]
    pub missing_schema: MissingSchema,

    /// Age from which delivery attempts and dead letters are deleted, at least 1d, or `off`, which
    /// deletes no tokens either
    #[arg(long, value_name = "AGE", value_parser = Setting(retention_or_off))]
    #[arg(env = "MAILROOM_RETENTION", default_value = "30d")]
    #[arg(help_heading = heading::HOUSEKEEPING)]
    pub retention: Retention,

    /// How long after their expiry tokens are deleted, at least 1d
    #[arg(long, value_name = "AGE", value_parser = Setting(retention))]
    #[arg(env = "MAILROOM_TOKEN_RETENTION", default_value = TOKEN_RETENTION)]
    #[arg(help_heading = heading::HOUSEKEEPING)]
    pub token_retention: Duration,

    /// Batches on their way to the reader at once, 1 to 1000, or `auto`, which follows how fast the
    /// reader takes them
    #[arg(long, value_name = "BATCHES", value_parser = Setting(prefetch))]
    #[arg(env = "MAILROOM_PREFETCH", default_value = "auto", allow_negative_numbers = true)]
    #[arg(help_heading = heading::BATCHES)]
    pub prefetch: PrefetchLimit,

    /// Form of the lines: csv, or ndjson, which a sender always gets
    #[arg(long, value_name = "FORMAT", value_parser = Setting(one_of::<LineFormat>))]
    #[arg(env = "MAILROOM_LINE_FORMAT", default_value = "csv")]
    #[arg(help_heading = heading::SENDER)]
    pub line_format: LineFormat,

    /// Program that sends the mails and answers for each, with its arguments; run without a shell,
    /// in place of standard output
    #[arg(long, value_name = "COMMAND", value_parser = Setting(sender))]
    #[arg(env = "MAILROOM_SENDER")]
    #[arg(help_heading = heading::SENDER)]
    pub sender: Option<SenderCommand>,

    /// Broker that `mailroom relay` gives mails to, whose senders' verdicts are recorded; after its
    /// URL the other arguments of the relay
    #[cfg(feature = "relay")]
    #[arg(long, value_name = "URL", value_parser = Setting(super::setting::verdicts_from))]
    #[arg(env = "MAILROOM_VERDICTS_FROM")]
    #[arg(help_heading = heading::SENDER)]
    pub verdicts_from: Option<mailroom_relay::VerdictsFrom>,

    /// Where to serve metrics for Prometheus, /livez and /readyz by HTTP: ADDRESS:PORT, a PORT of
    /// 127.0.0.1, or `off`
    #[arg(long, value_name = "ADDRESS", value_parser = Setting(listening_address_or_off))]
    #[arg(env = "MAILROOM_METRICS_ADDRESS", default_value = "off")]
    #[arg(help_heading = heading::LOG)]
    pub metrics_address: ListeningAddress,

    /// Form of the log lines on standard error: text or json
    #[arg(long, value_name = "FORMAT", value_parser = Setting(one_of::<LogFormat>))]
    #[arg(env = "MAILROOM_LOG_FORMAT", default_value = "text")]
    #[arg(help_heading = heading::LOG)]
    pub log_format: LogFormat,

    /// Least important log lines to write: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", value_parser = Setting(log_level))]
    #[arg(env = "MAILROOM_LOG_LEVEL", default_value = "info")]
    #[arg(help_heading = heading::LOG)]
    pub log_level: LevelFilter,

    /// Kind of the queue: deliveries or, on the base schema, cursor
    #[arg(long, value_name = "KIND", value_parser = Setting(one_of::<QueueKind>))]
    #[arg(env = "MAILROOM_QUEUE_KIND", default_value = "deliveries")]
    #[arg(help_heading = heading::BASE, hide_short_help = true)]
    pub queue_kind: QueueKind,

    /// Row of the table `jobs` that keeps the cursor
    #[arg(long, value_name = "NAME", value_parser = Setting(name))]
    #[arg(env = "MAILROOM_QUEUE_NAME", default_value = DEFAULT_QUEUE)]
    #[arg(help_heading = heading::BASE, hide_short_help = true)]
    pub queue_name: String,

    /// Channel on which the database announces tokens
    #[arg(long, value_name = "NAME", value_parser = Setting(name))]
    #[arg(env = "MAILROOM_CHANNEL_NAME", default_value = DEFAULT_CHANNEL)]
    #[arg(help_heading = heading::BASE, hide_short_help = true)]
    pub channel_name: String,

    /// How often all tokens beyond the cursor are read again, 100ms to 24h, not below the batch
    /// timeout; also the longest time between two polls,
    /// and between two checks of the listening connection
    // The lower end keeps an idle collector from asking the database without a pause.
    #[arg(long, value_name = "TIME", value_parser = Setting(duration(100..=DAY)))]
    #[arg(env = "MAILROOM_HEALTHCHECK_INTERVAL", default_value = "270s")]
    #[arg(allow_negative_numbers = true)]
    #[arg(help_heading = heading::BASE, hide_short_help = true)]
    pub healthcheck_interval: Duration,
}

/// What the queue `deliveries` does about tokens that do not go out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct DeliverySettings {
    /// Failures after which a token is given up, 1 to 1000: crashes or silence of the sender over
    /// it and, only if this is set, refusals; otherwise a refused token is tried until it expires
    #[arg(long, value_name = "N", value_parser = Setting(whole_number(1..=1_000)))]
    #[arg(env = "MAILROOM_MAX_ATTEMPTS", default_value = "8", allow_negative_numbers = true)]
    #[arg(help_heading = heading::SENDER)]
    pub max_attempts: usize,

    /// Whether refusals count towards `max_attempts`, too: if that is set.
    #[arg(skip)]
    pub bounds_refusals: bool,

    /// Pause after a token's first refusal, 100ms to 1h; doubles up to a minute or a 24th of its
    /// remaining life, at most an hour
    // The lower end keeps a sender that refuses everything from being asked without a pause.
    #[arg(long, value_name = "TIME", value_parser = Setting(duration(100..=HOUR)))]
    #[arg(env = "MAILROOM_BACKOFF", default_value = "1s", allow_negative_numbers = true)]
    #[arg(help_heading = heading::SENDER)]
    pub backoff: Duration,

    /// Tokens that live no longer than this are not sent any more, 0 to 24h;
    /// whole seconds, rounded up
    #[arg(long, value_name = "TIME", value_parser = Setting(duration(0..=DAY)))]
    #[arg(env = "MAILROOM_MIN_LIFETIME", default_value = "30s", allow_negative_numbers = true)]
    #[arg(help_heading = heading::LIMITS)]
    pub min_lifetime: Duration,

    /// Most tokens that all collectors of the queue claim in a time, such as 14/s, 23/min, 500/h,
    /// 10000/d, 3000/month or 14/s,3000/month, or `off`
    #[arg(long, value_name = "RATE", value_parser = Setting(rate_or_off))]
    #[arg(env = "MAILROOM_RATE", default_value = "off", allow_negative_numbers = true)]
    #[arg(help_heading = heading::LIMITS)]
    pub rate: RateLimit,

    /// Whether an address is suppressed when the provider says for sure
    /// that it does not exist: on or off
    #[arg(long, value_name = "WHETHER", value_parser = Setting(switch), action = ArgAction::Set)]
    #[arg(env = "MAILROOM_SUPPRESS_UNKNOWN", default_value = "off")]
    #[arg(num_args = 0..=1, default_missing_value = "on")]
    #[arg(help_heading = heading::SENDER)]
    pub suppress_unknown: bool,
}

/// The timeouts that also decide which ages `mailroom status` reports as an alarm.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct TimeoutSettings {
    /// How long a token waits for its batch to fill, 0 to 1h
    #[arg(long, value_name = "TIME", value_parser = Setting(duration(0..=HOUR)))]
    #[arg(env = "MAILROOM_BATCH_TIMEOUT", default_value = "5s", allow_negative_numbers = true)]
    #[arg(help_heading = heading::BATCHES)]
    pub batch_timeout: Duration,

    /// How long a sender may answer nothing before it is ended and started again, 100ms to 1h
    #[arg(long, value_name = "TIME", value_parser = Setting(duration(100..=HOUR)))]
    #[arg(env = "MAILROOM_SENDER_TIMEOUT", default_value = "30s", allow_negative_numbers = true)]
    #[arg(help_heading = heading::SENDER)]
    pub sender_timeout: Duration,
}

impl CollectSettings {
    /// Checks the settings against each other and completes what follows from
    /// where they were given.
    pub fn check(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let given = |name: &str| match matches.value_source(name) {
            Some(ValueSource::CommandLine) => format!("--{}", name.replace('_', "-")),
            Some(ValueSource::EnvVariable) => format!("MAILROOM_{}", name.to_ascii_uppercase()),
            _ => format!("the default of MAILROOM_{}", name.to_ascii_uppercase()),
        };
        let refuse = |name, fault: String| Err(refused(format!("{} {fault}", given(name))));
        let TimeoutSettings { batch_timeout, sender_timeout } = self.timeouts;
        if self.lease < 2 * sender_timeout {
            let [lease, timeout] = [self.lease, sender_timeout].map(HumanDuration);
            let fault =
                format!("is {lease}, which is below twice the sender's timeout of {timeout}");
            return refuse("lease", fault + "; raise it, or lower MAILROOM_SENDER_TIMEOUT");
        }
        if self.healthcheck_interval < batch_timeout {
            let [interval, timeout] = [self.healthcheck_interval, batch_timeout].map(HumanDuration);
            let fault = format!("is {interval}, which is below the batch timeout of {timeout}");
            return refuse(
                "healthcheck_interval",
                fault + "; raise it, or lower MAILROOM_BATCH_TIMEOUT",
            );
        }
        if self.queue_kind == QueueKind::Deliveries {
            // Settings of the queue `cursor` are refused here:
            // this queue would get no wake-ups, or ignore them.
            let advice = "; unset it or, on the base schema, set \
                          MAILROOM_QUEUE_KIND to `cursor`";
            if self.wake == Wake::Listen && self.channel_name != DEFAULT_CHANNEL {
                let shown = Shown(&self.channel_name);
                let announced =
                    format!("the queue `deliveries` is announced on `{DEFAULT_CHANNEL}`");
                return refuse("channel_name", format!("is {shown}, but {announced}{advice}"));
            }
            if self.queue_name != DEFAULT_QUEUE {
                let named =
                    "but names a row of the table jobs, which the queue `deliveries` does not read";
                return refuse(
                    "queue_name",
                    format!("is {}, {named}{advice}", Shown(&self.queue_name)),
                );
            }
        } else if let Some(rate) = self.deliveries.rate {
            return refuse(
                "rate",
                format!("is {rate}, but the queue `cursor` has no rate; unset it"),
            );
        } else if self.sender.is_some() {
            let fault = "is `cursor`, but with a sender it must be `deliveries`: the cursor is one \
                         number and cannot record which tokens are to be tried again";
            return refuse("queue_kind", fault.to_owned());
        }
        #[cfg(feature = "relay")]
        if self.verdicts_from.is_some() && self.queue_kind == QueueKind::Cursor {
            let fault = "is set, but the queue `cursor` records no verdicts; unset it";
            return refuse("verdicts_from", fault.to_owned());
        }
        if self.wake == Wake::Call {
            if self.queue_kind == QueueKind::Cursor {
                let fault = "is `call`, but the queue `cursor` is locked by a session; unset it";
                return refuse("wake", fault.to_owned());
            }
            if self.metrics_address.is_none() && !self.once {
                let fault = "is `call`, but there is no address to call: set \
                             MAILROOM_METRICS_ADDRESS";
                return refuse("wake", fault.to_owned());
            }
            #[cfg(feature = "relay")]
            if self.verdicts_from.is_some() {
                let fault = "is `call`, but verdicts of a broker are recorded at any time; unset \
                             MAILROOM_VERDICTS_FROM";
                return refuse("wake", fault.to_owned());
            }
            if matches.value_source("poll_interval") == Some(ValueSource::DefaultValue) {
                self.poll_interval = POLL_OF_CALLED;
            }
        } else {
            self.poll_interval = self.poll_interval.min(self.healthcheck_interval);
        }
        self.deliveries.bounds_refusals =
            matches.value_source("max_attempts") != Some(ValueSource::DefaultValue);
        // No token waits for a batch that no claim can fill.
        if let Some(rate) = self.deliveries.rate {
            self.batch_limit = self.batch_limit.min(rate.burst());
        }
        if self.sender.is_some() {
            self.line_format = LineFormat::Ndjson;
        }
        Ok(())
    }
}
