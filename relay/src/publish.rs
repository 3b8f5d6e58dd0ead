//! `mailroom relay`: batches in, mails to the broker, answers out.
//!
//! A mail is answered with `handed_over` when the broker has stored it. Where it is not known
//! whether it has, the mail goes back to the queue and is published again under the same key.

use std::collections::HashSet;
use std::io::{BufRead, Write as _};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mailroom_sender::protocol::{Answer, parse_line};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Error;
use crate::broker::{Broker, Fault, Stored};
use crate::counts::Counts;
use crate::message::{Head, Mail};

/// How many batches are published at a time.
const BATCHES: usize = 64;

/// For how long a broker that is away is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// What is said of a mail that the broker will never take as it is.
const PAUSE_OF_ONE: Duration = Duration::from_secs(60);

/// What the receipt of a mail says, which is no receipt of a provider.
const STORED: &str = "stored by the broker, not sent yet";

#[derive(Deserialize)]
struct Items<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

/// Works until standard input ends and all that came is answered.
///
/// # Errors
/// Standard streams that are broken.
pub(crate) async fn run(broker: impl Broker) -> Result<(), Error> {
    let counts = Arc::new(Counts::new("mailroom relay"));
    let (sender, mut lines) = mpsc::channel(1);
    // Not waited for at the end: after an error it may still wait for a line.
    std::thread::spawn(move || read(std::io::stdin().lock(), &sender));
    let mut batches = JoinSet::new();
    let mut is_open = true;
    while is_open || !batches.is_empty() {
        tokio::select! {
            line = lines.recv(), if is_open && batches.len() < BATCHES => match line {
                Some(Ok(line)) => {
                    let (broker, counts) = (broker.clone(), Arc::clone(&counts));
                    batches.spawn(async move { publish(&broker, &counts, &line).await });
                }
                Some(Err(fault)) => {
                    let sentence = format!("standard input cannot be read: {fault}");
                    return Err(Error::Failure(sentence));
                }
                None => is_open = false,
            },
            Some(answer) = batches.join_next() => {
                let answer = answer.map_err(|error| Error::Failure(error.to_string()))?;
                write(&answer)?;
                counts.say_sometimes();
            }
        }
    }
    counts.say();
    Ok(())
}

fn read(mut input: impl BufRead, lines: &mpsc::Sender<Result<Vec<u8>, String>>) {
    loop {
        let mut line = Vec::new();
        let line = match input.read_until(b'\n', &mut line) {
            // Without its line feed it may be a part of one.
            Ok(_) if line.pop() != Some(b'\n') => return,
            Ok(_) if line.is_empty() => continue,
            Ok(_) => Ok(line),
            Err(error) => Err(error.to_string()),
        };
        let is_end = line.is_err();
        if lines.blocking_send(line).is_err() || is_end {
            return;
        }
    }
}

fn write(answer: &[u8]) -> Result<(), Error> {
    let mut output = std::io::stdout().lock();
    output.write_all(answer).and_then(|()| output.flush()).map_err(|error| {
        Error::Failure(format!("an answer cannot be written to standard output: {error}"))
    })
}

