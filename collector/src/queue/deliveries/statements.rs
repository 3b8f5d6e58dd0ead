//! What one call sends to the server: what is settled and released, and a claim, on two sessions at once where there are two.

use std::time::Instant;

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::claimed::{Claimed, DeadLetter, log_dead_letters};
use super::nacks;
use super::queue::{DeliveriesQueue, PLACES};
use super::session::{SqlParameter, integer, ping, rows_if};
use crate::config::DeliverySettings;
use crate::log::display::milliseconds;
use crate::queue::session::QueueSession;
use crate::queue::{BatchId, ClaimRequest, Nack, Queue, QueueError};

/// From how many tokens on a claim is made on both sessions: less does not make up for a second statement.
const LARGE: usize = 200;

const SETTLE: &str = include_str!("settle.sql");
const RELEASE: &str = include_str!("release.sql");
const CLAIM: &str = include_str!("claim.sql");

impl DeliveriesQueue {
    /// Settles and releases whatever there is, and claims. With two sessions, one of them settles while the other one claims; the
    /// first takes a part of the claim as well where much waits. Else one statement follows the other. What one of them has
    /// answered is done, whatever becomes of the others.
    pub(super) async fn send(&mut self, want: Option<ClaimRequest>) -> Result<Claimed, QueueError> {
        let ClaimRequest { batches, limit, partial, .. } = want.unwrap_or_default();
        let ids = BatchId::random(batches)?;
        self.batches.begin_statements(&ids, Instant::now());
        self.finish_dropped_call().await?;
        let settling: Vec<_> = self.batches.settling().collect();
        let settled: Vec<Uuid> = settling.iter().map(|(batch, _)| batch.0).collect();
        let DeliverySettings { max_attempts, bounds_refusals, backoff, min_lifetime, rate } = self.settings;
        let rate = rate.map(|rate| rate.0.cast_signed());
        let (nacked, tokens, kinds, waits, reasons) =
            nacks::columns(&settling, bounds_refusals, self.link.is_unicode());
        let min_lifetime = i64::try_from(min_lifetime.as_secs()).unwrap_or(i64::MAX);
        let settle: [SqlParameter<'_>; 9] = [
            (&settled, Type::UUID_ARRAY),
            (&nacked, Type::UUID_ARRAY),
            (&tokens, Type::INT8_ARRAY),
            (&kinds, Type::TEXT_ARRAY),
            (&waits, Type::INT8_ARRAY),
            (&reasons, Type::TEXT_ARRAY),
            (&integer(max_attempts), Type::INT4),
            (&milliseconds(backoff), Type::INT8),
            (&min_lifetime, Type::INT8),
        ];
        let released: Vec<Uuid> = self.batches.releasing().map(|batch| batch.0).collect();
        let release: [SqlParameter<'_>; 2] =
            [(&self.collector_id, Type::INT8), (&released, Type::UUID_ARRAY)];
        let wanted: Vec<Uuid> = ids.iter().map(|batch| batch.0).collect();
        let (collector_id, since, turn) = (self.collector_id, self.since, self.turn);
        let (lease, actions, signable) = (milliseconds(self.lease), &self.actions, self.actions.numbers());
        let claim = async |session: &QueueSession, wanted: &[Uuid], scan_limit: usize, turn: usize| {
            let claim: [SqlParameter<'_>; 13] = [
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
            ];
            let rows = rows_if(!wanted.is_empty(), session, CLAIM, &claim).await?;
            Claimed::read(&rows, actions, since)
        };
        let is_split = self.splits(batches, limit);
        let uses_both = is_split || self.settles_beside() && batches > 0 && !settled.is_empty();
        // As long as the settlement takes, which is half as long as a claim.
        let beside = if is_split { batches.div_ceil(3) } else { 0 };
        let (own, others) = wanted.split_at(batches - beside);
        let scan_beside = self.scan_limit * beside / batches.max(1);
        let (scan_limit, turn_beside) = (self.scan_limit - scan_beside, (turn + own.len() * limit) % PLACES);
        let settle =
            async |session: &QueueSession| rows_if(!settled.is_empty(), session, SETTLE, &settle).await;
        let in_flight = &mut self.batches;
        let mut release_and_claim = async |session: &QueueSession| {
            let released = rows_if(!released.is_empty(), session, RELEASE, &release).await;
            released.map(|_| in_flight.released(Instant::now()))?;
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
            let (link, second_link) = (&mut self.link, &mut self.second_link);
            let both = async { tokio::join!(link.run(release_and_claim), second_link.run(settle_and_claim)) };
            Box::pin(both).await
        } else {
            let in_turn = async |session: &QueueSession| {
                answered = Some(settle(session).await?);
                release_and_claim(session).await
            };
            (Box::pin(self.link.run(in_turn)).await, Ok(Claimed::default()))
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
        let (mut claimed, claimed_beside) = (claimed?, claimed_beside?);
        if is_split {
            claimed.add(claimed_beside);
        }
        if batches > 0 {
            self.has_more = claimed.scanned >= self.scan_limit;
        }
        Ok(claimed)
    }

    /// What a dropped call claims on the second session is released on the first after it is done.
    async fn finish_dropped_call(&mut self) -> Result<(), QueueError> {
        let is_waited_for = self.batches.releasing().next().is_some() && self.second_link.is_open();
        if is_waited_for { self.second_link.run(ping).await } else { Ok(()) }
    }

    /// Whether a claim of so many batches is made on both sessions. What it finds may be less than there is: each half leaves places to
    /// tokens of the second priority that the other one has locked.
    pub(super) fn splits(&self, batches: usize, limit: usize) -> bool {
        self.settles_beside()
            && self.has_more
            && self.settings.rate.is_none()
            && batches > 1
            && batches * limit >= LARGE
    }

    /// The server has settled what there was to settle, and answered which tokens were given up.
    fn record_settled(&mut self, rows: &[Row]) -> Result<(), QueueError> {
        let dead = DeadLetter::read(rows)?;
        let is_refused = |dead: &&DeadLetter| {
            !matches!(self.batches.nack(dead.batch, dead.token), Some(Nack::Dead { .. }))
        };
        self.activity.dead(dead.len(), dead.iter().filter(is_refused).count());
        log_dead_letters(&dead, &self.batches, &mut self.dead_letter_limiter);
        self.batches.settled();
        Ok(())
    }
}
