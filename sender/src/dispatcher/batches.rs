//! The batches that are being worked on, and what is answered for them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::Waiting;
use crate::knows::Knows;
use crate::protocol::{Answer, working};

#[derive(Default)]
pub(super) struct Batches(HashMap<String, Pending>);

/// A batch that is not settled.
pub(super) struct Pending {
    /// How many of its tokens have no verdict.
    pub(super) unsettled: usize,
    /// What has not been written yet.
    pub(super) answer: Answer,
    /// What is said for the tokens that were withdrawn, once all others have verdicts: a mail that
    /// is still on its way must not be given back before it is known what became of it.
    unavailable: Option<(Option<Duration>, String)>,
}

impl Pending {
    /// Its tokens without a verdict cannot be sent now. The first reason counts.
    pub(super) fn say_unavailable(&mut self, after: Option<Duration>, reason: &str) {
        self.unavailable.get_or_insert_with(|| (after, reason.to_owned()));
    }
}

impl Batches {
    /// A batch that is known, or a new one.
    pub(super) fn open(&mut self, batch: &str, knows: Knows) -> &mut Pending {
        self.0.entry(batch.to_owned()).or_insert_with(|| Pending {
            unsettled: 0,
            answer: Answer::to(batch, knows),
            unavailable: None,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Calls back for the tokens that waited for a mail, each of which gets its verdict.
    pub(super) fn settle(
        &mut self,
        waiting: Option<Waiting>,
        mut say: impl FnMut(&mut Pending, i64),
    ) {
        for (batch, id) in waiting.unwrap_or_default().tokens {
            let pending = self.open(&batch, Knows::default());
            pending.unsettled -= 1;
            say(pending, id);
        }
    }

    /// What is to be written: the verdicts that are known. Batches that are settled are forgotten.
    pub(super) fn answers(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        self.0.retain(|batch, pending| {
            let is_settled = pending.unsettled == 0;
            if let Some((after, reason)) = pending.unavailable.take_if(|_| is_settled) {
                pending.answer.unavailable(after, &reason);
            }
            if !pending.answer.is_empty() {
                let rest = Answer::to(batch, pending.answer.knows());
                lines.extend(std::mem::replace(&mut pending.answer, rest).into_lines());
            }
            !is_settled
        });
        lines
    }

    /// The line that says which of these batches are being worked on, and which only wait for
    /// answers of a provider, if so many of their tokens do. Nothing if their collectors would not
    /// understand it.
    pub(super) fn working<'b>(
        &self,
        named: impl Iterator<Item = &'b str>,
        waiting: &HashMap<&str, usize>,
    ) -> Vec<u8> {
        let understood =
            |batch: &&str| self.0.get(*batch).is_some_and(|pending| pending.answer.knows().working);
        let named: BTreeSet<&str> = named.filter(understood).collect();
        let is_slow = |(batch, tokens): &(&&str, &usize)| {
            let pending = self.0.get(**batch);
            pending
                .is_some_and(|pending| pending.answer.knows().slow && pending.unsettled == **tokens)
        };
        let slow = waiting.iter().filter(is_slow).map(|(batch, _)| *batch);
        let slow = Vec::from_iter(slow.collect::<BTreeSet<_>>());
        if named.is_empty() && slow.is_empty() {
            return Vec::new();
        }
        working(&Vec::from_iter(named), &slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Receipt;

    #[test]
    fn no_line_is_longer_than_a_collector_reads() {
        let knows = Knows { exact: true, receipts: true, untried: true, ..Knows::default() };
        let mut batches = Batches::default();
        let pending = batches.open("b", knows);
        for id in 0..10_000 {
            pending.answer.dead(id, &format!("{id}: \"{}", "x".repeat(200)));
            let receipt = Receipt { message_id: None, answer: format!("250 {}", "y".repeat(90)) };
            pending.answer.accepted(10_000 + id, "smtp", &receipt);
            pending.answer.untried(20_000 + id, None, "the rate is reached");
        }
        pending.say_unavailable(None, "421");
        let lines = batches.answers();
        assert!(lines.ends_with(b"\n"));
        let lines: Vec<_> = lines.trim_ascii_end().split(|byte| *byte == b'\n').collect();
        let (mut ids, mut accepted) = (BTreeSet::new(), Vec::new());
        for (n, line) in lines.iter().enumerate() {
            assert!(line.len() < 1_000_000, "{}", line.len());
            let answer: serde_json::Value = serde_json::from_slice(line).unwrap();
            assert_eq!((answer["batch"].as_str(), &answer["exact"]), (Some("b"), &true.into()));
            // Tokens of later lines must not be given back.
            assert_eq!(answer.get("unavailable").is_some(), n + 1 == lines.len());
            let list = |name: &str| answer[name].as_array().cloned().unwrap_or_default();
            let id = |item: &serde_json::Value| item["id"].as_i64().unwrap();
            ids.extend(list("dead").iter().chain(&list("untried")).map(id));
            let ok: Vec<_> = list("ok").iter().map(|id| id.as_i64().unwrap()).collect();
            assert_eq!(ok, list("receipts").iter().map(id).collect::<Vec<_>>());
            accepted.extend(ok);
        }
        ids.extend(accepted);
        assert_eq!(ids, (0..30_000).collect());
    }
}
