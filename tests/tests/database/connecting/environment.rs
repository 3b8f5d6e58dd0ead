//! What settings are taken from in these tests: variables, a home folder, socket folders.

use std::ffi::OsString;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mailroom_connect::Environment;
use tempfile::TempDir;

pub(crate) struct TestEnvironment {
    inner: Environment,
    home: TempDir,
}

impl TestEnvironment {
    /// No variables, an empty home folder, and socket folders that do not exist.
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let inner = Environment {
            variables: [].into(),
            user_name: || Some("postgres".to_owned()),
            home: home.path().to_owned(),
            socket_folders: vec!["/nowhere/run/postgresql".into()],
        };
        Self { inner, home }
    }

    pub(crate) fn set(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.inner.variables.insert(name.into(), value.into());
        self
    }

    pub(crate) fn sockets_in(mut self, folder: &Path) -> Self {
        self.inner.socket_folders = vec![folder.to_owned()];
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
        fs::set_permissions(self.home.path().join(name), fs::Permissions::from_mode(0o644))
            .unwrap();
    }
}

impl Deref for TestEnvironment {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.inner
    }
}
