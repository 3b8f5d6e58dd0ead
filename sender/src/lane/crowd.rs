//! Crowds: mails that take long have the places, and of those behind them only few may wait.

use std::time::{Duration, Instant};

use super::on_its_way::LINGERING;
use super::{Lane, State};
use crate::queue::Queued;

/// How long a mail waits behind others that only wait for answers, until it is given back.
pub(super) const MAX_QUEUE: Duration = Duration::from_secs(1);

impl Lane {
    /// Takes the mails that wait for a place while all places are taken by such that wait for
    /// answers, but for those that get the next places.
    pub(crate) fn give_way(&self, now: Instant) -> Vec<Queued> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let long = state.pulse.long();
        let places = || state.on_their_way.values().filter(|attempt| !attempt.is_aside);
        let is_full = places().count() >= self.connections;
        let taking = |time| places().filter(move |attempt| attempt.has_taken(time, now));
        let most = self.connections.div_ceil(2);
        let are_held = taking(long).count() >= most;
        let is_lingering = places().any(|attempt| attempt.is_lingering(now));
        // A server that is slow for everybody makes no crowd.
        if let Some(unusual) = state.pulse.unusual() {
            for attempt in state.on_their_way.values_mut() {
                if !attempt.is_aside && attempt.has_taken(unusual, now) {
                    let taken = attempt.taken(now);
                    state.share.hold(&attempt.action, taken, &mut attempt.counted, now);
                }
            }
        }
        // Places that have just been given away are about to be taken.
        let are_wanted = is_full || !state.waiting.is_empty();
        let held_by = state.share.look(self.connections, now).filter(|_| are_wanted);
        let is_usual = long >= LINGERING;
        state.order.look(held_by.as_ref().map(|(action, longest)| (action.as_str(), *longest)));
        let is_held_up = is_full && (is_lingering || are_held);
        let before = now.checked_sub(MAX_QUEUE).filter(|_| is_held_up);
        let Some(before) = before else { return Vec::new() };
        let is_crowded = state.order.is_crowded();
        let kept = if is_usual || is_lingering && !is_crowded { 1 } else { 2 } * self.connections;
        let State { waiting, order, .. } = state;
        let mails = waiting.drain_waiting_since(before, kept, &|mail| order.prefers(mail, now));
        order.pass_over(&mails, now);
        mails
    }

    /// Takes the mails that are more than may wait while mails that take long have the places, with
    /// their pauses.
    pub(crate) fn disperse(&self, now: Instant) -> Vec<(Queued, Duration)> {
        let mut guard = self.lock();
        let newest = guard.newest_in_crowd(self.connections, now);
        let State { waiting, order, .. } = &mut *guard;
        let most = most_in_crowd(true, self.connections);
        let is_new = |mail: &Queued| order.prefers(mail, now) && !order.is_to_quick(mail, now);
        let new = waiting.count_if(|mail| order.is_of_crowd(mail) && is_new(mail));
        let (mut excess, mut quick, mut others) = (new.saturating_sub(most), 0, 0);
        let mails = waiting.drain_if(|_, mail| {
            if !order.is_of_crowd(mail) {
                return false;
            }
            if is_new(mail) {
                // Those that came last stay.
                let is_in_excess = excess > 0;
                excess -= usize::from(is_in_excess);
                return is_in_excess;
            }
            if order.is_to_quick(mail, now) {
                quick += 1;
                return quick > most;
            }
            others += 1;
            // The first one stays, so that nobody is left out, and those that came last.
            others > 1 && newest.is_some_and(|at| order.passed_over_at(mail) < Some(at))
        });
        let pause = |mail| (order.pause(&mail, self.connections, now), mail);
        mails.into_iter().map(pause).map(|(pause, mail)| (mail, pause)).collect()
    }

    /// Whether mails that take long have the places, so that others have to come and go.
    pub(crate) fn is_crowded(&self) -> bool {
        self.lock().order.is_crowded()
    }
}

/// How many mails may wait while mails that take long have all places: of those that are new, and
/// of those to domains that were quick, or of the others.
fn most_in_crowd(is_preferred: bool, connections: usize) -> usize {
    if is_preferred { 2 * connections } else { connections }
}

