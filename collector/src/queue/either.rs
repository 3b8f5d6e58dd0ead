//! The queue that the settings ask for.

use std::time::Instant;

use super::{BatchId, Claim, CursorQueue, DeliveriesQueue, Prospect, Queue, QueueError, Settlement, Want};

/// One of the queues.
#[derive(Debug)]
pub enum EitherQueue {
    /// That of an untouched base schema.
    Cursor(Box<CursorQueue>),
    /// That of leased rows.
    Deliveries(Box<DeliveriesQueue>),
}

impl Queue for EitherQueue {
    async fn open(&mut self) -> Result<(), QueueError> {
        match self {
            Self::Cursor(queue) => queue.open().await,
            Self::Deliveries(queue) => queue.open().await,
        }
    }

    async fn exchange(
        &mut self,
        settlements: Vec<Settlement>,
        want: Option<Want>,
    ) -> Result<Claim, QueueError> {
        match self {
            Self::Cursor(queue) => queue.exchange(settlements, want).await,
            Self::Deliveries(queue) => queue.exchange(settlements, want).await,
        }
    }

    fn keeps_reasons(&self) -> bool {
        match self {
            Self::Cursor(queue) => queue.keeps_reasons(),
            Self::Deliveries(queue) => queue.keeps_reasons(),
        }
    }

    fn release(&mut self, batches: &[BatchId]) {
        match self {
            Self::Cursor(queue) => queue.release(batches),
            Self::Deliveries(queue) => queue.release(batches),
        }
    }

    fn tend_at(&self) -> Option<Instant> {
        match self {
            Self::Cursor(queue) => queue.tend_at(),
            Self::Deliveries(queue) => queue.tend_at(),
        }
    }

    async fn tend(&mut self) -> Result<Vec<BatchId>, QueueError> {
        match self {
            Self::Cursor(queue) => queue.tend().await,
            Self::Deliveries(queue) => queue.tend().await,
        }
    }

    async fn prospect(&mut self, enough: usize) -> Result<Prospect, QueueError> {
        match self {
            Self::Cursor(queue) => queue.prospect(enough).await,
            Self::Deliveries(queue) => queue.prospect(enough).await,
        }
    }
}
