//! What collectors are given and what they say.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom::queue::{Batch, BatchId, ClaimRequest, Nack, Queue, Settlement};

use super::super::clock;
use super::super::state::{self, Row, Standing};
use super::Model;

/// What all tables said.
pub(super) type Standings = BTreeMap<i64, Standing>;

impl Model<'_> {
    pub(super) fn pick(&mut self, collector: usize, nth: usize) -> Option<Batch> {
        let held = &mut self.held[collector];
        let nth = nth.checked_rem(held.len())?;
        Some(held.remove(nth))
    }

    /// A batch may give its attempts back if nothing of it was sent.
    pub(super) fn forgive(&mut self, batch: &Batch) {
        for token in &batch.tokens {
            self.handed_out.insert(token.id, token.attempt - 1);
            self.expected_entries.remove(&(token.id, token.attempt));
        }
    }

    pub(super) async fn settle_and_claim(
        &mut self,
        collector: usize,
        settlements: Vec<Settlement>,
        want: Option<ClaimRequest>,
    ) -> Result<Vec<Batch>> {
        let queue = &mut self.collectors[collector];
        if let Ok(claim) = queue.settle_and_claim(settlements, want).await {
            return Ok(claim.batches);
        }
        queue.open().await?;
        Ok(queue.settle_and_claim(Vec::new(), want).await?.batches)
    }

    pub(super) async fn heartbeat(&mut self, collector: usize) -> Result<()> {
        let queue = &mut self.collectors[collector];
        let lost = if let Ok(lost) = queue.heartbeat().await {
            lost
        } else {
            queue.open().await?;
            queue.heartbeat().await?
        };
        self.lose(collector, &lost);
        Ok(())
    }

    /// Counts what is due, from its low watermark on, and compares that with what is.
    pub(super) async fn peek(&mut self, collector: usize) -> Result<()> {
        let due = "SELECT (SELECT count(*) FROM mailroom.queue WHERE due_at <= mailroom.clock())
            + (SELECT coalesce(sum(cardinality(tokens)), 0)::bigint FROM mailroom.leases
                WHERE ends_at <= mailroom.clock())";
        let due: i64 = self.client.query_one(due, &[]).await?.get(0);
        let queue = &mut self.collectors[collector];
        let Ok(peek) = queue.peek(10).await else { return Ok(queue.open().await?) };
        ensure!(
            self.was_set_back || i64::try_from(peek.due)? == due.min(10),
            "{due} tokens are due, and collector {collector} finds {}",
            peek.due
        );
        Ok(())
    }

    /// Somebody else has these batches.
    pub(super) fn lose(&mut self, collector: usize, lost: &[BatchId]) {
        for batch in &self.held[collector] {
            if lost.contains(&batch.id) {
                self.expected_entries
                    .extend(batch.tokens.iter().map(|token| (token.id, token.attempt)));
            }
        }
        self.held[collector].retain(|batch| !lost.contains(&batch.id));
    }

    pub(super) async fn claim(&mut self, collector: usize, want: ClaimRequest) -> Result<()> {
        let before = state::read(&self.client).await?;
        let now = clock::now(&self.client).await?;
        let batches = self.settle_and_claim(collector, Vec::new(), Some(want)).await?;
        check_claim(want, &batches, now, &[&before])?;
        self.give(collector, batches);
        Ok(())
    }

    pub(super) fn give(&mut self, collector: usize, batches: Vec<Batch>) {
        for token in batches.iter().flat_map(|batch| &batch.tokens) {
            let last = self.handed_out.insert(token.id, token.attempt);
            assert!(
                last.is_none_or(|last| last < token.attempt),
                "token {} was handed out as attempt {} after {last:?}",
                token.id,
                token.attempt
            );
            self.expected_entries.insert((token.id, token.attempt));
            // Those that are enqueued have a language, and are bound to a browser of their
            // account's; the others are not.
            let binding = token.language.is_some().then(|| vec![token.email[0] - b'0'; 16]);
            assert_eq!(token.binding, binding, "token {}", token.id);
        }
        self.held[collector].extend(batches);
    }

    pub(super) async fn settle(
        &mut self,
        collector: usize,
        nth: usize,
        outcomes: &[u8],
    ) -> Result<()> {
        let Some(batch) = self.pick(collector, nth) else { return Ok(()) };
        let is_there = state::leases(&self.client).await?.contains(&batch.id);
        let settlement = settlement(&batch, outcomes);
        if is_there {
            self.sent.extend(handed_on(&batch, &settlement).map(|(id, _)| id));
        }
        // Said twice, as after an answer that was lost.
        self.settle_and_claim(collector, vec![settlement.clone(), settlement], None).await?;
        ensure!(
            !state::leases(&self.client).await?.contains(&batch.id),
            "a settled lease is still there"
        );
        Ok(())
    }
}

