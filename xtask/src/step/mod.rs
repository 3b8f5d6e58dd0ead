//! Runs steps one after the other, or in lanes beside each other, says how far each is, and remembers how it ended.

mod execute;
mod lanes;
mod output;
mod shown;

use std::io::{self, IsTerminal, Write};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;

pub(crate) use execute::watch;
pub(crate) use lanes::Prepared;
use lanes::{Ended, Event, Job};
use output::{Counts, count, without_successes};

/// How often a running step is shown anew: on a terminal on the same line, elsewhere as one more line.
const REFRESH: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(15)];

/// How many steps run at once. Most of those that need a server or a browser wait half of the time; a fourth beside them makes
/// all slower than what they wait for expects.
const LANES: usize = 3;

struct Done {
    title: String,
    elapsed: Duration,
    counts: Counts,
    /// How to run a step that failed by itself.
    retry: Option<String>,
}

/// The steps that have run so far, and those that are to run in lanes.
pub(crate) struct Steps {
    terminal: bool,
    started: Instant,
    done: Vec<Done>,
    later: Vec<Job>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        let terminal = io::stdout().is_terminal();
        Self { terminal, started: Instant::now(), done: Vec::new(), later: Vec::new() }
    }

    /// Runs a command as a step, once `prepare` has seen to what it needs. Its output is shown only if it fails, except for
    /// lines that say why something was skipped.
    pub(crate) fn command(
        &mut self,
        title: &str,
        prepare: impl FnOnce() -> Result<Command> + Send + 'static,
    ) {
        let others = std::mem::take(&mut self.later);
        self.later(title, &[], || Ok(prepare()?.into()));
        self.run_later();
        self.later = others;
    }

    /// Puts a step off until [`Self::run_later`], and there until the steps that it needs have passed; it is left out if one of
    /// them fails. A title that was put off before is the same step.
    pub(crate) fn later(
        &mut self,
        title: &str,
        needs: &[&'static str],
        prepare: impl FnOnce() -> Result<Prepared> + Send + 'static,
    ) {
        if !self.later.iter().any(|job| job.title == title) {
            let (title, needs) = (title.to_owned(), needs.to_vec());
            self.later.push(Job { title, needs, prepare: Box::new(prepare) });
        }
    }

    /// Runs what was put off.
    pub(crate) fn run_later(&mut self) {
        let jobs = std::mem::take(&mut self.later);
        let terminal = self.terminal;
        let refresh = if terminal { REFRESH[0] } else { REFRESH[1] };
        lanes::run(jobs, LANES, refresh, |event| match event {
            Event::Started(title) if terminal => self.progress(title, ""),
            Event::Started(title) => println!("==> {title}"),
            Event::Doing(title, doing) => self.progress(title, doing),
            Event::Ended(title, ended) => self.close(title, &ended),
        });
    }

    /// Shows what a step printed, if there is a reason to, and how it ended.
    fn close(&mut self, title: &str, ended: &Ended) {
        let counts = count(&ended.output, ended.succeeded);
        self.clear();
        if counts.failed > 0 {
            print!("{}", without_successes(&ended.output));
        } else {
            for reason in ended.output.lines().filter(|line| line.starts_with("skipped: ")) {
                println!("    {reason}");
            }
        }
        self.end(title, ended.elapsed, counts, ended.line.clone());
    }

    /// Prepares something as a step, which counts only if it fails, and returns what was made.
    pub(crate) fn task<T>(&mut self, title: &str, task: impl FnOnce() -> Result<T>) -> Option<T> {
        println!("==> {title}");
        let clock = Instant::now();
        let result = task();
        let failed = usize::from(result.is_err());
        if let Err(error) = &result {
            println!("{error:#}");
        }
        self.end(title, clock.elapsed(), Counts { failed, ..Counts::default() }, None);
        result.ok()
    }

    pub(crate) fn has_passed(&self, title: &str) -> bool {
        self.done.iter().any(|done| done.title == title && done.counts.failed == 0)
    }

    /// Prints what has been done, the count as the last line, and returns what to exit with.
    pub(crate) fn summary(&self) -> ExitCode {
        println!("\nsummary");
        for done in &self.done {
            println!("{}", done.line());
            if let Some(retry) = &done.retry {
                println!("         again: {retry}");
            }
        }
        println!("  in {} altogether", seconds(self.started.elapsed()));
        let total = self.done.iter().fold(Counts::default(), |sum, done| Counts {
            passed: sum.passed + done.counts.passed,
            failed: sum.failed + done.counts.failed,
            skipped: sum.skipped + done.counts.skipped,
        });
        // Continuous integration installs everything, so that nothing has a reason to be skipped there.
        let incomplete = total.skipped > 0 && crate::is_continuous_integration();
        if incomplete {
            println!("  FAILED: tests were skipped, which continuous integration does not allow");
        }
        println!("{total}");
        if total.failed == 0 && !incomplete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    fn end(&mut self, title: &str, elapsed: Duration, counts: Counts, retry: Option<String>) {
        let retry = retry.filter(|_| counts.failed > 0);
        let done = Done { title: title.to_owned(), elapsed, counts, retry };
        self.clear();
        println!("{}", done.line());
        self.done.push(done);
    }

    fn progress(&self, title: &str, doing: &str) {
        let elapsed = seconds(self.started.elapsed());
        if self.terminal {
            let line = format!("  ...    {title:44} {elapsed:>9}   {doing}");
            let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(100);
            print!("\r\x1b[2K{}", line.chars().take(width - 1).collect::<String>());
            io::stdout().flush().ok();
        } else {
            println!("    {elapsed}: {title}: {doing}");
        }
    }

    fn clear(&self) {
        if self.terminal {
            print!("\r\x1b[2K");
        }
    }
}

impl Done {
    fn line(&self) -> String {
        let verdict = if self.counts.failed == 0 { "ok" } else { "FAILED" };
        format!("  {verdict:6} {:44} {:>9}{}", self.title, seconds(self.elapsed), self.counts.in_words())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
