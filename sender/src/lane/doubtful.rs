//! Mails that were in doubt before, and have places of their own while they wait.
//!
//! Each may wait for ten minutes, and somebody may have given a hundred addresses of domains where
//! the server takes a content and never answers. So one of these places is kept for mails to other
//! domains.

use std::time::{Duration, Instant};

use mailroom_mail::address::domain_of;

use super::mute::Mute;
use super::on_its_way::OnItsWay;
use super::{Lane, State};
use crate::queue::Queued;

/// The pause of a mail in doubt that waits while as many as may wait for their answers.
pub(super) const DOUBTFUL_PAUSE: Duration = Duration::from_secs(10);

/// Which mails in doubt there is a place for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    is_for_slow: bool,
    is_for_others: bool,
}

impl Room {
    pub(super) fn is_for(self, mail: &Queued, mute: &Mute, now: Instant) -> bool {
        let is_slow = mute.has(&domain_of(&mail.prepared.to), now);
        if is_slow { self.is_for_slow } else { self.is_for_others }
    }
}

impl Lane {
    /// Takes the mails in doubt that wait while as many as may wait for their answers, with their
    /// pauses.
    pub(crate) fn postpone_doubtful(&self, now: Instant) -> Vec<(Queued, Duration)> {
        let mut guard = self.lock();
        let room = guard.room_beside_waiting(self.most_doubtful, now);
        let State { waiting, mute, .. } = &mut *guard;
        let mails = waiting.drain_if(|_, mail| {
            mail.is_doubtful && mail.returnable_since.is_some() && !room.is_for(mail, mute, now)
        });
        for mail in &mails {
            mute.keep(&domain_of(&mail.prepared.to), now);
        }
        mails.into_iter().map(|mail| (mail, DOUBTFUL_PAUSE)).collect()
    }
}

impl State {
    /// For how long a mail in doubt is given back because as many as may wait for their answers.
    pub(super) fn pause_of_doubtful(
        &mut self,
        mail: &Queued,
        most: usize,
        now: Instant,
    ) -> Option<Duration> {
        let is_returnable = mail.is_doubtful && mail.returnable_since.is_some();
        if !is_returnable || self.room_beside_waiting(most, now).is_for(mail, &self.mute, now) {
            return None;
        }
        // It stays known that the domain is slow while its mails come again and again.
        self.mute.keep(&domain_of(&mail.prepared.to), now);
        Some(DOUBTFUL_PAUSE)
    }

    /// Which mails in doubt there is a place for beside those on their way.
    pub(super) fn room_for_doubtful(&self, most: usize, now: Instant) -> Room {
        self.room_beside(|attempt| attempt.is_doubtful, most, now)
    }

    /// The same beside those that wait for long.
    fn room_beside_waiting(&self, most: usize, now: Instant) -> Room {
        self.room_beside(|attempt| attempt.is_doubtful && attempt.is_aside, most, now)
    }

    fn room_beside(&self, counts: impl Fn(&OnItsWay) -> bool, most: usize, now: Instant) -> Room {
        let attempts = || self.on_their_way.values().filter(|attempt| counts(attempt));
        let is_slow =
            |attempt: &&OnItsWay| attempt.is_slow(now) || self.mute.has(&attempt.domain, now);
        let slow = attempts().filter(is_slow).count();
        let is_for_others = attempts().count() < most;
        // One that is alone is for everybody.
        let is_for_slow = is_for_others && slow < most.saturating_sub(1).max(1);
        Room { is_for_slow, is_for_others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::on_its_way::MAX_MUTE;
    use crate::lane::tests::{lane, mail, mail_to, with_slow_contents};
    use crate::lane::{Job, Refusal};
    use crate::provider::{Receipt, Verdict};

    #[test]
    fn a_mail_that_was_in_doubt_before_is_waited_for_and_leaves_the_places_to_others() {
        let start = Instant::now();
        let (lane, ticket, _) = with_slow_contents(start);
        lane.finish(ticket, &Verdict::Postponed { after: None, reason: String::new() });
        lane.push(mail(5, true)).unwrap();
        let Job::Send(_, doubtful) = lane.next(Duration::ZERO) else { panic!("none is sent") };
        assert_eq!(lane.enter_doubt(doubtful, start), None);
        lane.push(mail(6, true)).unwrap();
        let later = start + MAX_MUTE;
        assert!(lane.postpone_doubtful(later).is_empty());
        // It has a place of its own where it waits; the next one in doubt comes again later.
        assert_eq!(lane.set_aside(later).1, 1);
        assert!(matches!(lane.next(Duration::ZERO), Job::Nothing));
        assert_eq!(lane.postpone_doubtful(later).len(), 1);
        assert!(matches!(lane.push(mail(6, true)), Err(Refusal::Behind(_))));
        let old = Queued { returnable_since: None, ..mail(7, true) };
        lane.push(old).unwrap();
        lane.push(mail_to(8, "other.test")).unwrap();
        let Job::Send(_, other) = lane.next(Duration::ZERO) else { panic!("none is sent") };
        lane.finish(other, &Verdict::Sent(Receipt::default()));
        assert!(lane.postpone_doubtful(later).is_empty());
        lane.finish(doubtful, &Verdict::Sent(Receipt::default()));
        assert!(matches!(lane.next(Duration::ZERO), Job::Send(..)));
    }

    #[test]
    fn silent_contents_of_a_stranger_leave_a_place_to_the_next_mail_in_doubt() {
        let doubtful_to = |number, domain: &str| {
            let is_doubtful = true;
            Queued { is_doubtful, ..mail_to(number, domain) }
        };
        for connections in [1, 4] {
            let (lane, start) = (lane(connections), Instant::now());
            let places = connections.max(2);
            let strangers = (1..=10).map(|number| (number, format!("{number}.test")));
            for (number, domain) in strangers.clone() {
                lane.lock().mute.note(&domain, Duration::from_secs(600), start);
                lane.push(doubtful_to(number, &domain)).unwrap();
            }
            for _ in 1..places {
                let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("no place") };
                lane.enter_envelope(ticket, start);
                lane.enter_doubt(ticket, start);
                lane.set_aside(start + Duration::from_secs(60));
            }
            assert!(matches!(lane.next(Duration::ZERO), Job::Nothing));
            // The others come again and again for longer than a domain is remembered.
            let mut now = start;
            for _ in 0..70 {
                now += DOUBTFUL_PAUSE;
                for mail in lane.postpone_doubtful(now) {
                    lane.lock().waiting.push(mail.0, None);
                }
            }
            assert_eq!(lane.postpone_doubtful(now).len(), 11 - places);
            lane.push(doubtful_to(100, "honest.test")).unwrap();
            let Job::Send(mail, _) = lane.next(Duration::ZERO) else { panic!("it has no turn") };
            assert_eq!(mail.prepared.key.number(), 100);
        }
    }
}
