//! What the database's functions return: claimed tokens, counts,
//! and the tokens that became dead letters.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use mailroom_pace::{LogLimit, withheld};
use tokio_postgres::Row;

use super::actions::SignableActions;
use super::batches::Batches;
use crate::log::display::{Counted, NAMED, ids, listed, traceparents_of};
use crate::queue::session::{column, count, unexpected};
use crate::queue::{Batch, BatchId, Nack, QueueError, Token, Traceparent};

/// What one claiming statement claimed and read.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    pub(super) batches: Vec<Batch>,
    pub(super) scanned: usize,
    pub(super) waiting: usize,
    pub(super) expired: usize,
    pub(super) cancelled: usize,
    /// Put off because their subject is not eligible.
    pub(super) deferred: usize,
    /// Put off because they cannot be signed: another action than those requested, or bound to a
    /// browser under v1.
    pub(super) unsignable: usize,
    /// Given up because their address is suppressed.
    pub(super) suppressed: usize,
    /// Given up because they expired and may have been delivered.
    pub(super) dead_in_doubt: usize,
    /// Examples of tokens that were not claimed, by verdict and reason.
    pub(super) skipped: Vec<Skipped>,
    pub(super) next_since: [Option<SystemTime>; 2],
    /// How long to wait before another claim, if the rate or the month's budget allowed less than
    /// there may be.
    pub(super) wait: Option<Duration>,
    /// At which rate others claim, in tokens a day, if it is another.
    pub(super) other_rate: Option<i64>,
    /// With which budget others claim, in tokens a month, if it is another; 0 for none.
    pub(super) other_budget: Option<i64>,
    /// What is left of the month's budget, if there is one.
    pub(super) budget_left: Option<i64>,
    /// For how long the tokens of each batch have been due.
    pub(super) delays: Vec<(BatchId, Vec<Duration>)>,
}

/// Tokens that were not claimed for the same reason.
#[derive(Debug, serde::Deserialize)]
pub(super) struct Skipped {
    verdict: String,
    reason: Option<String>,
    count: usize,
    /// Some of them.
    ids: Vec<i64>,
    /// The traces of some of them; none from an older schema.
    #[serde(default)]
    traceparents: Vec<String>,
}

/// A token that became a dead letter when its batch was settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadLetter {
    pub(super) batch: BatchId,
    pub(super) token: i64,
    attempts: u32,
}

impl Claimed {
    pub(super) fn read(
        rows: &[Row],
        actions: &SignableActions,
        next_since: [Option<SystemTime>; 2],
    ) -> Result<Self, QueueError> {
        let mut claimed = Self { next_since, ..Self::default() };
        for row in rows {
            if let Some(id) = column::<Option<_>>(row, "batch")? {
                claimed.batches.push(Batch { id: BatchId(id), tokens: tokens(row, actions)? });
                claimed.delays.push((BatchId(id), delays(row)));
                continue;
            }
            let number = |name| count::<i32, usize>(row, name);
            claimed.scanned = number("scanned")?;
            claimed.waiting = number("waiting")?;
            claimed.expired = number("expired")?;
            claimed.cancelled = number("cancelled")?;
            claimed.deferred = number("deferred")?;
            claimed.unsignable = number("unsignable")?;
            claimed.suppressed = number("suppressed")?;
            claimed.dead_in_doubt = number("dead_in_doubt")?;
            claimed.next_since = [column(row, "first_through")?, column(row, "second_through")?];
            let wait: Option<i64> = column(row, "wait")?;
            claimed.wait = wait.map(|wait| Duration::from_millis(u64::try_from(wait).unwrap_or(0)));
            claimed.other_rate = column(row, "other_rate")?;
            claimed.other_budget = column(row, "other_budget")?;
            claimed.budget_left = column(row, "budget_left")?;
            if let Some(skipped) = column::<Option<String>>(row, "skipped")? {
                let skipped = serde_json::from_str(&skipped);
                claimed.skipped = skipped.map_err(|_| unexpected("a list that is none"))?;
            }
        }
        Ok(claimed)
    }

    /// How many tokens were claimed.
    pub(super) fn tokens(&self) -> usize {
        self.batches.iter().map(|batch| batch.tokens.len()).sum()
    }

