//! Runs commands beside each other and tells of every line that they print.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::output::plain;

/// How a command ended, and all it printed.
#[derive(Default)]
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

/// Runs the commands in their order, at most `lanes` at the same time, and waits for the last one. `progress` gets the last
/// line of any of them, as often as `refresh` says, with the number of the command that printed it.
pub(crate) fn follow(
    commands: &mut [Command],
    lanes: usize,
    refresh: Duration,
    mut progress: impl FnMut(usize, &str),
) -> Vec<Ended> {
    let (sender, news) = mpsc::channel();
    let mut ended: Vec<Ended> = commands.iter().map(|_| Ended::default()).collect();
    let mut waiting = commands.iter_mut().enumerate();
    let mut started = vec![Instant::now(); ended.len()];
    let mut running = 0;
    let (mut last, mut shown) = ((0, String::new()), Instant::now());
    loop {
        while running < lanes {
            let Some((number, command)) = waiting.next() else { break };
            running += 1;
            started[number] = Instant::now();
            if let Err(error) = start(number, command, &sender) {
                sender.send((number, News::Ended(Err(error)))).ok();
            }
        }
        if running == 0 {
            return ended;
        }
        match news.recv_timeout(refresh.saturating_sub(shown.elapsed())) {
            Ok((number, News::Line(line))) => {
                let text = plain(&line);
                if !text.trim().is_empty() {
                    last = (number, text.trim().to_owned());
                }
                ended[number].output.push_str(&line);
            }
            Ok((number, News::Ended(status))) => {
                running -= 1;
                ended[number].elapsed = started[number].elapsed();
                match status {
                    Ok(succeeded) => ended[number].succeeded = succeeded,
                    Err(error) => ended[number].output = format!("{error:#}\n"),
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if shown.elapsed() >= refresh {
            progress(last.0, &last.1);
            shown = Instant::now();
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_commands_run_at_once_than_there_are_lanes_and_each_is_told_apart() {
        let folder = std::env::temp_dir().join(format!("lanes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = "touch $1; ls | wc -l; sleep 0.2; rm $1; echo it was $1; exit $1";
        let mut commands: Vec<Command> = (0..5)
            .map(|number| {
                let mut command = Command::new("sh");
                command.args(["-c", script, "sh", &number.to_string()]).current_dir(&folder);
                command
            })
            .collect();
        commands.push(Command::new("/nowhere/to/be/found"));

        let ended = follow(&mut commands, 2, Duration::from_secs(1), |_, _| ());
        for (number, ended) in ended[..5].iter().enumerate() {
            assert_eq!(ended.succeeded, number == 0);
            let (beside, rest) = ended.output.split_once('\n').unwrap();
            assert!(["1", "2"].contains(&beside.trim()), "{beside} at once");
            assert_eq!(rest, format!("it was {number}\n"));
        }
        assert!(!ended[5].succeeded && ended[5].output.contains("cannot run /nowhere"));
        std::fs::remove_dir(folder).unwrap();
    }
}
