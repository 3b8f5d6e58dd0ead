//! Runs a command, hands on every line that it prints, and ends it if it stands still.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::processes;

/// How often it is said how far work is that takes long.
pub(crate) const REFRESH: Duration = Duration::from_secs(15);

/// How long a command may print nothing: longer than an engine may take for all that it is asked
/// (`ANSWER_TIMEOUT` of the npm package's suite). Nearly all print something each minute.
pub(crate) const SILENCE: Duration = Duration::from_secs(30 * 60);

/// How long the output may stay open once the command has ended: what it has started ends, too.
const LINGERING: Duration = Duration::from_secs(60);

/// How often it is looked whether the command has ended.
const GLANCE: Duration = Duration::from_secs(1);

/// Returns whether the command succeeded, and all that it printed, once it has ended.
///
/// A command that prints nothing for as long as `silence` is killed, and has failed; so has one
/// whose output a process holds that it has left behind. The text says then which processes those
/// were: without it a run would wait until somebody ends it, and nobody would know for what.
pub(crate) fn execute(
    command: &mut Command,
    silence: Duration,
    mut line: impl FnMut(&str),
) -> Result<(bool, String)> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let mut printed = String::new();
    let lines = output(&mut child);
    let mut heard = Instant::now();
    let mut ended = None;
    let complaint = loop {
        match lines.recv_timeout(GLANCE) {
            Ok(text) => {
                heard = Instant::now();
                printed.push_str(&text);
                line(text.trim_end());
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        if ended.is_some_and(|ended| ended.elapsed() > LINGERING) {
            break Some(format!("{program} has ended, but something holds its output open"));
        }
        if ended.is_none() && heard.elapsed() > silence {
            let minutes = silence.as_secs() / 60;
            break Some(format!("{program} printed nothing for {minutes} minutes and was ended"));
        }
    };
    if let Some(complaint) = complaint {
        let found = processes::below(child.id());
        processes::kill(&found);
        child.wait()?;
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        let shown = shown.join("\n    ");
        writeln!(printed, "error: {complaint}; its processes:\n    {shown}")?;
        return Ok((false, printed));
    }
    Ok((child.wait()?.success(), printed))
}

/// The lines of both streams as they come, until both have ended.
fn output(child: &mut Child) -> Receiver<String> {
    fn forward(stream: impl Read + Send + 'static, lines: Sender<String>) {
        thread::spawn(move || {
            let (mut stream, mut bytes) = (BufReader::new(stream), Vec::new());
            while stream.read_until(b'\n', &mut bytes).is_ok_and(|length| length > 0) {
                if lines.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
    }
    let (sender, lines) = mpsc::channel();
    forward(child.stdout.take().expect("the output is piped"), sender.clone());
    forward(child.stderr.take().expect("the output is piped"), sender);
    lines
}

/// Runs a long command that a step needs, and shows its progress.
/// Shows its whole output only if it fails.
pub(crate) fn watch(command: &mut Command, what: &str) -> Result<()> {
    watch_for(command, SILENCE, what)
}

/// Like [`watch`], of a command that may print nothing for as long as `silence`.
pub(crate) fn watch_for(command: &mut Command, silence: Duration, what: &str) -> Result<()> {
    eprintln!("{what} ...");
    let (started, mut shown) = (Instant::now(), Instant::now());
    let result = execute(command, silence, |line| {
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
        let mut silent = Command::new("sleep");
        let error = watch_for(silent.arg("4713"), Duration::from_secs(2), "sleep").unwrap_err();
        assert!(error.to_string().contains("printed nothing"), "{error}");
    }

    fn run(script: &str, silence: Duration) -> (bool, String) {
        execute(Command::new("sh").args(["-c", script]), silence, |_| {}).unwrap()
    }

    #[test]
    fn a_command_that_stands_still_is_ended_and_its_processes_are_named() {
        let (succeeded, printed) = run("echo first; sleep 4711 & wait", Duration::from_secs(2));
        assert!(!succeeded);
        assert!(printed.starts_with("first\nerror: sh printed nothing"), "{printed}");
        assert!(printed.contains("sleep 4711"), "{printed}");
    }

    #[test]
    fn a_server_that_descends_from_nobody_is_named_too_and_left_to_its_owner() {
        let server = "exec -a \"postgres -D /tmp/mailroom-$0-0/data\" sleep 20";
        let script =
            format!("(setsid bash -c '{server}' $$ >/dev/null 2>&1 </dev/null &); sleep 4712");
        let (succeeded, printed) = run(&script, Duration::from_secs(2));
        assert!(!succeeded);
        assert!(printed.contains("S postgres -D /tmp/mailroom-"), "{printed}");
    }

    #[test]
    fn a_command_that_prints_now_and_then_is_not_ended() {
        let script = "for i in 1 2 3 4 5 6; do echo $i; sleep 1; done";
        assert_eq!(run(script, Duration::from_secs(4)), (true, "1\n2\n3\n4\n5\n6\n".to_owned()));
    }

    #[test]
    fn a_command_is_shown_so_that_a_shell_reads_it_again() {
        let mut command = Command::new("cargo");
        command.args(["test", "--", "it's"]).env("KEY", "a b");
        assert_eq!(typed(&command), r#"KEY='a b' cargo test -- "it's""#);
    }
}
