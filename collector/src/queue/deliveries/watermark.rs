//! The low watermark: the time before which nothing in the queue can be due, where a rescan begins.
//! Any other claim begins where the one before ended: while vacuum cannot run, because of a backup
//! for instance, the index keeps entries of claimed rows.
//!
//! Pure policy over what `peek.sql` returns. A row enters the queue either with a time not before a
//! clock that its transaction read after it got its xid, or at the place of a lease, which peeks
//! see until then. An xid that is assigned after the clock was read is above those of all
//! transactions that had one by then. Once they have all ended, no row can appear that is older
//! than that time and than everything in view. Long *reading* transactions, such as backups, have
//! no xid and do not delay the watermark.
//!
//! A snapshot's xmax is no such xid: it is the one after the highest transaction that has ended,
//! and those above it that are open are as invisible as those that have not begun.
//!
//! A clock that is set back breaks the first premise, and so can a row that is inserted by hand. So
//! a peek begins at the very beginning once a minute, and the watermark goes back to what it finds;
//! a clock seen to go back resets it. A reconnect or a restart does not: a full scan passes all
//! deleted rows that vacuum could not remove yet.

use std::time::{Duration, Instant, SystemTime};

/// How often a peek begins at the very beginning.
const FULL_SCAN: Duration = Duration::from_secs(60);

/// What one peek saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    /// The clock before the statement began.
    pub(super) at: SystemTime,
    /// The oldest place in the queue of all that waits or is leased.
    pub(super) oldest: Option<SystemTime>,
    /// All transactions with lower xids have ended, and their rows were seen.
    pub(super) xmin: i64,
    /// No transaction with this xid or a higher one had ended.
    pub(super) xmax: i64,
    /// The xid that was assigned to the statement after it had read the clock, if one was.
    pub(super) assigned_xid: Option<i64>,
}

/// The time before which nothing waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LowWatermark {
    /// Where claims begin; `None` for the very beginning.
    pub(super) since: Option<SystemTime>,
    /// The last xid that was assigned. Unless a transaction with a higher one has ended, another
    /// would tell nothing new.
    pub(super) assigned_xid: i64,
    /// The clock of the last snapshot.
    clock: Option<SystemTime>,
    /// A time, and an xid above those of all transactions that had one then.
    candidate: Option<(SystemTime, i64)>,
    scanned: Option<Instant>,
}

impl LowWatermark {
    /// Takes over the other collectors' watermark unless one is known here; the first full scan is
    /// a minute later then.
    pub(super) fn resume(&mut self, low_watermark: Option<SystemTime>, now: Instant) {
        if self.scanned.is_none() && low_watermark.is_some() {
            self.since = low_watermark;
            self.scanned = Some(now);
        }
    }

    /// Where a peek begins: now and then at the very beginning. A peek from the beginning counts as
    /// done, whatever becomes of it, so that a scan that takes too long is not repeated at once.
    pub(super) fn peek_since(&mut self, now: Instant) -> Option<SystemTime> {
        if self.scanned.is_some_and(|scanned| now - scanned < FULL_SCAN) {
            return self.since;
        }
        self.scanned = Some(now);
        None
    }

