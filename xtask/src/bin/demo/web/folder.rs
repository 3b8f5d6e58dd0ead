//! A folder for keys, logs and the edge's store.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result};

/// Nobody else can read it, and it is removed with this value.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn create() -> Result<Self> {
        let path = env::temp_dir().join(format!("mailroom-demo-{}", process::id()));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}
