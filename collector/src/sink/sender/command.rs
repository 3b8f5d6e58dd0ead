//! The command that is a sender.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, Command};

/// The longest part of a path, and of the first line of a script, that is shown.
const LONGEST_PATH: usize = 256;

/// A program with its arguments.
#[derive(Clone, PartialEq, Eq)]
pub struct SenderCommand {
    program: String,
    arguments: Vec<String>,
}

/// A text that is no command: empty, or with a quote that does not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotACommand;

impl SenderCommand {
    /// Splits a text into words as a shell does: at blanks, with quotes, backslashes and comments. Nothing else of a
    /// shell happens: no variables, no patterns, no pipes.
    pub fn parse(text: &str) -> Result<Self, NotACommand> {
        let mut words = shlex::split(text).ok_or(NotACommand)?.into_iter();
        let program = words.next().filter(|program| !program.is_empty()).ok_or(NotACommand)?;
        Ok(Self { program, arguments: words.collect() })
    }

    /// The program's name without folders, for the log. Arguments are not shown: they may be secret.
    pub fn name(&self) -> String {
        let name = Path::new(&self.program).file_name().unwrap_or(OsStr::new(&self.program));
        name.to_string_lossy().chars().filter(|character| !character.is_control()).take(64).collect()
    }

    /// Why the program could not be started: its path, and what a script names as its interpreter.
    pub(super) fn why_not_started(&self, error: &io::Error) -> String {
        let path = Path::new(&self.program);
        let shown: String = self.program.chars().flat_map(char::escape_debug).take(LONGEST_PATH).collect();
        // A missing interpreter is told by the same error as a missing script.
        let interpreter = (error.kind() == io::ErrorKind::NotFound).then(|| interpreter(path)).flatten();
        match interpreter {
            Some(name) => format!("cannot be started: {shown} exists, but its interpreter {name} does not"),
            None if path.components().count() > 1 => format!("cannot be started: {shown}: {error}"),
            None => format!("cannot be started: {shown}, looked for in PATH: {error}"),
        }
    }

    /// Starts it in a process group of its own, so that a signal for the collector is not one for the sender. Its
    /// environment is that of the collector, except for what is the collector's alone.
    pub(super) fn spawn(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in env::vars_os().filter(|(name, _)| is_private(name)) {
            command.env_remove(name);
        }
        command.spawn()
    }
}

/// What the first line of a script says is to run it; nothing if it is no script, or that exists.
fn interpreter(script: &Path) -> Option<String> {
    let mut line = Vec::new();
    let mut start = BufReader::new(File::open(script).ok()?).take(LONGEST_PATH as u64);
    start.read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8_lossy(line.strip_prefix(b"#!")?).into_owned();
    let name = line.split_whitespace().next().filter(|name| !Path::new(name).exists())?;
    Some(name.chars().flat_map(char::escape_debug).collect())
}

/// Without the arguments.
impl fmt::Debug for SenderCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SenderCommand").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// Keys, the database's URL and its password: a sender that is tricked must not be able to give them away.
fn is_private(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("MAILROOM_") || name.starts_with("PGPASS")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Option<Vec<String>> {
        SenderCommand::parse(text).ok().map(|command| [vec![command.program], command.arguments].concat())
    }

    #[test]
    fn a_command_is_split_as_a_shell_would_and_no_shell_runs() {
        for (text, expected) in [
            ("send-mails", vec!["send-mails"]),
            ("  /opt/send   --from 'Ada <ada@x.test>' ", vec!["/opt/send", "--from", "Ada <ada@x.test>"]),
            (r#"send "a \" b" c\ d ''"#, vec!["send", "a \" b", "c d", ""]),
            ("send $HOME `id` $(id) *.txt ~ a|b;c>d", {
                vec!["send", "$HOME", "`id`", "$(id)", "*.txt", "~", "a|b;c>d"]
            }),
        ] {
            assert_eq!(words(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_names_no_program_is_refused() {
        for text in ["", "  \t", "''", "\"\" x", "send 'x", "send \"x", "# a comment"] {
            assert_eq!(words(text), None, "{text:?}");
        }
    }

    #[test]
    fn neither_arguments_nor_folders_are_shown() {
        let command = SenderCommand::parse("/home/ada/send --password hunter2").unwrap();
        assert_eq!(command.name(), "send");
        assert_eq!(format!("{command:?}"), r#"SenderCommand { name: "send", .. }"#);
    }

    #[test]
    fn what_is_the_collectors_alone_is_private() {
        for name in ["MAILROOM_SECRET_KEY", "MAILROOM_SIGNING_KEY", "MAILROOM_DATABASE_URL", "PGPASSWORD"] {
            assert!(is_private(OsStr::new(name)), "{name}");
        }
        for name in ["PATH", "SMTP_PASSWORD", "PGHOST", "XMAILROOM_"] {
            assert!(!is_private(OsStr::new(name)), "{name}");
        }
    }
}
