//! Postfix' `smtp-sink`, a mail server that takes everything.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use mailroom_tests::collector::wait_until;
use mailroom_tests::port;
use rustix::process::geteuid;

/// One that runs, ended when this is dropped.
pub(crate) struct Sink {
    child: Child,
    pub(crate) port: u16,
}

impl Sink {
    pub(crate) fn start() -> Result<Self> {
        let port = port::free()?;
        let mut command = Command::new("/usr/sbin/smtp-sink");
        if geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        command.args([&format!("127.0.0.1:{port}"), "1024"]).stdin(Stdio::null());
        let child = command
            .spawn()
            .context("smtp-sink does not start: install Postfix (apt-get install postfix)")?;
        let sink = Self { child, port };
        wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(sink)
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
