//! A shell that owns a server and ends it when this process ends, also when that is killed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use mailroom_local_postgres::Account;

#[derive(Debug)]
pub(super) struct Supervisor {
    shell: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Supervisor {
    /// Starts the shell, which from now on removes `folder` at the end of this process.
    ///
    /// With a disk of so many megabytes if that is asked for, which takes root.
    pub(super) fn start(
        programs: &Path,
        folder: &Path,
        account: Option<Account>,
        disk: Option<u32>,
    ) -> Result<Self> {
        let script = folder.join("supervisor.sh");
        fs::write(&script, include_str!("supervisor.sh"))?;
        if let Some(account) = account {
            account.own(&script)?;
        }
        let mut command = match disk {
            None => Command::new("sh"),
            Some(megabytes) => {
                let account = account.context("only root can make a small disk")?;
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", include_str!("small_disk.sh"), "sh"]);
                command.args(
                    [megabytes, account.user, account.group].map(|number| number.to_string()),
                );
                command
            }
        };
        command.arg(script).arg(programs).arg(folder);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C").current_dir(folder);
        if let (Some(account), None) = (account, disk) {
            account.run(&mut command);
        }
        Self::of(&mut command)
    }

    /// Starts a shell that answers each line with `= STATUS`.
    pub(super) fn of(command: &mut Command) -> Result<Self> {
        // In a process group of its own it does not get the Ctrl-C that is meant for the tests.
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().context("cannot run sh")?;
        let commands = shell.stdin.take().expect("the input is piped");
        let answers = BufReader::new(shell.stdout.take().expect("the output is piped"));
        Ok(Self { shell, commands: Some(commands), answers })
    }

    /// Has one command carried out, such as `init`, `start` or `stop MODE`.
    /// The error holds what the program printed.
    pub(super) fn run(&mut self, command: &str) -> Result<()> {
        let commands = self.commands.as_mut().expect("commands end with this value");
        writeln!(commands, "{command}").context("the shell that runs the server has ended")?;
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line)? == 0 {
                bail!("the shell that runs the server has ended: {}", printed.trim());
            }
            match line.strip_prefix("= ").map(str::trim) {
                Some("0") => return Ok(()),
                Some(_) => bail!("{}", printed.trim()),
                None => printed.push_str(&line),
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.commands.take());
        self.shell.wait().ok();
    }
}
