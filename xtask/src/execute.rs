//! Runs a command and hands on every line that it prints.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How often it is said how far work is that takes long.
pub(crate) const REFRESH: Duration = Duration::from_secs(15);

/// Returns whether the command succeeded, and all that it printed, once it has ended.
pub(crate) fn execute(
    command: &mut Command,
    line: impl FnMut(&str) + Send,
) -> Result<(bool, String)> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let output = child.stdout.take().expect("the output is piped");
    let errors = child.stderr.take().expect("the output is piped");
    let printed = Mutex::new((String::new(), line));
    let forward = |stream: &mut (dyn Read + Send)| {
        let (mut stream, mut bytes) = (BufReader::new(stream), Vec::new());
        while stream.read_until(b'\n', &mut bytes).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&bytes);
            let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
            printed.0.push_str(&text);
            (printed.1)(text.trim_end());
            bytes.clear();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| forward(&mut { output }));
        forward(&mut { errors });
    });
    let succeeded = child.wait()?.success();
    Ok((succeeded, printed.into_inner().unwrap_or_else(PoisonError::into_inner).0))
}

/// Runs a long command that a step needs, and shows its progress.
/// Shows its whole output only if it fails.
pub(crate) fn watch(command: &mut Command, what: &str) -> Result<()> {
    eprintln!("{what} ...");
    let (started, mut shown) = (Instant::now(), Instant::now());
    let result = execute(command, |line| {
        if shown.elapsed() > REFRESH {
            eprintln!("    {:.1} s: {}", started.elapsed().as_secs_f64(), line.trim());
            shown = Instant::now();
        }
    });
    let (succeeded, printed) = result.with_context(|| format!("cannot {what}"))?;
    ensure!(succeeded, "cannot {what}:\n{}", printed.trim_end());
    Ok(())
}

/// The command as one would type it, without the address of a server that ends with this process.
pub(crate) fn typed(command: &Command) -> String {
    let quoted = |word: &OsStr| {
        let word = word.to_string_lossy().into_owned();
        shlex::try_quote(&word).map_or(word.clone(), Into::into)
    };
    let lasting = command.get_envs().filter(|(name, _)| *name != "MAILROOM_TEST_DATABASE_URL");
    let settings =
        lasting.filter_map(|(name, value)| Some(format!("{}={}", name.display(), quoted(value?))));
    let words = [command.get_program()].into_iter().chain(command.get_args()).map(quoted);
    settings.chain(words).collect::<Vec<_>>().join(" ")
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
        let error =
            format!("{:#}", watch(&mut Command::new("/nowhere/program"), "start").unwrap_err());
        assert!(error.starts_with("cannot start: cannot run /nowhere/program"), "{error}");
        assert!(watch(Command::new("sh").args(["-c", "true"]), "succeed").is_ok());
    }

    #[test]
    fn a_command_is_shown_so_that_a_shell_reads_it_again() {
        let mut command = Command::new("cargo");
        command.args(["test", "--", "it's"]).env("KEY", "a b");
        assert_eq!(typed(&command), r#"KEY='a b' cargo test -- "it's""#);
    }
}
