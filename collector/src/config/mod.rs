//! The settings: what they are called, what they may be, and what is reported otherwise.
//!
//! clap reads them: a flag beats its environment variable, and an empty variable counts as unset (see `cli`). A value that
//! cannot be used is one sentence that names the flag or the variable. Keys and the database's URL are no arguments.

mod choice;
mod collect;
mod setting;
mod unknown;

use std::ffi::OsString;

pub(crate) use choice::{LineFormat, MissingSchema, PrefetchLimit, QueueKind, Retention, Wake};
pub use collect::DeliverySettings;
pub(crate) use collect::{CollectSettings, TimeoutSettings};
pub(crate) use setting::{Setting, digits, must_be, name_of, retention, setting_of_variable, token_format};
pub(crate) use unknown::unknown_variables;

/// The value of an environment variable, unless it is empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
