//! Standbys: servers whose data are a copy of another one's, and that follow it.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::account;
use super::cluster::{Cluster, write_private};

/// Lets everybody in, also standbys.
pub const REPLICATION_HBA: &str = "local all all trust\nlocal replication all trust\n\
                                   host all all 127.0.0.1/32 trust\n";

/// What makes a server a standby when it starts.
const SIGNAL: &str = "standby.signal";

impl Cluster {
    /// Makes this stopped server a standby of another one, which lets it in by
    /// [`REPLICATION_HBA`], and starts it. Its own data are gone.
    pub fn follow(&mut self, primary: &Self) -> Result<()> {
        let own = tempfile::NamedTempFile::new()?;
        let account = account::to_change_to(own.path())?;
        let data = self.data_dir();
        let configuration = fs::read_to_string(data.join("postgresql.conf"))?;
        for entry in fs::read_dir(&data)? {
            let path = entry?.path();
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }?;
        }
        let place = primary.socket_dir().display();
        let server = format!("host={place} port={} user=postgres", primary.port());
        let program = self.installation().programs.join("pg_basebackup");
        let mut command = Command::new(program);
        command.arg("--pgdata").arg(&data).args(["--dbname", &server, "--checkpoint=fast"]);
        command.current_dir("/");
        if let Some(account) = account {
            account.run(&mut command);
        }
        let output = command.output().context("pg_basebackup cannot be started")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "pg_basebackup: {said}");
        let text = format!("{configuration}primary_conninfo = '{server}'\n");
        write_private(&data.join("postgresql.conf"), &text, account)?;
        write_private(&data.join(SIGNAL), "", account)?;
        self.start_again()
    }

    /// Starts this stopped server as one that takes no writes, as what fences a primary that comes
    /// back after another one was promoted.
    pub fn return_fenced(&mut self) -> Result<()> {
        let own = tempfile::NamedTempFile::new()?;
        let account = account::to_change_to(own.path())?;
        write_private(&self.data_dir().join(SIGNAL), "", account)?;
        self.start_again()
    }
}
