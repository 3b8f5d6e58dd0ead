//! The end: the reader finishes what is in flight, the queue records it, and the rest is released.

use tokio::time::{sleep, timeout_at};

use super::in_flight::SETTLE_PAUSE;
use super::{CollectError, Collector};
use crate::metrics::{Cause, Trouble};
use crate::queue::{Queue, QueueError, Settlement};
use crate::sink::Sink;
use crate::timer::{self, sleep_until_opt};

impl<Q: Queue, S: Sink> Collector<Q, S> {
    pub(super) async fn finish(&mut self, sink_works: bool, reason: &str) {
        self.in_flight.is_ending = true;
        self.inputs.metrics.health.has(Trouble::Draining);
        self.cancel_unsent();
        if sink_works {
            // The grace begins when the stop was noticed, also if a call of the queue delayed it.
            let began = self.in_flight.stop_noticed.unwrap_or_else(timer::now);
            let end = began + self.in_flight.sink.grace();
            self.in_flight.sink.close(end);
            // Whatever ends it, what was acknowledged is settled below.
            timeout_at(end.into(), self.drain()).await.ok();
        }
        let left = self.in_flight.abandon();
        self.cancel_unsent();
        if self.connection.opened_at.is_some() {
            let end = timer::now() + self.in_flight.sink.time_to_record();
            let settlements = self.in_flight.take_settlements(timer::now());
            // An idle collector whose database is away has nothing to be recorded.
            let has_sent = !settlements.is_empty() || self.queue.has_unrecorded();
            if matches!(timeout_at(end.into(), self.settle_finally(settlements)).await, Ok(Ok(())))
            {
                // If that fails, `mailroom status` misses this collector
                // until another one replaces it.
                timeout_at(end.into(), self.queue.leave(reason)).await.ok();
            } else if has_sent {
                let unrecorded = self.queue.unrecorded();
                self.inputs.metrics.may_come_twice(Cause::SettlementLost, unrecorded);
                tracing::warn!(
                    event = "settlement_lost",
                    "the database could not record the last lines that the reader took; \
                     their tokens go out again"
                );
            }
        }
        if left > 0 {
            tracing::warn!(
                event = "lines_left",
                count = left,
                "the reader has not taken all lines; their tokens go out again"
            );
        }
    }

    /// Waits for the reader. Renews leases and settles meanwhile, because a token that is recorded
    /// now cannot go out twice.
    async fn drain(&mut self) -> Result<(), CollectError> {
        while !self.in_flight.sink.is_closed() {
            let due = sleep_until_opt(Some(self.next_action(timer::now())));
            tokio::select! {
                biased;
                () = due, if self.connection.is_open => self.act(None).await?,
                changed = self.in_flight.changed() => changed.map(drop)?,
            }
        }
        Ok(())
    }

    /// Settles the last acks, over a new connection if need be.
    async fn settle_finally(&mut self, settlements: Vec<Settlement>) -> Result<(), QueueError> {
        let settling = self.in_flight.spans.begin_settling();
        let mut recorded = self.queue.settle_and_claim(settlements, None).await.map(drop);
        while let Err(QueueError::Unavailable(_)) = recorded {
            sleep(SETTLE_PAUSE).await;
            // The queue has kept the settlements, and records them as it opens.
            recorded = self.queue.open().await;
        }
        self.in_flight.spans.settled(settling, recorded.is_ok());
        recorded
    }
}
