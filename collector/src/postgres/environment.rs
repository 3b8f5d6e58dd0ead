//! What settings are taken from when the connection string does not give them.

use std::ffi::OsString;
use std::path::PathBuf;

/// The part of the outside world that libpq takes defaults from.
///
/// [`ProcessEnvironment`] is the real one. Tests give their own, because the variables of a process are
/// shared by all of its threads.
pub trait Environment {
    /// The value of the environment variable `name`, if it is set.
    fn variable(&self, name: &str) -> Option<OsString>;

    /// The name of the operating system's user, if it has one.
    fn user_name(&self) -> Option<String>;

    /// The folder that holds `.pgpass`, `.pg_service.conf` and `.postgresql/`.
    fn home_directory(&self) -> Option<PathBuf>;

    /// The folders in which local servers make their sockets, the preferred one first.
    fn socket_directories(&self) -> Vec<PathBuf>;
}

/// The environment of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnvironment;

impl Environment for ProcessEnvironment {
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }

    fn user_name(&self) -> Option<String> {
        whoami::username().ok()
    }

    fn home_directory(&self) -> Option<PathBuf> {
        std::env::home_dir().filter(|folder| !folder.as_os_str().is_empty())
    }

    fn socket_directories(&self) -> Vec<PathBuf> {
        // Debian and Red Hat build PostgreSQL with a folder under /run, the original sources with /tmp.
        ["/var/run/postgresql", "/run/postgresql", "/tmp"].map(PathBuf::from).to_vec()
    }
}
