//! The table of a provider that authenticates by a key in a header.

use std::path::{Path, PathBuf};

use mailroom_mail::{Error, Secret};
use serde::Deserialize;

use super::api::{self, Settings};
use crate::rate::Rate;

/// The table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyedConfig {
    /// The file of the key, or the variable.
    key_file: Option<PathBuf>,
    key_variable: Option<String>,
    /// Where the API is; the provider's own place unless given.
    url: Option<String>,
    /// A file of certificates that are trusted instead of the system's.
    ca_file: Option<PathBuf>,
    /// How many mails it gets in a time; no limit unless given.
    rate: Option<Rate>,
    /// Requests at a time, 1 to 64.
    #[serde(default = "api::two")]
    connections: usize,
    /// The time that a request may take, in seconds, 1 to 300.
    #[serde(default = "api::twenty")]
    timeout_seconds: u64,
}

impl KeyedConfig {
    pub(crate) fn make_paths_relative_to(&mut self, folder: &Path) {
        for path in [&mut self.ca_file, &mut self.key_file].into_iter().flatten() {
            *path = folder.join(&*path);
        }
    }

    /// The key of the table `name`.
    pub(super) fn key(&self, name: &str) -> Result<Secret, Error> {
        api::key(name, self.key_file.as_deref(), self.key_variable.as_deref())
    }

    /// The settings of the table `name`, for a provider whose API is at `url` unless the table says
    /// otherwise.
    pub(super) fn settings(&self, name: &'static str, url: &str, path: &str) -> Settings<'_> {
        Settings {
            name,
            url: format!("{}{path}", self.url.as_deref().unwrap_or(url).trim_end_matches('/')),
            ca_file: self.ca_file.as_deref(),
            connections: self.connections,
            timeout_seconds: self.timeout_seconds,
            rate: self.rate,
        }
    }
}
