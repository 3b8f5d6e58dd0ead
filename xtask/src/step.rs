//! Runs steps in lanes, each as soon as what it needs has passed, says how far they are, and
//! remembers how each ended.

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use mailroom_tests::postgres::Cluster;

use crate::execute::{REFRESH, SILENCE, execute, typed};
use crate::outcome::{Counts, count, skipped, without_successes};
use crate::tools::is_continuous_integration;

/// How many steps run at once. Most steps wait for more than half of the time, for a server, a
/// browser or a clock: four of them kept two processors busy for two thirds of it. With seven, 46
/// processes waited for the processors, and tests ran out of their time.
const LANES: usize = 5;

/// A step is given up when nothing was heard of it for so many times the limit of a command: one
/// that prepares something, such as a build, may take longer.
const GIVE_UP: u32 = 3;

/// What a step does once it is prepared: nothing more, or a command,
/// with a server that runs as long.
pub(crate) struct Prepared(Option<Command>, Option<Cluster>);

impl From<()> for Prepared {
    fn from((): ()) -> Self {
        Self(None, None)
    }
}

impl From<Command> for Prepared {
    fn from(command: Command) -> Self {
        Self(Some(command), None)
    }
}

impl From<(Command, Option<Cluster>)> for Prepared {
    fn from((command, server): (Command, Option<Cluster>)) -> Self {
        Self(Some(command), server)
    }
}

struct Step {
    title: String,
    needs: Vec<&'static str>,
    /// Whether cargo keeps it waiting while another step compiles.
    compiles: bool,
    prepare: Box<dyn FnOnce() -> Result<Prepared> + Send>,
}

/// In the order in which they matter to a step that needs several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Passed,
    WaitingOrRunning,
    Failed,
}

enum News {
    Line(String, String),
    Ended(Ended),
}

struct Ended {
    title: String,
    elapsed: Duration,
    succeeded: bool,
    output: String,
    /// The command as one would type it, if it came to that.
    again: Option<String>,
}

struct Running {
    title: String,
    compiles: bool,
    started: Instant,
    /// When it last printed something.
    heard: Instant,
}

impl Running {
    fn new(step: &Step) -> Self {
        let (title, now) = (step.title.clone(), Instant::now());
        Self { title, compiles: step.compiles, started: now, heard: now }
    }

    /// For a step that ended neither by itself nor by the limit of its command: what prepares or
    /// tidies up stands still.
    fn given_up(&self) -> Ended {
        let minutes = self.heard.elapsed().as_secs() / 60;
        Ended {
            title: self.title.clone(),
            elapsed: self.started.elapsed(),
            succeeded: false,
            output: format!("error: nothing was heard of it for {minutes} minutes: given up\n"),
            again: None,
        }
    }
}