/// Publishes the mails of a line, and returns what is answered.
async fn publish(broker: &impl Broker, counts: &Counts, line: &[u8]) -> Vec<u8> {
    let batch = match parse_line(line) {
        Ok(batch) => batch,
        Err(error) => {
            counts.fault(&error.reason);
            let Some(batch) = &error.batch else { return Vec::new() };
            let mut answer = Answer::to(batch, mailroom_sender::protocol::Knows::default());
            answer.unavailable(None, &error.reason);
            return answer.to_line();
        }
    };
    let mut answer = Answer::to(&batch.batch, batch.knows);
    let text = String::from_utf8_lossy(line);
    let Ok(Items { items }) = serde_json::from_str(&text) else {
        // Whole items of a damaged line come again, in another line.
        answer.unavailable(None, "a line is damaged");
        return answer.to_line();
    };
    let mut refused = HashSet::new();
    for unreadable in &batch.unreadable {
        match unreadable.id {
            Some(id) if refused.insert(id) => answer.dead(id, &unreadable.reason),
            Some(_) => {}
            None => counts.fault(&format!("an item has no id: {}", unreadable.reason)),
        }
    }
    let mails: Vec<_> = items
        .into_iter()
        .filter_map(|item| {
            let head = Head::read(item.get()).filter(|head| !refused.contains(&head.id))?;
            Some(Mail { head, item: item.get().to_owned() })
        })
        .collect();
    refused.extend(mails.iter().map(|mail| mail.head.id));
    for item in &batch.items {
        // Without a verdict its batch would never end.
        if refused.insert(item.id) {
            answer.dead(item.id, "its line cannot be used: a field is of the wrong type");
        }
    }
    let mut outcomes: FuturesUnordered<_> = mails
        .into_iter()
        .map(|mail| async move { (mail.head.id, broker.publish(&mail).await) })
        .collect();
    let mut away = None;
    while let Some((id, outcome)) = outcomes.next().await {
        match outcome {
            Ok(stored) => {
                counts.add(match stored {
                    Stored::Now => "published",
                    Stored::Before => "were there before",
                });
                answer.handed_over(id, broker.name(), STORED);
            }
            Err(Fault::Message(reason)) => {
                counts.add("refused by the broker");
                answer.retry(id, Some(PAUSE_OF_ONE), &reason);
            }
            Err(Fault::SetAside(reason)) => {
                counts.fault(&reason);
                answer.retry(id, Some(PAUSE), &reason);
            }
            Err(Fault::Away(reason)) => away = Some(reason),
        }
    }
    if let Some(reason) = away {
        counts.fault(&reason);
        answer.unavailable(Some(PAUSE), &reason);
    }
    answer.to_line()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{Announced, Received};
    use crate::message::{Class, Verdict};

    /// A broker that takes some keys, refuses some, and does not answer of others.
    #[derive(Clone)]
    struct Picky;

    impl Broker for Picky {
        type Handle = ();

        async fn publish(&self, mail: &Mail) -> Result<Stored, Fault> {
            match mail.head.id {
                1 => Ok(Stored::Now),
                2 => Ok(Stored::Before),
                3 => Err(Fault::Message("too large".to_owned())),
                _ => Err(Fault::Away("no answer".to_owned())),
            }
        }
        async fn record(&self, _: &Verdict, _: u64) -> Result<(), Fault> {
            Ok(())
        }
        async fn record_foreign(&self, _: u64) -> Result<(), Fault> {
            Ok(())
        }
        async fn verdict_on(&self, _: &str) -> Result<Option<Verdict>, Fault> {
            Ok(None)
        }
        async fn receive(
            &self,
            _: Class,
            _: usize,
            _: &mpsc::Sender<(Class, Received<()>)>,
        ) -> (usize, Result<(), Fault>) {
            (0, Ok(()))
        }
        async fn receive_verdicts(
            &self,
            _: &str,
            _: usize,
            _: &mpsc::Sender<Announced<()>>,
        ) -> Result<(), Fault> {
            Ok(())
        }
        async fn done(&self, (): &()) -> Result<(), Fault> {
            Ok(())
        }
        async fn let_go(&self, _: Class) {}
        async fn give_back(&self, (): &(), _: Duration, _: Option<u32>) -> Result<(), Fault> {
            Ok(())
        }
        async fn working(&self, (): &()) -> Result<(), Fault> {
            Ok(())
        }
        async fn sweep(&self) -> Result<usize, Fault> {
            Ok(0)
        }
        fn patience(&self) -> Duration {
            PAUSE
        }
        fn name(&self) -> &'static str {
            "picky"
        }
    }

    fn item(id: i64) -> String {
        format!(
            concat!(
                r#"{{"id":{id},"key":"{key:032x}","action":"activate","path":"/activate","#,
                r#""email":"ada@x.test","login":"ada","token":"t","code":"","expires_at":5}}"#,
            ),
            id = id,
            key = id
        )
    }

    async fn answer(line: &str) -> serde_json::Value {
        let answer = publish(&Picky, &Counts::new("test"), line.as_bytes()).await;
        serde_json::from_slice(&answer).unwrap()
    }

    #[tokio::test]
    async fn only_what_is_stored_is_ok_and_nothing_is_dead_for_a_broker() {
        let items: Vec<_> = (1..=4).map(item).collect();
        let line = format!(r#"{{"v":1,"batch":"b","items":[{}]}}"#, items.join(","));
        let answer = answer(&line).await;
        assert_eq!(answer["ok"], serde_json::json!([1, 2]), "{answer}");
        assert_eq!(answer["retry"][0]["id"], 3, "{answer}");
        assert_eq!(answer["unavailable"]["reason"], "no answer", "{answer}");
        assert!(answer.get("dead").is_none(), "{answer}");
    }

    #[tokio::test]
    async fn an_item_that_cannot_be_read_is_dead_and_costs_no_other() {
        let line = format!(r#"{{"v":1,"batch":"b","items":[{},{{"id":9,"key":"x"}}]}}"#, item(1));
        let answer = answer(&line).await;
        assert_eq!(
            (&answer["ok"][0], &answer["dead"][0]["id"]),
            (&1.into(), &9.into()),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn an_item_that_only_its_sender_can_read_gets_a_verdict() {
        for field in [r#""attempt":-1"#, r#""priority":99999"#] {
            let odd = item(2).replace("\"id\":2", &format!("\"id\":2,{field}"));
            let line = format!(r#"{{"v":1,"batch":"b","items":[{},{odd}]}}"#, item(1));
            let answer = answer(&line).await;
            assert_eq!((&answer["ok"][0], &answer["dead"][0]["id"]), (&1.into(), &2.into()));
        }
    }

    #[tokio::test]
    async fn a_line_of_another_version_or_cut_goes_back() {
        for line in [
            r#"{"v":2,"batch":"b","items":[]}"#.to_owned(),
            format!(r#"{{"v":1,"batch":"b","items":[{}"#, item(1)),
        ] {
            let answer = answer(&line).await;
            assert!(answer.get("unavailable").is_some() && answer.get("ok").is_none(), "{answer}");
        }
    }
}
