//! Connections of a server that takes fewer at a time than are configured.
//!
//! Such a server refuses one while mails go out by the others, which is no outage: for some minutes
//! there are no more than those, and each goes from one mail to the next. Otherwise each thread has
//! its own connection.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Open;

/// For how long no more connections are opened than the server took.
const REMEMBERED: Duration = Duration::from_secs(300);

/// A server that accepted a mail within this time works.
const RECENT: Duration = Duration::from_secs(60);

/// The connections to a server.
#[derive(Default)]
pub(super) struct Sharing {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many are open or are being opened.
    open: usize,
    /// The most that the server takes, and until when that is believed.
    most: Option<(usize, Instant)>,
    /// Those that are for any mail.
    free: Vec<Open>,
    last_accepted: Option<Instant>,
}

/// The place of a connection, which is free again once this is dropped.
pub(super) struct Place(Arc<Sharing>);

/// By what a mail goes out.
pub(super) enum Turn {
    /// By this connection.
    Free(Open),
    /// By one that is opened now.
    New(Place),
    /// By none: all are in use.
    Late,
}

impl Sharing {
    /// Waits for a connection, or for the place of one.
    pub(super) fn enter(self: &Arc<Self>, deadline: Instant) -> Turn {
        let mut state = self.lock();
        loop {
            if let Some(open) = state.free.pop() {
                return Turn::Free(open);
            }
            let now = Instant::now();
            if state.most(now).is_none_or(|most| state.open < most) {
                state.open += 1;
                return Turn::New(Place(Arc::clone(self)));
            }
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                return Turn::Late;
            }
            (state, _) =
                self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The server has refused a connection in this place, perhaps saying that it is because of
    /// others. Returns whether those are enough.
    pub(super) fn refuse(&self, place: Place, is_of_others: bool, now: Instant) -> bool {
        let mut state = self.lock();
        let others = state.open.saturating_sub(1);
        let is_recent = |at: Instant| now.saturating_duration_since(at) < RECENT;
        // At a start no mail has been accepted yet. Of those that are refused like that at a time
        // the last one has no others, and says so.
        let is_limit = others > 0 && (is_of_others || state.last_accepted.is_some_and(is_recent));
        if is_limit {
            state.most = Some((others, now + REMEMBERED));
        }
        // It takes the lock.
        drop(state);
        drop(place);
        is_limit
    }

    /// The server has accepted a mail.
    pub(super) fn accept(&self, now: Instant) {
        self.lock().last_accepted = Some(now);
    }

    /// Takes a connection for any mail, if there are fewer than are configured; else returns it.
    pub(super) fn share(&self, open: Open, now: Instant) -> Option<Open> {
        let mut state = self.lock();
        if state.most(now).is_none() {
            return Some(open);
        }
        state.free.push(open);
        self.changed.notify_one();
        None
    }

    /// Those that are for any mail and not to be used any more: all, or those that are too old.
    pub(super) fn take(&self, is_all: bool) -> Vec<Open> {
        let mut state = self.lock();
        let (fresh, old) = std::mem::take(&mut state.free)
            .into_iter()
            .partition(|open| !is_all && open.is_fresh());
        state.free = fresh;
        old
    }

    /// How many connections are enough, if fewer than are configured.
    #[cfg(test)]
    pub(super) fn enough(&self) -> Option<usize> {
        self.lock().most(Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn most(&self, now: Instant) -> Option<usize> {
        self.most.filter(|(_, until)| now < *until).map(|(most, _)| most)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().open -= 1;
        self.0.changed.notify_one();
    }
}
