//! Places of mails that wait for answers: when others get them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::mute::Mute;
use super::on_its_way::{MAX_MUTE, OnItsWay};
use super::patience::MAX_MUTE_BESIDE_QUICK;
use super::{Lane, State};

/// How long a mail may wait for the answer to its content until another one gets its place.
const MAX_HOLD: Duration = Duration::from_secs(30);

impl Lane {
    /// Gives up the places of mails that wait for their answers for long, as far as there may be so
    /// many. Returns how many mails wait like that for the answers to their contents, and how many
    /// have just lost their places, for which there are to be other threads.
    pub(crate) fn set_aside(&self, now: Instant) -> (usize, usize) {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.suspect_slow(self.connections, now);
        let aside = |is_doubtful: bool| {
            let attempts = state.on_their_way.values().filter(|attempt| attempt.is_aside);
            attempts.filter(|attempt| attempt.is_doubtful == is_doubtful).count()
        };
        // Those that were in doubt before have places of their own, so that each has its turn.
        let mut left = [
            self.most_aside.saturating_sub(aside(false)),
            self.most_doubtful.saturating_sub(aside(true)),
        ];
        // Where others are answered at once, the recipient is the reason.
        let (longest_mute, longest_hold) = match state.pulse.is_quick(now) {
            true => (MAX_MUTE_BESIDE_QUICK, MAX_MUTE_BESIDE_QUICK),
            false if state.pulse.is_unknown(now) => (MAX_MUTE, MAX_MUTE),
            false => (MAX_MUTE, MAX_HOLD),
        };
        // A place is left to others at once.
        let mut excess = state.mute_on_their_way(now).saturating_sub(state.mute.most);
        let mut is_slow = |mute: &Mute, attempt: &OnItsWay| {
            let is_in_excess = excess > 0 && attempt.is_slow(now) && mute.has(&attempt.domain, now);
            excess -= usize::from(is_in_excess);
            is_in_excess
                || attempt.is_unanswered(longest_hold, now)
                || attempt.is_patient && attempt.is_mute(longest_mute, now)
        };
        let is_mute_aside =
            |attempt: &&OnItsWay| attempt.is_aside && attempt.in_doubt_since.is_none();
        let mut mute = state.on_their_way.values().filter(is_mute_aside).count();
        let mut new = 0;
        for attempt in state.on_their_way.values_mut() {
            let left = &mut left[usize::from(attempt.is_doubtful)];
            if *left == 0 || attempt.is_aside || !is_slow(&state.mute, attempt) {
                continue;
            }
            if attempt.in_doubt_since.is_none() {
                if mute >= self.most_mute_aside {
                    continue;
                }
                mute += 1;
            }
            if attempt.is_mute(longest_mute, now) || attempt.waited(now) >= MAX_MUTE {
                state.mute.note(&attempt.domain, attempt.waited(now), now);
            }
            let taken = attempt.taken(now);
            if state.pulse.unusual().is_some_and(|unusual| taken >= unusual) {
                state.share.end(&attempt.action, taken, attempt.counted);
            }
            attempt.is_aside = true;
            *left -= 1;
            new += 1;
        }
        for _ in 0..new {
            state.breaker.set_aside();
        }
        let of_content = state
            .on_their_way
            .values()
            .filter(|attempt| attempt.is_aside && attempt.is_unanswered(MAX_HOLD, now));
        (of_content.count(), new)
    }
}

impl State {
    /// Where the server takes its time over all mails that have places, those domains are suspected
    /// that have more than one of them.
    fn suspect_slow(&mut self, connections: usize, now: Instant) {
        let places = || self.on_their_way.values().filter(|attempt| !attempt.is_aside);
        if places().count() < connections.max(2) || !places().all(|attempt| attempt.is_slow(now)) {
            return;
        }
        let mut domains: HashMap<String, (usize, Duration)> = HashMap::new();
        for attempt in places() {
            let (count, waited) = domains.entry(attempt.domain.clone()).or_default();
            *count += 1;
            *waited = attempt.waited(now).max(*waited);
        }
        for (domain, (count, waited)) in domains {
            if count > 1 {
                self.mute.suspect(&domain, waited, now);
            }
        }
    }

