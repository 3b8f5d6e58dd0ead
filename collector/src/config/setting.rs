//! Reads the text of flags and variables.

use std::ffi::OsStr;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, Command, ValueEnum};
use mailroom_redact::{looks_like_a_key, looks_like_a_token};
use mailroom_verifier_core::Version;
use tracing::level_filters::LevelFilter;

use super::{ListeningAddress, PrefetchLimit, Retention};
use crate::environment::variable;
use crate::log::display::HumanDuration;
use crate::sender_command::SenderCommand;

const DAY: u64 = 86_400;

const AGES: &str = "a whole number with the unit h or d, from 24h to 36500d";

/// Makes a function a parser of clap. Its error completes a sentence that begins with the name of
/// the flag or variable.
#[derive(Clone)]
pub(crate) struct Setting<P>(pub(crate) P);

impl<P, T> TypedValueParser for Setting<P>
where
    P: Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
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
        let name = match (variable, arg.and_then(Arg::get_long)) {
            (Some(variable), _) => variable.to_string_lossy().into_owned(),
            (None, Some(flag)) => format!("--{flag}"),
            (None, None) => arg.map(ToString::to_string).unwrap_or_default(),
        };
        read(&name, value, &self.0).map_err(refused)
    }
}

/// The setting of a variable that is no argument, or counts only for some uses of a command; `None`
/// if it is unset.
pub(crate) fn setting_of_variable<T>(
    name: &str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    variable(name).map(|value| read(name, &value, parse)).transpose()
}

fn read<T>(
    name: &str,
    value: &OsStr,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<T, String> {
    let text = value.to_str().ok_or_else(|| "is not valid UTF-8; write it in UTF-8".to_owned());
    text.and_then(parse).map_err(|fault| format!("{name} {fault}"))
}

/// An error that `cli` reports as it is.
pub(crate) fn refused(sentence: String) -> clap::Error {
    let mut error = clap::Error::new(ErrorKind::ValueValidation);
    error.insert(ContextKind::Custom, ContextValue::String(sentence));
    error
}

/// A value in an error: quoted, control characters escaped, cut after 40 characters. A key or a
/// token in the wrong place is not shown.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_SHOWN: usize = 40;
        if looks_like_a_key(self.0) {
            return formatter.write_str("a text that looks like a key");
        }
        let is_number = self.0.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number && looks_like_a_token(self.0) {
            return formatter.write_str("a text that looks like a token");
        }
        let text: String = self.0.chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect();
        let ellipsis = if self.0.chars().nth(MAX_SHOWN).is_some() { "…" } else { "" };
        write!(formatter, "`{text}{ellipsis}`")
    }
}

/// What is wrong with a text, after the name of its flag or variable.
pub(crate) fn must_be(text: &str, allowed: impl fmt::Display) -> String {
    format!("is {}, but must be {allowed}", Shown(text))
}

pub(crate) fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|word| word.get_name().to_owned()).unwrap_or_default()
}

pub(crate) fn one_of<T: ValueEnum>(text: &str) -> Result<T, String> {
    choose(text, T::value_variants(), name_of)
}

/// Without `off` and `trace`, in which nothing is logged.
pub(super) fn log_level(text: &str) -> Result<LevelFilter, String> {
    let levels = [LevelFilter::ERROR, LevelFilter::WARN, LevelFilter::INFO, LevelFilter::DEBUG];
    choose(text, &levels, LevelFilter::to_string)
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    choose(text, &[true, false], |is_on| if *is_on { "on" } else { "off" }.to_owned())
}

pub(crate) fn token_format(text: &str) -> Result<Version, String> {
    choose(text, &[Version::V1, Version::V2, Version::V3], Version::to_string)
}

fn choose<T: Clone>(text: &str, values: &[T], name: impl Fn(&T) -> String) -> Result<T, String> {
    values.iter().find(|value| name(value) == text).cloned().ok_or_else(|| {
        let words: Vec<_> = values.iter().map(|value| format!("`{}`", name(value))).collect();
        must_be(text, words.join(" or "))
    })
}

pub(crate) fn whole_number(
    range: RangeInclusive<usize>,
) -> impl Fn(&str) -> Result<usize, String> + Clone + Send + Sync {
    move |text| {
        let number = digits(text).filter(|number| range.contains(number));
        let allowed = || format!("a whole number from {} to {}", range.start(), range.end());
        number.ok_or_else(|| must_be(text, allowed()))
    }
}

