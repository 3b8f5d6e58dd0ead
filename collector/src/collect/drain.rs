//! The end: the reader finishes what is in flight, the queue records it, and the rest is released.

use std::time::Instant;

use tokio::time::{sleep, sleep_until, timeout, timeout_at};

use super::Collector;
use super::in_flight::SETTLE_PAUSE;
use super::run_loop::is_due;
use crate::queue::{Queue, QueueError};
use crate::sink::Sink;

impl<Q: Queue, S: Sink> Collector<Q, S> {
    /// Lets the reader take what is in flight, records it, and releases the rest.
    pub(super) async fn finish(&mut self, sink_works: bool) {
        self.is_ending = true;
        // The reader does not get the time by which work has delayed the stop.
        let began = self.in_flight.stop_noticed.unwrap_or_else(Instant::now);
        self.cancel_unsent();
        if sink_works {
            self.drain(began).await;
        }
        let left = self.in_flight.abandon();
        self.cancel_unsent();
        if self.connection.was_open() {
            let limit = self.in_flight.sink.time_to_record();
            if !matches!(timeout(limit, self.settle_finally()).await, Ok(true)) {
                tracing::warn!(
                    event = "settlement_lost",
                    "the database could not record the last lines that the reader took; their tokens go out again"
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

    /// Waits for the reader, and settles meanwhile: what is recorded now cannot go out twice.
    async fn drain(&mut self, began: Instant) {
        let end = began + self.in_flight.sink.grace();
        self.in_flight.sink.close(end);
        while !self.in_flight.sink.is_closed() {
            let now = Instant::now();
            let due = [self.in_flight.settle_at(now), self.queue.heartbeat_at()].into_iter().flatten().min();
            let next = due.filter(|_| self.connection.is_open).map_or(end, |due| due.min(end));
            tokio::select! {
                biased;
                () = sleep_until(next.into()) => {
                    if now >= end || !matches!(timeout_at(end.into(), self.record()).await, Ok(true)) {
                        return;
                    }
                }
                changed = self.in_flight.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Renews leases and settles if that is due. Returns whether the reader can still be waited for.
    async fn record(&mut self) -> bool {
        let now = Instant::now();
        if self.connection.is_open
            && is_due(self.queue.heartbeat_at(), now)
            && self.heartbeat().await.is_err()
        {
            return false;
        }
        let settles = self.connection.is_open && is_due(self.in_flight.settle_at(now), now);
        !settles || self.settle().await.is_ok()
    }

    /// Settles all acks, over a new connection if need be.
    async fn settle_finally(&mut self) -> bool {
        loop {
            let settlements = self.in_flight.take_settlements(Instant::now());
            match self.queue.settle_and_claim(settlements, None).await {
                Ok(_) => return true,
                Err(QueueError::Unavailable(_)) => sleep(SETTLE_PAUSE).await,
                Err(_) => return false,
            }
            match self.queue.open().await {
                // The queue has kept the settlements and recorded them now.
                Ok(()) => return true,
                Err(QueueError::Unavailable(_)) => sleep(SETTLE_PAUSE).await,
                Err(_) => return false,
            }
        }
    }
}
