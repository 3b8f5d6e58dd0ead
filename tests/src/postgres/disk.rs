//! Disks that are full for a while.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Whether [`Builder::disk`](super::Builder::disk) works here: only root can mount, and root of a
/// container may be refused, too.
pub fn can_be_made() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"]);
    command.output().is_ok_and(|output| output.status.success())
}

/// Fills the disk in `folder` to its last page,
/// with a file that the server writes for its superuser.
pub async fn fill(client: &Client, folder: &Path) -> Result<()> {
    let rows = "SELECT repeat('x', 1000000) FROM generate_series(1, 1000000)";
    let full = client.batch_execute(&copy(rows, folder)).await;
    let error = full.err().context("the disk holds a terabyte")?;
    ensure!(error.code() == Some(&SqlState::DISK_FULL), "the disk is not filled: {error:?}");
    Ok(())
}

/// Takes away what [`fill`] has written.
pub async fn free(client: &Client, folder: &Path) -> Result<()> {
    client.batch_execute(&copy("SELECT WHERE false", folder)).await.context("the disk is not freed")
}

fn copy(rows: &str, folder: &Path) -> String {
    format!("COPY ({rows}) TO '{}'", folder.join("ballast").display())
}
