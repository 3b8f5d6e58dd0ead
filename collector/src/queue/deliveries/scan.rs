//! Where the next claim reads the queue, how far, and in whose turn.
//!
//! A claim begins where the one before ended, because an index keeps entries of claimed rows until
//! vacuum runs. What lies before that place is read by a rescan, now and then: tokens that were
//! committed late, were not eligible, or have returned to their places. A rescan begins at the low
//! watermark, which peeks move on.
//!
//! Nothing here is recorded. A process that starts anew begins at the watermark of the others, and
//! reads at most some rows a second time.

use std::time::{Duration, Instant, SystemTime};

use tokio_postgres::types::Type;

use super::claimed::Claimed;
use super::session::{SessionSlot, SqlParameter, integer};
use super::watermark::{LowWatermark, Snapshot};
use crate::queue::session::{column, count, unexpected};
use crate::queue::{ClaimRequest, Peek, QueueError};

/// The most rows that one statement reads: some tenths of a second's work. After a claim that finds
/// few eligible tokens the next one reads `WIDENING` times more.
const MAX_SCAN: usize = 10_000;
const WIDENING: usize = 4;

/// The most batches that a statement claims after one that found less than it wanted: unused ids
/// cost time, too.
const FEW_BATCHES: usize = 32;

/// The shortest pause between claims from the low watermark, and the least ratio of that pause to a
/// claim's duration.
const RESCAN_PAUSE: Duration = Duration::from_millis(200);
const RESCAN_PAUSE_FACTOR: u32 = 50;

const WATERMARK_PAUSE: Duration = Duration::from_secs(1);

/// Every seventh token is one of the second priority;
/// `mailroom.lock_candidates` and `mailroom.check_eligibility` use the same number.
const PRIORITY_CYCLE: usize = 7;

const PEEK: &str = include_str!("peek.sql");

/// What one claiming statement is to read, and to claim of that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Search {
    pub(super) request: ClaimRequest,
    /// Where it begins, by priority.
    pub(super) since: [Option<SystemTime>; 2],
    /// The most rows that it reads.
    pub(super) scan_limit: usize,
    /// How many tokens were claimed since the last place of the second priority, modulo
    /// [`PRIORITY_CYCLE`].
    pub(super) turn: usize,
}

#[derive(Debug)]
pub(super) struct Scan {
    /// Where the next claim begins, by priority.
    since: [Option<SystemTime>; 2],
    /// The most rows that the next claim reads, unless it wants more tokens.
    limit: usize,
    /// As in [`Search`].
    turn: usize,
    /// Whether the last claim scanned as many rows as its limit allowed.
    pub(super) has_more: bool,
    pub(super) watermark: LowWatermark,
    watermark_updated: Option<Instant>,
    rescanned: Option<Instant>,
    rescan_pause: Duration,
}

impl Scan {
    /// Begins with any turn, so that collectors do not all begin with the same.
    pub(super) fn new(turn: u8) -> Self {
        Self {
            since: [None; 2],
            limit: 0,
            turn: usize::from(turn) % PRIORITY_CYCLE,
            has_more: false,
            watermark: LowWatermark::default(),
            watermark_updated: None,
            rescanned: None,
            rescan_pause: RESCAN_PAUSE,
        }
    }

    /// The queue may be another one now: the next claim rescans, with a new watermark.
    pub(super) fn reopened(&mut self) {
        self.watermark_updated = None;
        self.rescanned = None;
    }

    /// Tokens are due that the last claim has passed.
    pub(super) fn rescan_next(&mut self) {
        self.rescanned = None;
    }

    pub(super) fn begin_at_watermark(&mut self) {
        self.since = [self.watermark.since; 2];
    }

    /// Whether a claim begins at the watermark, also without a request to rescan.
    pub(super) fn is_rescan_due(&self) -> bool {
        self.rescanned.is_none_or(|at| at.elapsed() >= self.rescan_pause)
    }

    pub(super) fn is_watermark_old(&self) -> bool {
        self.watermark_updated.is_none_or(|updated| updated.elapsed() >= WATERMARK_PAUSE)
    }

    /// A call has rescanned, which took this long.
    pub(super) fn rescanned(&mut self, took: Duration) {
        self.rescanned = Some(Instant::now());
        self.rescan_pause = RESCAN_PAUSE.max(took * RESCAN_PAUSE_FACTOR);
    }

    /// How many of `batches` the next statement claims.
    pub(super) fn batches_at_once(&self, batches: usize) -> usize {
        if self.has_more { batches } else { batches.min(FEW_BATCHES) }
    }

    pub(super) fn next(&mut self, request: ClaimRequest) -> Search {
        let tokens_wanted = request.batches * request.limit;
        self.limit = self.limit.clamp(tokens_wanted, MAX_SCAN.max(tokens_wanted));
        Search { request, since: self.since, scan_limit: self.limit, turn: self.turn }
    }

