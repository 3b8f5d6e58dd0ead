//! Runs a command and hands on every line that it prints.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{lock, seconds};

/// How often [`watch`] says how far the work is.
const REFRESH: Duration = Duration::from_secs(5);

/// Returns whether the command succeeded, once it has ended and all is read.
pub(super) fn execute(command: &mut Command, line: impl Fn(String) + Sync) -> Result<bool> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let output = child.stdout.take().expect("the output is piped");
    let errors = child.stderr.take().expect("the output is piped");
    thread::scope(|scope| {
        scope.spawn(|| forward(output, &line));
        scope.spawn(|| forward(errors, &line));
    });
    Ok(child.wait()?.success())
}

fn forward(stream: impl Read, send: &impl Fn(String)) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        send(String::from_utf8_lossy(&line).into_owned());
        line.clear();
    }
}

/// Runs a long command that a step needs, says what it does and how far it is, and shows all that it printed only if it fails.
pub(crate) fn watch(command: &mut Command, what: &str) -> Result<()> {
    eprintln!("{what} ...");
    let started = Instant::now();
    let printed = Mutex::new((String::new(), started));
    let succeeded = execute(command, |line| {
        let mut printed = lock(&printed);
        if printed.1.elapsed() > REFRESH {
            eprintln!("    {}: {}", seconds(started.elapsed()), line.trim());
            printed.1 = Instant::now();
        }
        printed.0.push_str(&line);
    });
    let succeeded = succeeded.with_context(|| format!("cannot {what}"))?;
    ensure!(succeeded, "cannot {what}:\n{}", lock(&printed).0.trim_end());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_what_was_done_and_all_that_was_printed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let error = watch(&mut command, "fail").unwrap_err().to_string();
        assert!(error.starts_with("cannot fail:\n"), "{error}");
        assert!(error.contains("one") && error.contains("two"), "{error}");
        let error = format!("{:#}", watch(&mut Command::new("/nowhere/program"), "start").unwrap_err());
        assert!(error.starts_with("cannot start: cannot run /nowhere/program"), "{error}");
        assert!(watch(Command::new("sh").args(["-c", "true"]), "succeed").is_ok());
    }
}