/// The steps that are to run, and how those ended that have run.
pub(crate) struct Steps {
    waiting: Vec<Step>,
    summary: Vec<String>,
    total: Counts,
    started: Instant,
    /// How long a step may print nothing before it is ended.
    silence: Duration,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self::with_silence(SILENCE)
    }

    /// Steps that may each print nothing for so long.
    pub(crate) fn with_silence(silence: Duration) -> Self {
        Self {
            silence,
            waiting: Vec::new(),
            summary: Vec::new(),
            total: Counts::default(),
            started: Instant::now(),
        }
    }

    /// Adds a step, which [`Self::run`] starts when the steps that it needs have passed, and leaves
    /// out if one of them fails; one that was not added does not matter. A title that was added
    /// before is the same step. The output is shown only if the step fails, except for lines that
    /// say why something was skipped.
    pub(crate) fn add<P: Into<Prepared>>(
        &mut self,
        title: &str,
        needs: &[&'static str],
        prepare: impl FnOnce() -> Result<P> + Send + 'static,
    ) {
        if !self.waiting.iter().any(|step| step.title == title) {
            let (title, needs) = (title.to_owned(), needs.to_vec());
            let prepare = Box::new(|| prepare().map(Into::into));
            self.waiting.push(Step { title, needs, compiles: false, prepare });
        }
    }

    /// The same for one that compiles, of which one runs at a time: cargo lets nobody else into the
    /// target folder meanwhile, and a step that waits for that keeps a place from others.
    pub(crate) fn add_compiling<P: Into<Prepared>>(
        &mut self,
        title: &str,
        needs: &[&'static str],
        prepare: impl FnOnce() -> Result<P> + Send + 'static,
    ) {
        self.add(title, needs, prepare);
        let named = self.waiting.iter_mut().find(|step| step.title == title);
        named.expect("it was added").compiles = true;
    }

    /// Runs the steps in their order, at most [`LANES`] at the same time, and returns whether all
    /// that have run so far passed.
    pub(crate) fn run(&mut self) -> bool {
        let (sender, news) = mpsc::channel();
        let mut waiting = std::mem::take(&mut self.waiting);
        let title = |step: &Step| (step.title.clone(), State::WaitingOrRunning);
        let mut states: HashMap<String, State> = waiting.iter().map(title).collect();
        let mut running: Vec<Running> = Vec::new();
        let (mut last, mut shown) = ((String::new(), String::new()), Instant::now());
        loop {
            let mut number = 0;
            while let Some(step) = waiting.get(number) {
                match step.needs.iter().filter_map(|need| states.get(*need)).max() {
                    Some(State::Failed) => {
                        states.insert(waiting.remove(number).title, State::Failed);
                    }
                    None | Some(State::Passed) if has_place(step, &running) => {
                        let (step, news) = (waiting.remove(number), sender.clone());
                        running.push(Running::new(&step));
                        println!("==> {}", step.title);
                        let silence = self.silence;
                        thread::spawn(move || work(step, silence, &news));
                    }
                    _ => number += 1,
                }
            }
            if running.is_empty() {
                return self.total.failed == 0;
            }
            match news.recv_timeout(REFRESH.saturating_sub(shown.elapsed())) {
                Ok(News::Line(title, line)) => {
                    let of_step = running.iter_mut().filter(|step| step.title == title);
                    of_step.for_each(|step| step.heard = Instant::now());
                    last = (title, line);
                }
                Ok(News::Ended(ended)) => self.end(ended, &mut running, &mut states),
                Err(_) => {}
            }
            if let Some(step) =
                running.iter().find(|step| step.heard.elapsed() > GIVE_UP * self.silence)
            {
                let given_up = step.given_up();
                self.end(given_up, &mut running, &mut states);
            }
            if shown.elapsed() >= REFRESH {
                let elapsed = seconds(self.started.elapsed());
                println!("    {elapsed}: {}: {}{}", last.0, last.1, others(&running, &last.0));
                shown = Instant::now();
            }
        }
    }

    /// Takes note of how a step ended; of one that was given up, not once more.
    fn end(
        &mut self,
        ended: Ended,
        running: &mut Vec<Running>,
        states: &mut HashMap<String, State>,
    ) {
        let Some(place) = running.iter().position(|step| step.title == ended.title) else { return };
        running.remove(place);
        let state = if ended.succeeded { State::Passed } else { State::Failed };
        states.insert(ended.title.clone(), state);
        self.close(ended);
    }

    /// Shows what a step printed, if there is a reason to, and how it ended.
    fn close(&mut self, ended: Ended) {
        let counts = count(&ended.output, ended.succeeded);
        if counts.failed > 0 {
            print!("{}", without_successes(&ended.output));
        } else {
            skipped(&ended.output).for_each(|reason| println!("    {reason}"));
        }
        let verdict = if counts.failed == 0 { "ok" } else { "FAILED" };
        let numbers = counts.passed + counts.failed + counts.skipped > 1;
        let numbers = if numbers { format!("   {counts}") } else { String::new() };
        let line =
            format!("  {verdict:6} {:44} {:>9}{numbers}", ended.title, seconds(ended.elapsed));
        println!("{line}");
        self.summary.push(line);
        self.summary.extend(
            ended
                .again
                .filter(|_| counts.failed > 0)
                .map(|command| format!("         again: {command}")),
        );
        self.total.passed += counts.passed;
        self.total.failed += counts.failed;
        self.total.skipped += counts.skipped;
    }

    /// Prints the outcome of every step, with the count as the last line,
    /// and returns the exit code.
    pub(crate) fn summary(&self) -> ExitCode {
        println!("\nsummary\n{}", self.summary.join("\n"));
        println!("  in {} altogether", seconds(self.started.elapsed()));
        // Continuous integration installs everything,
        // so that nothing has a reason to be skipped there.
        let incomplete = self.total.skipped > 0 && is_continuous_integration();
        if incomplete {
            println!("  FAILED: tests were skipped, which continuous integration does not allow");
        }
        println!("{}", self.total);
        if self.total.failed == 0 && !incomplete { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// What runs beside the step whose line is shown: it may be what everything waits for.
fn others(running: &[Running], shown: &str) -> String {
    let titles = running.iter().map(|step| step.title.as_str());
    let beside: Vec<&str> = titles.filter(|title| *title != shown).collect();
    if beside.is_empty() { String::new() } else { format!("   (beside it: {})", beside.join(", ")) }
}

fn has_place(step: &Step, running: &[Running]) -> bool {
    let is_kept_waiting = step.compiles && running.iter().any(|other| other.compiles);
    running.len() < LANES && !is_kept_waiting
}

fn work(step: Step, silence: Duration, news: &Sender<News>) {
    let (title, started, mut again) = (step.title, Instant::now(), None);
    // Whoever waits for this step would do so for ever if it panicked.
    let prepare = AssertUnwindSafe(step.prepare);
    let prepared = panic::catch_unwind(|| { prepare }.0())
        .unwrap_or_else(|_| Err(anyhow!("what prepares this step panicked")));
    let result = prepared.and_then(|Prepared(command, _server)| {
        let Some(mut command) = command else { return Ok((true, String::new())) };
        again = Some(typed(&command));
        // The output is searched for results, so it has no colours. Of an error its message tells
        // what is wrong, and fifty frames of runtimes below it hide that.
        command
            .env("CARGO_TERM_COLOR", "never")
            .env_remove("FORCE_COLOR")
            .env("RUST_LIB_BACKTRACE", "0");
        execute(&mut command, silence, |line| {
            if !line.trim().is_empty() {
                news.send(News::Line(title.clone(), line.trim().to_owned())).ok();
            }
        })
    });
    let (succeeded, output) = result.unwrap_or_else(|error| (false, format!("{error:#}\n")));
    news.send(News::Ended(Ended { title, elapsed: started.elapsed(), succeeded, output, again }))
        .ok();
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> impl FnOnce() -> Result<Command> + Send + 'static {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        || Ok(command)
    }

    #[test]
    fn no_more_steps_run_at_once_than_there_are_lanes() {
        let folder = std::env::temp_dir().join(format!("lanes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, mut steps) = (folder.display(), Steps::new());
        for number in 0..LANES + 3 {
            let script =
                format!("cd {path}; touch {number}; sleep 0.2; test $(ls | wc -l) -le {LANES}");
            steps.add(&number.to_string(), &[], shell(&format!("{script} && rm {number}")));
        }
        assert!(steps.run(), "{:?}", steps.summary);
        std::fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn of_those_that_compile_one_runs_at_a_time_and_keeps_no_place_from_others() {
        let folder = std::env::temp_dir().join(format!("compiles-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, mut steps) = (folder.display(), Steps::new());
        let script = format!("cd {path}; mkdir alone && until test -e seen; do sleep 0.02; done");
        for number in 0..LANES {
            let script = shell(&format!("{script} && rmdir alone"));
            steps.add_compiling(&format!("compiles {number}"), &[], script);
        }
        let beside = format!("cd {path}; until test -d alone; do sleep 0.02; done; touch seen");
        steps.add("beside", &[], shell(&beside));
        assert!(steps.run(), "{:?}", steps.summary);
        std::fs::remove_file(folder.join("seen")).unwrap();
        std::fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn a_step_waits_for_what_it_needs_and_is_left_out_if_that_fails() {
        let file =
            std::env::temp_dir().join(format!("made-{}", std::process::id())).display().to_string();
        let mut steps = Steps::new();
        steps.add("make", &[], shell(&format!("sleep 0.2; touch {file}")));
        steps.add("make", &[], shell("the same step"));
        steps.add("use", &["make", "not asked for"], shell(&format!("rm {file}")));
        steps.add("fail", &["make"], shell("false"));
        steps.add("left out", &["fail"], shell("true"));
        steps.add("left out, too", &["left out"], shell("true"));
        steps.add("no program", &[], || Ok(Command::new("/no/where")));
        assert!(!steps.run());
        let mut starts: Vec<_> = steps.summary.iter().map(|line| line[..22].trim()).collect();
        starts.sort_unstable();
        let again = ["again: /no/wh", "again: sh -c"];
        let ended =
            ["FAILED fail", "FAILED no program", again[0], again[1], "ok     make", "ok     use"];
        assert_eq!(starts, ended);
    }

    #[test]
    fn a_step_that_stands_still_or_panics_fails_and_holds_up_no_other() {
        let mut steps = Steps::with_silence(Duration::from_secs(1));
        steps.add("hang", &[], || {
            thread::sleep(Duration::from_secs(3_600));
            Ok(())
        });
        steps.add("panic", &[], || -> Result<()> { panic!("on purpose") });
        steps.add("well", &[], shell("true"));
        assert!(!steps.run());
        let mut ends: Vec<_> = steps.summary.iter().map(|line| line[..14].trim()).collect();
        ends.sort_unstable();
        assert_eq!(ends, ["FAILED hang", "FAILED panic", "ok     well"]);
    }
}
