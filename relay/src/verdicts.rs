//! Verdicts from the broker into the database.
//!
//! A verdict is done with after the database has committed it. A kill between the two brings it
//! again, and a ledger knows it then.
//!
//! The other way round a commit can be lost of what is done with: where a standby takes over that
//! had not received it, or a backup is restored. A killed broker can forget that it has to give a
//! verdict out. So the broker is asked again for the verdict of each mail that the ledger misses.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use futures_util::stream::FuturesUnordered;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::broker::{Announced, Broker, Fault};
use crate::decision::{PAUSE_OF_VERSION, pause};
use crate::message::{VERSION, Verdict};

/// How many verdicts are applied at a time: one transaction.
const MOST: usize = 500;

/// How long a fault of the broker is waited out, and one of the ledger.
const PAUSE: Duration = Duration::from_secs(1);

/// The longest pause of a verdict that came before its token was settled.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long it takes until the broker is asked again for verdicts that a ledger misses: from one of
/// these pages to the next one, and from one round to the next one.
const PAUSE_OF_PAGE: Duration = Duration::from_secs(1);
const PAUSE_OF_ROUND: Duration = Duration::from_secs(10);

/// How many of them are asked for at a time.
const ASKED: usize = 32;

/// What a ledger did with a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is recorded, or was before, or is on nothing that is known: it need not come again.
    Done,
    /// Its token is not settled yet: it has to come again.
    Early,
}

/// Why verdicts come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The broker gave them out.
    GivenOut,
    /// They were asked for, perhaps not for the first time.
    AskedFor,
}

/// Where verdicts are recorded.
pub trait Ledger {
    /// By what the broker tells it from other ledgers: letters and digits. `None` if it is not
    /// known yet.
    fn name(&mut self) -> impl Future<Output = Option<String>>;

    /// Records verdicts, all or none, and says of each what became of it. Verdicts come at least
    /// once and in any order. `None` if they are not recorded: they come again.
    fn record(
        &mut self,
        verdicts: &[Verdict],
        origin: Origin,
    ) -> impl Future<Output = Option<Vec<Taken>>>;

    /// The next mails after a token, by token and key, that have waited for a verdict for some
    /// time. None if there are no more, or if that is not known now.
    fn missing(&mut self, after: i64, most: usize) -> impl Future<Output = Vec<(i64, String)>>;

    /// Notes a fault of the broker.
    fn failed(&mut self, fault: &str);

    /// Notes that the broker answers.
    fn works(&mut self);

    /// Notes a message that is no verdict, which is done with.
    fn unreadable(&mut self);
}

/// Works for ever.
pub(crate) async fn run<B: Broker>(broker: B, mut ledger: impl Ledger) {
    let name = loop {
        if let Some(name) = ledger.name().await {
            break name;
        }
        sleep(PAUSE).await;
    };
    let (found, mut incoming) = mpsc::channel(MOST);
    let (faults, mut outcomes) = mpsc::channel::<Result<(), Fault>>(1);
    let pull = async {
        loop {
            let outcome = broker.receive_verdicts(&name, MOST, &found).await;
            let has_failed = outcome.is_err();
            faults.send(outcome).await.ok();
            if has_failed {
                sleep(PAUSE).await;
            }
        }
    };
    let take = async {
        let mut announced = Vec::new();
        let mut round = Round::default();
        loop {
            tokio::select! {
                _ = incoming.recv_many(&mut announced, MOST) => {}
                Some(outcome) = outcomes.recv() => match outcome {
                    Ok(()) => ledger.works(),
                    Err(fault) => ledger.failed(&fault.to_string()),
                },
                () = sleep_until(round.next) => round.ask(&broker, &mut ledger).await,
            }
            settle(&broker, &mut ledger, std::mem::take(&mut announced)).await;
        }
    };
    tokio::join!(pull, take);
}

/// Verdicts that the ledger misses, asked for in the order of tokens, from the first one again.
struct Round {
    after: i64,
    next: Instant,
}

impl Default for Round {
    fn default() -> Self {
        Self { after: i64::MIN, next: Instant::now() }
    }
}

