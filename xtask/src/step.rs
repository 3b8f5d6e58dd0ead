//! Runs one step after the other, says how far each is, and remembers how it ended.

use std::fmt;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How often a running step is shown anew: on a terminal on the same line, elsewhere as one more line.
const REFRESH: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(15)];

/// How many tests ended how. A step that runs none counts as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Counts {
    /// The numbers behind a verdict, where they say more than that.
    fn in_words(self) -> String {
        if self.passed + self.failed + self.skipped > 1 { format!("   {self}") } else { String::new() }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(formatter, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
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
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self { terminal: io::stdout().is_terminal(), started: Instant::now(), done: Vec::new() }
    }

    /// Runs a command as a step, once `prepare` has seen to what it needs. Its output is shown only if it fails.
    pub(crate) fn command(&mut self, title: &str, prepare: impl FnOnce() -> Result<Command>) {
        let clock = self.begin(title);
        let mut retry = None;
        let ended = prepare().and_then(|mut command| {
            let line = shown(&command);
            self.progress(title, &clock, &line);
            retry = Some(line);
            command.env("CARGO_TERM_COLOR", if self.terminal { "always" } else { "never" });
            self.follow(title, &clock, &mut command)
        });
        let (succeeded, output) = ended.unwrap_or_else(|error| (false, format!("{error:#}\n")));
        let counts = count(&output, succeeded);
        if counts.failed > 0 {
            self.clear();
            print!("{}", without_successes(&output));
        }
        self.end(title, &clock, counts, retry);
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
        self.end(title, &clock, Counts { failed, ..Counts::default() }, None);
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
        println!("{total}");
        if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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

    fn end(&mut self, title: &str, clock: &Instant, counts: Counts, retry: Option<String>) {
        let elapsed = clock.elapsed();
        let verdict = if counts.failed == 0 { "ok" } else { "FAILED" };
        self.clear();
        if self.terminal {
            println!("  {verdict:6} {title:44} {:>9}{}", seconds(elapsed), counts.in_words());
        } else {
            println!("    {verdict} in {}{}", seconds(elapsed), counts.in_words());
        }
        let retry = retry.filter(|_| counts.failed > 0);
        self.done.push(Done { title: title.to_owned(), elapsed, counts, retry });
    }

    /// Runs a command to its end and returns whether it succeeded, with all it printed.
    fn follow(&self, title: &str, clock: &Instant, command: &mut Command) -> Result<(bool, String)> {
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
        let (sender, lines) = mpsc::channel();
        forward(child.stdout.take().expect("the output is piped"), sender.clone());
        forward(child.stderr.take().expect("the output is piped"), sender);

        let (mut output, mut last, mut shown) = (String::new(), String::new(), Instant::now());
        let refresh = if self.terminal { REFRESH[0] } else { REFRESH[1] };
        loop {
            match lines.recv_timeout(refresh.saturating_sub(shown.elapsed())) {
                Ok(line) => {
                    let text = plain(&line);
                    if !text.trim().is_empty() {
                        text.trim().clone_into(&mut last);
                    }
                    output.push_str(&line);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if shown.elapsed() >= refresh {
                self.progress(title, clock, &last);
                shown = Instant::now();
            }
        }
        Ok((child.wait()?.success(), output))
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

fn forward(stream: impl Read + Send + 'static, lines: Sender<String>) {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        while stream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            if lines.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
            line.clear();
        }
    });
}

/// The command as one would type it, without the address of a server that ends with this process.
fn shown(command: &Command) -> String {
    let lasting = command.get_envs().filter(|(name, _)| *name != "MAILROOM_TEST_DATABASE_URL");
    let settings = lasting.filter_map(|(name, value)| {
        Some(format!("{}={}", name.to_string_lossy(), quoted(&value?.to_string_lossy())))
    });
    let words = [command.get_program()].into_iter().chain(command.get_args());
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    settings.chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let safe = |character: char| character.is_ascii_alphanumeric() || "-_./=,:%@+".contains(character);
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Adds up the result lines of Rust's test harness.
fn count(output: &str, succeeded: bool) -> Counts {
    let mut counts = Counts::default();
    for line in output.lines().map(plain) {
        let Some((_, numbers)) = line.strip_prefix("test result: ").and_then(|line| line.split_once(". "))
        else {
            continue;
        };
        for part in numbers.split("; ") {
            match part.split_once(' ') {
                Some((number, "passed")) => counts.passed += number.parse::<usize>().unwrap_or(0),
                Some((number, "failed")) => counts.failed += number.parse::<usize>().unwrap_or(0),
                Some((number, "ignored")) => counts.skipped += number.parse::<usize>().unwrap_or(0),
                _ => {}
            }
        }
    }
    // A compiler that complains and a test that crashes print no result line.
    if succeeded && counts == Counts::default() {
        counts.passed = 1;
    }
    if !succeeded && counts.failed == 0 {
        counts.failed = 1;
    }
    counts
}

/// Leaves out the lines of which a failing step may have thousands.
fn without_successes(output: &str) -> String {
    let dull = |line: &str| {
        let line = plain(line);
        let building = ["Compiling ", "Checking ", "Downloaded ", "Downloading ", "Fresh "];
        (line.starts_with("test ") && line.trim_end().ends_with("... ok"))
            || building.iter().any(|word| line.trim_start().starts_with(word))
    };
    output.split_inclusive('\n').filter(|line| !dull(line)).collect()
}

/// Without the control sequences that colour a terminal.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        text.push_str(before);
        rest =
            after.find(|character: char| character.is_ascii_alphabetic()).map_or("", |end| &after[end + 1..]);
    }
    text + rest
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_test_programs_are_added_up() {
        let output = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            \x1b[32mtest result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured\x1b[0m\n";
        assert_eq!(count(output, false), Counts { passed: 15, failed: 2, skipped: 1 });
    }

    #[test]
    fn a_command_without_tests_counts_as_one() {
        assert_eq!(count("warning: unused\n", true), Counts { passed: 1, failed: 0, skipped: 0 });
        assert_eq!(count("error: no\n", false), Counts { passed: 0, failed: 1, skipped: 0 });
    }

    #[test]
    fn tests_that_crash_are_a_failure_though_no_result_says_so() {
        let output = "test result: ok. 12 passed; 0 failed; 0 ignored\nprocess didn't exit successfully\n";
        assert_eq!(count(output, false), Counts { passed: 12, failed: 1, skipped: 0 });
    }

    #[test]
    fn a_failure_is_shown_without_what_went_well() {
        let output =
            "   Compiling tokio\ntest a ... ok\ntest b ... FAILED\n\x1b[1m   Checking x\x1b[0m\nbecause\n";
        assert_eq!(without_successes(output), "test b ... FAILED\nbecause\n");
    }

    #[test]
    fn a_command_is_shown_so_that_a_shell_reads_it_again() {
        let mut command = Command::new("cargo");
        command.args(["test", "--", "it's"]).env("KEY", "a b");
        assert_eq!(shown(&command), r"KEY='a b' cargo test -- 'it'\''s'");
    }
}
