//! The queue of an untouched base schema: the tokens with ids above `jobs.last_seq`.
//!
//! One collector at a time has it, by a session-level advisory lock on the connection that claims and advances; a
//! second one waits. The lock's key is a hash of the queue's name and the oid of the table `jobs` (`inspect.sql`), so
//! that the queues and schemas of one database do not get into each other's way.
//!
//! Nothing is written before the reader has a batch, so a collector that ends anywhere leaves the cursor at or before
//! what the reader took: after kill -9 the batches in between go out again, none is left out.
//!
//! # What is passed and what is looked at again
//! A token is eligible while it is unexpired by the database's clock and unconsumed, and its account has the status
//! that its action needs. Reading only ever goes forward in id order, and never twice over what cannot change:
//! - expired and consumed tokens are passed for good, in memory;
//! - tokens whose account has the wrong status just now are remembered and looked at again at every poll, until they
//!   expire. The cursor passes them, so the next process has to find them (see below);
//! - at every poll the last page beyond the claimed tokens is read once more, and all of them once in a health-check
//!   interval, for tokens that were committed late.
//!
//! # What the next process finds
//! The schema records for all tokens together what was sent, one number, and nothing for a single one. So a process that
//! gets the queue cannot ask which tokens before the cursor were passed unsent; it infers it (`survey.sql`):
//! - A token whose account still has the wrong status is remembered as if this process had passed it.
//! - A token whose account has the right one and had it since before the token was made was eligible whenever it was read,
//!   so the cursor passed it because it was sent. It is left alone: this holds for almost all of them.
//! - A token whose account got the right status after the token was made may have been passed before and not been sent
//!   since. Remembered tokens are claimed before any other, no claim is made without a look at them in the last poll
//!   interval, and the cursor moves in the order of claims. So if the cursor has passed a token that was made a poll
//!   interval after the change, this one was sent, too. Otherwise it is sent, perhaps for the second time: a mail too
//!   many is better than none.
//!
//! Times are those at which transactions began, hence [`SLOWEST_TRANSACTION`].
//!
//! # Known gaps
//! - Ids are given out before commits. A transaction that commits after one with higher ids leaves its tokens below a
//!   cursor that has passed them already, and nothing on this schema tells. The `deliveries` queue has no such gap.
//! - A status that was changed by a longer transaction than [`SLOWEST_TRANSACTION`] can look as if it had been there when
//!   the token was read.
//! - An earlier collector of another make does not look again at what it has passed, while the survey believes it did.

mod ahead;
#[cfg(test)]
mod model;
mod page;
mod position;
mod remembered;
mod session;
mod survey;

use std::time::{Duration, Instant};

use super::activity::Activity;
use super::batch_names::BatchNames;
use super::{Batch, BatchId, Claim, Exception, Prospect, Queue, QueueError, Settlement, Want};
use crate::postgres::ConnectionSettings;
use ahead::Ahead;
use position::{Found, Position};
use session::{PastSession, Session};

/// The bounds of the rows read by one statement. More would save nothing of a round trip's price; a server that cannot
/// read as many in time is asked for fewer.
const LARGEST_PAGE: usize = 4_096;
const SMALLEST_PAGE: usize = 64;

/// The longest that a transaction which changes a status, or makes a token, is believed to take.
const SLOWEST_TRANSACTION: Duration = Duration::from_secs(60);

/// How often the queue is asked to look again.
#[derive(Clone, Copy, Debug)]
pub struct Intervals {
    /// The longest time between two claims with [`Want::again`]; the same in every collector of the queue.
    pub poll: Duration,
    /// How often all tokens beyond the cursor are read again.
    pub reread: Duration,
}

