//! What is taken from the broker: as many mails of each class as there are places, and a single one
//! while the sender is unavailable.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::sleep;

use super::PAUSE;
use crate::broker::{Broker, Received};
use crate::counts::Counts;
use crate::message::Class;

/// What all tasks share.
pub(super) struct Shared<B> {
    pub(super) broker: B,
    pub(super) counts: Counts,
    /// How many mails more may be taken, of each class.
    pub(super) places: [Arc<Semaphore>; Class::ALL.len()],
    /// Until when a sender is unavailable. Then a single mail is tried.
    pub(super) outage: Mutex<Option<Instant>>,
    pub(super) is_stopping: watch::Sender<bool>,
}

impl<B> Shared<B> {
    pub(super) fn places(&self, class: Class) -> &Arc<Semaphore> {
        &self.places[class.place()]
    }

    pub(super) fn outage(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Broker> Shared<B> {
    /// Takes as many places as there are; a single one of a sender that is unavailable, when it is
    /// to be tried again.
    async fn free(&self, class: Class, most: usize) -> usize {
        let places = self.places(class);
        let outage = *self.outage();
        if let Some(until) = outage {
            self.broker.let_go(class).await;
            sleep(until.saturating_duration_since(Instant::now())).await;
        }
        let Ok(first) = places.acquire().await else { return pending().await };
        first.forget();
        let mut free = 1;
        while outage.is_none() && free < most {
            let Ok(more) = places.try_acquire() else { break };
            more.forget();
            free += 1;
        }
        free
    }
}

/// Takes mails of a class until it ends, as many as there are places. A request that the broker has
/// is not given up: what it answers would be lost for others until its patience is over.
pub(super) async fn pull<B: Broker>(
    shared: Arc<Shared<B>>,
    class: Class,
    most: usize,
    found: mpsc::Sender<(Class, Received<B::Handle>)>,
) {
    let places = shared.places(class);
    let mut stopping = shared.is_stopping.subscribe();
    loop {
        let free = tokio::select! {
            _ = stopping.wait_for(|is_stopping| *is_stopping) => None,
            free = shared.free(class, most) => Some(free),
        };
        let Some(free) = free else { return shared.broker.let_go(class).await };
        let (came, outcome) = shared.broker.receive(class, free, &found).await;
        places.add_permits(free.saturating_sub(came));
        if let Err(fault) = outcome {
            shared.counts.fault(&fault.to_string());
            sleep(PAUSE).await;
        }
    }
}

/// Looks for ever for mails that the broker gives out no more.
pub(super) async fn sweep<B: Broker>(shared: Arc<Shared<B>>) {
    loop {
        sleep(shared.broker.patience()).await;
        match shared.broker.sweep().await {
            Ok(0) => {}
            Ok(_) => shared.counts.add("sweeps of a restarted broker"),
            Err(fault) => shared.counts.fault(&fault.to_string()),
        }
    }
}
