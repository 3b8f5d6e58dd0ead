//! When to sweep what is deferred, and where to go on.

use std::time::{Duration, Instant, SystemTime};

use tokio_postgres::types::Type;

use super::queue::DeliveriesQueue;
use super::session::SqlParameter;
use crate::log::outage::OutageLog;
use crate::queue::QueueError;
use crate::queue::session::{ANSWER, QueueSession, answer_within, column};

/// How often a sweep begins, and the pause between its parts.
const ROUND: Duration = Duration::from_secs(10);
const PART: Duration = Duration::from_secs(2);

/// About how many rows are read at a time.
const ROWS: i32 = 5_000;

const SWEEP: &str = include_str!("sweep.sql");

/// A sweep of all that is deferred, in parts. The caller passes the times in.
#[derive(Debug)]
pub(super) struct Sweeper {
    position: SweepPosition,
    next: Option<Instant>,
    outage: OutageLog,
}

/// How far a sweep came; nothing before its beginning and after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SweepPosition {
    /// The last token read of those that wait for their account's status.
    pub(super) parked: Option<i64>,
    /// When the last token is due that was read of those that are not due yet.
    pub(super) later: Option<SystemTime>,
}

impl Sweeper {
    /// At the beginning, to be begun at once.
    pub(super) fn new() -> Self {
        let outage = OutageLog::of("sweeping the queue");
        Self { position: SweepPosition::default(), next: None, outage }
    }

    /// When to go on; at once if it is `None`.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Where to go on if it is time to. That counts as done, whatever becomes of it: a failure is not repeated without a pause.
    fn begin(&mut self, now: Instant) -> Option<SweepPosition> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + ROUND);
        Some(self.position)
    }

    /// A part is done, or the server refused and the session goes on.
    fn end(&mut self, outcome: Result<SweepPosition, String>, now: Instant) {
        // From now on: a part may have failed by taking long.
        self.next = Some(now + ROUND);
        match outcome {
            Ok(position) => {
                self.position = position;
                if position != SweepPosition::default() {
                    self.next = Some(now + PART);
                }
                self.outage.over(now);
            }
            Err(refusal) => self.outage.failed(&refusal, now),
        }
    }
}

impl DeliveriesQueue {
    /// Sweeps the next part if it is time to.
    pub(super) async fn sweep(&mut self) -> Result<(), QueueError> {
        let Some(position) = self.sweeper.begin(Instant::now()) else { return Ok(()) };
        let parameters: [SqlParameter<'_>; 4] = [
            (&self.collector_id, Type::INT8),
            (&position.parked, Type::INT8),
            (&position.later, Type::TIMESTAMPTZ),
            (&ROWS, Type::INT4),
        ];
        let sweep = async |session: &QueueSession| {
            match answer_within(ANSWER, session.client.query_typed_one(SWEEP, &parameters)).await? {
                Ok(row) => Ok(Ok(SweepPosition { parked: column(&row, 0)?, later: column(&row, 1)? })),
                // The session goes on.
                Err(error) if error.as_db_error().is_some() => Ok(Err(QueueError::from(error).to_string())),
                Err(error) => Err(error.into()),
            }
        };
        let outcome = self.link.run(sweep).await?;
        self.sweeper.end(outcome, Instant::now());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_has_parts_and_begins_anew_after_a_longer_pause() {
        let start = Instant::now();
        let (beginning, middle) = (SweepPosition::default(), SweepPosition { parked: Some(5), later: None });
        let mut sweeper = Sweeper::new();
        let mut now = start;
        for (position, outcome, pause) in [
            (beginning, Ok(middle), PART),
            (middle, Err("no".to_owned()), ROUND),
            (middle, Ok(beginning), ROUND),
            (beginning, Ok(middle), PART),
        ] {
            assert_eq!(sweeper.begin(now), Some(position));
            sweeper.end(outcome, now);
            assert_eq!(sweeper.begin(now + pause / 2), None);
            now += pause;
        }
        // A part whose answer never came.
        assert_eq!(sweeper.begin(now), Some(middle));
        assert_eq!(sweeper.begin(now + PART), None);
    }
}
