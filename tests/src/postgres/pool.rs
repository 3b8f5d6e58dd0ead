//! A `PgBouncer` in front of a server.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};

use super::account;
use super::cluster::Cluster;
use super::folder;
use crate::collector::wait_until;
use crate::port;

/// Debian puts it where only root's PATH leads.
const PROGRAMS: [&str; 3] =
    ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer"];

/// Ends with this process, however that ends, because its input does.
const SCRIPT: &str = r#""$1" -q "$2/pgbouncer.ini" & read -r _; kill -KILL $!; rm -rf "$2""#;

/// A pool of connections to a server as one user, ended when this is dropped.
#[derive(Debug)]
pub struct Pool {
    port: u16,
    folder: PathBuf,
    shell: Child,
    input: Option<ChildStdin>,
}

impl Pool {
    /// Starts it with a `pool_mode`, and with so many connections to each database, as `postgres`.
    pub fn start(cluster: &Cluster, mode: &str, size: usize) -> Result<Self> {
        Self::start_as(cluster, mode, size, "postgres")
    }

    /// The same with connections as another user of the server.
    pub fn start_as(cluster: &Cluster, mode: &str, size: usize, user: &str) -> Result<Self> {
        let server = format!("host={} port={}", cluster.socket_dir().display(), cluster.port());
        Self::start_before(&format!("{server} user={user}"), mode, size, "")
    }

    /// The same before a server that a line of `[databases]` names, with more settings.
    pub fn start_before(server: &str, mode: &str, size: usize, settings: &str) -> Result<Self> {
        let program = PROGRAMS.iter().map(Path::new).find(|program| program.exists());
        let program =
            program.context("there is no PgBouncer: install Debian's package pgbouncer")?;
        let (folder, port) = (folder::create()?, port::free()?);
        let settings = format!(
            "[databases]\n* = {server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n\
             default_pool_size = {size}\nlogfile = {}/log\n{settings}",
            folder.display()
        );
        fs::write(folder.join("pgbouncer.ini"), settings)?;

        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(program).arg(&folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(account) = account::to_change_to(&folder)? {
            account.own(&folder)?;
            account.own(&folder.join("pgbouncer.ini"))?;
            account.run(&mut command);
        }
        let mut shell = command.spawn().context("cannot run sh")?;
        let input = shell.stdin.take();
        let pool = Self { port, folder, shell, input };
        wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())
            .with_context(|| format!("PgBouncer does not start; its log says:\n{}", pool.log()))?;
        Ok(pool)
    }

    /// The URL of a database through it.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        drop(self.input.take());
        self.shell.wait().ok();
    }
}
