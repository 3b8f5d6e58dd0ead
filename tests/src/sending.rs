//! A running `mailroom send`, with a test in the collector's place.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clock::WrongClock;
use crate::collector::PATIENCE;
use crate::program;

/// A folder with a configuration.
#[derive(Debug)]
pub struct Configuration {
    folder: TempDir,
}

impl Configuration {
    /// One with these lines of a provider: `[smtp]\nserver = …`.
    pub fn new(provider: &str) -> Result<Self> {
        let configuration = Self { folder: tempfile::tempdir()? };
        configuration.write(&format!("{BEGIN}\n{provider}"))?;
        Ok(configuration)
    }

    /// One for a mail server at 127.0.0.1 that asks for no encryption, with further lines.
    pub fn smtp(port: u16, further: &str) -> Result<Self> {
        Self::new(&format!(
            "[smtp]\nserver = \"127.0.0.1\"\nport = {port}\ntls = \"none\"\n{further}"
        ))
    }

    /// Replaces the text of the file.
    pub fn write(&self, text: &str) -> Result<()> {
        Ok(std::fs::write(self.file(), text)?)
    }

    /// The text of the file.
    pub fn text(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.file())?)
    }

    /// The path of the file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("send.toml")
    }

    /// A path beside it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

const BEGIN: &str = "from = \"Example <us@x.test>\"\nproduct = \"Example\"\njournal = \"journal\"\n\
    [links]\nbase = \"https://example.test\"\n";

/// A process that sends; killed when this is dropped.
#[derive(Debug)]
pub struct Sending {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    errors: Option<thread::JoinHandle<String>>,
}

impl Sending {
    /// Starts `mailroom send --config FILE`, with further arguments.
    pub fn start(configuration: &Configuration, arguments: &[&str]) -> Result<Self> {
        Self::start_with(&configuration.file(), arguments)
    }

    /// Starts it with a file that may not exist.
    pub fn start_with(file: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = program::mailroom()?;
        command.arg("send").arg("--config").arg(file).args(arguments);
        Self::run(&mut command)
    }

    /// Starts it so that writing fails where [`limit_files`](Self::limit_files) leaves no space, as
    /// on a full disk, instead of ending it.
    pub fn start_short_of_space(configuration: &Configuration) -> Result<Self> {
        let program = program::mailroom()?;
        let mut command = Command::new("bash");
        command.args(["-c", "trap '' XFSZ; exec \"$1\" send --config \"$2\"", "bash"]);
        command.arg(program.get_program()).arg(configuration.file());
        Self::run(&mut command)
    }

    /// From now on its files do not grow above so many bytes.
    pub fn limit_files(&self, bytes: usize) -> Result<()> {
        let limit = Some(u64::try_from(bytes)?);
        let limits = Rlimit { current: limit, maximum: limit };
        prlimit(Some(self.process()?), Resource::Fsize, limits)?;
        Ok(())
    }

    /// Starts it with a clock that is so many seconds ahead.
    pub fn start_ahead(
        configuration: &Configuration,
        clock: &WrongClock,
        seconds: i64,
    ) -> Result<Self> {
        let mut command = program::mailroom()?;
        command.args(["send", "--config"]).arg(configuration.file());
        Self::run(clock.shift(&mut command, seconds))
    }

    /// Starts another command that reads lines and answers, or that sends what comes from
    /// elsewhere.
    pub fn run(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let output = BufReader::new(child.stdout.take().context("standard output is a pipe")?);
        let mut errors = child.stderr.take().context("standard error is a pipe")?;
        let (sender, answers) = channel();
        thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let errors = thread::spawn(move || {
            let mut said = String::new();
            errors.read_to_string(&mut said).ok();
            said
        });
        Ok(Self { input: child.stdin.take(), child, answers, errors: Some(errors) })
    }

    /// Writes a line.
    pub fn write(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("the input is open")?;
        input.write_all(line.as_bytes())?;
        Ok(input.write_all(b"\n")?)
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// The next answer.
    pub fn answer(&self) -> Result<Value> {
        let line = self.answers.recv_timeout(PATIENCE).context("no answer comes")?;
        serde_json::from_str(&line).with_context(|| format!("{line} is no JSON"))
    }

    /// The next answer, if one comes so soon.
    pub fn answer_within(&self, time: Duration) -> Option<Value> {
        serde_json::from_str(&self.answers.recv_timeout(time).ok()?).ok()
    }

    /// Closes its input and waits for its end; returns how it ended and what it said.
    pub fn finish(mut self) -> Result<(ExitStatus, String)> {
        drop(self.input.take());
        let status = self.child.wait()?;
        let errors = self.errors.take().and_then(|errors| errors.join().ok());
        Ok((status, errors.unwrap_or_default()))
    }

    /// Closes its input, and returns what it answers until it ends.
    pub fn end_input(mut self) -> Result<Vec<Value>> {
        drop(self.input.take());
        let mut answers = Vec::new();
        while let Ok(line) = self.answers.recv_timeout(PATIENCE) {
            answers
                .push(serde_json::from_str(&line).with_context(|| format!("{line} is no JSON"))?);
        }
        anyhow::ensure!(self.child.wait()?.success(), "it fails");
        Ok(answers)
    }

    /// Asks it to end, as a service manager does; returns how it ended and what it said.
    pub fn stop(self) -> Result<(ExitStatus, String)> {
        self.signal(Signal::TERM)?;
        self.finish()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.process()?, signal)?)
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn process(&self) -> Result<Pid> {
        let process = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        process.context("a process has a positive id")
    }

    /// Ends it as the kernel does.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A batch with an activation for each of these ids and addresses. The key follows from the id.
pub fn batch(name: &str, people: &[(i64, &str)]) -> String {
    let items: Vec<Value> = people.iter().map(|(id, email)| item(*id, email)).collect();
    json!({"v": 1, "batch": name, "items": items}).to_string()
}

/// What a collector of this version understands.
pub const KNOWS: [&str; 8] = [
    "in_doubt",
    "working",
    "exact",
    "receipts",
    "unknown_address",
    "untried",
    "slow",
    "handed_over",
];

/// A batch of a collector that understands these answers, in which so many attempts of each token
/// are known to be in doubt.
pub fn batch_knowing(name: &str, knows: &[&str], people: &[(i64, &str)], doubts: u32) -> String {
    let items = people.iter().map(|(id, email)| {
        let mut item = item(*id, email);
        item["doubts"] = json!(doubts);
        item
    });
    json!({"v": 1, "batch": name, "knows": knows, "items": items.collect::<Vec<_>>()}).to_string()
}

/// An activation as a line carries it.
pub fn item(id: i64, email: &str) -> Value {
    json!({
        "id": id,
        "attempt": 1,
        "action": "activate",
        "path": "/activate",
        "email": email,
        "login": "ada",
        "token": token(id),
        "code": "",
        "expires_at": 4_000_000_000_i64,
        "key": key(id),
    })
}

/// The token of an id.
pub fn token(id: i64) -> String {
    let mut token = format!("token-{id}-");
    write!(token, "{}", "x".repeat(86 - token.len())).expect("a string takes all that is written");
    token
}

/// The key of an id.
pub fn key(id: i64) -> String {
    format!("{id:032x}")
}
