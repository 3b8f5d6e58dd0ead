//! The folders of a demonstration, which last as long as it does.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use mailroom_tests::memory::folder_with;
use tempfile::{Builder, TempDir};

/// What there must be of memory, far more than it ever keeps.
const ENOUGH: u64 = 1 << 30;

/// Nobody else can read them, and they are removed with this value.
pub(crate) struct Folders {
    /// For keys and logs.
    pub(crate) private: TempDir,
    /// For what the edge's Durable Objects keep. workerd writes that in its only thread and waits for the disk: where
    /// something else keeps the disk busy, every page would wait for as long. So it is in memory, where there is room.
    pub(crate) objects: TempDir,
}

impl Folders {
    pub(crate) fn create() -> Result<Self> {
        let owner_only = Permissions::from_mode(0o700);
        let mut builder = Builder::new();
        builder.prefix("mailroom-demo-").permissions(owner_only);
        let objects =
            folder_with(ENOUGH).map_or_else(|| builder.tempdir(), |memory| builder.tempdir_in(memory));
        Ok(Self {
            private: builder.tempdir().context("cannot make a folder for keys and logs")?,
            objects: objects.context("cannot make a folder for what the edge stores")?,
        })
    }
}
