//! `collect --once`: the end comes by itself, in the same order as after SIGTERM.

use super::{CollectError, Collector};
use crate::queue::Queue;
use crate::sink::Sink;

impl<Q: Queue, S: Sink> Collector<Q, S> {
    /// Whether what was due is done with: nothing is in flight, every answer is recorded, and a
    /// claim that looked at everything has found nothing more. A sender that does not work is an
    /// error: its tokens stay due.
    pub(super) fn is_done_once(&mut self) -> Result<bool, CollectError> {
        if !self.settings.once || !self.in_flight.is_empty() {
            return Ok(false);
        }
        let state = self.in_flight.sink.state();
        if let Some(state) = state.filter(|state| ["failing", "open"].contains(&state.name)) {
            let reason = state.reason.unwrap_or_else(|| "it has given no reason".to_owned());
            return Err(CollectError::SenderFails(reason));
        }
        Ok(self.connection.is_open && self.has_found_nothing && !self.poll_now)
    }
}
