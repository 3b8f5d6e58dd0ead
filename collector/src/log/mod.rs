//! Log lines on standard error.
//!
//! They carry ids, counts and the database's messages. Tokens, secrets, codes, keys, connection
//! strings, email addresses and logins never appear in one: logs are kept longer, and read by more
//! people, than any of these may be.
//!
//! Each call has a fixed `event`; counts, ids and durations are in fields: `count`, `ids`,
//! `reason`, `lasted_ms` etc.

pub(crate) mod display;
pub(crate) mod outage;

use std::fmt::{self, Debug, Write as _};
use std::io;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

pub(crate) fn start(format: LogFormat, level: LevelFilter) {
    let lines = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        // To report on standard error that standard error cannot be written would panic.
        .log_internal_errors(false)
        .with_max_level(level)
        .with_target(false);
    let subscriber: Box<dyn Subscriber + Send + Sync> = match format {
        LogFormat::Text => {
            Box::new(lines.with_ansi(false).fmt_fields(TextFields).finish().with(own(level)))
        }
        LogFormat::Json => Box::new(lines.event_format(JsonLines).finish().with(own(level))),
    };
    // Only a second call fails, and then lines are being written already.
    tracing::subscriber::set_global_default(subscriber).ok();
}

/// Which lines there are. The clients of brokers write their own: that of RabbitMQ has a mail that
/// is returned in a warning, link and all, and that of NATS has messages below its warnings. What
/// the former finds is said in our own sentences.
fn own(level: LevelFilter) -> Targets {
    let of_nats = level.min(LevelFilter::WARN);
    Targets::new()
        .with_default(level)
        .with_target("lapin", LevelFilter::OFF)
        .with_target("async_nats", of_nats)
}

/// The fields of a line of text, and at its end the name of the event, by which the documents say
/// what to do.
struct TextFields;

impl<'writer> FormatFields<'writer> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut text = Text { writer, event: None, result: Ok(()) };
        fields.record(&mut text);
        text.result?;
        text.event.map_or(Ok(()), |event| write!(text.writer, " event={event}"))
    }
}

struct Text<'writer> {
    writer: Writer<'writer>,
    event: Option<String>,
    result: fmt::Result,
}

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if self.result.is_ok() {
            self.result = write_text(&mut self.writer, field, value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "event" {
            self.event = Some(value.to_owned());
        } else {
            self.record_debug(field, &value);
        }
    }
}

/// A field of a line of text. What the message contains already is left out.
fn write_text(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    match field.name() {
        // All settings are for programs; people read those that differ from the defaults.
        "activity" | "settings" => return Ok(()),
        "message" => {}
        "reason" => writer.write_str(": ")?,
        name => {
            write!(writer, " {name}=")?;
            if name == "traceparents" {
                // Digits and hyphens alone.
                return writer.write_str(&format!("{value:?}").replace([' ', '"'], ""));
            }
            return write_value(writer, &format!("{value:?}"));
        }
    }
    // Text of a server or a sender stays one line and moves no cursor.
    for character in format!("{value:?}").chars() {
        if character.is_control() {
            write!(writer, "{}", character.escape_default())?;
        } else {
            writer.write_char(character)?;
        }
    }
    Ok(())
}

/// The value of a field as in logfmt: quoted unless it is one word, so that text of a server or a
/// sender makes no fields.
fn write_value(writer: &mut Writer<'_>, text: &str) -> fmt::Result {
    let is_word = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '=' | '\\');
    let is_list = text.starts_with('[')
        && text.ends_with(']')
        && text.chars().all(|c| "[], 0123456789-".contains(c));
    if is_list {
        return writer.write_str(&text.replace(' ', ""));
    }
    if is_quoted(text) {
        return writer.write_str(text);
    }
    if !text.is_empty() && text.chars().all(is_word) {
        writer.write_str(text)
    } else {
        write!(writer, "{text:?}")
    }
}

/// Whether a text is in quotes already, as the debug form of a text is, and ends where these do.
fn is_quoted(text: &str) -> bool {
    let Some(inside) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return false;
    };
    let mut is_escaped = false;
    inside.chars().all(|c| {
        let ends = c == '"' && !is_escaped || c.is_control();
        is_escaped = c == '\\' && !is_escaped;
        !ends
    }) && !is_escaped
}

struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut members = Members(format!(r#"","level":"{}""#, event.metadata().level()));
        event.record(&mut members);
        writer.write_str(r#"{"timestamp":""#)?;
        SystemTime.format_time(&mut writer)?;
        writeln!(writer, "{}}}", members.0)
    }
}

struct Members(String);

impl Members {
    fn write(&mut self, field: &Field, value: impl fmt::Display) {
        write!(self.0, ",\"{}\":{value}", field.name()).expect("memory takes all that is written");
    }
}

impl Visit for Members {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        // A list of numbers or plain texts is written in JSON as in Rust, and settings are JSON
        // already.
        if matches!(field.name(), "ids" | "settings" | "traceparents") {
            self.write(field, text);
        } else {
            self.record_str(field, &text);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, serde_json::Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_several_words_is_quoted_as_in_logfmt() {
        for (value, written) in [
            ("word", "word"),
            ("/run/postgresql:5432", "/run/postgresql:5432"),
            ("", "\"\""),
            ("two words", "\"two words\""),
            ("level=ERROR", "\"level=ERROR\""),
            ("a \"b\"", "\"a \\\"b\\\"\""),
            ("line\nbreak", "\"line\\nbreak\""),
            ("\u{1b}[1m", "\"\\u{1b}[1m\""),
            ("[1, 2]", "[1,2]"),
            ("\"two words\"", "\"two words\""),
            ("\"a\" level=\"ERROR\"", "\"\\\"a\\\" level=\\\"ERROR\\\"\""),
        ] {
            let mut text = String::new();
            write_value(&mut Writer::new(&mut text), value).unwrap();
            assert_eq!(text, written);
        }
    }
}
