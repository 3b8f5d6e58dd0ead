//! A sender at work, with a test in the collector's place.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mailroom_sender::Error;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a test waits for what must come, on a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A variable that cargo sets for every test, and what it holds:
/// a process cannot safely set one of its own.
pub(crate) const VARIABLE: (&str, &str) = ("CARGO_PKG_NAME", env!("CARGO_PKG_NAME"));

/// What a collector of this version understands.
const KNOWS: [&str; 7] =
    ["in_doubt", "working", "exact", "receipts", "unknown_address", "untried", "slow"];

/// A folder with a configuration, and what the collector's database counts for it: doubts, by the
/// ids of tokens.
pub(crate) struct Configuration {
    folder: TempDir,
    doubts: Doubts,
}

type Doubts = Arc<Mutex<BTreeMap<i64, u32>>>;

impl Configuration {
    /// One with these lines before its tables, and these tables.
    pub(crate) fn new(settings: &str, tables: &str) -> Self {
        let configuration =
            Self { folder: tempfile::tempdir().unwrap(), doubts: Doubts::default() };
        fs::write(configuration.path("key"), "a-key\n").unwrap();
        configuration.write(settings, tables);
        configuration
    }

    pub(crate) fn write(&self, settings: &str, tables: &str) {
        let text = format!(
            "from = \"Example <us@x.test>\"\nproduct = \"Example\"\njournal = \"journal\"\n\
             {settings}\n\
             [links]\nbase = \"https://example.test\"\n{tables}"
        );
        fs::write(self.file(), text).unwrap();
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.path("send.toml")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What is wrong with it, in one sentence.
    pub(crate) fn fault(&self) -> String {
        let outcome =
            mailroom_sender::send_between(&self.file(), None, None, io::empty(), io::sink());
        let fault = outcome.expect_err("the configuration is refused");
        assert!(fault.is_of_configuration(), "{fault}");
        fault.to_string()
    }
}

/// A sender on a thread; it ends when this is dropped, and is waited for by
/// [`finish`](Self::finish).
pub(crate) struct Sending {
    input: Option<PipeWriter>,
    doubts: Doubts,
    knows: Vec<&'static str>,
    answers: Receiver<String>,
    ended: JoinHandle<Result<(), Error>>,
}

impl Sending {
    pub(crate) fn start(configuration: &Configuration) -> Self {
        let doubts = Arc::clone(&configuration.doubts);
        Self { doubts, ..Self::start_with(&configuration.file()) }
    }

    pub(crate) fn start_with(file: &Path) -> Self {
        let (read, input) = io::pipe().unwrap();
        let (output, write) = io::pipe().unwrap();
        let file = file.to_owned();
        let ended = thread::spawn(move || {
            mailroom_sender::send_between(&file, None, None, BufReader::new(read), write)
        });
        let (sender, answers) = channel();
        let lines = BufReader::new(output).lines();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let (doubts, knows) = (Doubts::default(), KNOWS.to_vec());
        Self { input: Some(input), doubts, knows, answers, ended }
    }

    /// From now on the collector is an older one, which does not understand this.
    pub(crate) fn forget(&mut self, word: &str) {
        self.knows.retain(|known| *known != word);
    }

    /// Gives it a batch with an activation for each of these ids and addresses, as a collector that
    /// understands every answer. The key follows from the id.
    pub(crate) fn write(&mut self, batch: &str, people: &[(i64, &str)]) {
        let doubts = self.doubts.lock().unwrap();
        let item = |(id, email): &(i64, &str)| {
            let mut item = item(*id, email);
            if let Some(count) = doubts.get(id) {
                item["doubts"] = json!(count);
            }
            item
        };
        let items: Vec<Value> = people.iter().map(item).collect();
        let line =
            json!({"v": 1, "batch": batch, "knows": self.knows, "items": items}).to_string() + "\n";
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    /// The next answer to a batch.
    pub(crate) fn answer(&self) -> Value {
        loop {
            let line = self.answers.recv_timeout(PATIENCE).expect("an answer comes");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer.get("working").is_some() {
                continue;
            }
            assert_eq!(answer["exact"], true);
            for entry in answer["in_doubt"].as_array().into_iter().flatten() {
                *self.doubts.lock().unwrap().entry(entry["id"].as_i64().unwrap()).or_default() += 1;
            }
            return answer;
        }
    }

    /// The verdicts on all tokens of a batch: `ok`, `retry`, `untried`, `in_doubt`, `dead` or
    /// `unavailable`, with the reason and the pause.
    pub(crate) fn verdicts(&mut self, batch: &str, people: &[(i64, &str)]) -> Vec<Verdict> {
        self.write(batch, people);
        let mut verdicts: Vec<Option<Verdict>> = vec![None; people.len()];
        while verdicts.iter().any(Option::is_none) {
            let answer = self.answer();
            assert_eq!(answer["batch"], batch);
            for (verdict, (id, _)) in verdicts.iter_mut().zip(people) {
                *verdict = verdict.take().or_else(|| Verdict::on(*id, &answer));
            }
        }
        verdicts.into_iter().flatten().collect()
    }

    /// The verdict on one token.
    pub(crate) fn verdict(&mut self, id: i64, email: &str) -> Verdict {
        self.verdicts(&format!("batch-of-{id}"), &[(id, email)]).remove(0)
    }

    /// Closes its input and waits for its end.
    pub(crate) fn finish(mut self) {
        drop(self.input.take());
        self.ended.join().unwrap().unwrap();
    }
}

/// What is answered for a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) kind: String,
    pub(crate) reason: String,
    pub(crate) after: Option<u64>,
}

impl Verdict {
    fn on(id: i64, answer: &Value) -> Option<Self> {
        let of = |kind: &str, found: &Value| Self {
            kind: kind.to_owned(),
            reason: found["reason"].as_str().unwrap_or_default().to_owned(),
            after: found["after_ms"].as_u64(),
        };
        for kind in ["retry", "untried", "in_doubt", "dead"] {
            let found =
                answer[kind].as_array().into_iter().flatten().find(|entry| entry["id"] == id);
            if let Some(found) = found {
                return Some(of(kind, found));
            }
        }
        if answer["ok"].as_array().into_iter().flatten().any(|other| *other == id) {
            return Some(of("ok", &Value::Null));
        }
        answer.get("unavailable").map(|found| of("unavailable", found))
    }
}

fn item(id: i64, email: &str) -> Value {
    json!({
        "id": id,
        "attempt": 1,
        "action": "activate",
        "path": "/activate",
        "email": email,
        "login": "ada",
        "token": token(id),
        "code": "",
        "expires_at": 4_000_000_000_i64,
        "key": key(id),
    })
}

/// The token of an id.
pub(crate) fn token(id: i64) -> String {
    format!("{:x<86}", format!("token-{id}-"))
}

/// The key of an id.
pub(crate) fn key(id: i64) -> String {
    format!("{id:032x}")
}