impl State {
    /// For how long a mail is given back because mails that take long have the places, and as many
    /// wait as may.
    pub(super) fn pause_in_crowd(
        &mut self,
        mail: &Queued,
        connections: usize,
        now: Instant,
    ) -> Option<Duration> {
        // One that came later than those that wait takes the place of one of them.
        if !self.order.is_of_crowd(mail) || self.order.prefers(mail, now) {
            return None;
        }
        let waiting = self
            .waiting
            .count_if(|mail| self.order.is_of_crowd(mail) && !self.order.prefers(mail, now));
        let is_full = waiting >= most_in_crowd(false, connections);
        let newest = self.newest_in_crowd(connections, now);
        let is_newer = newest.is_some_and(|at| self.order.passed_over_at(mail) > Some(at));
        (is_full && !is_newer).then(|| self.order.pause(mail, connections, now))
    }

    /// When the last of those mails was given back first that wait in a crowd, are not preferred,
    /// and came last, if as many wait as may.
    fn newest_in_crowd(&self, connections: usize, now: Instant) -> Option<(Instant, u128)> {
        let is_other =
            |mail: &&Queued| self.order.is_of_crowd(mail) && !self.order.prefers(mail, now);
        let others = self.waiting.mails().filter(is_other);
        let mut times: Vec<_> = others.filter_map(|mail| self.order.passed_over_at(mail)).collect();
        times.sort_unstable_by(|one, other| other.cmp(one));
        let most = most_in_crowd(false, connections);
        times.get(most - 1)?;
        times.get(most.max(2) - 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::tests::{ask_about, begin, held_up, lane, mail, mail_to};
    use crate::lane::{Job, Refusal};
    use crate::provider::{About, Verdict};

    #[test]
    fn mails_behind_such_that_wait_for_answers_are_given_back_but_for_the_next_ones() {
        let (lane, start) = (lane(2), Instant::now());
        ask_about(&lane, 0..2, start);
        for number in 2..7 {
            lane.push(mail(number, false)).unwrap();
        }
        let later = Instant::now() + MAX_QUEUE;
        assert!(lane.give_way(start).is_empty());
        let numbers: Vec<_> =
            lane.give_way(later).iter().map(|mail| mail.prepared.key.number()).collect();
        assert_eq!(numbers, [4, 5, 6]);
        assert!(lane.give_way(later).is_empty());
        // A place that is free is enough.
        let lane = self::lane(3);
        ask_about(&lane, 0..2, start);
        for number in 2..9 {
            lane.push(mail(number, false)).unwrap();
        }
        assert!(lane.give_way(later).is_empty());
    }

    #[test]
    fn a_new_mail_and_one_to_a_quick_domain_go_before_those_that_were_given_back() {
        let (lane, mut tickets) = held_up();
        lane.lock().order.note_quick("12.test", Instant::now());
        lane.push(mail_to(100, "new.test")).unwrap();
        let mut taken = Vec::new();
        while let Some(ticket) = tickets.pop() {
            lane.finish(ticket, &Verdict::dead("", About::Unplaced));
            if let Job::Send(mail, ticket) = lane.next(Duration::ZERO) {
                taken.push(mail.prepared.key.number());
                tickets.push(ticket);
            }
        }
        assert_eq!(taken[..6], [12, 3, 4, 5, 100, 6]);
        // Nobody is left out.
        taken.sort_unstable();
        assert_eq!(taken, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 100]);
    }

    #[test]
    fn mails_that_take_longer_than_is_usual_hold_others_up_below_a_second_too() {
        for (usual, is_held_up) in [(20, true), (90, true), (110, false)] {
            let (lane, start) = (lane(2), Instant::now());
            note_usual(&lane, usual);
            ask_about(&lane, 0..2, start);
            let later = start + Duration::from_millis(300);
            for number in 2..9 {
                let waiting = Queued {
                    returnable_since: later.checked_sub(MAX_QUEUE),
                    ..mail(number, false)
                };
                lane.push(waiting).unwrap();
            }
            assert_eq!(lane.give_way(later).len(), if is_held_up { 3 } else { 0 }, "{usual}");
        }
    }

    /// It is known that mails usually take so many milliseconds.
    fn note_usual(lane: &Lane, usual: u64) {
        let mut state = lane.lock();
        for _ in 0..50 {
            state.pulse.note_time(Duration::from_millis(usual), Instant::now());
        }
    }

    #[test]
    fn short_mails_one_after_another_and_such_that_lose_their_places_are_a_crowd() {
        let (lane, start) = (lane(2), Instant::now());
        note_usual(&lane, 20);
        let beat = Duration::from_secs(1);
        let mut number = 0;
        let mut crowded = Vec::new();
        for second in 1..=3 {
            for _ in 0..12 {
                number += 1;
                lane.push(mail_to(number, &format!("{number}.test"))).unwrap();
                let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("no place") };
                let began = Instant::now().checked_sub(Duration::from_millis(150)).unwrap();
                lane.enter_envelope(ticket, began);
                lane.finish(ticket, &Verdict::dead("", About::Unplaced));
            }
            lane.push(mail_to(1_000 + number, "next.test")).unwrap();
            lane.give_way(start + beat * second);
            crowded.push(lane.is_crowded());
        }
        assert_eq!(crowded, [false, true, true]);
        let lane = self::lane(2);
        note_usual(&lane, 20);
        lane.lock().pulse.accept(start, start);
        lane.push(mail_to(0, "next.test")).unwrap();
        let mut crowded = Vec::new();
        for second in [2, 4] {
            let now = start + beat * second;
            for _ in 0..2 {
                number += 1;
                lane.lock().waiting.drain();
                let ticket = begin(&lane, number);
                lane.enter_doubt(ticket, now.checked_sub(beat * 2).unwrap());
            }
            lane.push(mail_to(2_000 + number, "next.test")).unwrap();
            assert_eq!(lane.set_aside(now).1, 2);
            lane.give_way(now);
            crowded.push(lane.is_crowded());
        }
        assert_eq!(crowded, [false, true]);
    }

