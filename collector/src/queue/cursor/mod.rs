//! The queue of an untouched base schema: the tokens with ids above `jobs.last_seq`.
//!
//! One collector at a time has it, by a session-level advisory lock on the connection that claims and advances; a
//! second one waits. The lock's key is a hash of the queue's name and the oid of the table `jobs` (`inspect.sql`), so
//! that the queues and schemas of one database do not get into each other's way. Nothing is written before the reader has a batch, so a collector that ends anywhere leaves the
//! cursor at or before what the reader took: after kill -9 the batches in between go out again, none is left out.
//!
//! # What is passed and what is looked at again
//! A token is eligible while it is unexpired by the database's clock and unconsumed, and its account has the status
//! that its action needs. Reading only ever goes forward in id order, and never twice over what cannot change:
//! - expired and consumed tokens are passed for good, in memory;
//! - tokens whose account has the wrong status just now are remembered, at most [`MOST_REMEMBERED`], and looked at
//!   again one by one at every poll until they expire. This memory ends with the process: what the cursor has passed by
//!   then is not sent, as with every collector on this schema;
//! - at every poll the last page beyond the claimed tokens is read once more, and all of them once in a health-check
//!   interval, for tokens that were committed late.
//!
//! # Known gap
//! Ids are given out before commits. A transaction that commits after one with higher ids leaves its tokens below a
//! cursor that has passed them already, and nothing on this schema tells. The `deliveries` queue has no such gap.

mod position;
mod session;

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::{Batch, BatchId, Claim, Queue, QueueError, Token, Want};
use crate::postgres::ConnectionSettings;
use position::{Found, Position};
use session::{Page, PastSession, Session};

/// The bounds of the rows read by one statement. More would save nothing of a round trip's price; a server that cannot
/// read as many in time is asked for fewer.
const LARGEST_PAGE: usize = 4_096;
const SMALLEST_PAGE: usize = 64;

/// Tokens that were read longer ago are read again before they go out: they may be consumed or expired by now.
const FRESH: Duration = Duration::from_secs(1);

/// The tokens with the wrong account status that are looked at again; 80 kB.
const MOST_REMEMBERED: usize = 10_000;

/// The cursor queue.
#[derive(Debug)]
pub struct CursorQueue {
    connection: ConnectionSettings,
    name: String,
    reread_interval: Duration,
    session: Option<Session>,
    /// A session that waits for the lock, which another collector has.
    waiting_session: Option<Session>,
    past_session: Option<PastSession>,
    /// `None` until the cursor was read for the first time.
    position: Option<Position>,
    ahead: Ahead,
    next_batch: u64,
    last_reread: Instant,
    /// The rows read by one statement.
    page: usize,
}

/// Tokens that were read and not claimed yet, and how far reading came.
#[derive(Debug, Default)]
struct Ahead {
    /// Eligible tokens: first those that became so late, then those beyond `passed` in id order.
    tokens: VecDeque<Token>,
    /// Everything up to here was claimed, is remembered, or can never be sent.
    passed: i64,
    /// Everything up to here was read.
    read: i64,
    /// When the oldest of `tokens` was read.
    since: Option<Instant>,
    /// Unexpired, unconsumed tokens up to `read` with the wrong account status.
    remembered: BTreeSet<i64>,
    is_full: bool,
}

impl CursorQueue {
    /// The queue `name`, a label of `jobs.job_type`. All tokens beyond the cursor are read once in `reread_interval`.
    pub fn new(connection: ConnectionSettings, name: &str, reread_interval: Duration) -> Self {
        Self {
            connection,
            name: name.to_owned(),
            reread_interval,
            session: None,
            waiting_session: None,
            past_session: None,
            position: None,
            ahead: Ahead::default(),
            next_batch: 1,
            last_reread: Instant::now(),
            page: LARGEST_PAGE,
        }
    }

    /// Ends the session, which frees the lock.
    fn close(&mut self) {
        if let Some(session) = self.session.take() {
            self.past_session = Some(session.end());
        }
    }

