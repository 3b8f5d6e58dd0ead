//! A real mail server, aiosmtpd, that refuses what a test wants it to.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::collector::wait_until;
use crate::machine::has_python;
use crate::{python, tools};

/// A running mail server, ended when this is dropped. `tests/senders/mail_server.py` says which
/// recipients are refused.
#[derive(Debug)]
pub struct MailServer {
    child: Child,
    /// Its port at 127.0.0.1.
    pub port: u16,
    input: Mutex<ChildStdin>,
    seen: Arc<Mutex<Seen>>,
}

/// What it has said.
#[derive(Debug, Default)]
struct Seen {
    mails: Vec<Mail>,
    arrivals: Vec<Arrival>,
    recipients: Vec<String>,
    /// How often it was asked and has answered.
    echoes: usize,
    asked: usize,
}

/// A mail that it accepted, or took in before it cut the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The recipient of the envelope.
    pub to: String,
    /// The sender of the envelope.
    pub sender: String,
    /// The name that the client greeted it with.
    pub hello: String,
    /// Headers and body.
    pub content: String,
    /// The body in plain text, decoded.
    pub text: String,
    /// The body in HTML, decoded.
    pub html: String,
}

/// When a mail came, for whom and from whom.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The recipient of the envelope.
    pub to: String,
    /// The name that the client greeted the server with.
    pub hello: String,
    /// When the test read of it.
    pub at: Instant,
}

impl Mail {
    /// The value of a header that stands on one line.
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.content.split("\r\n\r\n").next()?;
        headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl MailServer {
    /// Starts one; nothing if this machine lacks what it needs,
    /// and then the calling test is skipped.
    pub fn start(options: &[&str]) -> Result<Option<Self>> {
        if !has_python()? {
            return Ok(None);
        }
        let Some(packages) = python::packages("tests/senders/requirements.txt")? else {
            return Ok(None);
        };
        Self::run(Command::new("python3").env("PYTHONPATH", packages), "mail_server.py", options)
            .map(Some)
    }

    /// Starts a stand-in for the HTTP APIs of providers, `tests/senders/api_server.py`.
    pub fn start_api(options: &[&str]) -> Result<Option<Self>> {
        if !has_python()? {
            return Ok(None);
        }
        Self::run(&mut Command::new("python3"), "api_server.py", options).map(Some)
    }

    fn run(python: &mut Command, program: &str, options: &[&str]) -> Result<Self> {
        let mut child = python
            .arg(tools::workspace().join("tests/senders").join(program))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("standard output is a pipe")?);
        let mut errors = child.stderr.take().context("standard error is a pipe")?;
        let mut first = String::new();
        lines.read_line(&mut first)?;
        let Ok(port) = first.trim().parse() else {
            let mut said = String::new();
            errors.read_to_string(&mut said)?;
            anyhow::bail!("the mail server does not start: {said}");
        };
        // What it says is read, so that it never waits for a full pipe.
        thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let copy = Arc::clone(&seen);
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let Ok(event) = serde_json::from_str::<Value>(&line) else { return };
                let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
                let (to, sender, content) = (text("to"), text("sender"), text("content"));
                let (hello, text, html) = (text("hello"), text("text"), text("html"));
                let mail = Mail { to, sender, hello, content, text, html };
                let mut seen = copy.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(recipient) = event["asked"].as_str() {
                    seen.recipients.push(recipient.to_owned());
                } else if event["to"].is_null() {
                    seen.echoes += 1;
                } else {
                    let (to, hello) = (mail.to.clone(), mail.hello.clone());
                    seen.arrivals.push(Arrival { to, hello, at: Instant::now() });
                    seen.mails.push(mail);
                }
            }
        });
        let input = Mutex::new(child.stdin.take().context("standard input is a pipe")?);
        Ok(Self { child, port, input, seen })
    }

    /// All mails that it has taken in, in their order.
    ///
    /// # Panics
    /// If it has ended.
    pub fn mails(&self) -> Vec<Mail> {
        self.tell("\n");
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).mails.clone()
    }

    /// The same without what they say, of which a long run has much.
    ///
    /// # Panics
    /// If it has ended.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.tell("\n");
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).arrivals.clone()
    }

    /// The recipients that it was asked about, accepted or not, in their order.
    ///
    /// # Panics
    /// If it has ended.
    pub fn recipients(&self) -> Vec<String> {
        self.tell("\n");
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).recipients.clone()
    }

    /// Has it refuse everything for now, or take mails again. What it answers afterwards is known
    /// not to be accepted.
    ///
    /// # Panics
    /// If it has ended.
    pub fn refuse(&self, refuses: bool) {
        self.tell(if refuses { "refuse\n" } else { "accept\n" });
    }

    /// Has it take in the mails that `--hold` keeps waiting.
    ///
    /// # Panics
    /// If it has ended.
    pub fn release(&self) {
        self.tell("release\n");
    }

    /// Has the stand-in forget every key, as at the end of the time for
    /// which a provider keeps them.
    ///
    /// # Panics
    /// If it has ended.
    pub fn forget_keys(&self) {
        self.tell("forget\n");
    }

    /// Writes a line to it, and waits until it has read it.
    fn tell(&self, line: &str) {
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = {
            let mut seen = seen();
            seen.asked += 1;
            seen.asked
        };
        let written =
            self.input.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
        written.expect("the mail server runs");
        wait_until(|| seen().echoes >= asked).expect("the mail server answers");
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
