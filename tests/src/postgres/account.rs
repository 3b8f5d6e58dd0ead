//! When a server runs under another account.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context, Result};
use mailroom_local_postgres::Account;

/// The account to change to, or `None` when `owned`, a file made by this process, is not root's.
pub(super) fn to_change_to(owned: &Path) -> Result<Option<Account>> {
    if fs::metadata(owned)?.uid() != 0 {
        return Ok(None);
    }
    let account = Account::unprivileged().context("cannot read /etc/passwd")?;
    account.map(Some).context(
        "PostgreSQL refuses to run as root, and there is neither a user `postgres` nor `nobody` to \
         run it as: add one with `useradd --system postgres`",
    )
}