    #[test]
    fn in_a_crowd_few_mails_wait_and_new_ones_are_among_them() {
        let (lane, _) = held_up();
        lane.lock().order.look(Some(("activate", Duration::from_secs(2))));
        assert!(lane.lock().order.is_crowded());
        // Two that were given back, and the two new ones.
        assert_eq!(lane.disperse(Instant::now()).len(), 6);
        assert_eq!(lane.waiting_for_answers(Instant::now()).len(), 2 + 4);
        let push = |number: u128| lane.push(mail_to(number, &format!("{number}.test")));
        let dispersed = || {
            let mails = lane.disperse(Instant::now());
            mails.iter().map(|(mail, _)| mail.prepared.key.number()).collect::<Vec<_>>()
        };
        assert!([20, 21].map(push).iter().all(Result::is_ok) && dispersed().is_empty());
        // The last of the new ones take the places of the first.
        assert_eq!((push(22), dispersed()), (Ok(()), vec![3]));
        // What was passed over is no new one any more, and a collector that would count an attempt
        // gets nothing back.
        assert!(matches!(push(12), Err(Refusal::Behind(_))));
        let old = Queued { returnable_since: None, ..mail_to(23, "23.test") };
        assert_eq!(lane.push(old), Ok(()));
        // The mails of another action wait, and go first.
        let other = Queued { action: "recover".to_owned(), ..mail_to(12, "12.test") };
        assert_eq!(lane.push(other), Ok(()));
        (0..4).for_each(|_| lane.lock().order.look(None));
        assert_eq!(push(11), Ok(()));
    }

    #[test]
    fn in_a_crowd_the_last_of_the_new_mails_goes_first_and_one_to_a_quick_domain_before_it() {
        let (lane, tickets) = held_up();
        lane.lock().order.look(Some(("activate", Duration::from_secs(2))));
        lane.lock().order.note_quick("11.test", Instant::now());
        lane.disperse(Instant::now());
        for number in [20, 21] {
            lane.push(mail_to(number, &format!("{number}.test"))).unwrap();
        }
        let mut taken = Vec::new();
        for mut ticket in tickets {
            for _ in 0..3 {
                lane.finish(ticket, &Verdict::dead("", About::Unplaced));
                let Job::Send(mail, next) = lane.next(Duration::ZERO) else { panic!("no place") };
                taken.push(mail.prepared.key.number());
                ticket = next;
            }
        }
        assert_eq!(taken, [11, 3, 21, 4, 20, 5]);
    }

    #[test]
    fn a_server_that_takes_its_time_over_every_mail_makes_no_crowd() {
        // What takes some times as long as is usual there is one.
        for (usual, is_crowd) in [(10, true), (400, true), (2_000, false)] {
            let (lane, start) = (lane(2), Instant::now());
            note_usual(&lane, usual);
            ask_about(&lane, 0..2, start);
            for second in 2..5 {
                lane.give_way(start + Duration::from_secs(second));
            }
            assert_eq!(lane.lock().order.is_crowded(), is_crowd);
        }
    }
}
