//! What settings are taken from in these tests: variables, a home folder, socket folders.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mailroom::postgres::Environment;
use tempfile::TempDir;

pub(crate) struct Surroundings {
    variables: HashMap<&'static str, OsString>,
    home: TempDir,
    sockets: Vec<PathBuf>,
}

impl Surroundings {
    /// No variables, an empty home folder, and socket folders that do not exist.
    pub(crate) fn new() -> Self {
        Self {
            variables: HashMap::new(),
            home: tempfile::tempdir().unwrap(),
            sockets: vec!["/nowhere/run/postgresql".into()],
        }
    }

    pub(crate) fn set(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.insert(name, value.into());
        self
    }

    pub(crate) fn sockets_in(mut self, folder: &Path) -> Self {
        self.sockets = vec![folder.to_owned()];
        self
    }

    /// Writes a file below the home folder, readable for its owner alone.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Lets everybody read a file below the home folder.
    pub(crate) fn open_to_all(&self, name: &str) {
        fs::set_permissions(self.home.path().join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
}

impl Environment for Surroundings {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).cloned()
    }

    fn user_name(&self) -> Option<String> {
        Some("postgres".to_owned())
    }

    fn home_directory(&self) -> Option<PathBuf> {
        Some(self.home.path().to_owned())
    }

    fn socket_directories(&self) -> Vec<PathBuf> {
        self.sockets.clone()
    }
}
