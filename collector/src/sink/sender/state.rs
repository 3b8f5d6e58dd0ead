//! What `mailroom status` is told of a sender: a state of the table `mailroom.collectors`.

use std::time::{Duration, Instant};

use super::Sender;
use super::circuit::CircuitState;
use super::supervisor::SOUND;
use crate::queue::SenderState;
use crate::sink::Sink as _;

/// It has had nothing to answer since it was started, or since an outage of long ago.
pub(super) const NEW: &str = "new";

/// For how long an outage counts without another attempt: where no mail waits, nothing shows that
/// it is over.
const UNTRIED: Duration = Duration::from_secs(600);

impl Sender {
    pub(super) fn state_at(&mut self, now: Instant) -> SenderState {
        let outage = self.outage.current();
        let has_work = self.in_flight() > 0;
        let is_tried = |failed| has_work || now.duration_since(failed) < UNTRIED;
        let has_answered = self.running.as_ref().is_some_and(|running| running.has_answered);
        let name = match (self.circuit.state, outage, &self.running) {
            (CircuitState::Open(_), ..) => "open",
            (CircuitState::HalfOpen, Some(outage), _) if is_tried(outage.failed) => "half_open",
            (CircuitState::Closed, ..) if has_answered => "ready",
            (CircuitState::Closed, Some(_), None) => "failing",
            (CircuitState::Closed, Some(_), Some(running))
                if has_work || now < running.started_at + SOUND =>
            {
                "failing"
            }
            (CircuitState::Closed, None, Some(_)) if has_work => "unanswered",
            _ => NEW,
        };
        if self.reported.0 != name {
            self.reported = (name, now);
        }
        let outage = outage.filter(|_| SenderState::UNAVAILABLE.contains(&name));
        let since = outage.map_or(self.reported.1, |outage| outage.since);
        SenderState {
            name,
            lasted: now.duration_since(since),
            reason: outage.map(|outage| outage.cause.clone()),
        }
    }
}
