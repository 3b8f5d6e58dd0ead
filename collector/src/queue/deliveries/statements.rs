//! One exchange with the server: settle, release and claim. With two sessions, settling and
//! claiming run in parallel.

use std::time::Instant;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::claimed::{Claimed, DeadLetter, log_dead_letters};
use super::nacks;
use super::queue::{DeliveriesQueue, PRIORITY_CYCLE};
use super::session::{SqlParameter, integer, ping, rows_if};
use crate::config::DeliverySettings;
use crate::log::display::milliseconds;
use crate::queue::session::QueueSession;
use crate::queue::{BatchId, ClaimRequest, Nack, Queue, QueueError};

/// From this many tokens on, both sessions share a claim; for fewer, the second statement costs
/// more than it saves.
const MIN_SPLIT_TOKENS: usize = 200;

const SETTLE: &str = include_str!("settle.sql");
const RELEASE: &str = include_str!("release.sql");
const CLAIM: &str = include_str!("claim.sql");

impl DeliveriesQueue {
    /// Settles and releases whatever there is, and claims. With two sessions, the second settles
    /// while the first claims; where much waits, the second claims a part, too. With one session,
    /// the statements follow each other. A statement that was answered is done,
    /// whatever becomes of the others.
    #[allow(clippy::too_many_lines, reason = "each statement has its parameters in one list")]
    pub(super) async fn send(&mut self, want: Option<ClaimRequest>) -> Result<Claimed, QueueError> {
        let ClaimRequest { batches, limit, partial, spares_doubtful, .. } =
            want.unwrap_or_default();
        let ids = BatchId::random(batches)?;
        self.batches.begin_statements(&ids, Instant::now());
        self.finish_dropped_call().await?;
        let settling: Vec<_> = self.batches.settling().collect();
        let settled: Vec<Uuid> = settling.iter().map(|(batch, _)| batch.0).collect();
        let DeliverySettings { max_attempts, backoff, min_lifetime, rate, .. } = self.settings;
        let rate = rate.map(|rate| rate.0.cast_signed());
        let (nacked, tokens, kinds, waits, reasons) =
            nacks::columns(&settling, &self.settings, self.first_session.is_unicode());
        let receipts =
            nacks::receipt_columns(self.batches.receipts(), self.first_session.is_unicode());
        let min_lifetime = i64::try_from(min_lifetime.as_secs()).unwrap_or(i64::MAX);
        let settle: [SqlParameter<'_>; 14] = [
            (&settled, Type::UUID_ARRAY),
            (&nacked, Type::UUID_ARRAY),
            (&tokens, Type::INT8_ARRAY),
            (&kinds, Type::TEXT_ARRAY),
            (&waits, Type::INT8_ARRAY),
            (&reasons, Type::TEXT_ARRAY),
            (&integer(max_attempts), Type::INT4),
            (&milliseconds(backoff), Type::INT8),
            (&min_lifetime, Type::INT8),
            (&receipts.0, Type::UUID_ARRAY),
            (&receipts.1, Type::INT8_ARRAY),
            (&receipts.2, Type::TEXT_ARRAY),
            (&receipts.3, Type::TEXT_ARRAY),
            (&receipts.4, Type::TEXT_ARRAY),
        ];
        let released: Vec<Uuid> = self.batches.releasing().map(|batch| batch.0).collect();
        let release: [SqlParameter<'_>; 2] =
            [(&self.collector_id, Type::INT8), (&released, Type::UUID_ARRAY)];
        let wanted: Vec<Uuid> = ids.iter().map(|batch| batch.0).collect();
        let collector_id = self.collector_id;
        let since = self.since;
        let turn = self.turn;
        let lease = milliseconds(self.lease);
        let actions = &self.actions;
        let signable = self.actions.numbers();
        let claim =
            async |session: &QueueSession, wanted: &[Uuid], scan_limit: usize, turn: usize| {
                let claim: [SqlParameter<'_>; 14] = [
                    (&collector_id, Type::INT8),
                    (&wanted, Type::UUID_ARRAY),
                    (&integer(limit), Type::INT4),
                    (&partial, Type::BOOL),
                    (&integer(scan_limit), Type::INT4),
                    (&integer(turn), Type::INT4),
                    (&since[0], Type::TIMESTAMPTZ),
                    (&since[1], Type::TIMESTAMPTZ),
                    (&lease, Type::INT8),
                    (&min_lifetime, Type::INT8),
                    (&signable, Type::INT2_ARRAY),
                    (&actions.binds(), Type::BOOL),
                    (&rate, Type::INT8),
                    (&!spares_doubtful, Type::BOOL),
                ];
                let rows = rows_if(!wanted.is_empty(), session, CLAIM, &claim).await?;
                Claimed::read(&rows, actions, since)
            };
        let is_split = self.splits(batches, limit);
        let uses_both = is_split || self.settles_beside() && batches > 0 && !settled.is_empty();
        // The second session gets two fifths: it also settles.
        let beside = if is_split { (2 * batches).div_ceil(5) } else { 0 };
        let (own, others) = wanted.split_at(batches - beside);
        let scan_beside = self.scan_limit * beside / batches.max(1);
        let scan_limit = self.scan_limit - scan_beside;
        let turn_beside = (turn + own.len() * limit) % PRIORITY_CYCLE;
        let settle = async |session: &QueueSession| {
            rows_if(!settled.is_empty(), session, SETTLE, &settle).await
        };
        let own_batches = &mut self.batches;
        let mut release_and_claim = async |session: &QueueSession| {
            let released = rows_if(!released.is_empty(), session, RELEASE, &release).await;
            released.map(|_| own_batches.released(Instant::now()))?;
            claim(session, own, scan_limit, turn).await
        };
        let mut answered = None;
        let (claimed, claimed_beside) = if uses_both {
            let settle_and_claim = async |session: &QueueSession| {
                // Both are on their way at once, and are two transactions.
                let claim = claim(session, others, scan_beside, turn_beside);
                let (settled, claimed) = tokio::join!(biased; settle(session), claim);
                answered = Some(settled?);
                claimed
            };
            let first = &mut self.first_session;
            let second = &mut self.second_session;
            let both =
                async { tokio::join!(first.run(release_and_claim), second.run(settle_and_claim)) };
            Box::pin(both).await
        } else {
            let in_turn = async |session: &QueueSession| {
                answered = Some(settle(session).await?);
                release_and_claim(session).await
            };
            (Box::pin(self.first_session.run(in_turn)).await, Ok(Claimed::default()))
        };
        let (own, others) = ids.split_at(own.len());
        for (ids, claimed) in [(own, &claimed), (others, &claimed_beside)] {
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
        if batches > 0 {
            self.has_more = claimed.scanned >= self.scan_limit;
        }
        Ok(claimed)
    }

    /// Waits until the second session has done what a dropped call sent on it; the first one
    /// releases that then.
    async fn finish_dropped_call(&mut self) -> Result<(), QueueError> {
        let is_waited_for =
            self.batches.releasing().next().is_some() && self.second_session.is_open();
        if is_waited_for { self.second_session.run(ping).await } else { Ok(()) }
    }

    /// Whether both sessions share a claim of this many batches.
    pub(super) fn splits(&self, batches: usize, limit: usize) -> bool {
        self.settles_beside()
            && self.has_more
            && self.settings.rate.is_none()
            && batches > 1
            && batches * limit >= MIN_SPLIT_TOKENS
    }

    /// The server has settled what there was to settle, and answered which tokens were given up.
    fn record_settled(&mut self, rows: &[Row]) -> Result<(), QueueError> {
        let dead = DeadLetter::read(rows)?;
        let is_refused = |dead: &&DeadLetter| {
            let nack = self.batches.nack(dead.batch, dead.token);
            matches!(nack, Some(Nack::Refused { .. } | Nack::Failed { .. }))
        };
        self.activity.dead(dead.len(), dead.iter().filter(is_refused).count());
        log_dead_letters(&dead, &self.batches, &mut self.dead_letter_limiter);
        self.batches.settled();
        Ok(())
    }
}
