//! The sender of a test: what `mailroom collect --sender` runs, with its answers given here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::recorder::Recorder;

/// How batches are answered.
#[derive(Clone, Debug)]
pub enum Manner {
    /// All were sent, said after a time.
    Sent(Duration),
    /// Not at all.
    Silent,
    /// As senders may that are not well: late, in part, twice, in nonsense, for a batch that never
    /// was, with refusals, or not at all; most often well. The same seed answers the same way.
    Odd(u64),
}

/// Takes batches from any number of collectors, notes them and answers.
#[derive(Debug)]
pub struct Mailer {
    program: PathBuf,
    folder: TempDir,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    recorder: Recorder,
    manner: Mutex<Manner>,
    /// The processes of collectors that run, by the collector's name.
    processes: Mutex<Vec<(String, u32)>>,
    /// How often each kind of odd answer was given.
    oddities: Mutex<BTreeMap<&'static str, usize>>,
}

impl Mailer {
    /// Waits for the processes that collectors start from `program`, which is the built `relay`.
    pub fn start(program: &Path, recorder: &Recorder) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let listener = UnixListener::bind(folder.path().join("socket"))?;
        let shared = Arc::new(Shared {
            recorder: recorder.clone(),
            manner: Mutex::new(Manner::Sent(Duration::ZERO)),
            processes: Mutex::default(),
            oddities: Mutex::default(),
        });
        let mailer = Self { program: program.to_owned(), folder, shared: Arc::clone(&shared) };
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.serve(connection));
            }
        });
        Ok(mailer)
    }

    /// The value of `--sender` for a collector.
    pub fn command(&self, collector: &str) -> String {
        let socket = self.folder.path().join("socket");
        format!("{} {} {collector}", self.program.display(), socket.display())
    }

    /// Answers in another manner from now on.
    pub fn answer(&self, manner: Manner) {
        *lock(&self.shared.manner) = manner;
    }

    /// How often each kind of odd answer was given since this was last asked.
    pub fn take_oddities(&self) -> BTreeMap<&'static str, usize> {
        std::mem::take(&mut *lock(&self.shared.oddities))
    }

    /// Sends a signal to the senders of a collector that run, and returns how many there were.
    pub fn signal(&self, collector: &str, signal: Signal) -> usize {
        let processes = lock(&self.shared.processes).clone();
        let ids = processes.iter().filter(|(name, _)| name == collector).map(|(_, id)| *id);
        ids.filter_map(|id| Pid::from_raw(i32::try_from(id).ok()?))
            .filter(|id| kill_process(*id, signal).is_ok())
            .count()
    }
}

impl Shared {
    fn serve(&self, connection: UnixStream) {
        let Ok(answers) = connection.try_clone() else { return };
        let mut lines = BufReader::new(connection);
        let mut greeting = String::new();
        if lines.read_line(&mut greeting).is_err() {
            return;
        }
        let Some((id, name)) = greeting.trim_end().split_once(' ') else { return };
        let process = (name.to_owned(), id.parse().unwrap_or_default());
        lock(&self.processes).push(process.clone());
        let (sender, due) = channel();
        thread::spawn(move || write(answers, &due));
        let mut line = Vec::new();
        for number in 0.. {
            line.clear();
            if !lines.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                break;
            }
            self.recorder.take(name, &line);
            let manner = lock(&self.manner).clone();
            let mut answer = match answer(&line, &manner, number) {
                Ok(answer) => answer,
                Err(error) => {
                    lock_faults(
                        &self.recorder,
                        format!("{name} wrote a batch of no use: {error:#}"),
                    );
                    continue;
                }
            };
            answer.at = Instant::now() + answer.after;
            if let Some(oddity) = answer.oddity {
                *lock(&self.oddities).entry(oddity).or_default() += 1;
            }
            {
                let mut seen = self.recorder.seen();
                for id in &answer.refused {
                    *seen.refused.entry(*id).or_default() += 1;
                }
                seen.given_up.extend(&answer.given_up);
            }
            if sender.send(answer).is_err() {
                break;
            }
        }
        lock(&self.processes).retain(|other| *other != process);
    }
}

/// What is written back, and when.
struct Answer {
    text: String,
    after: Duration,
    at: Instant,
    /// What is odd about it, as the counts at the end call it.
    oddity: Option<&'static str>,
    /// The ids that it does not report as sent.
    refused: Vec<i64>,
    /// The ids that it reports as never to be sent.
    given_up: Vec<i64>,
}

