//! Mails to domains over which the server takes its time are given back until their turns.

use std::time::{Duration, Instant};

use super::{Lane, State};
use crate::queue::Queued;

impl Lane {
    /// Takes the mails that would keep others waiting, with their pauses: those to domains over
    /// which the server takes its time, while as many as may are on their way.
    pub(crate) fn hold_back(&self, now: Instant) -> Vec<(Queued, Duration)> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let on_their_way = state.mute_on_their_way(now);
        let mut kept = 0;
        let State { waiting, mute, .. } = state;
        let mut pauses = Vec::new();
        let mails = waiting.drain_if(|_, mail| {
            let Some(domain) = mute.domain_of(mail, now) else { return false };
            if kept < mute.most_waiting(&domain, on_their_way) {
                kept += 1;
                return false;
            }
            let pause = mute.pause(&domain, mail.prepared.key, now);
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
        let waiting = self.waiting.count_if(|mail| self.mute.domain_of(mail, now).is_some());
        if waiting < self.mute.most_waiting(&domain, self.mute_on_their_way(now)) {
            return None;
        }
        self.mute.pause(&domain, mail.prepared.key, now)
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
            // Nobody knows yet whether others are answered sooner: three wait for the places.
            let held = lane.hold_back(soon);
            assert_eq!(held.len(), 3);
            lane.push(mail_to(20, "other.test")).unwrap();
            let Job::Send(..) = lane.next(Duration::ZERO) else { panic!("no place is left") };
        }
    }

    #[test]
    fn a_mail_to_another_domain_is_the_next_one_behind_a_thousand_to_one_that_is_suspected() {
        let (lane, start) = (lane(4), Instant::now());
        let long_ago = start.checked_sub(Duration::from_secs(2)).unwrap();
        for number in 0..4 {
            lane.push(mail_to(number, "slow.test")).unwrap();
            let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("no place") };
            lane.enter_envelope(ticket, long_ago);
        }
        lane.set_aside(start);
        // The places are not idle if the server is slow for everybody; the others come again, and
        // again if nothing else comes meanwhile.
        let are_kept = |numbers: std::ops::Range<u128>| {
            let push = |number| lane.push(mail_to(number, "slow.test")).is_ok();
            numbers.filter(|number| push(*number)).collect::<Vec<_>>()
        };
        assert_eq!(are_kept(10..1_010), [10, 11, 12]);
        assert!(are_kept(13..1_010).is_empty());
        // Nor do their batches keep the collector from sending others.
        assert_eq!(lane.waiting_for_answers(start).len(), 4 + 3);
        lane.push(mail_to(2_000, "other.test")).unwrap();
        let Job::Send(mail, _) = lane.next(Duration::ZERO) else { panic!("no place") };
        assert_eq!(mail.prepared.to, "ada@other.test");
    }

    #[test]
    fn a_server_that_takes_its_time_for_everybody_shows_that_it_says_nothing_of_a_domain() {
        // A mail took so many milliseconds while another one waits for so many.
        for (took, waits, is_shown) in
            [(500, 1_500, true), (1_500, 3_900, false), (1_500, 4_100, true), (2_500, 4_100, false)]
        {
            let (lane, now) = (lane(2), Instant::now());
            let ago = |time| now.checked_sub(Duration::from_millis(time)).unwrap();
            let begin = |number, domain| {
                lane.push(mail_to(number, domain)).unwrap();
                let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("no place") };
                ticket
            };
            for number in 0..2 {
                lane.enter_envelope(begin(number, "slow.test"), ago(waits));
            }
            lane.set_aside(now);
            let good = begin(2, "other.test");
            lane.enter_envelope(good, ago(took));
            lane.finish(good, &Verdict::Sent(Receipt::default()));
            let kept = lane.lock().mute.most_waiting("slow.test", 1);
            assert_eq!(kept == 0, is_shown, "{took}, {waits}");
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