/// The cursor queue.
#[derive(Debug)]
pub struct CursorQueue {
    connection: ConnectionSettings,
    name: String,
    intervals: Intervals,
    session: Option<Session>,
    /// A session that waits for the lock, which another collector has.
    waiting_session: Option<Session>,
    past_session: Option<PastSession>,
    /// `None` until the cursor was read for the first time.
    position: Option<Position>,
    ahead: Ahead,
    names: BatchNames,
    last_reread: Instant,
    /// Where the cursor was found, if another process may have passed tokens before it that are still to be sent.
    survey_due: Option<i64>,
    /// The rows read by one statement.
    page: usize,
    /// Whether a line says that this collector has the queue, and nothing has worked since.
    is_announced: bool,
    activity: Activity,
}

impl CursorQueue {
    /// The queue `name`, a label of `jobs.job_type`.
    pub fn new(connection: ConnectionSettings, name: &str, intervals: Intervals) -> Self {
        Self {
            connection,
            name: name.to_owned(),
            intervals,
            session: None,
            waiting_session: None,
            past_session: None,
            position: None,
            ahead: Ahead::default(),
            names: BatchNames::new(),
            last_reread: Instant::now(),
            survey_due: None,
            page: LARGEST_PAGE,
            is_announced: false,
            activity: Activity::since(Instant::now()),
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
            self.survey_due = Some(found);
            tracing::info!(event = "cursor_read", "collecting the tokens after id {found}");
            return;
        };
        let resumed = position.resume(found);
        self.ahead.start_at(position.claimed_through());
        match resumed {
            Found::AsLeft => return,
            Found::MovedOn { from, to } => {
                tracing::warn!(
                    event = "cursor_moved",
                    from,
                    to,
                    "another collector moved the cursor; going on from there"
                );
            }
            Found::SetBack { from, to } => {
                tracing::warn!(
                    event = "cursor_set_back",
                    from,
                    to,
                    "the cursor was set back; the tokens after it go out again"
                );
            }
        }
        // What this process remembers of them may have been sent since.
        self.ahead.forget_through(found);
        self.survey_due = Some(found);
    }

