//! An environment for tests: variables of their own and a temporary home.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Environment;

pub(super) struct FixedEnvironment {
    variables: HashMap<String, OsString>,
    home: tempfile::TempDir,
    user: Option<String>,
    sockets: Vec<PathBuf>,
}

impl FixedEnvironment {
    pub(super) fn new() -> Self {
        Self {
            variables: HashMap::new(),
            home: tempfile::tempdir().unwrap(),
            user: Some("os-user".to_owned()),
            sockets: vec!["/nowhere/run".into(), "/nowhere/tmp".into()],
        }
    }

    pub(super) fn set(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.insert(name.to_owned(), value.as_ref().to_owned());
        self
    }

    pub(super) fn without_user(mut self) -> Self {
        self.user = None;
        self
    }

    pub(super) fn sockets_in(mut self, folders: &[&Path]) -> Self {
        self.sockets = folders.iter().map(|&folder| folder.to_owned()).collect();
        self
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    /// Writes a file below the home folder.
    pub(super) fn file(self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> Self {
        let path = self.home().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        self
    }
}

impl Environment for FixedEnvironment {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).cloned()
    }

    fn user_name(&self) -> Option<String> {
        self.user.clone()
    }

    fn home_directory(&self) -> Option<PathBuf> {
        Some(self.home().to_owned())
    }

    fn socket_directories(&self) -> Vec<PathBuf> {
        self.sockets.clone()
    }
}