impl Round {
    /// Asks for the next ones, and records what the broker has.
    async fn ask<B: Broker>(&mut self, broker: &B, ledger: &mut impl Ledger) {
        let missing = ledger.missing(self.after, MOST).await;
        let is_last = missing.len() < MOST;
        self.after = missing.last().filter(|_| !is_last).map_or(i64::MIN, |(token, _)| *token);
        let mut verdicts = Vec::new();
        for page in missing.chunks(ASKED) {
            let asked = page.iter().map(async |(_, key)| match broker.verdict_on(key).await {
                // Of another version: it is one of others, who wait for theirs. What is none is
                // gone when it is asked for again.
                Err(Fault::Message(_) | Fault::SetAside(_)) => Ok(None),
                known => known,
            });
            match try_join_all(asked).await {
                Ok(answers) => verdicts.extend(answers.into_iter().flatten()),
                Err(fault) => {
                    // The others have their turn when it answers again.
                    ledger.failed(&fault.to_string());
                    break;
                }
            }
        }
        verdicts.retain(|verdict| verdict.v == VERSION);
        if !verdicts.is_empty() {
            ledger.record(&verdicts, Origin::AskedFor).await;
        }
        self.next = Instant::now() + if is_last { PAUSE_OF_ROUND } else { PAUSE_OF_PAGE };
    }
}

/// What the broker is told of a message.
enum Word {
    Done,
    Again(Duration),
}

async fn settle<B: Broker>(
    broker: &B,
    ledger: &mut impl Ledger,
    announced: Vec<Announced<B::Handle>>,
) {
    let (mut words, mut verdicts, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for (place, message) in announced.iter().enumerate() {
        words.push(match read(&message.text) {
            Read::Verdict(verdict) => {
                verdicts.push(*verdict);
                places.push(place);
                Word::Done
            }
            Read::OfVersion => Word::Again(PAUSE_OF_VERSION),
            Read::Nothing => {
                ledger.unreadable();
                Word::Done
            }
        });
    }
    let taken = if verdicts.is_empty() {
        Some(Vec::new())
    } else {
        ledger.record(&verdicts, Origin::GivenOut).await
    };
    if taken.is_none() {
        sleep(PAUSE).await;
    }
    for (nth, place) in places.into_iter().enumerate() {
        match taken.as_ref().and_then(|taken| taken.get(nth)) {
            Some(Taken::Done) => {}
            Some(Taken::Early) => {
                words[place] = Word::Again(pause(announced[place].delivered, LONGEST_PAUSE));
            }
            // Whatever is not known to be recorded comes again.
            None => words[place] = Word::Again(PAUSE),
        }
    }
    let said = announced.iter().zip(&words).map(|(message, word)| async move {
        match word {
            Word::Done => broker.done(&message.handle).await,
            Word::Again(after) => broker.give_back(&message.handle, *after, None).await,
        }
    });
    let mut said: FuturesUnordered<_> = said.collect();
    // What the broker does not hear comes again.
    while let Some(outcome) = said.next().await {
        if let Err(fault) = outcome {
            ledger.failed(&fault.to_string());
        }
    }
}

/// What a message says.
pub(crate) enum Read {
    Verdict(Box<Verdict>),
    /// It is of another version: it waits for its own reader.
    OfVersion,
    /// It is no verdict of any version.
    Nothing,
}

pub(crate) fn read(text: &[u8]) -> Read {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    match serde_json::from_slice(text) {
        Ok(Version { v: VERSION }) => {}
        Ok(_) => return Read::OfVersion,
        Err(_) => return Read::Nothing,
    }
    serde_json::from_slice(text).map_or(Read::Nothing, |verdict| Read::Verdict(Box::new(verdict)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_of_another_version_is_left_and_what_is_none_is_passed_over() {
        let verdict = |v| {
            format!(
                r#"{{"v":{v},"id":7,"key":"ab","action":"activate","verdict":"sent","at":5,"x":1}}"#
            )
        };
        assert!(matches!(read(verdict(VERSION).as_bytes()), Read::Verdict(_)));
        assert!(matches!(read(verdict(VERSION + 1).as_bytes()), Read::OfVersion));
        for text in ["", "{}", r#"{"v":1}"#, "[]", &verdict(VERSION).replace("sent", "lost")] {
            assert!(matches!(read(text.as_bytes()), Read::Nothing), "{text}");
        }
    }

    #[test]
    fn what_comes_too_early_comes_again_after_pauses_that_double() {
        let seconds = [1, 2, 5, 6, 100].map(|delivered| pause(delivered, LONGEST_PAUSE).as_secs());
        assert_eq!(seconds, [1, 2, 16, 30, 30]);
    }
}
