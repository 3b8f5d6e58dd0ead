//! What settings are taken from when the connection string does not give them.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The part of the outside world that libpq takes defaults from.
pub struct Environment {
    /// The environment variables.
    pub variables: HashMap<OsString, OsString>,
    /// Looks up the name of the operating system's user.
    pub user_name: fn() -> Option<String>,
    /// The folder that holds `.pgpass`, `.pg_service.conf` and `.postgresql/`; if there is none,
    /// one that does not exist.
    pub home: PathBuf,
    /// The folders in which local servers make their sockets, the preferred one first.
    pub socket_folders: Vec<PathBuf>,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            user_name: || whoami::username().ok(),
            home: std::env::home_dir()
                .filter(|home| !home.as_os_str().is_empty())
                .unwrap_or("/nonexistent".into()),
            // Debian and Red Hat build PostgreSQL with a folder under /run,
            // the original sources with /tmp.
            socket_folders: ["/var/run/postgresql", "/run/postgresql", "/tmp"]
                .map(PathBuf::from)
                .to_vec(),
        }
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }
}
