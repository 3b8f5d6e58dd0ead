//! The settings of the queue `deliveries`.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Origin, Setting, SettingError, Variables, value};

const ATTEMPTS: RangeInclusive<usize> = 1..=1_000;
/// The lower end keeps a sender that refuses everything from being asked without a pause.
const BACKOFFS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3_600);
const LIFETIMES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(86_400);

const MAX_ATTEMPTS: Setting = Setting { flag: "--max-attempts", variable: "MAILROOM_MAX_ATTEMPTS" };
const BACKOFF: Setting = Setting { flag: "--backoff", variable: "MAILROOM_BACKOFF" };
const MIN_LIFETIME: Setting = Setting { flag: "--min-lifetime", variable: "MAILROOM_MIN_LIFETIME" };

/// The flags for the queue `deliveries`, as they were written.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DeliveryFlags {
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        help = "How often a token may be refused, or the sender end or fall silent over it, before it is given up, 1 to 1000; \
                unless it is set, a token is refused until it expires, and the rest may happen 8 times \
                [env: MAILROOM_MAX_ATTEMPTS]"
    )]
    pub(crate) max_attempts: Option<OsString>,

    #[arg(
        long,
        value_name = "MS",
        allow_negative_numbers = true,
        help = "How long a token waits that was refused for the first time, 100ms to 1h; doubled each time, up to a \
                minute, or up to a 24th of what is left of its life, at most an hour \
                [env: MAILROOM_BACKOFF] [default: 1s]"
    )]
    pub(crate) backoff: Option<OsString>,

    #[arg(
        long,
        value_name = "MS",
        allow_negative_numbers = true,
        help = "Tokens that live no longer than this are not sent any more, 0 to 24h; whole seconds, rounded up \
                [env: MAILROOM_MIN_LIFETIME] [default: 30s]"
    )]
    pub(crate) min_lifetime: Option<OsString>,
}

/// What the queue `deliveries` does about tokens that do not go out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliverySettings {
    /// How often the sender may end or fall silent over a token before that is given up.
    pub max_attempts: usize,
    /// Whether refusals count towards `max_attempts`, too. Otherwise a token that is refused is tried until it expires.
    pub bounds_refusals: bool,
    /// The pause after the first refusal, doubled by each further one up to a minute or, if that is longer, itself or a 24th of what
    /// is left of the token's life, at most an hour.
    pub backoff: Duration,
    /// The least that must be left of a token's life for it to be sent.
    pub min_lifetime: Duration,
}

impl DeliverySettings {
    /// Reads flags and variables.
    ///
    /// # Errors
    /// The first value that is not allowed.
    pub fn read(flags: &DeliveryFlags, variables: Variables<'_>) -> Result<Self, SettingError> {
        let (attempts_origin, max_attempts) =
            MAX_ATTEMPTS.value(flags.max_attempts.as_ref(), variables, "8", |text| {
                value::whole_number(text, &ATTEMPTS)
            })?;
        let (_, backoff) = BACKOFF
            .value(flags.backoff.as_ref(), variables, "1s", |text| value::duration(text, &BACKOFFS))?;
        let (_, min_lifetime) =
            MIN_LIFETIME.value(flags.min_lifetime.as_ref(), variables, "30s", |text| {
                value::duration(text, &LIFETIMES)
            })?;
        let bounds_refusals = !matches!(attempts_origin, Origin::Default(_));
        Ok(Self { max_attempts, bounds_refusals, backoff, min_lifetime })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<DeliverySettings, String> {
        let lookup = |wanted: &str| (wanted == name).then(|| OsString::from(value));
        DeliverySettings::read(&DeliveryFlags::default(), &lookup).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_documented_ones() {
        let settings = read("", "").unwrap();
        assert_eq!((settings.max_attempts, settings.bounds_refusals), (8, false));
        assert_eq!(settings.backoff, Duration::from_secs(1));
        assert_eq!(settings.min_lifetime, Duration::from_secs(30));
    }

    #[test]
    fn refusals_are_bounded_where_somebody_says_so() {
        for attempts in [8, 20] {
            let settings = read("MAILROOM_MAX_ATTEMPTS", &attempts.to_string()).unwrap();
            assert_eq!((settings.max_attempts, settings.bounds_refusals), (attempts, true));
        }
        assert!(!read("MAILROOM_MAX_ATTEMPTS", "").unwrap().bounds_refusals);
    }

    #[test]
    fn every_invalid_value_is_one_sentence_that_names_its_variable() {
        const SPAN: &str =
            "but must be a whole number of milliseconds, or one with the unit ms, s, m or h, from";
        for (name, value, sentence) in [
            ("MAILROOM_MAX_ATTEMPTS", "0", "but must be a whole number from 1 to 1000".to_owned()),
            ("MAILROOM_MAX_ATTEMPTS", "many", "but must be a whole number from 1 to 1000".to_owned()),
            ("MAILROOM_BACKOFF", "0", format!("{SPAN} 100ms to 1h")),
            ("MAILROOM_MIN_LIFETIME", "-1", format!("{SPAN} 0 to 24h")),
        ] {
            assert_eq!(read(name, value).unwrap_err(), format!("{name} is `{value}`, {sentence}"));
        }
    }
}
