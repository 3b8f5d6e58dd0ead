//! A command that prints the password, for passwords that live for minutes.
//!
//! It runs for each connection, without a shell, in an environment of its own. Nothing that it
//! prints is kept, logged or part of an error.

use std::env;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::CommandWords;

/// How long it may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes that it may print. Tokens of clouds have a kilobyte or two.
const MAX_BYTES: usize = 8 * 1024;

/// The variables that it gets. What else it needs is named in it: `env AWS_REGION=… aws …`.
const PASSED: [&str; 4] = ["PATH", "HOME", "LANG", "CREDENTIALS_DIRECTORY"];

/// What is run.
#[derive(Clone, Debug)]
pub struct PasswordCommand(CommandWords);

impl PasswordCommand {
    /// `None` if there is no program in it, or a quote does not end.
    pub fn parse(text: &str) -> Option<Self> {
        CommandWords::parse(text).map(Self)
    }

    /// The password that it prints now.
    ///
    /// # Errors
    /// Why there is none, in words that have nothing of what it printed.
    pub(crate) async fn run(&self) -> Result<Vec<u8>, String> {
        let mut command = Command::new(&self.0.program);
        command.args(&self.0.arguments).env_clear();
        command.envs(PASSED.iter().filter_map(|name| Some((name, env::var_os(name)?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // It may say there what is secret.
        command.stderr(Stdio::null());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("cannot be started: {error}"))?;
        // Dropped before the child, which gives its id back.
        let mut group = Group(child.id());
        timeout(TIMEOUT, read(&mut child, &mut group))
            .await
            .unwrap_or_else(|_| Err(format!("did not end within {} s", TIMEOUT.as_secs())))
    }
}

/// What a command prints until it ends. Its group is left alone then: the id may be another one's.
async fn read(child: &mut Child, group: &mut Group) -> Result<Vec<u8>, String> {
    let output = child.stdout.take().ok_or("has no standard output")?;
    let mut printed = Vec::new();
    let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX) + 1;
    output.take(most).read_to_end(&mut printed).await.map_err(|_| "cannot be read")?;
    if printed.len() > MAX_BYTES {
        return Err(format!("printed more than {MAX_BYTES} bytes"));
    }
    let status = child.wait().await.map_err(|_| "was not waited for")?;
    group.0 = None;
    if !status.success() {
        return Err(format!("failed: {status}"));
    }
    let password = printed.strip_suffix(b"\n").unwrap_or(&printed);
    let password = password.strip_suffix(b"\r").unwrap_or(password);
    if password.is_empty() {
        return Err("printed nothing".to_owned());
    }
    if password.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
        return Err("printed more than one line".to_owned());
    }
    Ok(password.to_vec())
}

/// A process with those that it started, all of which are killed when this is dropped with its id.
/// As long as nobody has waited for it, no other process gets that.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let id = self.0.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(id) = id {
            kill_process_group(id, Signal::KILL).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_words_and_no_shell() {
        let words = |text: &str| {
            PasswordCommand::parse(text).map(|PasswordCommand(it)| (it.program, it.arguments))
        };
        let expected = ("a".to_owned(), vec!["b c".to_owned(), "$HOME".to_owned()]);
        assert_eq!(words("a 'b c' $HOME"), Some(expected));
        for text in ["", " ", "''", "a 'b"] {
            assert_eq!(words(text), None, "{text:?}");
        }
        let shown = format!("{:?}", PasswordCommand::parse("/bin/x hunter2"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
