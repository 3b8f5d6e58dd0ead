//! Mails that were in doubt before, and have places of their own while they wait.

use std::time::Duration;

use super::{Lane, State};
use crate::queue::Queued;

/// The pause of a mail in doubt that waits while as many as may wait for their answers.
pub(super) const DOUBTFUL_PAUSE: Duration = Duration::from_secs(10);

impl Lane {
    /// Takes the mails in doubt that wait while as many as may wait for their answers, with their
    /// pauses.
    pub(crate) fn postpone_doubtful(&self) -> Vec<(Queued, Duration)> {
        let mut state = self.lock();
        if !state.are_doubtful_slow(self.most_doubtful) {
            return Vec::new();
        }
        let is_postponed = |mail: &Queued| mail.is_doubtful && mail.returnable_since.is_some();
        let mails = state.waiting.drain_if(|_, mail| is_postponed(mail));
        mails.into_iter().map(|mail| (mail, DOUBTFUL_PAUSE)).collect()
    }
}

impl State {
    /// How many mails that were in doubt before are on their way.
    pub(super) fn doubtful_on_their_way(&self) -> usize {
        self.on_their_way.values().filter(|attempt| attempt.is_doubtful).count()
    }

    /// Whether as many mails that were in doubt before as may be on their way take long.
    pub(super) fn are_doubtful_slow(&self, most: usize) -> bool {
        let attempts = self.on_their_way.values().filter(|attempt| attempt.is_doubtful);
        attempts.filter(|attempt| attempt.is_aside).count() >= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::tests::{begin, mail, with_slow_contents};
    use crate::lane::{Job, Refusal};
    use crate::provider::{Receipt, Verdict};

    #[test]
    fn a_mail_that_was_in_doubt_before_is_waited_for_and_leaves_the_places_to_others() {
        let start = Instant::now();
        let (lane, ticket, _) = with_slow_contents(start);
        lane.finish(ticket, &Verdict::Postponed { after: None, reason: String::new() });
        lane.push(mail(5, true)).unwrap();
        lane.push(mail(6, true)).unwrap();
        let Job::Send(_, doubtful) = lane.next(Duration::ZERO) else { panic!("none is sent") };
        assert_eq!(lane.enter_doubt(doubtful, start), None);
        let later = start + LONGEST_MUTE_BESIDE_QUICK;
        assert!(lane.postpone_doubtful().is_empty());
        // It has a place of its own where it waits; the next one in doubt comes again later.
        assert_eq!(lane.set_aside(later).1, 1);
        assert!(matches!(lane.next(Duration::ZERO), Job::Nothing));
        assert_eq!(lane.postpone_doubtful().len(), 1);
        assert!(matches!(lane.push(mail(6, true)), Err(Refusal::Behind(_))));
        let old = Queued { returnable_since: None, ..mail(7, true) };
        lane.push(old).unwrap();
        let other = begin(&lane, 8);
        lane.finish(other, &Verdict::Sent(Receipt::default()));
        assert!(lane.postpone_doubtful().is_empty());
        lane.finish(doubtful, &Verdict::Sent(Receipt::default()));
        assert!(matches!(lane.next(Duration::ZERO), Job::Send(..)));
    }
}
