//! An environment for tests: variables of their own and a temporary home folder.

use std::ffi::OsStr;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;

use super::Environment;

pub(crate) struct TestEnvironment {
    pub(crate) inner: Environment,
    _home: tempfile::TempDir,
}

impl TestEnvironment {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let inner = Environment {
            variables: [].into(),
            user_name: || Some("os-user".to_owned()),
            home: home.path().to_owned(),
            socket_folders: vec!["/nowhere/run".into(), "/nowhere/tmp".into()],
        };
        Self { inner, _home: home }
    }

    pub(crate) fn set(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.inner.variables.insert(name.into(), value.as_ref().to_owned());
        self
    }

    /// Writes a file below the home folder.
    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>, mode: u32) -> Self {
        let path = self.home.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        self
    }
}

impl Deref for TestEnvironment {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.inner
    }
}
