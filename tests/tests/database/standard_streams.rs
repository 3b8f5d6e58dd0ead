//! Standard output and standard error that are closed, discarded or left by their readers, or end
//! within a line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, pipe};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use mailroom_tests::collector::{self, Collector, KEY};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::rows::{CURSOR, cursor, register, wait_for};
use rustix::process::{Pid, Signal, kill_process};

/// The same command with a redirection as a shell makes it.
fn redirected(command: &Command, redirection: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}")]);
    shell.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

/// The writing end of a pipe whose reading end is closed.
fn without_reader() -> Result<Stdio> {
    Ok(pipe()?.1.into())
}

#[tokio::test]
async fn a_standard_output_that_discards_the_lines_is_refused_and_the_cursor_stays() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=20).await?;
    for redirection in [">&-", ">/dev/null", "1<>/dev/null"] {
        let output =
            redirected(&collector::on_base_schema(database.url())?, redirection).output()?;
        let errors = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(2), "{redirection}: {errors}");
        let sentence = "mailroom: standard output is closed or discards what is written to it";
        assert!(
            errors.starts_with(sentence) && errors.lines().count() == 1,
            "{redirection}: {errors}"
        );
        assert_eq!(cursor(&client).await?, 0, "{redirection}");
    }
    Ok(())
}

#[tokio::test]
async fn a_collector_whose_log_nobody_reads_goes_on_and_receives_notifications() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=1).await?;
    let mut command = collector::on_base_schema(database.url())?;
    // Only a notification can be what sends the second line.
    command.args(["--batch-timeout", "0", "--healthcheck-interval", "1h", "--poll-interval", "1h"]);
    let mut child = command.stdout(Stdio::piped()).stderr(without_reader()?).spawn()?;
    let mut lines =
        BufReader::new(child.stdout.take().context("standard output is a pipe")?).lines();
    assert!(lines.next().context("a line")??.contains(",user1,"));
    register(&client, 2..=2).await?;
    assert!(lines.next().context("another line")??.contains(",user2,"));
    terminate(&child)?;
    assert_eq!(child.wait()?.code(), Some(0));
    assert_eq!(cursor(&client).await?, 2);
    Ok(())
}

fn terminate(child: &Child) -> Result<()> {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok(kill_process(process.context("a process has a positive id")?, Signal::TERM)?)
}

#[test]
fn a_failure_that_nobody_can_read_has_its_status_all_the_same() -> Result<()> {
    for (arguments, status) in [
        (&["collect"][..], 2),
        (&["migrate", "status"], 2),
        (&["verify", "--action", "activate", "x"], 2),
        (&["sign", "--action", "activate"], 2),
        (&["sign", "--action", "nonsense"], 2),
        (&["unknown"], 2),
        (&["keygen", "--output", "/nowhere/key"], 1),
    ] {
        let mut command = program::mailroom()?;
        let code =
            command.args(arguments).stdin(Stdio::null()).stderr(without_reader()?).status()?.code();
        assert_eq!(code, Some(status), "{arguments:?}");
    }
    Ok(())
}

#[test]
fn an_output_whose_reader_has_gone_ends_a_command_in_silence() -> Result<()> {
    for arguments in [
        &["verify", "--action", "activate", "x"][..],
        &["sign", "--action", "activate"],
        &["keygen"],
        &["completions", "bash"],
    ] {
        let mut command = program::mailroom()?;
        command.args(arguments).env("MAILROOM_SECRET_KEY", KEY).stdin(Stdio::null());
        let output =
            command.stdout(without_reader()?).stderr(Stdio::piped()).spawn()?.wait_with_output()?;
        let errors = String::from_utf8(output.stderr)?;
        assert_eq!((output.status.code(), errors.as_str()), (Some(141), ""), "{arguments:?}");
    }
    Ok(())
}

#[test]
fn an_output_that_cannot_be_written_is_a_failure() -> Result<()> {
    for arguments in [
        &["verify", "--action", "activate", "x"][..],
        &["sign", "--action", "activate"],
        &["keygen"],
        &["completions", "zsh"],
    ] {
        let mut command = program::mailroom()?;
        command.args(arguments).env("MAILROOM_SECRET_KEY", KEY).stdin(Stdio::null());
        let full = File::options().write(true).open("/dev/full")?;
        let output = command.stdout(full).stderr(Stdio::piped()).spawn()?.wait_with_output()?;
        let errors = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(
            errors.starts_with("mailroom: standard output cannot be written: "),
            "{arguments:?}: {errors}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_collector_leaves_whole_lines_in_a_pipe_that_outlives_it() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=3_000).await?;
    let (mut reader, writer) = pipe()?;
    // A line of about 25,000 bytes, so that the four that are sent
    // at first do not fit into the pipe.
    let start = || -> Result<Collector> {
        let mut command = collector::on_base_schema(database.url())?;
        command.args(["--batch-limit", "200", "--batch-timeout", "0"]);
        Collector::start_writing_to(&mut command, writer.try_clone()?)
    };
    let first = start()?;
    let mut text = vec![0];
    reader.read_exact(&mut text)?;
    // The pipe is as full as it gets, because nobody reads on.
    std::thread::sleep(std::time::Duration::from_millis(500));
    first.kill()?;
    let second = start()?;
    second.wait_until_it_collects()?;
    let reading = std::thread::spawn(move || reader.read_to_end(&mut text).map(|_| text));
    wait_for(&client, CURSOR, 3_000_i64).await?;
    second.stop()?;
    drop(writer);
    let text = String::from_utf8(reading.join().expect("the reader does not panic")?)?;
    assert!(text.ends_with('\n'));
    assert!(text.lines().count() > 15, "nothing was in the pipe when the first one was killed");
    let (empty, lines): (Vec<_>, Vec<_>) =
        text.split_inclusive('\n').partition(|line| *line == "\n");
    assert_eq!(empty.len(), 1, "the second one continues a pipe that is not empty");
    for line in lines {
        assert_eq!(collector::items(line)?.len(), 200);
    }
    Ok(())
}

#[tokio::test]
async fn a_line_feed_precedes_the_first_line_in_a_file_that_is_not_empty() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let file = tempfile::NamedTempFile::new()?;
    for (number, left, line_feed) in [(1, "1,cut\nsho", "\n"), (2, "1,whole\n", "\n"), (3, "", "")]
    {
        std::fs::write(&file, left)?;
        register(&client, number..=number).await?;
        let mut command = collector::on_base_schema(database.url())?;
        let output = File::options().append(true).open(&file)?;
        let collector =
            Collector::start_writing_to(command.args(["--batch-timeout", "0"]), output)?;
        while cursor(&client).await? < i64::from(number) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        collector.stop()?;
        let text = std::fs::read_to_string(&file)?;
        let line = text.strip_prefix(&format!("{left}{line_feed}1,user{number}@"));
        assert!(line.is_some_and(|line| line.find('\n') == Some(line.len() - 1)), "{text:?}");
    }
    Ok(())
}
