//! The settings: what they are called, what they may be, and what is reported otherwise.
//!
//! clap reads them: a flag beats its environment variable, and an empty variable counts as unset
//! (see `cli`). A value that cannot be used is reported in one sentence that names the flag or the
//! variable. Keys and the URL are no arguments.

mod choice;
mod collect;
pub(crate) mod environment_file;
pub(crate) mod heading;
mod rate;
mod schema;
mod setting;
pub(crate) mod shown;

use std::env;

pub(crate) use choice::{
    LineFormat, ListeningAddress, MissingSchema, PrefetchLimit, QueueKind, Retention,
    TOKEN_RETENTION, Wake,
};
pub use collect::DeliverySettings;
pub(crate) use collect::{CollectSettings, TimeoutSettings};
pub use rate::Rate;
pub(crate) use schema::SchemaSetting;
pub(crate) use setting::{
    Setting, digits, installation, must_be, name_of, older_than, one_of, retention,
    setting_of_variable, token_format, whole_number,
};

const PREFIX: &str = "MAILROOM_";

/// Settings that are not arguments of `collect`: read without clap, or by other commands.
const OTHERS: [&str; 9] = [
    "DATABASE_URL",
    "DATABASE_PASSWORD_COMMAND",
    "SCHEMA",
    "SECRET_KEY",
    "SIGNING_KEY",
    "PUBLIC_KEY",
    "KEY_FILE",
    "MIGRATIONS_TABLE",
    "FURTHER_ACTIONS",
];

/// The least similarity of a name that is proposed, as for flags.
const SIMILARITY: f64 = 0.7;

/// The names in the environment that begin as settings do and are none,
/// each with the most similar setting.
pub(crate) fn unknown_variables() -> Vec<(String, Option<String>)> {
    let command = <CollectSettings as clap::Args>::augment_args(clap::Command::new("collect"));
    let flags =
        command.get_arguments().filter_map(|arg| arg.get_env()?.to_str()?.strip_prefix(PREFIX));
    let known: Vec<_> = flags.chain(OTHERS).collect();
    let unknown = env::vars_os().filter_map(|(name, _)| {
        let name = name.to_string_lossy();
        let rest = name.strip_prefix(PREFIX)?;
        let similarity = |other: &str| strsim::jaro(&rest.to_ascii_uppercase(), other);
        let nearest = known.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)))?;
        let is_near = similarity(nearest) > SIMILARITY;
        (*nearest != rest)
            .then(|| (name.to_string(), is_near.then(|| format!("{PREFIX}{nearest}"))))
    });
    unknown.collect()
}