    /// Adds what another statement has claimed at the same time, from the same place.
    pub(super) fn add(&mut self, other: Self) {
        let have_left = self.waiting + other.waiting > 0;
        for (since, other) in self.next_since.iter_mut().zip(other.next_since) {
            // Each statement skipped the rows that the other one had locked, and read all others up
            // to its `next_since`.
            *since = if have_left { (*since).min(other) } else { (*since).max(other) };
        }
        self.batches.extend(other.batches);
        self.delays.extend(other.delays);
        self.scanned += other.scanned;
        self.waiting += other.waiting;
        self.expired += other.expired;
        self.cancelled += other.cancelled;
        self.deferred += other.deferred;
        self.unsignable += other.unsignable;
        self.suppressed += other.suppressed;
        self.dead_in_doubt += other.dead_in_doubt;
        self.skipped.extend(other.skipped);
    }

    /// The tokens of this verdict by reason: how many have it, some of their ids, and traces.
    pub(super) fn alike(
        &self,
        verdict: &str,
    ) -> impl Iterator<Item = (&str, usize, &[i64], Vec<Traceparent>)> {
        let alike = self.skipped.iter().filter(move |alike| alike.verdict == verdict);
        alike.map(|alike| {
            let reason = alike.reason.as_deref().unwrap_or_default();
            (reason, alike.count, &alike.ids[..], alike.traces().collect())
        })
    }

    /// Traces of tokens that got this verdict.
    pub(super) fn traces(&self, verdict: &str) -> Vec<Traceparent> {
        let alike = self.skipped.iter().filter(|alike| alike.verdict == verdict);
        alike.flat_map(Skipped::traces).take(NAMED).collect()
    }

    /// Why tokens got this verdict, each reason with the number of tokens, and some of their ids.
    pub(super) fn reasons(&self, verdict: &str) -> (String, Vec<i64>) {
        let alike = || self.skipped.iter().filter(|alike| alike.verdict == verdict);
        let mut counts = BTreeMap::<&str, usize>::new();
        for alike in alike() {
            *counts
                .entry(alike.reason.as_deref().unwrap_or("their subject is not eligible"))
                .or_default() += alike.count;
        }
        let reasons: Vec<_> = counts
            .iter()
            .take(NAMED)
            .map(|(reason, count)| format!("{reason} ({count})"))
            .collect();
        let ids = alike().flat_map(|alike| &alike.ids).take(NAMED).copied().collect();
        (reasons.join("; "), ids)
    }
}

impl Skipped {
    fn traces(&self) -> impl Iterator<Item = Traceparent> {
        self.traceparents.iter().filter_map(|text| Traceparent::parse(text))
    }
}

/// The tokens of a batch, which are in columns of arrays.
fn tokens(row: &Row, actions: &SignableActions) -> Result<Vec<Token>, QueueError> {
    let ids: Vec<i64> = column(row, "tokens")?;
    let attempts: Vec<i32> = column(row, "attempts")?;
    let numbers: Vec<i16> = column(row, "actions")?;
    let mut emails = column::<Vec<Vec<u8>>>(row, "emails")?.into_iter();
    let mut names = column::<Vec<Option<Vec<u8>>>>(row, "names")?.into_iter();
    let mut secrets = column::<Vec<Vec<u8>>>(row, "secrets")?.into_iter();
    let mut codes = column::<Vec<Option<Vec<u8>>>>(row, "codes")?.into_iter();
    let mut expirations = column::<Vec<i64>>(row, "expirations")?.into_iter();
    let mut languages = column::<Vec<Option<String>>>(row, "languages")?.into_iter();
    let mut payloads = column::<Vec<Option<Vec<u8>>>>(row, "payloads")?.into_iter();
    let mut bindings = column::<Vec<Option<Vec<u8>>>>(row, "bindings")?.into_iter();
    let doubts: Option<Vec<i16>> = column(row, "doubts")?;
    let mut doubts = doubts.map(Vec::into_iter);
    let mut traceparents = traceparents(row).into_iter();
    let mut priorities = column::<Vec<i16>>(row, "priorities")?.into_iter();
    let tokens = ids.into_iter().zip(attempts).zip(numbers).map(|((id, attempt), number)| {
        Ok(Token {
            id,
            attempt: u32::try_from(attempt).map_err(|_| unexpected("an attempt below zero"))?,
            doubts: match &mut doubts {
                Some(doubts) => {
                    u32::try_from(next(doubts)?).map_err(|_| unexpected("doubts below zero"))?
                }
                None => 0,
            },
            priority: Some(next(&mut priorities)?),
            action: actions.numbered(number)?,
            email: next(&mut emails)?,
            login: next(&mut names)?.unwrap_or_default(),
            secret: next(&mut secrets)?,
            code: next(&mut codes)?,
            expires_at: next(&mut expirations)?,
            language: next(&mut languages)?,
            payload: next(&mut payloads)?,
            binding: next(&mut bindings)?,
            traceparent: traceparents.next().flatten(),
        })
    });
    tokens.collect()
}

