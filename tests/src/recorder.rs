//! Remembers every token that collectors hand over.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use mailroom_verifier_core::{Expected, KeyRing, Moment, SharedKey, UntrustedToken};
use serde_json::Value;

use crate::collector::KEY;

/// Whether a token expired is judged by the database; the lines are only checked for being genuine.
const NOW: Moment = Moment::at(0);

/// What a token's row begins with, and what finds the row again.
pub type SecretBytes = [u8; 32];

/// A token in a line that arrived whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Who wrote the line, as the test named it.
    pub collector: String,
    /// The token's id, where the format carries it.
    pub id: Option<i64>,
    /// Which hand-over of the token it claims to be, where the format carries that.
    pub attempt: Option<i64>,
}

/// All lines of all collectors of a test, in the order of their arrival.
/// Clones share what they remember.
#[derive(Clone, Debug)]
pub struct Recorder {
    keys: Arc<KeyRing>,
    seen: Arc<Mutex<Seen>>,
}

/// What has arrived.
#[derive(Debug, Default)]
pub struct Seen {
    /// By the secret.
    pub tokens: HashMap<SecretBytes, Vec<Handover>>,
    /// How many tokens came, repetitions included.
    pub handovers: usize,
    /// How often a reader did not say of a token, by its id, that it was sent:
    /// so often it may come again.
    pub refused: HashMap<i64, usize>,
    /// What a reader said of, by its id, that it will never be sent.
    pub given_up: HashSet<i64>,
    /// What no collector may write: forged or malformed tokens, lines that cannot be read.
    pub faults: Vec<String>,
    /// Ends of lines that never came, because their writer was killed.
    pub broken_lines: usize,
}

/// How fast a reader takes lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// How long it waits after a line.
    pub pause: Duration,
    /// After how many lines it ends and closes the pipe.
    pub lines: Option<usize>,
}

impl Recorder {
    /// Remembers nothing yet; expects tokens of [`KEY`].
    pub fn new() -> Result<Self> {
        let keys = KeyRing::of(SharedKey::from_hex(KEY)?);
        Ok(Self { keys: Arc::new(keys), seen: Arc::default() })
    }

    /// Reads a collector's output on a thread of its own, until it ends.
    pub fn read(&self, collector: &str, pipe: OwnedFd, pace: Pace) -> JoinHandle<()> {
        let (recorder, collector) = (self.clone(), collector.to_owned());
        thread::spawn(move || {
            // What is in this buffer was taken out of the pipe, so all of it must be remembered. A
            // reader that ends before the pipe does takes nothing ahead.
            let ahead = if pace.lines.is_some() { 1 } else { 1 << 16 };
            let mut pipe = BufReader::with_capacity(ahead, std::fs::File::from(pipe));
            for _ in 0..pace.lines.unwrap_or(usize::MAX) {
                let mut line = Vec::new();
                if !pipe.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                    return;
                }
                recorder.take(&collector, &line);
                if !pace.pause.is_zero() {
                    sleep(pace.pause);
                }
            }
        })
    }

    /// Takes a line, with its line feed unless it was broken off.
    pub fn take(&self, collector: &str, line: &[u8]) {
        let Some(line) = line.strip_suffix(b"\n") else {
            self.seen().broken_lines += 1;
            return;
        };
        // Signatures are checked before anybody else has to wait.
        match self.handovers(collector, line) {
            Ok(handovers) => {
                let mut seen = self.seen();
                seen.handovers += handovers.len();
                for (secret, handover) in handovers {
                    seen.tokens.entry(secret).or_default().push(handover);
                }
            }
            Err(error) => {
                let fault =
                    format!("{collector} wrote {:?}: {error:#}", String::from_utf8_lossy(line));
                self.seen().faults.push(fault);
            }
        }
    }

    /// How many different tokens arrived.
    pub fn tokens(&self) -> usize {
        self.seen().tokens.len()
    }

    /// Looks at what has arrived; nothing arrives meanwhile.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handovers(&self, collector: &str, line: &[u8]) -> Result<Vec<(SecretBytes, Handover)>> {
        let line = str::from_utf8(line)?;
        let named = |id, attempt| Handover { collector: collector.to_owned(), id, attempt };
        if line.starts_with('{') {
            let batch: Value = serde_json::from_str(line)?;
            let items = batch["items"].as_array().context("no `items`")?;
            return items
                .iter()
                .map(|item| {
                    let action = item["action"].as_str().context("no `action`")?;
                    let token = item["token"].as_str().context("no `token`")?;
                    let code = item["code"].as_str().unwrap_or_default();
                    let number = |name| item[name].as_i64().with_context(|| format!("no `{name}`"));
                    let handover = named(Some(number("id")?), Some(number("attempt")?));
                    Ok((self.secret(action, token, code)?, handover))
                })
                .collect();
        }
        let fields: Vec<&str> = line.split(',').collect();
        ensure!(fields.len().is_multiple_of(5), "not five fields a token");
        fields
            .chunks(5)
            .map(|fields| {
                let action = match fields[0] {
                    "1" => "activate",
                    "2" => "recover",
                    other => bail!("the unknown action `{other}`"),
                };
                Ok((self.secret(action, fields[3], fields[4])?, named(None, None)))
            })
            .collect()
    }

    fn secret(&self, action: &str, token: &str, code: &str) -> Result<SecretBytes> {
        let expected = match action {
            "activate" => Expected::activation(),
            "recover" => Expected::recovery(code),
            other => bail!("the unknown action `{other}`"),
        };
        let verified = UntrustedToken::parse(token)?.verify(&self.keys, expected, NOW)?;
        Ok(*verified.secret().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailroom_verifier_core::{Secret, v1};

    fn token() -> String {
        let key = SharedKey::from_hex(KEY).unwrap();
        v1::sign_activation(&key, &Secret::from([7; 32])).to_string()
    }

    #[test]
    fn both_formats_are_read_and_a_line_without_its_end_counts_for_nothing() {
        let recorder = Recorder::new().unwrap();
        let token = token();
        recorder.take("one", format!("1,a@b.test,a,{token},01234\n").as_bytes());
        let item = format!(r#"{{"id":5,"attempt":2,"action":"activate","token":"{token}"}}"#);
        recorder.take("two", format!("{{\"items\":[{item}]}}\n").as_bytes());
        recorder.take("two", format!("1,a@b.test,a,{token},01234").as_bytes());
        let seen = recorder.seen();
        let handover = |collector: &str, id, attempt| Handover {
            collector: collector.to_owned(),
            id,
            attempt,
        };
        let expected = [handover("one", None, None), handover("two", Some(5), Some(2))];
        assert_eq!(seen.tokens[&[7; 32]], expected);
        assert_eq!((seen.handovers, seen.broken_lines), (2, 1));
        assert_eq!(seen.faults, [""; 0]);
    }

    #[test]
    fn what_is_not_genuine_is_a_fault() {
        let recorder = Recorder::new().unwrap();
        let mut forged = token();
        forged.replace_range(60..61, if &forged[60..61] == "A" { "B" } else { "A" });
        for line in
            [format!("1,a@b.test,a,{forged},01234\n"), "1,a@b.test\n".to_owned(), "{}\n".to_owned()]
        {
            recorder.take("one", line.as_bytes());
        }
        assert_eq!(recorder.seen().faults.len(), 3);
        assert_eq!(recorder.tokens(), 0);
    }
}
