//! `collect --once`: the end comes by itself, in the same order as after SIGTERM.
//!
//! A search for the last due token begins with a claim that reads the queue from its beginning,
//! and goes on, claim by claim, where the one before has ended. One that has found nothing by the
//! end of the queue shows that nothing is due any more. A claim that finds something needs no look
//! back: the queue does that by itself now and then.

use super::{CollectError, Collector};
use crate::queue::{Claim, ClaimRequest, Queue};
use crate::sink::Sink;

/// How far the search has come.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Once {
    /// Whether the claims since the last one that began at the beginning have found nothing.
    is_empty_so_far: bool,
    /// Whether the next claim goes on where the last one ended.
    goes_on: bool,
    /// Whether a search has found nothing but, perhaps, tokens in doubt: no others are there to
    /// show first whether the sender works.
    takes_doubtful: bool,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NothingIsDue,
    BudgetIsSpent,
}

impl Once {
    /// Makes the request one of this search.
    pub(super) fn adapt(&self, request: &mut ClaimRequest) {
        request.partial = true;
        request.rescan = !self.goes_on;
        request.spares_doubtful &= !self.takes_doubtful;
    }

    /// Notes what a claim has found.
    pub(super) fn claimed(&mut self, request: &ClaimRequest, claim: &Claim) {
        self.end = None;
        let is_nothing = claim.batches.is_empty();
        self.is_empty_so_far = is_nothing && (self.is_empty_so_far || request.rescan);
        if !is_nothing {
            self.goes_on = true;
            self.takes_doubtful = false;
        } else if claim.wait.is_none() {
            self.goes_on = claim.has_more;
            if !claim.has_more && self.is_empty_so_far {
                if request.spares_doubtful {
                    self.takes_doubtful = true;
                } else {
                    self.end = Some(End::NothingIsDue);
                }
            }
        }
    }

    /// Notes whether anything is due, where a spent budget keeps claims from looking.
    pub(super) fn found_due(&mut self, is_due: bool) {
        self.end = Some(if is_due { End::BudgetIsSpent } else { End::NothingIsDue });
    }

    pub(super) fn is_done(&self) -> bool {
        self.end.is_some()
    }
}

impl<Q: Queue, S: Sink> Collector<Q, S> {
    /// Whether what was due is done with: nothing is in flight, every answer is recorded, and a
    /// search has found nothing more. A sender that does not work, and a budget that is spent, are
    /// errors: tokens stay due.
    pub(super) fn is_done_once(&mut self) -> Result<bool, CollectError> {
        if !self.settings.once || !self.in_flight.is_empty() {
            return Ok(false);
        }
        let state = self.in_flight.sink.state();
        if let Some(state) = state.filter(|state| ["failing", "open"].contains(&state.name)) {
            let reason = state.reason.unwrap_or_else(|| "it has given no reason".to_owned());
            return Err(CollectError::SenderFails(reason));
        }
        if !self.connection.is_open || self.poll_now {
            return Ok(false);
        }
        match self.once.end {
            Some(End::BudgetIsSpent) => Err(CollectError::BudgetSpent),
            end => Ok(end.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::queue::{Batch, BatchId};

    /// The next claim, which answers this. Returns whether it began at the beginning, and whether
    /// it left tokens in doubt alone.
    fn claim(once: &mut Once, spares_doubtful: bool, claim: &Claim) -> (bool, bool) {
        let mut request = ClaimRequest { spares_doubtful, ..ClaimRequest::default() };
        once.adapt(&mut request);
        assert!(request.partial && !once.is_done());
        once.claimed(&request, claim);
        (request.rescan, request.spares_doubtful)
    }

    fn found() -> Claim {
        let batch = Batch { id: BatchId::from(1), tokens: Vec::new() };
        Claim { batches: vec![batch], ..Claim::default() }
    }

    #[test]
    fn it_looks_back_once_and_again_only_after_a_claim_that_has_found_nothing() {
        let mut once = Once::default();
        let looks_back = [found(), found(), found(), Claim::default(), Claim::default()]
            .map(|answer| claim(&mut once, false, &answer).0);
        assert_eq!(looks_back, [true, false, false, false, true]);
        assert_eq!(once.end, Some(End::NothingIsDue));
    }

    #[test]
    fn a_search_that_ended_early_goes_on_and_is_no_end() {
        let mut once = Once::default();
        let early = || Claim { has_more: true, ..Claim::default() };
        assert!(claim(&mut once, false, &early()).0);
        assert!(!claim(&mut once, false, &early()).0);
        assert!(!claim(&mut once, false, &Claim::default()).0);
        assert_eq!(once.end, Some(End::NothingIsDue));
    }

    #[test]
    fn tokens_in_doubt_are_taken_as_soon_as_no_others_are_there() {
        let mut once = Once::default();
        assert_eq!(claim(&mut once, true, &Claim::default()), (true, true));
        assert_eq!(claim(&mut once, true, &found()), (true, false));
        // What follows can show again whether the sender works.
        assert_eq!(claim(&mut once, true, &Claim::default()), (false, true));
        assert_eq!(claim(&mut once, true, &Claim::default()), (true, true));
        assert_eq!(claim(&mut once, true, &Claim::default()), (true, false));
        assert_eq!(once.end, Some(End::NothingIsDue));
    }

    #[test]
    fn a_rate_is_waited_for_and_a_spent_budget_is_the_end() {
        let mut once = Once::default();
        let waits = Claim { wait: Some(Duration::from_secs(1)), ..Claim::default() };
        claim(&mut once, false, &waits);
        claim(&mut once, false, &waits);
        once.found_due(true);
        assert_eq!(once.end, Some(End::BudgetIsSpent));
    }
}
