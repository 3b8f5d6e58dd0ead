//! `mailroom send --check`: whether mails could go out. It sends nothing and leaves nothing behind.

use std::path::Path;
use std::time::Duration;

use mailroom_mail::Error;

use crate::config::Config;
use crate::journal::Journal;
use crate::placeholders::Shown;
use crate::provider::Provider;
use crate::writer::Writer;

/// The collector's setting that says how long a sender may be silent, and its default.
const SENDER_TIMEOUT: &str = "MAILROOM_SENDER_TIMEOUT";
const DEFAULT_SENDER_TIMEOUT: Duration = Duration::from_secs(30);

/// Writes a mail of every template, reads the journal, compares the limits, connects to each
/// provider and authenticates; returns what was found, a sentence a line.
///
/// `actions` says which actions have a link and a code in the database, if somebody asked it.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(config: &Path, actions: &[Shown]) -> Result<Vec<String>, Error> {
    let config = Config::read(config)?;
    let providers = config.providers()?;
    config.domains()?;
    let (writer, samples) = Writer::with_samples(&config)?;
    let known = |action: &str| {
        let given = actions.iter().find(|shown| shown.action == action);
        given.cloned().unwrap_or_else(|| Shown::without_database(action))
    };
    let lacking = writer.lacking(&samples, |action| Some(known(action)))?;
    if !lacking.placeholders.is_empty() {
        return Err(Error::configuration(lacking.placeholders.join("; ")));
    }
    Journal::check(&config.journal)?;
    let mut found = vec![
        format!("{} mails can be written from the templates", samples.len()),
        format!("the journal {} can be used", config.journal.display()),
    ];
    found.extend(lacking.links.iter().map(|mail| {
        format!(
            "warning: {mail} shows no {{{{ link }}}}; that is right only if its action has no path \
             in the database, and so no link"
        )
    }));
    let setting = std::env::var(SENDER_TIMEOUT).ok();
    for provider in &providers {
        found.extend(compare(&**provider, setting.as_deref())?);
    }
    for provider in providers {
        let warning = provider.check().map_err(Error::Failure)?;
        found
            .push(format!("the provider {} answers and accepts the login or key", provider.name()));
        found.extend(warning.map(|warning| format!("warning: {warning}")));
    }
    Ok(found)
}

/// What the mails of a database's actions do not show, a sentence a mail: nobody can use such a
/// mail. Actions without a template are passed over.
///
/// # Errors
/// A configuration or templates that cannot be used.
pub fn lost_placeholders(config: &Path, actions: &[Shown]) -> Result<Vec<String>, Error> {
    let (writer, samples) = Writer::with_samples(&Config::read(config)?)?;
    let known = |action: &str| actions.iter().find(|shown| shown.action == action).cloned();
    Ok(writer.lacking(&samples, known)?.placeholders)
}

/// Which of these actions have no mail in the configured language, so that none is sent for them.
///
/// # Errors
/// A configuration or templates that cannot be used.
pub fn actions_without_mail(config: &Path, actions: &[String]) -> Result<Vec<String>, Error> {
    let writer = Writer::new(&Config::read(config)?)?;
    Ok(actions.iter().filter(|action| !writer.has_mail(action)).cloned().collect())
}

/// Compares how long an attempt may take with how long the collector waits. The wait for the answer
/// to a content does not count: the collector is told of it.
fn compare(provider: &dyn Provider, setting: Option<&str>) -> Result<Option<String>, Error> {
    let Some(timeout) = provider.timeout() else { return Ok(None) };
    let allowed = match setting {
        None => DEFAULT_SENDER_TIMEOUT,
        Some(text) => duration(text).ok_or_else(|| {
            Error::configuration(format!(
                "{SENDER_TIMEOUT} must be a number with a unit, such as 30s"
            ))
        })?,
    };
    let name = provider.name();
    let seconds = timeout.as_secs();
    let milliseconds = allowed.as_millis();
    let origin = if setting.is_some() { "as it is set here" } else { "its default" };
    if timeout >= allowed {
        return Err(Error::configuration(format!(
            "[{name}] timeout_seconds = {seconds} is not below {SENDER_TIMEOUT}, which is \
             {milliseconds} ms ({origin}): the collector would end the sender while it waits for \
             the server; lower the one or raise the other, \
             and give this command the collector's {SENDER_TIMEOUT}"
        )));
    }
    Ok(Some(format!(
        "[{name}] timeout_seconds = {seconds} is below {SENDER_TIMEOUT}, \
         which is {milliseconds} ms ({origin}), as it has to be"
    )))
}

/// A duration as the collector's settings have it: `500ms`, `30s`, `2m`, `1h`.
fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let milliseconds = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_the_collector_reads_it() {
        for (text, milliseconds) in [
            ("100ms", Some(100)),
            ("30s", Some(30_000)),
            ("1h", Some(3_600_000)),
            ("30", Some(30)),
            ("2m", Some(120_000)),
            ("2min", None),
            ("s", None),
        ] {
            assert_eq!(duration(text), milliseconds.map(Duration::from_millis), "{text}");
        }
    }
}