    /// How many mails to domains over which the server takes its time are on their way. Those
    /// whose contents have had no answer for long have no places.
    pub(super) fn mute_on_their_way(&self, now: Instant) -> usize {
        let has_place = |attempt: &&OnItsWay| attempt.in_doubt_since.is_none() || !attempt.is_aside;
        let attempts = self.on_their_way.values().filter(has_place);
        attempts.filter(|attempt| self.mute.has(&attempt.domain, now)).count()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::lane::Job;
    use crate::lane::tests::{begin, lane, mail};
    use crate::provider::{About, Receipt, Verdict};

    #[test]
    fn mails_that_wait_long_for_their_answers_lose_their_places_once_and_not_without_bound() {
        let (lane, start) = (lane(2), Instant::now());
        lane.lock().pulse.accept(start, start + Duration::from_secs(10));
        let tickets: Vec<_> = (0..9).map(|number| begin(&lane, number)).collect();
        for ticket in &tickets[..8] {
            lane.enter_doubt(*ticket, start);
        }
        let soon = start + Duration::from_secs(29);
        assert_eq!(lane.set_aside(soon), (0, 0));
        let later = start + Duration::from_secs(31);
        assert_eq!(lane.set_aside(later), (6, 6));
        assert_eq!(lane.set_aside(later), (6, 0));
        assert_eq!(lane.in_doubt().len(), 8);
        // The mail whose place was given away has no place any more, and the others go on.
        let sent = Verdict::Sent(Receipt::default());
        let places: Vec<_> =
            tickets.iter().map(|ticket| lane.finish(*ticket, &sent).has_place).collect();
        assert_eq!(places.iter().filter(|has_place| **has_place).count(), 3);
        assert!(lane.is_idle() && lane.in_doubt().is_empty());
        assert_eq!(lane.set_aside(later), (0, 0));
    }

    #[test]
    fn recipients_about_whom_a_server_says_nothing_leave_places_to_others() {
        let to = |number, to: &str| {
            let mut mail = mail(number, false);
            Arc::get_mut(&mut mail.prepared).unwrap().to = to.to_owned();
            mail
        };
        let sent = |lane: &Lane| match lane.next(Duration::ZERO) {
            Job::Send(mail, ticket) => Some((mail.prepared.to.clone(), ticket)),
            _ => None,
        };
        let (lane, start) = (lane(3), Instant::now());
        for number in 0..9 {
            lane.push(to(number, "a@dead.test")).unwrap();
        }
        lane.push(to(9, "ada@x.test")).unwrap();
        let tickets = [(); 3].map(|()| sent(&lane).unwrap().1);
        for ticket in tickets {
            lane.enter_envelope(ticket, start);
        }
        // One leaves its place at once.
        assert_eq!(lane.set_aside(start + Duration::from_secs(3)), (0, 1));
        // None of them is one whose content has no answer.
        assert_eq!(lane.set_aside(start + Duration::from_secs(5)), (0, 2));
        let (next, good) = sent(&lane).unwrap();
        assert_eq!(next, "ada@x.test");
        lane.finish(good, &Verdict::Sent(Receipt::default()));
        assert!(sent(&lane).is_none());
        // Later, too, a place is left.
        for ticket in tickets {
            lane.finish(ticket, &Verdict::dead("", About::Unplaced));
        }
        let again = [(); 2].map(|()| sent(&lane).unwrap());
        assert!(again.iter().all(|(to, _)| to == "a@dead.test") && sent(&lane).is_none());
        lane.push(to(10, "ada@x.test")).unwrap();
        assert_eq!(sent(&lane).unwrap().0, "ada@x.test");
        // Until the server accepts a mail to one of them.
        lane.finish(again[0].1, &Verdict::Sent(Receipt::default()));
        assert!(sent(&lane).is_some() && sent(&lane).is_some());
    }
}
