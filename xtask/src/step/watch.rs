//! Long work on what a step needs, before the step itself runs.

use std::process::Command;
use std::slice;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::running::follow;
use super::seconds;

/// How often it is said how far the work is.
const REFRESH: Duration = Duration::from_secs(5);

/// Runs a command, says what it does and what it printed last, and shows all of that only if it fails.
pub(crate) fn watch(command: &mut Command, what: &str) -> Result<()> {
    eprintln!("{what} ...");
    let started = Instant::now();
    let ended = follow(slice::from_mut(command), 1, REFRESH, |_, doing| {
        eprintln!("    {}: {doing}", seconds(started.elapsed()));
    });
    for ended in ended {
        ensure!(ended.succeeded, "cannot {what}:\n{}", ended.output.trim_end());
    }
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
        let error = watch(&mut Command::new("/nowhere/program"), "start").unwrap_err().to_string();
        assert_eq!(error.lines().next(), Some("cannot start:"));
        assert!(error.contains("cannot run /nowhere/program"), "{error}");
        assert!(watch(Command::new("sh").args(["-c", "true"]), "succeed").is_ok());
    }
}