impl Answer {
    fn new(text: String, oddity: Option<&'static str>) -> Self {
        Self {
            text,
            after: Duration::ZERO,
            at: Instant::now(),
            oddity,
            refused: Vec::new(),
            given_up: Vec::new(),
        }
    }
}

fn answer(line: &[u8], manner: &Manner, number: u64) -> Result<Answer> {
    let batch: Value = serde_json::from_slice(line)?;
    let name = batch["batch"].as_str().context("no `batch`")?;
    let items = batch["items"].as_array().context("no `items`")?;
    let ids: Vec<i64> = items.iter().filter_map(|item| item["id"].as_i64()).collect();
    let well = Answer::new(format!("{{\"batch\":\"{name}\",\"ok\":\"all\"}}\n"), None);
    Ok(match manner {
        Manner::Sent(after) => Answer { after: *after, ..well },
        Manner::Silent => Answer { text: String::new(), refused: ids, ..well },
        Manner::Odd(seed) => odd(name, &ids, well, &mut fastrand::Rng::with_seed(seed ^ number)),
    })
}

fn odd(name: &str, ids: &[i64], well: Answer, random: &mut fastrand::Rng) -> Answer {
    let sent = &well.text;
    let (first, second) = ids.split_at(ids.len() / 2);
    let list = |ids: &[i64]| ids.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    let each = |ids: &[i64], rest: &str| {
        let mut text = String::new();
        for (index, id) in ids.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(text, "{comma}{{\"id\":{id},{rest}}}")
                .expect("a string takes all that is written");
        }
        text
    };
    let new = |text, oddity| Answer::new(text, Some(oddity));
    match random.u8(0..22) {
        0 => {
            let (first, second) = (list(first), list(second));
            let text = format!(
                "{{\"batch\":\"{name}\",\"ok\":[{first}]}}\n\
                 {{\"batch\":\"{name}\",\"ok\":[{second}]}}\n"
            );
            new(text, "answers in two parts")
        }
        1 => new(format!("{sent}{sent}"), "answers given twice"),
        2 => new(
            format!("all is well\n\n{{\"batch\":5}}\n[]\n{sent}"),
            "answers between lines of nonsense",
        ),
        3 => new(
            format!(
                "{{\"batch\":\"00000000-0000-0000-0000-000000000000\",\"ok\":\"all\"}}\n{sent}"
            ),
            "answers for a batch that never was",
        ),
        4 => new(
            format!("{{\"batch\":\"{name}\",\"ok\":[\"one\",-1,9223372036854775807,1.5]}}\n{sent}"),
            "answers with ids of no use",
        ),
        5 => {
            let (ok, retry) = (list(first), each(second, "\"after_ms\":100,\"reason\":\"busy\""));
            let text = format!("{{\"batch\":\"{name}\",\"ok\":[{ok}],\"retry\":[{retry}]}}\n");
            Answer { refused: second.to_vec(), ..new(text, "answers that refuse for now") }
        }
        6 if random.u8(0..10) == 0 => {
            Answer { refused: ids.to_vec(), ..new(String::new(), "answers forgotten") }
        }
        7 => {
            let after = Duration::from_millis(random.u64(1..800));
            Answer { after, ..new(well.text, "late answers") }
        }
        8 if random.u8(0..4) == 0 => {
            let (ok, dead) = (list(first), each(second, "\"reason\":\"550 no such user\""));
            let text = format!("{{\"batch\":\"{name}\",\"ok\":[{ok}],\"dead\":[{dead}]}}\n");
            Answer { given_up: second.to_vec(), ..new(text, "answers that give up") }
        }
        9 if random.u8(0..4) == 0 => {
            let text = format!(
                "{{\"batch\":\"{name}\",\"ok\":[{}],\"unavailable\":{{\"reason\":\"421 \
                 closed\"}}}}\n",
                list(first)
            );
            Answer { refused: second.to_vec(), ..new(text, "answers of an unavailable sender") }
        }
        _ => well,
    }
}

/// Writes answers at their times, in the order of the batches.
fn write(mut answers: UnixStream, due: &Receiver<Answer>) {
    for answer in due {
        sleep(answer.at.saturating_duration_since(Instant::now()));
        if answers.write_all(answer.text.as_bytes()).is_err() {
            return;
        }
    }
}

fn lock_faults(recorder: &Recorder, fault: String) {
    recorder.seen().faults.push(fault);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
