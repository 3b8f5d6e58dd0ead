//! Runs one step after the other, or some beside each other, says how far each is, and remembers how it ended.

mod output;
mod running;
mod shown;
mod watch;

use std::io::{self, IsTerminal, Write};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::postgres::Cluster;

use output::{Counts, count, without_successes};
use running::follow;
use shown::shown;
pub(crate) use watch::watch;

/// How often a running step is shown anew: on a terminal on the same line, elsewhere as one more line.
const REFRESH: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(15)];

/// How many of the commands that were put off run at once. Those that need a database wait half of the time, for servers,
/// pauses and time-outs; a third one beside two of them makes all three slow and hardly the whole faster.
const LANES: usize = 2;

struct Later {
    title: String,
    command: Command,
    needs: Option<Cluster>,
}

struct Done {
    title: String,
    elapsed: Duration,
    counts: Counts,
    /// How to run a step that failed by itself.
    retry: Option<String>,
}

/// The steps that have run so far.
pub(crate) struct Steps {
    terminal: bool,
    started: Instant,
    done: Vec<Done>,
    later: Vec<Later>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self {
            terminal: io::stdout().is_terminal(),
            started: Instant::now(),
            done: Vec::new(),
            later: Vec::new(),
        }
    }

    /// Runs a command as a step, once `prepare` has seen to what it needs. Its output is shown only if it fails, except for
    /// lines that say why something was skipped.
    pub(crate) fn command(&mut self, title: &str, prepare: impl FnOnce() -> Result<Command>) {
        let clock = self.begin(title);
        match prepare() {
            Ok(command) => self.run(&clock, vec![(title.to_owned(), command)]),
            Err(error) => self.close(title, clock.elapsed(), false, &format!("{error:#}\n"), None),
        }
    }

    /// Puts a command off until [`Self::run_later`]. What it needs while it runs, a server for instance, is kept until then.
    pub(crate) fn later(&mut self, title: &str, needs: Option<Cluster>, command: Result<Command>) {
        match command {
            Ok(command) => self.later.push(Later { title: title.to_owned(), command, needs }),
            Err(error) => {
                self.begin(title);
                self.close(title, Duration::ZERO, false, &format!("{error:#}\n"), None);
            }
        }
    }

    /// Runs what was put off, some beside each other, each a step of its own.
    pub(crate) fn run_later(&mut self) {
        let later = std::mem::take(&mut self.later);
        if later.is_empty() {
            return;
        }
        let titles: Vec<&str> = later.iter().map(|later| later.title.as_str()).collect();
        let clock = self.begin(&titles.join("; "));
        let (steps, _needs): (Vec<_>, Vec<_>) =
            later.into_iter().map(|later| ((later.title, later.command), later.needs)).unzip();
        self.run(&clock, steps);
    }

    fn run(&mut self, clock: &Instant, steps: Vec<(String, Command)>) {
        let (titles, mut commands): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
        let lines: Vec<String> = commands.iter().map(shown).collect();
        for (title, line) in titles.iter().zip(&lines) {
            self.progress(title, clock, line);
        }
        for command in &mut commands {
            command.env("CARGO_TERM_COLOR", if self.terminal { "always" } else { "never" });
            // Of an error its message tells what is wrong, and fifty frames of runtimes below it hide that.
            command.env("RUST_LIB_BACKTRACE", "0");
        }
        let refresh = if self.terminal { REFRESH[0] } else { REFRESH[1] };
        let ended = follow(&mut commands, LANES, refresh, |number, doing| {
            self.progress(&titles[number], clock, doing);
        });
        for ((title, line), ended) in titles.iter().zip(lines).zip(ended) {
            self.close(title, ended.elapsed, ended.succeeded, &ended.output, Some(line));
        }
    }

    /// Shows what a command printed, if there is a reason to, and how it ended.
    fn close(&mut self, title: &str, elapsed: Duration, succeeded: bool, output: &str, line: Option<String>) {
        let counts = count(output, succeeded);
        if counts.failed > 0 {
            self.clear();
            print!("{}", without_successes(output));
        } else {
            for reason in output.lines().filter(|line| line.starts_with("skipped: ")) {
                self.clear();
                println!("    {reason}");
            }
        }
        self.end(title, elapsed, counts, line);
    }

    /// Prepares something as a step, which counts only if it fails, and returns what was made.
    pub(crate) fn task<T>(&mut self, title: &str, task: impl FnOnce() -> Result<T>) -> Option<T> {
        let clock = self.begin(title);
        let result = task();
        let failed = usize::from(result.is_err());
        if let Err(error) = &result {
            self.clear();
            println!("{error:#}");
        }
        self.end(title, clock.elapsed(), Counts { failed, ..Counts::default() }, None);
        result.ok()
    }

    pub(crate) fn has_run(&self, title: &str) -> bool {
        self.done.iter().any(|done| done.title == title)
    }

    pub(crate) fn has_passed(&self, title: &str) -> bool {
        self.done.iter().any(|done| done.title == title && done.counts.failed == 0)
    }

    /// Prints what has been done, the count as the last line, and returns what to exit with.
    pub(crate) fn summary(&self) -> ExitCode {
        println!("\nsummary");
        for done in &self.done {
            let verdict = if done.counts.failed == 0 { "ok" } else { "FAILED" };
            let elapsed = seconds(done.elapsed);
            println!("  {verdict:6} {:44} {elapsed:>9}{}", done.title, done.counts.in_words());
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

    fn begin(&self, title: &str) -> Instant {
        let clock = Instant::now();
        if self.terminal {
            self.progress(title, &clock, "");
        } else {
            println!("==> {title}");
        }
        clock
    }

    fn end(&mut self, title: &str, elapsed: Duration, counts: Counts, retry: Option<String>) {
        let verdict = if counts.failed == 0 { "ok" } else { "FAILED" };
        self.clear();
        println!("  {verdict:6} {title:44} {:>9}{}", seconds(elapsed), counts.in_words());
        let retry = retry.filter(|_| counts.failed > 0);
        self.done.push(Done { title: title.to_owned(), elapsed, counts, retry });
    }

    fn progress(&self, title: &str, clock: &Instant, doing: &str) {
        let elapsed = seconds(clock.elapsed());
        if self.terminal {
            let line = format!("  ...    {title:44} {elapsed:>9}   {doing}");
            let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).unwrap_or(100);
            print!("\r\x1b[2K{}", line.chars().take(width - 1).collect::<String>());
            io::stdout().flush().ok();
        } else {
            println!("    {elapsed}: {doing}");
        }
    }

    fn clear(&self) {
        if self.terminal {
            print!("\r\x1b[2K");
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
