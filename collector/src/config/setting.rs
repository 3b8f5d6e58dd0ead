//! Reads the text of flags and variables.

use std::ffi::OsStr;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, Command, ValueEnum};
use mailroom_verifier_core::Version;
use tracing::level_filters::LevelFilter;

use super::{PrefetchLimit, Retention, SenderCommand};
use crate::keys::looks_like_a_key;
use crate::log::display::HumanDuration;
use crate::sink::looks_like_a_token;

const DAY: u64 = 86_400;

/// Makes a function a parser of clap, whose errors name the flag or, where the value came from it, the variable.
#[derive(Clone)]
pub(crate) struct Setting<P>(pub(crate) P);

/// Why a text is refused.
pub(crate) enum Refusal {
    /// What is allowed; completes "NAME is `TEXT`, but must be".
    Allowed(String),
    /// Completes "NAME". The text is not shown: it may be secret.
    Unshown(&'static str),
}

impl<P, T> TypedValueParser for Setting<P>
where
    P: Fn(&str) -> Result<T, Refusal> + Clone + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }

    fn parse_ref_(
        &self,
        _: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<T, clap::Error> {
        let variable = arg.and_then(Arg::get_env).filter(|_| source == ValueSource::EnvVariable);
        let flag = arg.and_then(Arg::get_long).unwrap_or_default();
        let name = variable.map_or_else(|| format!("--{flag}"), |name| name.to_string_lossy().into_owned());
        let Some(text) = value.to_str() else {
            return Err(refused(format!("{name} is not valid UTF-8; write it in UTF-8")));
        };
        (self.0)(text).map_err(|refusal| match refusal {
            Refusal::Allowed(allowed) => refused(format!("{name} is {}, but must be {allowed}", Shown(text))),
            Refusal::Unshown(reason) => refused(format!("{name} {reason}")),
        })
    }
}

/// An error that `cli` reports as it is.
pub(crate) fn refused(sentence: String) -> clap::Error {
    let mut error = clap::Error::new(ErrorKind::ValueValidation);
    error.insert(ContextKind::Custom, ContextValue::String(sentence));
    error
}

/// A value in an error: quoted, control characters escaped, cut after 40 characters. A key or a token in the wrong place is not shown.
pub(crate) struct Shown<'a>(pub(crate) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 40;
        if looks_like_a_key(self.0) {
            return formatter.write_str("a text that looks like a key");
        }
        let is_number = self.0.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number && looks_like_a_token(self.0) {
            return formatter.write_str("a text that looks like a token");
        }
        let text: String = self.0.chars().take(LONGEST).flat_map(char::escape_debug).collect();
        let ellipsis = if self.0.chars().nth(LONGEST).is_some() { "…" } else { "" };
        write!(formatter, "`{text}{ellipsis}`")
    }
}

/// A word of an enum as it is written.
pub(crate) fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|word| word.get_name().to_owned()).unwrap_or_default()
}

pub(super) fn one_of<T: ValueEnum>(text: &str) -> Result<T, Refusal> {
    choose(text, T::value_variants().iter().map(|value| (name_of(value), value.clone())))
}

/// Without `off` and `trace`, in which nothing is logged.
pub(super) fn log_level(text: &str) -> Result<LevelFilter, Refusal> {
    let levels = [LevelFilter::ERROR, LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG];
    choose(text, levels.map(|level| (level.to_string(), level)))
}

pub(crate) fn token_format(text: &str) -> Result<Version, Refusal> {
    choose(text, [Version::V1, Version::V2, Version::V3].map(|format| (format.to_string(), format)))
}

fn choose<T>(text: &str, choices: impl IntoIterator<Item = (String, T)>) -> Result<T, Refusal> {
    let mut words = Vec::new();
    for (word, value) in choices {
        if word == text {
            return Ok(value);
        }
        words.push(format!("`{word}`"));
    }
    Err(Refusal::Allowed(words.join(" or ")))
}

/// A number in decimal digits and nothing else.
pub(super) fn whole_number(
    range: RangeInclusive<usize>,
) -> impl Fn(&str) -> Result<usize, Refusal> + Clone + Send + Sync {
    move |text| {
        let number = digits(text).and_then(|number| usize::try_from(number).ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            Refusal::Allowed(format!("a whole number from {} to {}", range.start(), range.end()))
        })
    }
}

