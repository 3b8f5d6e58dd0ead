//! Runs commands beside each other and tells of every line that they print.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::output::plain;

/// How a command ended, and all it printed.
pub(crate) struct Ended {
    pub(crate) succeeded: bool,
    pub(crate) output: String,
    pub(crate) elapsed: Duration,
}

/// What a running command tells.
enum News {
    Line(String),
    Ended(Result<bool>),
}

/// Runs all commands at once and waits for the last one. `progress` gets the last line of any of them, as often as
/// `refresh` says, with the number of the command that printed it.
pub(crate) fn follow(
    commands: &mut [Command],
    refresh: Duration,
    mut progress: impl FnMut(usize, &str),
) -> Vec<Ended> {
    let started = Instant::now();
    let (sender, news) = mpsc::channel();
    let mut ended = Vec::new();
    for (number, command) in commands.iter_mut().enumerate() {
        if let Err(error) = start(number, command, &sender) {
            sender.send((number, News::Ended(Err(error)))).ok();
        }
        ended.push(Ended { succeeded: false, output: String::new(), elapsed: Duration::ZERO });
    }
    drop(sender);

    let (mut last, mut shown) = ((0, String::new()), Instant::now());
    loop {
        match news.recv_timeout(refresh.saturating_sub(shown.elapsed())) {
            Ok((number, News::Line(line))) => {
                let text = plain(&line);
                if !text.trim().is_empty() {
                    last = (number, text.trim().to_owned());
                }
                ended[number].output.push_str(&line);
            }
            Ok((number, News::Ended(status))) => {
                ended[number].elapsed = started.elapsed();
                match status {
                    Ok(succeeded) => ended[number].succeeded = succeeded,
                    Err(error) => ended[number].output = format!("{error:#}\n"),
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if shown.elapsed() >= refresh {
            progress(last.0, &last.1);
            shown = Instant::now();
        }
    }
    ended
}

/// Starts a command, and threads that send what it prints and then how it ended.
fn start(number: usize, command: &mut Command, news: &Sender<(usize, News)>) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
    let output = child.stdout.take().expect("the output is piped");
    let errors = child.stderr.take().expect("the output is piped");
    let news = news.clone();
    thread::spawn(move || {
        thread::scope(|scope| {
            scope.spawn(|| forward(output, number, &news));
            scope.spawn(|| forward(errors, number, &news));
        });
        news.send((number, News::Ended(wait(child)))).ok();
    });
    Ok(())
}

fn wait(mut child: Child) -> Result<bool> {
    Ok(child.wait()?.success())
}

fn forward(stream: impl Read, number: usize, news: &Sender<(usize, News)>) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if news.send((number, News::Line(String::from_utf8_lossy(&line).into_owned()))).is_err() {
            break;
        }
        line.clear();
    }
}