/// What is said of a batch if this becomes of its tokens, by turns.
pub(super) fn settlement(batch: &Batch, outcomes: &[u8]) -> Settlement {
    let exception = |outcome| match outcome {
        0 => Some(Nack::Unanswered),
        1 => Some(Nack::Retry { after: None, reason: "busy".to_owned() }),
        2 => Some(Nack::Retry { after: Some(Duration::from_secs(7)), reason: "läuft".to_owned() }),
        6 => Some(Nack::Failed { reason: "ended".to_owned() }),
        7 => Some(Nack::Unavailable { after: None, reason: "421".to_owned() }),
        8 => Some(Nack::Unavailable {
            after: Some(Duration::from_secs(7)),
            reason: "421".to_owned(),
        }),
        10 => Some(Nack::Untried {
            after: Some(Duration::from_secs(7)),
            reason: "not its turn".to_owned(),
        }),
        3 => Some(Nack::Dead { reason: "no such box".to_owned() }),
        9 => Some(Nack::InDoubt { reason: "lost after the dot".to_owned() }),
        _ => None,
    };
    let judged = batch.tokens.iter().zip(outcomes.iter().cycle());
    let nacks =
        judged.filter_map(|(token, outcome)| Some((token.id, exception(*outcome)?))).collect();
    Settlement::of(batch.id, nacks)
}

/// The tokens of a batch, with their attempts, that were sent according to a settlement.
pub(super) fn handed_on<'a>(
    batch: &'a Batch,
    settlement: &'a Settlement,
) -> impl Iterator<Item = (i64, u32)> + 'a {
    let excepted = |id: i64| settlement.nacks.iter().any(|(other, _)| *other == id);
    batch.tokens.iter().map(|token| (token.id, token.attempt)).filter(move |(id, _)| !excepted(*id))
}

/// Whether this could be claimed, by what one of `moments` says of each token.
pub(super) fn check_claim(
    want: ClaimRequest,
    batches: &[Batch],
    now: i64,
    moments: &[&Standings],
) -> Result<()> {
    ensure!(batches.len() <= want.batches, "more batches than wanted");
    // A statement that meets tokens that are not eligible may end with a short batch before another
    // statement goes on.
    let mut standings = moments
        .iter()
        .flat_map(|moment| moment.values())
        .filter(|standing| !standing.places.is_empty());
    let takes_one_statement = standings
        .all(|standing| standing.row.as_ref().is_some_and(|row| refusal(row, now).is_none()));
    for (nth, batch) in batches.iter().enumerate() {
        let size = batch.tokens.len();
        let may_be_short = want.partial && (!takes_one_statement || nth + 1 == batches.len());
        ensure!(
            size == want.limit || may_be_short && (1..want.limit).contains(&size),
            "a batch of {size}"
        );
        for token in &batch.tokens {
            let rows = moments.iter().filter_map(|moment| moment.get(&token.id)?.row.as_ref());
            let refusals: Vec<_> = rows.map(|row| refusal(row, now)).collect();
            ensure!(!refusals.is_empty(), "token {} was deleted", token.id);
            ensure!(refusals.contains(&None), "token {} was claimed: {refusals:?}", token.id);
        }
    }
    Ok(())
}

/// Why a token with this row is not to be sent.
fn refusal(row: &Row, now: i64) -> Option<String> {
    if row.is_void {
        return Some("it was used or cancelled".to_owned());
    }
    if !row.is_eligible {
        return Some("its subject is not eligible".to_owned());
    }
    let left = row.expires_at - now;
    (left < 30).then(|| format!("it has {left} s left"))
}