/// A whole number of milliseconds, or one with the unit `ms`, `s`, `m` or `h`;
/// the range is in milliseconds.
pub(super) fn duration(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| {
        let units = [("", 1), ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
        with_unit(text, &units, &range).map(Duration::from_millis).ok_or_else(|| {
            let [from, to] =
                [*range.start(), *range.end()].map(Duration::from_millis).map(HumanDuration);
            let form = "a whole number of milliseconds, or one with the unit ms, s, m or h";
            must_be(text, format!("{form}, from {from} to {to}"))
        })
    }
}

/// An age from which rows may be deleted: hours or days, from one day to a hundred years.
pub(crate) fn retention(text: &str) -> Result<Duration, String> {
    let age = with_unit(text, &[("h", 3_600), ("d", DAY)], &(DAY..=36_500 * DAY));
    age.map(Duration::from_secs).ok_or_else(|| must_be(text, AGES))
}

/// An age: minutes, hours or days, up to a hundred years.
pub(crate) fn older_than(text: &str) -> Result<Duration, String> {
    let age = with_unit(text, &[("m", 60), ("h", 3_600), ("d", DAY)], &(0..=36_500 * DAY));
    age.map(Duration::from_secs)
        .ok_or_else(|| must_be(text, "a whole number with the unit m, h or d, up to 36500d"))
}

pub(super) fn retention_or_off(text: &str) -> Result<Retention, String> {
    let age = if text == "off" { Ok(None) } else { retention(text).map(Some) };
    age.map_err(|_| must_be(text, format!("`off` or {AGES}")))
}

pub(super) fn prefetch(text: &str) -> Result<PrefetchLimit, String> {
    let limit = if text == "auto" { Ok(None) } else { whole_number(1..=1_000)(text).map(Some) };
    limit.map_err(|_| must_be(text, "`auto` or a whole number from 1 to 1000"))
}

/// A name that PostgreSQL neither refuses nor cuts. No argument or variable has a NUL character.
pub(super) fn name(text: &str) -> Result<String, String> {
    let is_name = (1..=63).contains(&text.len());
    if is_name { Ok(text.to_owned()) } else { Err(must_be(text, "a name of 1 to 63 bytes")) }
}

/// What an installation can be called; the constraint `installation_name` of the schema is the
/// same.
pub(crate) fn installation(text: &str) -> Result<String, String> {
    let is_first = |byte: &u8| byte.is_ascii_alphanumeric();
    let is_name = (1..=63).contains(&text.len())
        && text.as_bytes().first().is_some_and(is_first)
        && text.bytes().all(|byte| is_first(&byte) || matches!(byte, b'.' | b'_' | b'-'));
    let allowed =
        "a name of 1 to 63 letters, digits and `.`, `_`, `-` that begins with a letter or digit";
    if is_name { Ok(text.to_owned()) } else { Err(must_be(text, allowed)) }
}

/// Where to serve HTTP: on this machine alone if only a port is given.
pub(super) fn listening_address_or_off(text: &str) -> Result<ListeningAddress, String> {
    let address = if text == "off" { Some(None) } else { mailroom_http::address(text).map(Some) };
    let allowed = "`off`, an address with a port, such as 10.0.0.5:9464 or [::1]:9464, or a port \
                   alone, which is that of 127.0.0.1";
    address.ok_or_else(|| must_be(text, allowed))
}

/// The text is not shown: it may hold a password.
pub(super) fn sender(text: &str) -> Result<SenderCommand, String> {
    let fault = "is no command; it must be a program with its arguments, separated by blanks, \
                 and quoted as in a shell";
    SenderCommand::parse(text).ok_or_else(|| fault.to_owned())
}

/// The text is not shown: it may hold a password.
#[cfg(feature = "relay")]
pub(super) fn verdicts_from(text: &str) -> Result<mailroom_relay::VerdictsFrom, String> {
    let words = mailroom_connect::CommandWords::parse(text);
    let words = words.map_or_else(Vec::new, |words| {
        std::iter::once(words.program).chain(words.arguments).collect::<Vec<_>>()
    });
    mailroom_relay::VerdictsFrom::parse(&words)
}

pub(super) fn with_unit(
    text: &str,
    units: &[(&str, u64)],
    range: &RangeInclusive<u64>,
) -> Option<u64> {
    let start = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(start);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    digits::<u64>(number)?.checked_mul(*factor).filter(|value| range.contains(value))
}

/// A whole number without a sign: `str::parse` alone would accept a leading `+`.
pub(crate) fn digits<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
