//! One exchange with the server: settle, release and claim. With two sessions, settling and
//! claiming run in parallel.
//!
//! Each statement is a transaction of its own, and one that was answered is done, whatever becomes
//! of the others.
//!
//! # Where a kill leaves batches
//! - A claim was sent: the server has the lease or has not. A lease lapses, since nothing of the
//!   batch was sent.
//! - A release was sent: the batch is released, or its lease lapses.
//! - A settlement was sent: it is recorded, or the lease lapses and what the reader had goes out
//!   again.

use std::time::{Duration, Instant, SystemTime};

use mailroom_connect::ConnectionSettings;
use mailroom_pace::LogLimit;
use tokio::time::timeout;
use tokio_postgres::Row;

use super::actions::SignableActions;
use super::batches::Batches;
use super::claimed::{Claimed, DeadLetter, log_dead_letters};
use super::scan::Search;
use super::session::{SessionSlot, ping};
use super::statements::{Claim, Release, Settle};
use crate::config::DeliverySettings;
use crate::log::display::milliseconds;
use crate::queue::activity::Activity;
use crate::queue::session::QueueSession;
use crate::queue::{BatchId, Nack, QueueError};

/// From this many tokens on, both sessions share a claim; for fewer, the second statement costs
/// more than it saves.
const MIN_SPLIT_TOKENS: usize = 200;

/// How long opening the second session may take. Without it, settling and claiming take turns.
const SECOND_SESSION: Duration = Duration::from_secs(5);

/// The longest time without a statement. With the ping's timeout of five seconds, a dead connection
/// is noticed within ten.
const PING_PAUSE: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(super) struct Exchange {
    settings: DeliverySettings,
    lease: Duration,
    collector_id: i64,
    pub(super) first: SessionSlot,
    /// A second session on the same server, if there is room for it,
    /// which settles while the other one claims.
    second: SessionSlot,
    pub(super) batches: Batches,
    /// Whether to claim beside settling: not after an error, when more would be handed over than
    /// can be recorded.
    claims_beside: bool,
    pub(super) activity: Activity,
    dead_letter_limit: LogLimit,
}

impl Exchange {
    pub(super) fn new(settings: DeliverySettings, lease: Duration, collector_id: i64) -> Self {
        Self {
            settings,
            lease,
            collector_id,
            first: SessionSlot::new(),
            second: SessionSlot::new(),
            batches: Batches::default(),
            claims_beside: false,
            activity: Activity::since(Instant::now()),
            dead_letter_limit: LogLimit::default(),
        }
    }

    /// Replaces the first session and closes the second one. Returns the server's name, and when it
    /// was started.
    pub(super) async fn open_first(
        &mut self,
        connection: &ConnectionSettings,
    ) -> Result<(String, SystemTime), QueueError> {
        self.second = SessionSlot::new();
        self.first.open(connection).await
    }

    /// Opens the second session. If there is none on the server that was started then, settling and
    /// claiming take turns on the first one.
    pub(super) async fn open_second(
        &mut self,
        connection: &ConnectionSettings,
        started_at: SystemTime,
    ) {
        let beside = timeout(SECOND_SESSION, Box::pin(self.second.open(connection))).await;
        if !matches!(beside, Ok(Ok((_, other))) if other == started_at) {
            self.second = SessionSlot::new();
        }
    }

    /// Ends both sessions.
    pub(super) fn close(&mut self) {
        (self.first, self.second) = (SessionSlot::new(), SessionSlot::new());
    }

    pub(super) fn settles_beside(&self) -> bool {
        self.claims_beside && self.second.is_open()
    }

    /// Whether both sessions can share a claim of this many batches, and that is worth it.
    pub(super) fn can_split(&self, batches: usize, limit: usize) -> bool {
        self.settles_beside()
            && self.settings.rate.is_none()
            && batches > 1
            && batches * limit >= MIN_SPLIT_TOKENS
    }

    /// When the session that has been silent for longest is pinged. Without a session, the silence
    /// began at `otherwise`.
    pub(super) fn ping_at(&self, otherwise: Instant) -> Instant {
        let open = [&self.first, &self.second].into_iter().filter(|slot| slot.is_open());
        open.map(|slot| slot.used).min().unwrap_or(otherwise) + PING_PAUSE
    }