    /// Runs `work` on the session, which it loses on an error: whatever state it is in, a new one is in a known state.
    async fn on_session<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Session) -> Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        let session = self.session.as_mut().ok_or_else(not_open)?;
        let outcome = work(session).await;
        if outcome.is_err() {
            self.close();
        }
        outcome
    }

    fn resume(&mut self, found: i64) {
        let Some(position) = &mut self.position else {
            self.position = Some(Position::at(found));
            self.ahead.start_at(found);
            tracing::info!("collecting the tokens after id {found}");
            return;
        };
        match position.resume(found) {
            Found::AsLeft => {}
            Found::MovedOn { from, to } => {
                self.ahead.remembered.clear();
                tracing::warn!("another collector moved the cursor from {from} to {to}; going on from there");
            }
            Found::SetBack { from, to } => {
                self.ahead.remembered.clear();
                tracing::warn!(
                    "the cursor was set back from {from} to {to}; the tokens after it go out again"
                );
            }
        }
        self.ahead.start_at(position.claimed_through());
    }

    /// Reads until `count` tokens are there or no more can be.
    async fn read(&mut self, count: usize) -> Result<(), QueueError> {
        while self.ahead.tokens.len() < count {
            let rows = (count - self.ahead.tokens.len()).clamp(SMALLEST_PAGE, self.page);
            let after = self.ahead.read;
            let page = match self.on_session(async |session| session.read(after, rows, &[]).await).await {
                Ok(page) => page,
                Err(error) => {
                    self.page = (self.page / 2).max(SMALLEST_PAGE);
                    return Err(error);
                }
            };
            self.page = (self.page * 2).min(LARGEST_PAGE);
            let is_last = page.rows < rows;
            self.ahead.add(page);
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Looks once more at what was passed: remembered tokens, and those that were committed late.
    async fn read_again(&mut self, claimed_through: i64) -> Result<(), QueueError> {
        self.ahead.forget_tokens();
        let everything = self.last_reread.elapsed() >= self.reread_interval;
        let page = i64::try_from(LARGEST_PAGE).expect("a page is small");
        let restart =
            if everything { claimed_through } else { claimed_through.max(self.ahead.passed - page) };
        self.ahead.start_at(restart);
        let remembered: Vec<i64> = self.ahead.remembered.iter().copied().collect();
        if !remembered.is_empty() {
            let page = self.on_session(async |session| session.read(restart, 0, &remembered).await).await?;
            self.ahead.recall(page, &remembered);
        }
        if everything {
            self.last_reread = Instant::now();
        }
        Ok(())
    }

    async fn record(&mut self) -> Result<(), QueueError> {
        let position = self.position.as_mut().ok_or_else(not_open)?;
        let Some(to) = position.advance() else { return Ok(()) };
        let from = position.recorded();
        // Whether the answer comes or not, the next session compares what it finds with both.
        position.attempt(to);
        self.on_session(async |session| session.advance(from, to).await).await?;
        self.position.as_mut().ok_or_else(not_open)?.record(to);
        tracing::debug!("the cursor is at {to}");
        Ok(())
    }
}

impl Queue for CursorQueue {
    async fn open(&mut self) -> Result<(), QueueError> {
        self.close();
        let mut session = match self.waiting_session.take() {
            Some(session) => session,
            None => Session::open(&self.connection, &self.name).await?,
        };
        match session.take_lock(self.past_session.as_ref()).await {
            Ok(()) => {}
            Err(error @ QueueError::Taken(_)) => {
                self.waiting_session = Some(session);
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        // From here on nobody else moves the cursor.
        let found = session.begin().await?;
        tracing::info!("this collector has the queue `{}`", self.name);
        self.session = Some(session);
        self.past_session = None;
        self.resume(found);
        self.record().await
    }

    async fn claim(&mut self, want: Want) -> Result<Claim, QueueError> {
        let claimed_through = self.position.as_ref().ok_or_else(not_open)?.claimed_through();
        if want.again {
            self.read_again(claimed_through).await?;
        } else if self.ahead.since.is_some_and(|since| since.elapsed() > FRESH) {
            self.ahead.forget_tokens();
        }
        self.read(want.batches * want.limit).await?;

        // Nothing below waits, so a dropped call has claimed nothing.
        let position = self.position.as_mut().ok_or_else(not_open)?;
        let mut claim = Claim::default();
        while claim.batches.len() < want.batches {
            let Some(tokens) = self.ahead.cut(want.limit, want.partial) else { break };
            let id = BatchId(self.next_batch);
            self.next_batch += 1;
            position.claim(id, tokens.iter().map(|token| token.id));
            claim.batches.push(Batch { id, tokens });
        }
        claim.waiting = self.ahead.tokens.len();
        Ok(claim)
    }

    async fn settle(&mut self, batches: &[BatchId]) -> Result<(), QueueError> {
        self.position.as_mut().ok_or_else(not_open)?.settle(batches);
        self.record().await
    }

    fn release(&mut self, batches: &[BatchId]) {
        if let Some(position) = &mut self.position {
            let late = position.release(batches);
            self.ahead.start_at(position.claimed_through());
            self.ahead.remembered.extend(late);
        }
    }
}

impl Ahead {
    /// Reads on after `id`.
    fn start_at(&mut self, id: i64) {
        self.forget_tokens();
        self.passed = id;
        self.read_back_to(id);
    }

    /// Takes what a page brought.
    fn add(&mut self, page: Page) {
        self.read = page.through;
        self.remember(page.ineligible);
        if !page.tokens.is_empty() {
            self.since.get_or_insert_with(Instant::now);
        }
        self.tokens.extend(page.tokens);
        self.pass();
    }

    /// Takes what a second look at `remembered` brought.
    fn recall(&mut self, page: Page, remembered: &[i64]) {
        for id in remembered {
            self.remembered.remove(id);
        }
        self.remember(page.ineligible);
        if !page.tokens.is_empty() {
            self.since.get_or_insert_with(Instant::now);
        }
        for token in page.tokens.into_iter().rev() {
            self.tokens.push_front(token);
        }
    }

    /// Takes `limit` tokens, or fewer if a partial batch is wanted.
    fn cut(&mut self, limit: usize, partial: bool) -> Option<Vec<Token>> {
        let count = self.tokens.len().min(limit);
        if count == 0 || (count < limit && !partial) {
            return None;
        }
        let tokens: Vec<_> = self.tokens.drain(..count).collect();
        self.passed = tokens.iter().map(|token| token.id).fold(self.passed, i64::max);
        if self.tokens.is_empty() {
            self.since = None;
        }
        self.pass();
        Some(tokens)
    }

    /// Forgets the tokens that were read and not claimed; they are read again.
    fn forget_tokens(&mut self) {
        let late = self.tokens.drain(..).map(|token| token.id).filter(|id| *id <= self.passed);
        self.remembered.extend(late);
        self.since = None;
        self.read_back_to(self.passed);
    }

    fn read_back_to(&mut self, id: i64) {
        self.read = id;
        // What lies beyond is met again.
        self.remembered.split_off(&id.saturating_add(1));
    }

    /// Once every token that was read is claimed, nothing up to there needs to be read again.
    fn pass(&mut self) {
        if self.tokens.back().is_none_or(|token| token.id <= self.passed) {
            self.passed = self.read;
        }
    }

    fn remember(&mut self, ids: Vec<i64>) {
        self.remembered.extend(ids);
        let is_full = self.remembered.len() > MOST_REMEMBERED;
        if is_full && !self.is_full {
            tracing::warn!(
                "more than {MOST_REMEMBERED} tokens wait for their account to get the status they need; only as many \
                 are looked at again"
            );
        }
        self.is_full = is_full;
        while self.remembered.len() > MOST_REMEMBERED {
            // The oldest expires first.
            self.remembered.pop_first();
        }
    }
}

fn not_open() -> QueueError {
    QueueError::Unavailable("there is no connection to the database".to_owned())
}
