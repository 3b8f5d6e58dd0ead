//! The queue itself: what to read before a claim, and when the cursor moves.

use std::collections::HashMap;
use std::iter;
use std::time::{Duration, Instant};

use mailroom_connect::ConnectionSettings;
use mailroom_verifier_core::Version;

use super::session::{Backend, CursorSession, Page};
use super::state::CursorState;
use crate::config::CollectSettings;
use crate::log::display::{ids, listed};
use crate::queue::activity::Activity;
use crate::queue::session::not_open;
use crate::queue::{Batch, BatchId, Claim, ClaimRequest, Nack, Queue, QueueError, Settlement};

/// The bounds of the rows that one statement reads. More rows would not make a row cheaper. A
/// server that cannot read as many in time is asked for fewer.
const MAX_PAGE: usize = 4_096;
const SMALLEST_PAGE: usize = 64;

/// The cursor queue.
#[derive(Debug)]
pub struct CursorQueue {
    connection: ConnectionSettings,
    name: String,
    token_format: Version,
    /// The longest time between two claims with [`ClaimRequest::rescan`]; the same in every
    /// collector of the queue.
    pub(super) poll_interval: Duration,
    /// How often all tokens beyond the cursor are read again.
    reread_interval: Duration,
    session: Option<CursorSession>,
    /// A session that waits for the lock, which another collector has.
    waiting_session: Option<CursorSession>,
    past_backend: Option<Backend>,
    /// `None` until the cursor was read for the first time.
    state: Option<CursorState>,
    /// How many tokens the batches have that are neither settled nor released.
    claimed: HashMap<BatchId, usize>,
    last_reread: Instant,
    /// Where the cursor was found, if another process may have skipped tokens before it.
    pub(super) recover_from: Option<i64>,
    pub(super) page_size: usize,
    /// Whether the log says that this collector has the queue, and no call has succeeded since.
    is_announced: bool,
    activity: Activity,
}

impl CursorQueue {
    /// The queue that the settings name, a label of `jobs.job_type`.
    pub fn new(connection: ConnectionSettings, settings: &CollectSettings) -> Self {
        Self {
            connection,
            name: settings.queue_name.clone(),
            // Existing verifiers expect it.
            token_format: settings.token_format.unwrap_or(Version::V1),
            poll_interval: settings.poll_interval,
            reread_interval: settings.healthcheck_interval,
            session: None,
            waiting_session: None,
            past_backend: None,
            state: None,
            claimed: HashMap::new(),
            last_reread: Instant::now(),
            recover_from: None,
            page_size: MAX_PAGE,
            is_announced: false,
            activity: Activity::since(Instant::now()),
        }
    }

    /// Ends the session. The server frees the lock when it notices.
    fn close(&mut self) {
        if let Some(session) = self.session.take() {
            self.past_backend = Some(session.backend);
        }
    }

    pub(super) fn state(&mut self) -> Result<&mut CursorState, QueueError> {
        self.state.as_mut().ok_or_else(not_open)
    }

    /// Runs `work` on the session, which is lost on an error: whatever state it is in, a new one is
    /// in a known state.
    async fn on_session<T>(
        &mut self,
        work: impl AsyncFnOnce(&CursorSession) -> Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        let outcome = work(self.session.as_ref().ok_or_else(not_open)?).await;
        if outcome.is_err() {
            self.close();
        }
        outcome
    }

    /// Reads a page. The next is a smaller one if the server could not read it in time, and a
    /// larger one if it could.
    pub(super) async fn read_sized<T>(
        &mut self,
        read: impl AsyncFnOnce(&CursorSession) -> Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        let page = self.on_session(read).await;
        self.page_size = match page {
            Ok(_) => (self.page_size * 2).min(MAX_PAGE),
            Err(_) => (self.page_size / 2).max(SMALLEST_PAGE),
        };
        page
    }

    fn resume(&mut self, found: i64) {
        let is_new = match &mut self.state {
            Some(state) => state.resume(found),
            none => {
                *none = Some(CursorState::at(found));
                tracing::info!(event = "cursor_read", "collecting the tokens after id {found}");
                true
            }
        };
        if is_new {
            self.recover_from = Some(found);
        }
    }

    /// Reads until `count` tokens are there or no more can be, at least `first_page` rows.
    async fn read(&mut self, count: usize, first_page: usize) -> Result<(), QueueError> {
        let mut least = first_page;
        loop {
            let ahead = &self.state()?.ahead;
            let have = ahead.len();
            let after = ahead.read;
            if have >= count {
                return Ok(());
            }
            let rows = (count - have).max(least).min(self.page_size);
            let Some(page) = self.read_page(after, rows, &[]).await? else { continue };
            let is_last = page.rows < rows;
            self.state()?.ahead.add(page, Instant::now());
            if is_last {
                return Ok(());
            }
            // Where many rows cannot be sent, the next page is a larger one.
            least = rows.saturating_mul(4);
        }
    }

    /// Reads a page; `None` if it is to be read in smaller ones,
    /// because of a text that has no UTF-8 form.
    async fn read_page(
        &mut self,
        after: i64,
        rows: usize,
        again: &[i64],
    ) -> Result<Option<Page>, QueueError> {
        let page = self.read_sized(async |session| session.read(after, rows, again).await).await?;
        if page.is_none() {
            self.page_size = usize::midpoint(rows, again.len());
        }
        Ok(page)
    }