    /// A statement has found this.
    pub(super) fn found(&mut self, search: &Search, claimed: &Claimed) {
        if search.request.batches > 0 {
            self.has_more = claimed.scanned >= search.scan_limit;
        }
        self.since = claimed.next_since;
        self.turn = (self.turn + claimed.tokens()) % PRIORITY_CYCLE;
    }

    /// Where many rows cannot be sent, the next statement reads more.
    pub(super) fn widen(&mut self, is_wanted: bool) {
        self.limit = if is_wanted { self.limit * WIDENING } else { 0 };
    }

    /// Counts up to `enough` due tokens, and updates the low watermark. Also returns how many of
    /// them lie in leases that have lapsed.
    pub(super) async fn peek(
        &mut self,
        session: &mut SessionSlot,
        enough: usize,
    ) -> Result<(Peek, usize), QueueError> {
        let parameters: [SqlParameter<'_>; 3] = [
            (&self.watermark.peek_since(Instant::now()), Type::TIMESTAMPTZ),
            (&integer(enough), Type::INT4),
            (&self.watermark.assigned_xid, Type::INT8),
        ];
        let rows = session.query(PEEK, &parameters).await?;
        let row = rows.first().ok_or_else(|| unexpected("no row"))?;
        let due = count::<i64, usize>(row, "due")?.min(enough);
        let lapsed = count::<i64, usize>(row, "lapsed")?;
        let next = column::<Option<i64>>(row, "next_after")?;
        let next = next.map(|next| Duration::from_millis(u64::try_from(next).unwrap_or(0)));
        self.watermark.observe(Snapshot {
            at: column(row, "asked_at")?,
            oldest: column(row, "oldest_place")?,
            xmin: column(row, "unfinished")?,
            xmax: column(row, "unended")?,
            assigned_xid: column(row, "assigned_xid")?,
        });
        self.watermark_updated = Some(Instant::now());
        Ok((Peek { due, next }, lapsed))
    }
}

impl Search {
    /// The parts of two statements that run at once, the second with `beside` batches.
    pub(super) fn split(self, beside: usize) -> (Self, Self) {
        let ClaimRequest { batches, limit, .. } = self.request;
        let own = batches - beside;
        let scan_beside = self.scan_limit * beside / batches.max(1);
        (
            Self {
                request: ClaimRequest { batches: own, ..self.request },
                scan_limit: self.scan_limit - scan_beside,
                ..self
            },
            Self {
                request: ClaimRequest { batches: beside, ..self.request },
                scan_limit: scan_beside,
                turn: (self.turn + own * limit) % PRIORITY_CYCLE,
                ..self
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(batches: usize, limit: usize) -> ClaimRequest {
        ClaimRequest { batches, limit, ..ClaimRequest::default() }
    }

    fn scanned(scanned: usize) -> Claimed {
        Claimed { scanned, ..Claimed::default() }
    }

    #[test]
    fn claims_read_more_rows_while_they_find_nothing_and_never_fewer_than_they_want() {
        let mut scan = Scan::new(0);
        let limits: Vec<_> = (0..6)
            .map(|_| {
                let search = scan.next(request(4, 10));
                scan.widen(true);
                search.scan_limit
            })
            .collect();
        assert_eq!(limits, [40, 160, 640, 2_560, 10_000, 10_000]);
        scan.widen(false);
        assert_eq!(scan.next(request(10, 2_000)).scan_limit, 20_000);
    }

    #[test]
    fn few_batches_are_claimed_until_a_claim_reads_as_many_rows_as_it_may() {
        let mut scan = Scan::new(0);
        assert_eq!(scan.batches_at_once(400), 32);
        let search = scan.next(request(32, 10));
        scan.found(&search, &scanned(320));
        assert_eq!(scan.batches_at_once(400), 400);
        let search = scan.next(request(400, 10));
        scan.found(&search, &scanned(3_999));
        assert_eq!(scan.batches_at_once(400), 32);
    }

    #[test]
    fn the_parts_of_a_claim_are_the_whole_and_take_turns_as_one() {
        let mut scan = Scan::new(6);
        let whole = scan.next(request(5, 100));
        let (own, beside) = whole.split(2);
        assert_eq!((own.request.batches, own.scan_limit, own.turn), (3, 300, 6));
        assert_eq!((beside.request.batches, beside.scan_limit, beside.turn), (2, 200, 5));
        let (own, beside) = whole.split(0);
        assert_eq!((own.request.batches, own.scan_limit, own.turn), (5, 500, 6));
        assert_eq!((beside.request.batches, beside.scan_limit), (0, 0));
    }
}