/// The traces of the tokens of a batch. Nothing if there are none, or in a schema that is older
/// than this program: that is no reason not to send them.
fn traceparents(row: &Row) -> Vec<Option<Traceparent>> {
    let given = row.try_get::<_, Option<Vec<Option<&str>>>>("traceparents").ok().flatten();
    let valid = |text: Option<&str>| text.and_then(Traceparent::parse);
    given.unwrap_or_default().into_iter().map(valid).collect()
}

/// For how long the tokens of a batch have been due. A schema that is older than this program does
/// not say so, which is no reason not to send them.
fn delays(row: &Row) -> Vec<Duration> {
    let Ok(now) = row.try_get::<_, SystemTime>("claimed_at") else { return Vec::new() };
    let since: Vec<SystemTime> = row.try_get("due_since").unwrap_or_default();
    since.into_iter().map(|since| now.duration_since(since).unwrap_or_default()).collect()
}

fn next<T>(values: &mut impl Iterator<Item = T>) -> Result<T, QueueError> {
    values.next().ok_or_else(|| unexpected("arrays of different lengths"))
}

impl DeadLetter {
    pub(super) fn read(rows: &[Row]) -> Result<Vec<Self>, QueueError> {
        let read = |row| {
            let batch = BatchId(column(row, "batch")?);
            Ok(Self {
                batch,
                token: column(row, "token")?,
                attempts: count::<i32, u32>(row, "attempt")?,
            })
        };
        rows.iter().map(read).collect()
    }
}

/// Logs one line for each batch just settled that has dead letters;
/// the database has a record of each token.
pub(super) fn log_dead_letters(dead: &[DeadLetter], settled: &Batches, limit: &LogLimit) {
    for dead in dead.chunk_by(|one, other| one.batch == other.batch) {
        let Some(others) = limit.admit(Instant::now()) else { continue };
        let reason = |dead: &DeadLetter| {
            let nack = settled.nack(dead.batch, dead.token);
            let doubtful = if matches!(nack, Some(Nack::InDoubt { .. })) {
                "may have been delivered: "
            } else {
                ""
            };
            let reason = nack.and_then(Nack::reason).unwrap_or_default();
            let attempts = Counted(dead.attempts, "attempt", "attempts");
            (dead.token, format!("{doubtful}{reason} (after {attempts})"))
        };
        let tokens: Vec<_> = dead.iter().map(reason).collect();
        let is_in_doubt = dead
            .iter()
            .any(|dead| matches!(settled.nack(dead.batch, dead.token), Some(Nack::InDoubt { .. })));
        tracing::warn!(
            event = "tokens_dead",
            reason = %listed(&tokens, NAMED),
            count = tokens.len(),
            ids = ?ids(&tokens, NAMED),
            traceparents = traceparents_of(&tokens, settled.traces(dead[0].batch)),
            attempts = dead.iter().map(|dead| dead.attempts).max(),
            put_back = put_back(dead, is_in_doubt),
            withheld = withheld(others),
            "tokens are given up and get no mail"
        );
    }
}

/// The command that requeues them, while they can still be sent; of bounded length.
fn put_back(dead: &[DeadLetter], is_in_doubt: bool) -> String {
    if dead.len() > NAMED {
        let doubtful = if is_in_doubt { " --in-doubt" } else { "" };
        return format!("mailroom retry --all-dead{doubtful}");
    }
    let ids: Vec<_> = dead.iter().map(|dead| dead.token.to_string()).collect();
    format!("mailroom retry {}", ids.join(" "))
}