/// A whole number of milliseconds, or one with the unit `ms`, `s`, `m` or `h`; the range is in milliseconds.
pub(super) fn duration(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<Duration, Refusal> + Clone + Send + Sync {
    move |text| {
        let units = [("", 1), ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        let milliseconds = with_unit(text, &units).filter(|span| range.contains(span));
        milliseconds.map(Duration::from_millis).ok_or_else(|| {
            let [from, to] = [*range.start(), *range.end()].map(Duration::from_millis).map(HumanDuration);
            let form = "a whole number of milliseconds, or one with the unit ms, s, m or h";
            Refusal::Allowed(format!("{form}, from {from} to {to}"))
        })
    }
}

/// An age from which rows may be deleted: hours or days, from one day to a hundred years.
pub(crate) fn retention(text: &str) -> Result<Duration, Refusal> {
    let seconds = with_unit(text, &[("h", 3_600), ("d", DAY)]);
    seconds
        .filter(|age| (DAY..=36_500 * DAY).contains(age))
        .map(Duration::from_secs)
        .ok_or_else(|| Refusal::Allowed("a whole number with the unit h or d, from 24h to 36500d".to_owned()))
}

pub(super) fn retention_or_off(text: &str) -> Result<Retention, Refusal> {
    let age = if text == "off" { None } else { Some(retention(text).map_err(|error| error.or("off"))?) };
    Ok(Retention(age))
}

pub(super) fn prefetch(text: &str) -> Result<PrefetchLimit, Refusal> {
    if text == "auto" {
        return Ok(PrefetchLimit::Auto);
    }
    whole_number(1..=1_000)(text).map(PrefetchLimit::Batches).map_err(|error| error.or("auto"))
}

/// A name that PostgreSQL neither refuses nor cuts.
pub(super) fn name(text: &str) -> Result<String, Refusal> {
    if (1..=63).contains(&text.len()) && !text.contains('\0') {
        Ok(text.to_owned())
    } else {
        Err(Refusal::Allowed("a name of 1 to 63 bytes without a NUL character".to_owned()))
    }
}

pub(super) fn sender(text: &str) -> Result<SenderCommand, Refusal> {
    SenderCommand::parse(text).ok_or(Refusal::Unshown(
        "is no command; it must be a program with its arguments, separated by blanks, and quoted as in a shell",
    ))
}

impl Refusal {
    fn or(self, word: &str) -> Self {
        match self {
            Self::Allowed(allowed) => Self::Allowed(format!("`{word}` or {allowed}")),
            unshown @ Self::Unshown(_) => unshown,
        }
    }
}

fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let start = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(start);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    digits(number)?.checked_mul(*factor)
}

/// `str::parse` alone would accept a leading `+`.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_value_is_reported_with_the_flag_or_the_variable_that_has_it() {
        let arg = Arg::new("lease").long("lease").env("MAILROOM_LEASE");
        let sentence = |value: &OsStr, source| {
            let error =
                Setting(prefetch).parse_ref_(&Command::new("x"), Some(&arg), value, source).unwrap_err();
            error.get(ContextKind::Custom).map(ToString::to_string).unwrap()
        };
        let allowed = "but must be `auto` or a whole number from 1 to 1000";
        for (source, name) in
            [(ValueSource::CommandLine, "--lease"), (ValueSource::EnvVariable, "MAILROOM_LEASE")]
        {
            assert_eq!(sentence("x".as_ref(), source), format!("{name} is `x`, {allowed}"));
        }
        let invalid = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff");
        let text = sentence(invalid, ValueSource::EnvVariable);
        assert_eq!(text, "MAILROOM_LEASE is not valid UTF-8; write it in UTF-8");
    }

    #[test]
    fn a_shown_value_is_escaped_and_cut_and_no_key() {
        assert_eq!(Shown("a\nb\u{1b}[1m").to_string(), "`a\\nb\\u{1b}[1m`");
        assert_eq!(Shown(&"9".repeat(41)).to_string(), format!("`{}…`", "9".repeat(40)));
        assert_eq!(Shown(&"aB3_-".repeat(8)).to_string(), "a text that looks like a token");
        assert_eq!(Shown(" mrsk_AAEC").to_string(), "a text that looks like a key");
    }
}
