//! Connections whose request has not come yet. When no place is left the oldest of them ends, so
//! that slow clients keep nobody out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Connections whose request has not come yet, by their age.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unread(Arc<Mutex<Connections>>);

#[derive(Debug, Default)]
struct Connections {
    latest: u64,
    tasks: BTreeMap<u64, AbortHandle>,
}

/// Keeps a connection among those whose request has not come, until this is dropped.
#[derive(Debug)]
pub struct Reading {
    number: u64,
    unread: Unread,
}

impl Unread {
    /// Starts the task of a connection.
    pub(crate) fn spawn<F>(&self, connection: impl FnOnce(Reading) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // The lock is held, so that the task is known before it can be done with its request.
        let mut connections = self.lock();
        connections.latest += 1;
        let number = connections.latest;
        let task = tokio::spawn(connection(Reading { number, unread: self.clone() }));
        connections.tasks.insert(number, task.abort_handle());
    }

    /// Ends the oldest connection, if there is one; what it holds is free when its task has ended.
    pub(crate) fn drop_oldest(&self) {
        let oldest = self.lock().tasks.pop_first();
        if let Some((_, task)) = oldest {
            task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.unread.lock().tasks.remove(&self.number);
    }
}