    /// A statement that began at `since`, or before, saw this.
    pub(super) fn observe(&mut self, snapshot: Snapshot) {
        if self.clock.replace(snapshot.at).is_some_and(|clock| snapshot.at < clock) {
            // The clock was set back, so new rows lie before old ones.
            self.since = None;
            self.candidate = None;
        }
        if self.since.is_some_and(|since| snapshot.oldest.is_some_and(|oldest| oldest < since)) {
            self.since = snapshot.oldest;
        }
        if snapshot.xmax <= self.assigned_xid {
            // The xids are of another cluster: in this one,
            // the transaction with `assigned_xid` has ended.
            self.assigned_xid = 0;
            self.candidate = None;
        }
        if let Some((at, xid)) = self.candidate
            && snapshot.xmin >= xid
        {
            let reached = snapshot.oldest.map_or(at, |oldest| oldest.min(at));
            self.since = self.since.max(Some(reached));
            self.candidate = None;
        }
        if let Some(xid) = snapshot.assigned_xid {
            self.assigned_xid = xid;
            // An earlier one is reached earlier.
            self.candidate = self.candidate.or(Some((snapshot.at, xid)));
        }
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn with_xid(seconds: u64, oldest: Option<u64>, xmin: i64, xid: i64) -> Snapshot {
        Snapshot { assigned_xid: Some(xid), ..idle(seconds, oldest, xmin, xid) }
    }

    fn idle(seconds: u64, oldest: Option<u64>, xmin: i64, xmax: i64) -> Snapshot {
        Snapshot { at: at(seconds), oldest: oldest.map(at), xmin, xmax, assigned_xid: None }
    }

    #[test]
    fn it_moves_when_all_transactions_from_before_the_assigned_xid_have_ended() {
        // Number 7 is open, and no higher one has ended: no snapshot has it.
        let open = Snapshot { xmax: 7, ..with_xid(10, None, 7, 8) };
        let first = with_xid(10, None, 7, 8);
        let cases: [(&str, &[Snapshot], Option<u64>); 14] = [
            ("after one snapshot a transaction may be open", &[with_xid(10, None, 8, 8)], None),
            (
                "an earlier one is open",
                &[first, with_xid(20, None, 7, 9), with_xid(30, None, 7, 12)],
                None,
            ),
            ("the one with the highest xid is open", &[open, with_xid(20, None, 7, 9)], None),
            (
                "it has ended",
                &[open, with_xid(20, None, 7, 9), with_xid(30, None, 10, 10)],
                Some(10),
            ),
            ("to the earlier snapshot", &[first, with_xid(20, None, 9, 9)], Some(10)),
            ("and on", &[first, with_xid(20, None, 9, 9), with_xid(30, None, 10, 10)], Some(20)),
            ("without another xid", &[first, idle(20, None, 9, 9)], Some(10)),
            (
                "idle",
                &[with_xid(10, None, 8, 8), idle(20, None, 9, 9), idle(30, None, 9, 9)],
                Some(10),
            ),
            (
                "not past what waits",
                &[with_xid(10, Some(3), 7, 8), with_xid(20, Some(3), 9, 9)],
                Some(3),
            ),
            (
                "the clock was set back",
                &[first, with_xid(20, None, 8, 9), with_xid(19, None, 10, 10)],
                None,
            ),
            (
                "and idle",
                &[with_xid(10, None, 8, 8), idle(20, None, 9, 9), idle(19, None, 9, 9)],
                None,
            ),
            ("back", &[first, with_xid(20, None, 8, 9), with_xid(30, Some(4), 9, 10)], Some(4)),
            (
                "forth again",
                &[
                    first,
                    with_xid(20, None, 8, 9),
                    with_xid(30, Some(4), 9, 10),
                    with_xid(40, None, 11, 11),
                ],
                Some(30),
            ),
            (
                "in another cluster with lower xids",
                &[with_xid(10, None, 700, 800), with_xid(20, None, 7, 8), with_xid(30, None, 9, 9)],
                Some(20),
            ),
        ];
        for (case, snapshots, expected) in cases {
            let mut watermark = LowWatermark::default();
            for snapshot in snapshots {
                watermark.observe(*snapshot);
            }
            assert_eq!(watermark.since, expected.map(at), "{case}");
        }
    }

    #[test]
    fn a_new_one_begins_where_others_had_come_and_looks_at_the_very_beginning_after_a_minute() {
        let start = Instant::now();
        let mut watermark = LowWatermark::default();
        watermark.resume(Some(at(10)), start);
        watermark.resume(Some(at(20)), start);
        assert_eq!(watermark.peek_since(start + Duration::from_secs(59)), Some(at(10)));
        assert_eq!(watermark.peek_since(start + Duration::from_secs(60)), None);
        let mut unknown = LowWatermark::default();
        unknown.resume(None, start);
        assert_eq!(unknown.peek_since(start), None);
    }

    #[test]
    fn it_is_kept_while_a_peek_begins_at_the_very_beginning_once_a_minute() {
        let start = Instant::now();
        let mut watermark = LowWatermark::default();
        for seconds in 0..=200 {
            let begins = watermark.peek_since(start + Duration::from_secs(seconds));
            assert_eq!(
                begins.is_none(),
                seconds < 2 || seconds % 60 == 0,
                "after {seconds} s: {begins:?}"
            );
            let xid = i64::try_from(seconds + 1).unwrap();
            watermark.observe(with_xid(1_000 + seconds, None, xid, xid));
            let known = seconds.checked_sub(1).map(|before| at(1_000 + before));
            assert_eq!((watermark.since, watermark.assigned_xid), (known, xid));
        }
    }
}
