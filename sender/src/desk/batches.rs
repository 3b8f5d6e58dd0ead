//! The batches that are being worked on, and what is answered for them.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::Waiting;
use crate::protocol::{Answer, Knows, working};

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
                lines.extend(std::mem::replace(&mut pending.answer, rest).to_line());
            }
            !is_settled
        });
        lines
    }

    /// The line that says which of these batches are being worked on; nothing if their collectors
    /// would not understand it.
    pub(super) fn working<'b>(&self, named: impl Iterator<Item = &'b str>) -> Vec<u8> {
        let understood =
            |batch: &&str| self.0.get(*batch).is_some_and(|pending| pending.answer.knows().working);
        let named: BTreeSet<&str> = named.filter(understood).collect();
        if named.is_empty() { Vec::new() } else { working(&Vec::from_iter(named)) }
    }
}
