//! The settings of a collector as its log shows them: by the names of their variables, without
//! secrets. Of a sender only the program is shown, because its arguments may hold a password.

use std::fmt::{Display, Write as _};

use clap::{Args as _, Command, FromArgMatches as _};
use serde_json::{Map, Value, json};

use super::{CollectSettings, name_of};
use crate::log::display::HumanDuration;
use crate::sender_command::SenderCommand;

/// Instead of a format, before the database was asked.
const UNSAID: &str = "(the installation's)";

/// Every setting, as an object.
pub(crate) fn all(settings: &CollectSettings) -> Value {
    let CollectSettings { deliveries, .. } = settings;
    let switch = |is_on: bool| if is_on { "on" } else { "off" };
    let all = json!({
        "token_format": token_format(settings),
        "installation": settings.installation.as_deref().unwrap_or("(none)"),
        "queue_kind": name_of(&settings.queue_kind),
        "queue_name": settings.queue_name,
        "channel_name": settings.channel_name,
        "batch_limit": settings.batch_limit,
        "batch_timeout": HumanDuration(settings.timeouts.batch_timeout).to_string(),
        "adaptive": switch(settings.adaptive),
        "poll_interval": HumanDuration(settings.poll_interval).to_string(),
        "wake": name_of(&settings.wake),
        "once": switch(settings.once),
        "missing_schema": name_of(&settings.missing_schema),
        "healthcheck_interval": HumanDuration(settings.healthcheck_interval).to_string(),
        "prefetch": or("auto", settings.prefetch),
        "line_format": name_of(&settings.line_format),
        "sender": settings.sender.as_ref().map(SenderCommand::name),
        "sender_timeout": HumanDuration(settings.timeouts.sender_timeout).to_string(),
        "lease": HumanDuration(settings.lease).to_string(),
        "max_attempts": deliveries.max_attempts,
        "max_refusals": deliveries.bounds_refusals.then_some(deliveries.max_attempts),
        "backoff": HumanDuration(deliveries.backoff).to_string(),
        "min_lifetime": HumanDuration(deliveries.min_lifetime).to_string(),
        "suppress_unknown": switch(deliveries.suppress_unknown),
        "rate": or("off", deliveries.rate),
        "retention": or("off", settings.retention.map(HumanDuration)),
        "token_retention": HumanDuration(settings.token_retention).to_string(),
        "metrics_address": or("off", settings.metrics_address),
        "log_format": name_of(&settings.log_format),
        "log_level": settings.log_level.to_string(),
    });
    #[cfg(feature = "relay")]
    let all = {
        let mut all = all;
        all["verdicts_from"] =
            json!(settings.verdicts_from.as_ref().map(mailroom_relay::VerdictsFrom::url));
        all
    };
    all
}

/// The settings that differ from the defaults, as in logfmt, for people.
pub(crate) fn changed(settings: &CollectSettings) -> String {
    let (all, defaults) = (members(settings), members(&by_default()));
    let mut text = String::new();
    for (name, value) in all.iter().filter(|(name, value)| defaults.get(*name) != Some(value)) {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let blank = if text.is_empty() { "" } else { " " };
        write!(text, "{blank}{name}={value}").expect("a string takes all that is written");
    }
    if text.is_empty() { "nothing".to_owned() } else { text }
}

/// The format in which links are signed, as far as it is known before the database was asked.
pub(crate) fn token_format(settings: &CollectSettings) -> String {
    or(UNSAID, settings.token_format)
}

fn members(settings: &CollectSettings) -> Map<String, Value> {
    match all(settings) {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// The settings of a collector for which nothing is set.
fn by_default() -> CollectSettings {
    let command = CollectSettings::augment_args(Command::new("collect"));
    let command = command.mut_args(|arg| arg.env(None::<&str>));
    let matches = command.try_get_matches_from(["collect"]).expect("every setting has a default");
    CollectSettings::from_arg_matches(&matches).expect("every default can be read")
}

/// A setting's value, or the word for its absence.
fn or(absence: &str, value: Option<impl Display>) -> String {
    value.map_or_else(|| absence.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_differs_from_the_defaults_until_something_is_set() {
        let mut settings = by_default();
        assert_eq!(changed(&settings), "nothing");
        settings.batch_limit = 5;
        settings.sender = SenderCommand::parse("send --password hunter2");
        assert_eq!(changed(&settings), "batch_limit=5 sender=send");
    }
}