    pub(super) async fn ping(&mut self) -> Result<(), QueueError> {
        for slot in [&mut self.first, &mut self.second] {
            if slot.is_open() && slot.used.elapsed() >= PING_PAUSE {
                slot.run(ping).await?;
            }
        }
        Ok(())
    }

    /// Settles and releases whatever there is, and claims nothing.
    pub(super) async fn report(&mut self, actions: &SignableActions) -> Result<(), QueueError> {
        self.send(Search::default(), false, actions).await.map(drop)
    }

    /// Settles and releases whatever there is, and claims. With two sessions, the second settles
    /// while the first claims; if the claim `is_split`, the second claims a part, too. With one
    /// session, the statements follow each other.
    pub(super) async fn send(
        &mut self,
        search: Search,
        is_split: bool,
        actions: &SignableActions,
    ) -> Result<Claimed, QueueError> {
        let batches = search.request.batches;
        let ids = BatchId::random(batches)?;
        // Before anything is sent: whatever happens to a claim, its ids are known here.
        self.batches.begin_statements(&ids, Instant::now());
        self.finish_dropped_call().await?;
        let Self { first, second, settings, collector_id, .. } = self;
        let settle = Settle::new(&self.batches, settings, first.is_unicode());
        let release = Release::new(&self.batches, *collector_id);
        let lease_ms = milliseconds(self.lease);
        let claim = Claim { collector_id: *collector_id, lease_ms, settings, actions };
        let settles_beside = self.claims_beside && second.is_open();
        let uses_both = is_split || settles_beside && batches > 0 && !settle.is_empty();
        // The second session gets two fifths: it also settles.
        let beside = if is_split { (2 * batches).div_ceil(5) } else { 0 };
        let (own_ids, ids_beside) = ids.split_at(batches - beside);
        let (own_search, search_beside) = search.split(beside);
        let own_batches = &mut self.batches;
        let mut release_and_claim = async |session: &QueueSession| {
            release.run(session).await?;
            own_batches.released(Instant::now());
            claim.run(session, own_ids, own_search).await
        };
        let mut answered = None;
        let (claimed, claimed_beside) = if uses_both {
            let settle_and_claim = async |session: &QueueSession| {
                // Both are on their way at once, and are two transactions.
                let claim = claim.run(session, ids_beside, search_beside);
                let (settled, claimed) = tokio::join!(biased; settle.run(session), claim);
                answered = Some(settled?);
                claimed
            };
            let both =
                async { tokio::join!(first.run(release_and_claim), second.run(settle_and_claim)) };
            Box::pin(both).await
        } else {
            let in_turn = async |session: &QueueSession| {
                answered = Some(settle.run(session).await?);
                release_and_claim(session).await
            };
            (Box::pin(first.run(in_turn)).await, Ok(Claimed::default()))
        };
        for (ids, claimed) in [(own_ids, &claimed), (ids_beside, &claimed_beside)] {
            if let Ok(claimed) = claimed {
                self.batches.claimed(ids, &claimed.batches);
            }
        }
        let recorded = answered.map_or(Ok(()), |rows| self.record_settled(&rows));
        self.claims_beside = recorded.is_ok() && claimed.is_ok() && claimed_beside.is_ok();
        recorded?;
        let mut claimed = claimed?;
        let claimed_beside = claimed_beside?;
        if is_split {
            claimed.add(claimed_beside);
        }
        Ok(claimed)
    }

    /// Waits until the second session has done what a dropped call sent on it; the first one
    /// releases that then.
    async fn finish_dropped_call(&mut self) -> Result<(), QueueError> {
        let is_waited_for = self.batches.releasing().next().is_some() && self.second.is_open();
        if is_waited_for { self.second.run(ping).await } else { Ok(()) }
    }

    /// The server has settled what there was to settle, and answered which tokens were given up.
    fn record_settled(&mut self, rows: &[Row]) -> Result<(), QueueError> {
        let dead = DeadLetter::read(rows)?;
        let is_refused = |dead: &&DeadLetter| {
            let nack = self.batches.nack(dead.batch, dead.token);
            matches!(nack, Some(Nack::Retry { .. } | Nack::Failed { .. }))
        };
        self.activity.dead(dead.len(), dead.iter().filter(is_refused).count());
        log_dead_letters(&dead, &self.batches, &self.dead_letter_limit);
        self.batches.settled();
        Ok(())
    }
}
