//! The end: the reader finishes what is on its way, the queue is told, and the rest is given back.

use std::time::Instant;

use tokio::time::{sleep, sleep_until, timeout, timeout_at};

use super::Collector;
use crate::outbox::SETTLE_PAUSE;
use crate::queue::{Queue, QueueError};
use crate::sink::Sink;

impl<Q: Queue, S: Sink> Collector<Q, S> {
    /// Lets the reader take what is on its way, records it, and gives the rest back.
    pub(super) async fn finish(&mut self, sink_works: bool) {
        self.is_ending = true;
        // What was in the way of the stop is no time that the reader gets.
        let began = self.outbox.stop_noticed().unwrap_or_else(Instant::now);
        self.recall();
        if sink_works {
            self.drain(began).await;
        }
        self.outbox.note_taken();
        let left = self.outbox.abandon();
        self.recall();
        if self.connection.was_open() {
            let limit = self.outbox.time_to_record();
            let recorded = timeout(limit, self.settle_finally()).await.is_ok_and(|settled| settled);
            if !recorded {
                tracing::warn!(
                    event = "settlement_lost",
                    "the database could not be told what the reader took last; that goes out again"
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

    /// Waits for the reader, and keeps the queue informed meanwhile: what is recorded now cannot go out twice.
    async fn drain(&mut self, began: Instant) {
        let end = self.outbox.close(began);
        while !self.outbox.is_closed() {
            let now = Instant::now();
            let due = [self.outbox.settle_at(now), self.queue.tend_at()].into_iter().flatten().min();
            let next = due.filter(|_| self.connection.is_open()).map_or(end, |due| due.min(end));
            tokio::select! {
                biased;
                () = sleep_until(next.into()) => {
                    if now >= end || !matches!(timeout_at(end.into(), self.keep_informed()).await, Ok(true)) {
                        return;
                    }
                }
                changed = self.outbox.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Answers whether the reader can still be waited for.
    async fn keep_informed(&mut self) -> bool {
        let now = Instant::now();
        let is_due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if self.connection.is_open() && is_due(self.queue.tend_at()) && self.tend().await.is_err() {
            return false;
        }
        let settles = self.connection.is_open() && is_due(self.outbox.settle_at(now));
        !settles || self.settle().await.is_ok()
    }

    /// Settles what the reader has, over a new connection if need be.
    async fn settle_finally(&mut self) -> bool {
        loop {
            let settlements = self.outbox.take_settlements(Instant::now());
            match self.queue.exchange(settlements, None).await {
                Ok(_) => return true,
                Err(QueueError::Unavailable(_)) => sleep(SETTLE_PAUSE).await,
                Err(_) => return false,
            }
            match self.queue.open().await {
                // It has recorded what was settled.
                Ok(()) => return true,
                Err(QueueError::Unavailable(_)) => sleep(SETTLE_PAUSE).await,
                Err(_) => return false,
            }
        }
    }
}
