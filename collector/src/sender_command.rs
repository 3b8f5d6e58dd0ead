//! The command that is a sender, and how it is started.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use mailroom_connect::CommandWords;
use tokio::process::{Child, Command};

/// The longest part of a path, and of the first line of a script, that is shown.
const MAX_PATH: usize = 256;

/// The variable by which a sender is told the names of the database's actions.
pub(crate) const ACTIONS: &str = "MAILROOM_ACTIONS";

/// What is started. Not `Debug`: arguments may be secret.
#[derive(Clone)]
pub struct SenderCommand(CommandWords);

impl SenderCommand {
    /// `None` if there is no program in it, or a quote does not end.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        CommandWords::parse(text).map(Self)
    }

    /// The program's name without folders, for the log.
    pub(crate) fn name(&self) -> String {
        let name = Path::new(&self.0.program).file_name().unwrap_or(OsStr::new(&self.0.program));
        name.to_string_lossy()
            .chars()
            .filter(|character| !character.is_control())
            .take(64)
            .collect()
    }

    /// Why the program could not be started: its path, and what a script names as its interpreter.
    pub(crate) fn why_not_started(&self, error: &io::Error) -> String {
        let path = Path::new(&self.0.program);
        let shown: String =
            self.0.program.chars().flat_map(char::escape_debug).take(MAX_PATH).collect();
        // A missing interpreter leads to the same error as a missing script.
        let interpreter =
            (error.kind() == io::ErrorKind::NotFound).then(|| interpreter(path)).flatten();
        match interpreter {
            Some(name) => {
                format!("cannot be started: {shown} exists, but its interpreter {name} does not")
            }
            None if path.components().count() > 1 => format!("cannot be started: {shown}: {error}"),
            None => format!("cannot be started: {shown}, looked for in PATH: {error}"),
        }
    }

    /// Starts it in a process group of its own, so that a signal for the collector is not
    /// one for the sender. It is told the names of the actions, with commas between them.
    pub(crate) fn spawn(&self, actions: Option<&str>) -> io::Result<Child> {
        let mut command = Command::new(&self.0.program);
        command.args(&self.0.arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Keys, the database's URL and its password: a sender that is tricked must not be able to
        // give them away.
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("MAILROOM_") || text.starts_with("PGPASS") {
                command.env_remove(&name);
            }
        }
        if let Some(actions) = actions {
            command.env(ACTIONS, actions);
        }
        command.spawn()
    }
}

/// The interpreter that the first line of a script names, if it does not exist.
fn interpreter(script: &Path) -> Option<String> {
    let mut line = Vec::new();
    let mut start = BufReader::new(File::open(script).ok()?).take(MAX_PATH as u64);
    start.read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8_lossy(line.strip_prefix(b"#!")?).into_owned();
    let name = line.split_whitespace().next().filter(|name| !Path::new(name).exists())?;
    Some(name.chars().flat_map(char::escape_debug).collect())
}
