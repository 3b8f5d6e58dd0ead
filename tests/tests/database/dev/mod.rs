//! `mailroom dev`: mails of a developer's database, in the browser and as JSON.

mod document;
mod inbox;
mod refusals;
mod server;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::{Collector, Lines, wait_until};
use mailroom_tests::http;
use mailroom_tests::program;
use serde_json::Value;
use tempfile::TempDir;

/// The program, with its inbox at any free port.
struct Dev {
    program: Collector,
    /// Standard output until the inbox was there.
    said: String,
    address: String,
    folder: TempDir,
}

impl Dev {
    fn start(database_url: &str) -> Result<Self> {
        Self::start_with(&[("MAILROOM_DATABASE_URL", database_url)], &[])
    }

    fn start_with(variables: &[(&str, &str)], arguments: &[&str]) -> Result<Self> {
        Self::start_in(tempfile::tempdir()?, variables, arguments)
    }

    /// The same in a folder that may have the files of another one.
    fn start_in(folder: TempDir, variables: &[(&str, &str)], arguments: &[&str]) -> Result<Self> {
        let mut command = program::mailroom()?;
        command.args(["dev", "--port", "0"]).args(arguments).current_dir(&folder);
        let mut program = Collector::start(command.envs(variables.iter().copied()))?;
        let lines = program.lines()?;
        let (said, address) = inbox_of(&lines, &program)?;
        Ok(Self { program, said, address, folder })
    }

    /// The folder of its files.
    fn files(&self) -> std::path::PathBuf {
        self.folder.path().join(".mailroom")
    }

    /// Sends the head of a request, and returns the answer's status, head and body.
    fn request(&self, first: &str, headers: &[(&str, &str)]) -> Result<(u16, String, String)> {
        let mut request = format!("{first} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request.extend(["host: ", &self.address, "\r\n"]);
        }
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        request.push_str("content-length: 0\r\n\r\n");
        let (status, head, body) = http::ask(&self.address, request.as_bytes())?;
        Ok((status, head.to_ascii_lowercase(), body))
    }

    fn json(&self, first: &str) -> Result<Value> {
        let (status, _, body) = self.request(first, &[])?;
        ensure!(status == 200, "{first}: {status} {body}");
        Ok(serde_json::from_str(&body)?)
    }

    /// The newest mail for somebody, as soon as it is there.
    fn mail(&self, to: &str) -> Result<Value> {
        let mut mail = None;
        wait_until(|| {
            let mails = self.json(&format!("GET /mails?to={to}&wait=60s"));
            mail = mails.ok().and_then(|mails| mails.get(0).cloned());
            mail.is_some()
        })
        .with_context(|| format!("no mail for {to}"))?;
        mail.context("a mail")
    }
}

/// What it says until it shows the inbox, and where that is.
fn inbox_of(lines: &Lines, program: &Collector) -> Result<(String, String)> {
    let mut said = String::new();
    loop {
        let line = lines.next_line().with_context(|| program.log())?;
        said.extend([&line, "\n"]);
        if let Some(address) = line.trim_end().strip_prefix("Inbox: http://") {
            return Ok((said, address.trim_end_matches('/').to_owned()));
        }
    }
}

/// Waits until a file is gone.
fn wait_until_gone(path: &Path) -> Result<()> {
    wait_until(|| !path.exists()).with_context(|| format!("{} is still there", path.display()))
}