    /// Reads until `count` tokens are there or no more can be, at least `first_page` rows.
    async fn read(&mut self, count: usize, first_page: usize) -> Result<(), QueueError> {
        let mut least = first_page;
        while self.ahead.len() < count {
            let rows = (count - self.ahead.len()).max(least).min(self.page);
            // Where many rows cannot be sent, the next page is a larger one.
            least = rows.saturating_mul(4);
            let after = self.ahead.read_through();
            let page = self.on_session(async |session| session.read(after, rows, &[]).await).await;
            let page = self.sized(page)?;
            let is_last = page.rows < rows;
            self.ahead.add(page, Instant::now());
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// Asks for smaller pages if the server could not read one in time, and for larger ones if it could.
    fn sized<T>(&mut self, page: Result<T, QueueError>) -> Result<T, QueueError> {
        self.page = match page {
            Ok(_) => (self.page * 2).min(LARGEST_PAGE),
            Err(_) => (self.page / 2).max(SMALLEST_PAGE),
        };
        page
    }

    /// Looks once more at what was passed, until `enough` tokens are there: at remembered tokens, and for those that were
    /// committed late.
    async fn read_again(&mut self, claimed_through: i64, enough: usize) -> Result<(), QueueError> {
        self.ahead.forget_tokens();
        let everything = self.last_reread.elapsed() >= self.intervals.reread;
        let page = i64::try_from(LARGEST_PAGE).expect("a page is small");
        let restart =
            if everything { claimed_through } else { claimed_through.max(self.ahead.passed() - page) };
        self.ahead.start_at(restart);
        let mut looked_through = i64::MIN;
        loop {
            let part = self.ahead.remembered_after(looked_through, self.page);
            let is_over = part.is_empty();
            if is_over || self.ahead.len() >= enough {
                self.ahead.looked(is_over);
                break;
            }
            let page = self.on_session(async |session| session.read(restart, 0, &part).await).await;
            let page = self.sized(page)?;
            self.ahead.recall(page, &part, Instant::now());
            looked_through = part.last().copied().unwrap_or(looked_through);
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
        tracing::debug!(event = "cursor_recorded", to, "the cursor is recorded");
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
        if !std::mem::replace(&mut self.is_announced, true) {
            let server = session.server.as_str();
            tracing::info!(event = "queue_opened", server, "this collector has the queue `{}`", self.name);
        }
        self.session = Some(session);
        self.past_session = None;
        self.resume(found);
        self.record().await
    }

    async fn exchange(
        &mut self,
        settlements: Vec<Settlement>,
        want: Option<Want>,
    ) -> Result<Claim, QueueError> {
        // The cursor knows no single token: what can never be sent has been logged, and is passed. A batch of which
        // anything may still be sent goes out again whole.
        for settlement in &settlements {
            let is_dead = |(_, exception): &&(i64, Exception)| matches!(exception, Exception::Dead { .. });
            self.activity.given_up(settlement.exceptions.iter().filter(is_dead).count(), 0);
            self.activity.settled(settlement);
        }
        self.activity.tell(Instant::now());
        let is_unanswered = |settlement: &Settlement| {
            settlement.exceptions.iter().any(|(_, exception)| !matches!(exception, Exception::Dead { .. }))
        };
        let (unanswered, sent): (Vec<_>, Vec<_>) = settlements.into_iter().partition(is_unanswered);
        let batches = |settlements: Vec<Settlement>| -> Vec<BatchId> {
            settlements.into_iter().map(|settlement| settlement.batch).collect()
        };
        self.position.as_mut().ok_or_else(not_open)?.settle(&batches(sent));
        if !unanswered.is_empty() {
            // Only then: what was released is read again, with all that lies behind it.
            self.release(&batches(unanswered));
        }
        self.record().await?;
        let claim = match want {
            Some(want) => self.claim(want).await?,
            None => Claim::default(),
        };
        self.activity.claimed(&claim.batches);
        self.is_announced = false;
        Ok(claim)
    }

    fn keeps_reasons(&self) -> bool {
        false
    }

    fn release(&mut self, batches: &[BatchId]) {
        self.activity.forget(batches);
        if let Some(position) = &mut self.position {
            let late = position.release(batches);
            self.ahead.start_at(position.claimed_through());
            self.ahead.put_back(late);
        }
    }

    /// Claims are in memory, and the session's lock keeps them.
    fn tend_at(&self) -> Option<Instant> {
        None
    }

    async fn tend(&mut self) -> Result<Vec<BatchId>, QueueError> {
        Ok(Vec::new())
    }

    /// Every token of the base schema is announced, whoever sleeps.
    async fn prospect(&mut self, _enough: usize) -> Result<Prospect, QueueError> {
        Ok(Prospect::default())
    }
}

impl CursorQueue {
    async fn claim(&mut self, want: Want) -> Result<Claim, QueueError> {
        if let Some(cursor) = self.survey_due {
            self.survey(cursor).await?;
        }
        let claimed_through = self.position.as_ref().ok_or_else(not_open)?.claimed_through();
        let count = want.batches * want.limit;
        let is_stale = self.ahead.is_stale(Instant::now());
        let late = self.ahead.late_len();
        let again = want.again || late < count && self.ahead.is_look_due() || late > 0 && is_stale;
        if again {
            self.read_again(claimed_through, count).await?;
        } else if is_stale {
            self.ahead.forget_tokens();
        }
        let first_page = if again { LARGEST_PAGE } else { SMALLEST_PAGE };
        self.read(count, first_page).await?;

        // Nothing below waits, so a dropped call has claimed nothing.
        let position = self.position.as_mut().ok_or_else(not_open)?;
        let mut claim = Claim::default();
        while claim.batches.len() < want.batches {
            let Some(tokens) = self.ahead.cut(want.limit, want.partial) else { break };
            let (id, name) = self.names.next();
            position.claim(id, tokens.iter().map(|token| token.id));
            claim.batches.push(Batch { id, name, tokens });
        }
        claim.waiting = self.ahead.len();
        Ok(claim)
    }
}

fn not_open() -> QueueError {
    QueueError::Unavailable("there is no connection to the database".to_owned())
}
