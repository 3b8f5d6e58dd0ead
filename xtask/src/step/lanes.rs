//! Runs jobs in lanes, each as soon as what it needs has passed.

use std::io::{self, IsTerminal};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::postgres::Cluster;

use super::execute::execute;
use super::output::plain;
use super::shown::shown;

/// What a job does once it is prepared: nothing more, or a command, with a server that runs as long.
#[derive(Default)]
pub(crate) struct Prepared {
    command: Option<Command>,
    server: Option<Cluster>,
}

impl Prepared {
    pub(crate) fn with_server(command: Command, server: Cluster) -> Self {
        Self { command: Some(command), server: Some(server) }
    }
}

impl From<Command> for Prepared {
    fn from(command: Command) -> Self {
        Self { command: Some(command), server: None }
    }
}

/// What is done in a lane.
pub(super) struct Job {
    pub(super) title: String,
    /// Titles of earlier jobs. If one of them fails, this one is left out; one that is not asked for does not matter.
    pub(super) needs: Vec<&'static str>,
    pub(super) prepare: Box<dyn FnOnce() -> Result<Prepared> + Send>,
}

/// How a job ended, and all it printed.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) succeeded: bool,
    pub(super) output: String,
    pub(super) elapsed: Duration,
    /// The command as one would type it, if it came to that.
    pub(super) line: Option<String>,
}

/// What is told while the jobs run, each with a title.
pub(super) enum Event<'a> {
    Started(&'a str),
    /// The last line that any of them has printed.
    Doing(&'a str, &'a str),
    Ended(&'a str, Ended),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Passed,
    Failed,
}

enum News {
    Command(String),
    Line(String),
    Ended(Result<bool>),
}

/// Runs the jobs in their order, at most `lanes` at the same time, and waits for the last one. `tell` gets an
/// [`Event::Doing`] as often as `refresh` says.
pub(super) fn run(jobs: Vec<Job>, lanes: usize, refresh: Duration, mut tell: impl FnMut(Event<'_>)) {
    let (sender, news) = mpsc::channel();
    let titles: Vec<String> = jobs.iter().map(|job| job.title.clone()).collect();
    let mut states = vec![State::Waiting; jobs.len()];
    let mut started = vec![Instant::now(); jobs.len()];
    let mut ended: Vec<Ended> = jobs.iter().map(|_| Ended::default()).collect();
    let mut jobs: Vec<Option<Job>> = jobs.into_iter().map(Some).collect();
    let (mut last, mut shown) = ((0, String::new()), Instant::now());
    loop {
        for number in 0..jobs.len() {
            let Some(job) = &jobs[number] else { continue };
            let found = |need: &&str| titles.iter().position(|title| title == need);
            let needs: Vec<State> = job.needs.iter().filter_map(found).map(|need| states[need]).collect();
            let is_running = |state: &&State| **state == State::Running;
            if needs.contains(&State::Failed) {
                states[number] = State::Failed;
                jobs[number] = None;
            } else if needs.iter().all(|state| *state == State::Passed)
                && states.iter().filter(is_running).count() < lanes
                && let Some(job) = jobs[number].take()
            {
                states[number] = State::Running;
                started[number] = Instant::now();
                tell(Event::Started(&titles[number]));
                let news = sender.clone();
                thread::spawn(move || news.send((number, News::Ended(work(number, job, &news)))));
            }
        }
        if !states.contains(&State::Running) {
            return;
        }
        match news.recv_timeout(refresh.saturating_sub(shown.elapsed())) {
            Ok((number, News::Command(line))) => ended[number].line = Some(line),
            Ok((number, News::Line(line))) => {
                let text = plain(&line);
                if !text.trim().is_empty() {
                    last = (number, text.trim().to_owned());
                }
                ended[number].output.push_str(&line);
            }
            Ok((number, News::Ended(outcome))) => {
                let mut ended = std::mem::take(&mut ended[number]);
                ended.elapsed = started[number].elapsed();
                match outcome {
                    Ok(succeeded) => ended.succeeded = succeeded,
                    Err(error) => ended.output = format!("{}{error:#}\n", ended.output),
                }
                states[number] = if ended.succeeded { State::Passed } else { State::Failed };
                tell(Event::Ended(&titles[number], ended));
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if shown.elapsed() >= refresh {
            tell(Event::Doing(&titles[last.0], &last.1));
            shown = Instant::now();
        }
    }
}

fn work(number: usize, job: Job, news: &Sender<(usize, News)>) -> Result<bool> {
    let Prepared { command, server } = (job.prepare)()?;
    let Some(mut command) = command else { return Ok(true) };
    news.send((number, News::Command(shown(&command)))).ok();
    let colours = if io::stdout().is_terminal() { "always" } else { "never" };
    // Of an error its message tells what is wrong, and fifty frames of runtimes below it hide that.
    command.env("CARGO_TERM_COLOR", colours).env("RUST_LIB_BACKTRACE", "0");
    let succeeded = execute(&mut command, |line| {
        news.send((number, News::Line(line))).ok();
    });
    drop(server);
    succeeded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(title: &str, needs: &[&'static str], script: &str) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let prepare = Box::new(|| Ok(command.into()));
        Job { title: title.to_owned(), needs: needs.to_vec(), prepare }
    }

    fn outputs(jobs: Vec<Job>, lanes: usize) -> Vec<(String, bool, String)> {
        let mut found = Vec::new();
        run(jobs, lanes, Duration::from_secs(1), |event| {
            if let Event::Ended(title, ended) = event {
                found.push((title.to_owned(), ended.succeeded, ended.output));
            }
        });
        found.sort();
        found
    }

    #[test]
    fn no_more_jobs_run_at_once_than_there_are_lanes_and_each_is_told_apart() {
        let folder = std::env::temp_dir().join(format!("lanes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.display();
        let script =
            |number| format!("cd {path}; touch {number}; ls | wc -l; sleep 0.2; rm {number}; exit {number}");
        let jobs = (0..5).map(|number| shell(&number.to_string(), &[], &script(number))).collect();
        for (number, (title, succeeded, output)) in outputs(jobs, 2).into_iter().enumerate() {
            assert_eq!((title, succeeded), (number.to_string(), number == 0));
            assert!(["1", "2"].contains(&output.trim()), "{output} at once");
        }
        std::fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn a_job_waits_for_what_it_needs_and_is_left_out_if_that_fails() {
        let file = std::env::temp_dir().join(format!("made-{}", std::process::id())).display().to_string();
        let jobs = vec![
            shell("make", &[], &format!("sleep 0.2; touch {file}")),
            shell("use", &["make", "not asked for"], &format!("rm {file}")),
            shell("fail", &["make"], "false"),
            shell("left out", &["fail"], "true"),
            shell("left out, too", &["left out"], "true"),
            Job {
                title: "no program".into(),
                needs: vec![],
                prepare: Box::new(|| Ok(Command::new("/no/where").into())),
            },
        ];
        let found = outputs(jobs, 3);
        let ended: Vec<(&str, bool)> =
            found.iter().map(|(title, passed, _)| (title.as_str(), *passed)).collect();
        assert_eq!(ended, [("fail", false), ("make", true), ("no program", false), ("use", true)]);
        assert!(found[2].2.contains("cannot run /no/where"), "{}", found[2].2);
    }
}
