//! Calls `mailroom.sweep` in parts: it corrects due times after a clock was set back,
//! and erases expired secrets.

use std::time::{Duration, Instant, SystemTime};

use tokio_postgres::types::Type;

use super::session::{SessionSlot, SqlParameter};
use crate::log::outage::OutageLog;
use crate::queue::QueueError;
use crate::queue::session::{ANSWER, QueueSession, answer_within, column};

/// How often a sweep begins, and the pause between its parts.
const ROUND: Duration = Duration::from_secs(10);
const PART: Duration = Duration::from_secs(2);

const ROWS: i32 = 5_000;

const SWEEP: &str = include_str!("sweep.sql");

#[derive(Debug)]
pub(super) struct Sweeper {
    /// The time up to which this round has looked; `None` at the beginning of a round.
    position: Option<SystemTime>,
    /// When to go on; at once if it is `None`.
    pub(super) next: Option<Instant>,
    outage: OutageLog,
}

impl Sweeper {
    pub(super) fn new() -> Self {
        Self { position: None, next: None, outage: OutageLog::of("sweeping the queue") }
    }

    pub(super) async fn sweep(&mut self, session: &mut SessionSlot) -> Result<(), QueueError> {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return Ok(());
        }
        // Whatever becomes of it: a failure is not repeated without a pause.
        self.next = Some(now + ROUND);
        let position = self.position;
        let parameters: [SqlParameter<'_>; 2] =
            [(&position, Type::TIMESTAMPTZ), (&ROWS, Type::INT4)];
        let sweep = async |session: &QueueSession| {
            match answer_within(ANSWER, session.client.query_typed_one(SWEEP, &parameters)).await? {
                Ok(row) => Ok(Ok(column(&row, 0)?)),
                // The session goes on.
                Err(error) if error.as_db_error().is_some() => {
                    Ok(Err(QueueError::from(error).to_string()))
                }
                Err(error) => Err(error.into()),
            }
        };
        let outcome = session.run(sweep).await?;
        // From now on: a part may have failed by taking long.
        self.end(outcome, Instant::now());
        Ok(())
    }

    fn end(&mut self, outcome: Result<Option<SystemTime>, String>, now: Instant) {
        self.next = Some(now + ROUND);
        match outcome {
            Ok(position) => {
                self.position = position;
                self.next = Some(now + if position.is_none() { ROUND } else { PART });
                self.outage.over(now);
            }
            Err(refusal) => self.outage.failed(&refusal, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_goes_on_where_it_was_and_begins_anew_after_a_longer_pause() {
        let now = Instant::now();
        let (beginning, middle) = (None, Some(SystemTime::UNIX_EPOCH));
        let mut sweeper = Sweeper::new();
        for (outcome, position, pause) in [
            (Ok(middle), middle, PART),
            (Err("no".to_owned()), middle, ROUND),
            (Ok(beginning), beginning, ROUND),
        ] {
            sweeper.end(outcome, now);
            assert_eq!((sweeper.position, sweeper.next), (position, Some(now + pause)));
        }
    }
}