    /// Reads again what was passed, until `enough` tokens are there: deferred tokens, and those
    /// that were committed late.
    async fn rescan(&mut self, enough: usize) -> Result<(), QueueError> {
        let everything = self.last_reread.elapsed() >= self.reread_interval;
        let state = self.state()?;
        let page = i64::try_from(MAX_PAGE).expect("a page is small");
        let last_page = if everything { i64::MIN } else { state.ahead.passed - page };
        let restart = last_page.max(state.claimed_through());
        state.ahead.start_at(restart);
        let mut read_through = i64::MIN;
        loop {
            let most = self.page_size;
            let ahead = &mut self.state()?.ahead;
            let part = ahead.deferred_after(read_through, most);
            ahead.is_deferred_due = !part.is_empty();
            let Some(last) = part.last().copied().filter(|_| ahead.len() < enough) else { break };
            let Some(page) = self.read_page(restart, 0, &part).await? else { continue };
            self.state()?.ahead.add_deferred(page, &part, Instant::now());
            read_through = last;
        }
        if everything {
            self.last_reread = Instant::now();
        }
        Ok(())
    }

    async fn record(&mut self) -> Result<(), QueueError> {
        // Whether the answer comes or not, the next session compares what it finds with both.
        let Some((from, to)) = self.state()?.begin_advance() else { return Ok(()) };
        self.on_session(async |session| session.advance(from, to).await).await?;
        self.state()?.advanced(to);
        tracing::debug!(event = "cursor_recorded", to, "the cursor is recorded");
        Ok(())
    }

    async fn claim(&mut self, want: ClaimRequest) -> Result<Claim, QueueError> {
        if let Some(cursor) = self.recover_from {
            self.recover_skipped(cursor).await?;
        }
        let count = want.batches * want.limit;
        let ahead = &mut self.state()?.ahead;
        let is_stale = ahead.is_stale(Instant::now());
        let late = ahead.late_len();
        let rescans = want.rescan || late < count && ahead.is_deferred_due || late > 0 && is_stale;
        if rescans {
            self.rescan(count).await?;
        } else if is_stale {
            ahead.start_at(ahead.passed);
        }
        self.read(count, if rescans { MAX_PAGE } else { SMALLEST_PAGE }).await?;

        let ids = BatchId::random(want.batches)?;
        let state = self.state.as_mut().ok_or_else(not_open)?;
        // Nothing below waits or fails, so a call that was dropped or
        // that failed has claimed nothing.
        let mut claim = Claim::default();
        for id in ids {
            let Some(tokens) = state.claim(id, want.limit, want.partial) else { break };
            self.claimed.insert(id, tokens.len());
            self.activity.metrics.claimed(tokens.len(), iter::empty());
            claim.batches.push(Batch { id, tokens });
        }
        claim.waiting = state.ahead.len();
        Ok(claim)
    }
}

impl Queue for CursorQueue {
    fn token_format(&self) -> Version {
        self.token_format
    }

    async fn open(&mut self) -> Result<(), QueueError> {
        self.close();
        let session = match self.waiting_session.take() {
            Some(session) => session,
            None => CursorSession::open(&self.connection, &self.name).await?,
        };
        match session.take_lock(self.past_backend.as_ref()).await {
            Err(error @ QueueError::Locked(_)) => {
                self.waiting_session = Some(session);
                return Err(error);
            }
            taken => taken?,
        }
        // From here on no other collector moves the cursor.
        let found = session.begin().await?;
        if !std::mem::replace(&mut self.is_announced, true) {
            let server = &session.connection.server;
            tracing::info!(
                event = "queue_opened",
                server,
                "this collector has the queue `{}`",
                self.name
            );
        }
        self.session = Some(session);
        self.past_backend = None;
        self.resume(found);
        self.record().await
    }

    async fn settle_and_claim(
        &mut self,
        settlements: Vec<Settlement>,
        want: Option<ClaimRequest>,
    ) -> Result<Claim, QueueError> {
        // The cursor knows no single token: what can never be sent has been logged, and is passed.
        // A batch of which anything may still be sent goes out again whole.
        let mut sent = Vec::new();
        let mut unsent = Vec::new();
        for Settlement { batch, nacks, .. } in settlements {
            // Senders, who have doubts and receipts, need the queue `deliveries`.
            let dead = nacks.iter().filter(|(_, nack)| matches!(nack, Nack::Dead { .. }));
            let dead: Vec<_> =
                dead.map(|(id, nack)| (*id, nack.reason().unwrap_or_default())).collect();
            self.activity.dead(dead.len(), 0);
            if !dead.is_empty() {
                // The only record of them.
                tracing::warn!(
                    event = "tokens_rejected",
                    reason = %listed(&dead, usize::MAX),
                    count = dead.len(),
                    ids = ?ids(&dead, usize::MAX),
                    put_back = "repair the rows and request new mails",
                    "tokens are rejected and get no mail"
                );
            }
            if let Some(tokens) = self.claimed.remove(&batch) {
                self.activity.settled(tokens, &nacks, Instant::now());
            }
            if dead.len() == nacks.len() { sent.push(batch) } else { unsent.push(batch) }
        }
        self.activity.log(Instant::now());
        self.state()?.settle(&sent);
        self.release(&unsent);
        self.record().await?;
        let claim = match want {
            Some(want) => self.claim(want).await?,
            None => Claim::default(),
        };
        self.is_announced = false;
        Ok(claim)
    }

    fn has_unrecorded(&self) -> bool {
        self.state.as_ref().is_some_and(CursorState::has_unrecorded)
    }

    fn release(&mut self, batches: &[BatchId]) {
        for batch in batches {
            self.claimed.remove(batch);
        }
        if let Some(state) = &mut self.state {
            state.release(batches);
        }
    }
}
