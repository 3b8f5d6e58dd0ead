//! When to tidy up, and where to go on.

use std::time::{Duration, Instant, SystemTime};

use super::DeliveriesQueue;
use crate::outage::Outage;
use crate::queue::QueueError;

/// How often a round begins, and the pause between its parts.
const ROUND: Duration = Duration::from_secs(10);
const PART: Duration = Duration::from_secs(2);

/// The most rows that are looked at in one go.
const MOST: usize = 5_000;

/// A walk round all that is put aside, in parts. The caller passes the times in.
#[derive(Debug)]
pub(super) struct Tidying {
    place: Place,
    next: Option<Instant>,
    outage: Outage,
}

/// How far the walk came; nothing before its beginning and after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The last of the parked tokens that was looked at.
    pub(super) parked: Option<i64>,
    /// When the last of the tokens is due that was looked at and is not due yet.
    pub(super) later: Option<SystemTime>,
}

impl Tidying {
    /// At the beginning, to be begun at once.
    pub(super) fn new() -> Self {
        Self { place: Place::default(), next: None, outage: Outage::of("tidying up the queue") }
    }

    /// When to go on; at once if it is `None`.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Where to go on if it is time to. That counts as done, whatever becomes of it: what fails is not tried without a pause.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Place> {
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now + ROUND);
        Some(self.place)
    }

    /// A part is done.
    pub(super) fn came_to(&mut self, place: Place, now: Instant) {
        self.place = place;
        let is_over = place == Place::default();
        self.next = Some(now + if is_over { ROUND } else { PART });
        self.outage.over(now);
    }

    /// The server refused, and the session goes on.
    pub(super) fn failed(&mut self, cause: &str, now: Instant) {
        // From here on, since it may have failed by taking long.
        self.next = Some(now + ROUND);
        self.outage.failed(cause, now);
    }
}

impl DeliveriesQueue {
    /// Tidies up the next part if it is time to.
    pub(super) async fn tidy(&mut self) -> Result<(), QueueError> {
        let Some(place) = self.tidying.begin(Instant::now()) else { return Ok(()) };
        let holder = self.holder;
        let outcome = self.on_session(async |session| session.tidy(holder, place, MOST).await).await?;
        let now = Instant::now();
        match outcome {
            Ok(place) => self.tidying.came_to(place, now),
            Err(refusal) => self.tidying.failed(&refusal, now),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_walked_in_parts_and_begins_anew_after_a_longer_pause() {
        let start = Instant::now();
        let mut tidying = Tidying::new();
        assert_eq!(tidying.begin(start), Some(Place::default()));
        let place = Place { parked: Some(5), later: None };
        tidying.came_to(place, start);
        assert_eq!(tidying.begin(start), None);
        assert_eq!(tidying.begin(start + PART), Some(place));
        tidying.came_to(Place::default(), start + PART);
        assert_eq!(tidying.begin(start + PART + PART), None);
        assert_eq!(tidying.begin(start + PART + ROUND), Some(Place::default()));
    }

    #[test]
    fn what_fails_is_not_tried_again_at_once() {
        let start = Instant::now();
        let mut tidying = Tidying::new();
        assert!(tidying.begin(start).is_some());
        tidying.failed("no", start);
        assert_eq!(tidying.begin(start + PART), None);
        assert!(tidying.begin(start + ROUND).is_some());
    }
}
