//! Mails to domains over which the server takes its time are given back until their turns.

use std::time::{Duration, Instant};

use mailroom_mail::address::domain_of;

use super::{Lane, State};
use crate::queue::Queued;

impl Lane {
    /// Takes the mails that would keep others waiting, with their pauses: those to domains over
    /// which the server takes its time, while as many as may are on their way.
    pub(crate) fn hold_back(&self, now: Instant) -> Vec<(Queued, Duration)> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.mute.look(now);
        let mut left = state.mute.most.saturating_sub(state.mute_on_their_way(now));
        let State { waiting, mute, .. } = state;
        let mut pauses = Vec::new();
        let mails = waiting.drain_if(|_, mail| {
            let Some(domain) = mute.domain_of(mail, now) else { return false };
            if left > 0 {
                left -= 1;
                return false;
            }
            let pause = mute.pause(&domain, now);
            pauses.extend(pause);
            pause.is_some()
        });
        mails.into_iter().zip(pauses).collect()
    }
}

impl State {
    /// For how long a mail is given back because others to such domains have the places.
    pub(super) fn pause_of_mute(&mut self, mail: &Queued, now: Instant) -> Option<Duration> {
        let domain = self.mute.domain_of(mail, now)?;
        let waiting =
            self.waiting.count_if(|mail| self.mute.has(&domain_of(&mail.prepared.to), now));
        if waiting + self.mute_on_their_way(now) < self.mute.most {
            return None;
        }
        self.mute.pause(&domain, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::tests::{lane, mail_to};
    use crate::lane::{Job, Refusal};
    use crate::provider::{Receipt, Verdict};

    #[test]
    fn a_domain_that_holds_all_places_leaves_one_and_gives_its_other_mails_back() {
        for is_of_content in [false, true] {
            let (lane, start) = (lane(4), Instant::now());
            for number in 0..10 {
                lane.push(mail_to(number, "slow.test")).unwrap();
            }
            for _ in 0..4 {
                let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("no place") };
                lane.enter_envelope(ticket, start);
                if is_of_content {
                    lane.enter_doubt(ticket, start);
                }
            }
            let soon = start + Duration::from_secs(if is_of_content { 5 } else { 2 });
            assert_eq!(lane.set_aside(soon).1, if is_of_content { 4 } else { 1 });
            // Nobody knows yet whether others are answered sooner.
            let held = lane.hold_back(soon);
            let kept = if is_of_content { 3 } else { 0 };
            assert_eq!(held.len(), 6 - kept);
            lane.push(mail_to(20, "other.test")).unwrap();
            let Job::Send(..) = lane.next(Duration::ZERO) else { panic!("no place is left") };
        }
    }

    #[test]
    fn further_mails_to_a_domain_that_is_slow_while_others_are_not_wait_for_their_turns() {
        let lane = lane(4);
        for number in 0..3 {
            lane.push(mail_to(number, "slow.test")).unwrap();
        }
        let long_ago = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
        let tickets = [(); 3].map(|()| match lane.next(Duration::ZERO) {
            Job::Send(_, ticket) => ticket,
            _ => panic!("no place"),
        });
        for ticket in tickets {
            lane.enter_envelope(ticket, long_ago);
        }
        lane.set_aside(Instant::now());
        lane.push(mail_to(10, "slow.test")).unwrap();
        lane.push(mail_to(11, "other.test")).unwrap();
        let Job::Send(mail, ticket) = lane.next(Duration::ZERO) else { panic!("no place") };
        assert_eq!(mail.prepared.to, "ada@other.test");
        lane.enter_envelope(ticket, Instant::now());
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        let refused = [12, 13].map(|number| lane.push(mail_to(number, "slow.test")));
        let [Err(Refusal::Mute(first)), Err(Refusal::Mute(second))] = refused else {
            panic!("{refused:?}")
        };
        assert!(first < second, "{first:?} {second:?}");
        assert_eq!(lane.hold_back(Instant::now()).len(), 1);
        // A collector that would count an attempt gets none of them back.
        let old = Queued { returnable_since: None, ..mail_to(14, "slow.test") };
        lane.push(old).unwrap();
        assert!(lane.hold_back(Instant::now()).is_empty());
    }
}
