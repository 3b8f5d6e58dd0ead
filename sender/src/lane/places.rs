//! Places of mails that wait for answers: when others get them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mailroom_mail::address::domain_of;

use super::mute::Mute;
use super::on_its_way::{LINGERING, OnItsWay};
use super::patience::{LONGEST_CONTENT_BESIDE_QUICK, LONGEST_MUTE_BESIDE_QUICK};
use super::{Lane, State, Ticket};
use crate::protocol::Key;
use crate::queue::Queued;

/// How long a mail may wait for the answer to its content until another one gets its place.
const LONGEST_HOLD: Duration = Duration::from_secs(30);

/// How long a server may say nothing about a recipient until another mail gets the place.
pub(super) const LONGEST_MUTE: Duration = Duration::from_secs(4);

/// The pause of a mail in doubt that waits while as many as may wait for their answers.
pub(super) const DOUBTFUL_PAUSE: Duration = Duration::from_secs(10);

/// How long a mail waits behind others that only wait for answers, until it is given back.
const LONGEST_QUEUE: Duration = Duration::from_secs(1);

impl Lane {
    /// From now on an attempt waits for the answer to its content. Returns for how long, if as many
    /// wait as may without a place, while the server answers others at once. A mail that was in
    /// doubt before is waited for: else our impatience alone would make three copies of it, and a
    /// dead letter.
    pub(crate) fn enter_doubt(&self, ticket: Ticket, now: Instant) -> Option<Duration> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.has_moved = true;
        let first_attempts = state.on_their_way.values().filter(|attempt| !attempt.is_doubtful);
        let doubts = first_attempts.filter_map(|attempt| attempt.in_doubt_since);
        let is_full = doubts.clone().count() >= self.most_aside;
        let first = doubts.min().filter(|_| is_full);
        let attempt = state.on_their_way.get_mut(&ticket.0)?;
        attempt.in_doubt_since = Some(now);
        let first = first.filter(|_| !attempt.is_doubtful);
        let may_leave =
            first.is_some_and(|first| state.pulse.may_leave(first, self.connections, now));
        attempt.limit = may_leave.then_some(LONGEST_CONTENT_BESIDE_QUICK);
        attempt.limit
    }

    /// Whether the answer to the content of an attempt was not waited for because of others.
    pub(super) fn is_left(&self, ticket: Ticket, now: Instant) -> bool {
        self.lock().on_their_way.get(&ticket.0).is_some_and(|attempt| attempt.is_left(now))
    }

    /// From now on the server is asked about the recipient. Returns for how long, if it may not
    /// take its time for this one, too.
    pub(crate) fn enter_envelope(&self, ticket: Ticket, now: Instant) -> Option<Duration> {
        let mut state = self.lock();
        // Each part of an attempt has the whole timeout, for which the collector waits.
        state.has_moved = true;
        let is_asked =
            |attempt: &&OnItsWay| attempt.in_envelope_since.is_some() && attempt.is_patient;
        // It may have been asked about before, on a connection that has ended.
        let others = state.on_their_way.iter().filter(|(number, _)| **number != ticket.0);
        let asked = others.map(|(_, attempt)| attempt).filter(is_asked);
        let patient = asked.filter(|attempt| attempt.in_doubt_since.is_none()).count();
        let is_patient = patient < self.most_mute_aside || !state.pulse.is_quick(now);
        if let Some(attempt) = state.on_their_way.get_mut(&ticket.0) {
            (attempt.in_envelope_since, attempt.is_patient) = (Some(now), is_patient);
        }
        (!is_patient).then_some(LONGEST_MUTE_BESIDE_QUICK)
    }

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
        // A server that is slow for everybody makes no crowd.
        let held_by = state.pulse.unusual().filter(|_| is_full).and_then(|unusual| {
            let are_of = |action: &str| {
                taking(unusual).filter(|attempt| attempt.action == action).count() >= most
            };
            taking(unusual).find(|attempt| are_of(&attempt.action))
        });
        let is_lingering = places().any(|attempt| attempt.is_lingering(now));
        let is_usual = long >= LINGERING;
        let longest = places().map(|attempt| attempt.taken(now)).max().unwrap_or_default();
        state.order.look(held_by.map(|attempt| (attempt.action.as_str(), longest)));
        let is_held_up = is_full && (is_lingering || are_held);
        let before = now.checked_sub(LONGEST_QUEUE).filter(|_| is_held_up);
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

    /// The tokens whose mails wait for answers of the provider, or behind others that do.
    pub(crate) fn waiting_for_answers(&self, now: Instant) -> Vec<Key> {
        let state = self.lock();
        let lingering = state.on_their_way.values().filter(|attempt| attempt.is_lingering(now));
        if state.order.is_crowded() {
            let on_their_way = state.on_their_way.values().filter_map(|attempt| attempt.key);
            let behind = state.waiting.mails().map(|mail| mail.sealed.key);
            return on_their_way.chain(behind).collect();
        }
        lingering.filter_map(|attempt| attempt.key).collect()
    }

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
            true => (LONGEST_MUTE_BESIDE_QUICK, LONGEST_MUTE_BESIDE_QUICK),
            false if state.pulse.is_unknown(now) => (LONGEST_MUTE, LONGEST_MUTE),
            false => (LONGEST_MUTE, LONGEST_HOLD),
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
            if attempt.is_mute(longest_mute, now) || attempt.waited(now) >= LONGEST_MUTE {
                state.mute.note(&attempt.domain, attempt.waited(now), now);
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
            .filter(|attempt| attempt.is_aside && attempt.is_unanswered(LONGEST_HOLD, now));
        (of_content.count(), new)
    }

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

/// How many mails may wait while mails that take long have all places: of those that are new, and
/// of those to domains that were quick, or of the others.
fn most_in_crowd(is_preferred: bool, connections: usize) -> usize {
    if is_preferred { 2 * connections } else { connections }
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

    /// Remembers about whose mails the server says nothing for long, and over which others' mails
    /// have just shown that.
    pub(super) fn note_end(&mut self, ended: &OnItsWay, is_accepted: bool, now: Instant) {
        if is_accepted {
            self.pulse.accept(ended.begun_at, now);
        }
        let longest = if ended.is_patient { LONGEST_MUTE } else { LONGEST_MUTE_BESIDE_QUICK };
        let began = ended.in_envelope_since.or(ended.in_doubt_since);
        let took = began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        let is_quick = took < LINGERING;
        let is_long = took >= self.pulse.long();
        if began.is_some() && is_long {
            self.order.note_slow(&ended.domain, now);
        } else if began.is_some() && is_accepted {
            self.order.note_quick(&ended.domain, now);
        }
        if began.is_some() && is_accepted {
            self.pulse.note_time(took, now);
        }
        if ended.is_mute(longest, now) || (ended.in_doubt_since.is_some() && ended.is_slow(now)) {
            self.mute.note(&ended.domain, ended.waited(now), now);
        } else if is_accepted {
            self.mute.accept(&ended.domain, took);
        }
        if is_quick && began.is_some() && !self.mute.has(&ended.domain, now) {
            for attempt in self.on_their_way.values().filter(|attempt| attempt.is_slow(now)) {
                self.mute.show(&attempt.domain, now);
            }
        }
    }

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

    /// For how long a mail is given back because others to such domains have the places.
    pub(super) fn pause_of_mute(&mut self, mail: &Queued, now: Instant) -> Option<Duration> {
        let domain = self.mute.domain_of(mail, now)?;
        let waiting = self.waiting.count_if(|mail| self.mute.has(&domain_of(&mail.sealed.to), now));
        if waiting + self.mute_on_their_way(now) < self.mute.most {
            return None;
        }
        self.mute.pause(&domain, now)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::lane::tests::{begin, lane, mail};
    use crate::lane::{Job, Refusal};
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
            Arc::get_mut(&mut mail.sealed).unwrap().to = to.to_owned();
            mail
        };
        let sent = |lane: &Lane| match lane.next(Duration::ZERO) {
            Job::Send(mail, ticket) => Some((mail.sealed.to.clone(), ticket)),
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

    /// Mails to recipients of domains of their own begin and are asked about.
    fn ask_about(
        lane: &Lane,
        numbers: std::ops::Range<u128>,
        now: Instant,
    ) -> Vec<Option<Duration>> {
        let ask = |number| {
            let mut mail = mail(number, false);
            Arc::get_mut(&mut mail.sealed).unwrap().to = format!("a@{number}.test");
            lane.push(mail).unwrap();
            let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("no place") };
            lane.enter_envelope(ticket, now)
        };
        numbers.map(ask).collect()
    }

    #[test]
    fn a_server_that_answers_others_at_once_is_not_waited_for_long_about_many_recipients() {
        for is_quick in [false, true] {
            let (lane, start) = (lane(2), Instant::now());
            if is_quick {
                let ticket = begin(&lane, 0);
                lane.finish(ticket, &Verdict::Sent(Receipt::default()));
            }
            let limit = is_quick.then_some(LONGEST_MUTE_BESIDE_QUICK);
            assert_eq!(ask_about(&lane, 1..4, start), [None, None, limit]);
            let soon = start + LONGEST_MUTE_BESIDE_QUICK;
            assert_eq!(lane.set_aside(soon), (0, if is_quick { 2 } else { 0 }));
            assert_eq!(lane.set_aside(start + LONGEST_MUTE), (0, if is_quick { 0 } else { 2 }));
            // The third one ends by itself.
            assert_eq!(lane.waiting_for_answers(soon).len(), 3);
        }
    }

    #[test]
    fn contents_without_an_answer_leave_places_to_others_soon_where_these_are_answered_at_once() {
        let lane = lane(1);
        let ticket = begin(&lane, 0);
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        let start = Instant::now();
        let doubt = |number| lane.enter_doubt(begin(&lane, number), start);
        assert_eq!([1, 2, 3].map(doubt), [None; 3]);
        assert_eq!(lane.set_aside(start + LONGEST_MUTE_BESIDE_QUICK), (0, 3));
        // As many wait as may: few more, unless a mail was accepted at once meanwhile.
        assert_eq!([4, 5].map(doubt), [Some(LONGEST_CONTENT_BESIDE_QUICK), None]);
        let ticket = begin(&lane, 6);
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        assert_eq!([7, 8].map(doubt), [Some(LONGEST_CONTENT_BESIDE_QUICK); 2]);
    }

    /// A lane with one place where the server answers others at once, and as many contents wait as
    /// may; and what the next content may take.
    fn with_slow_contents(start: Instant) -> (Lane, Ticket, Option<Duration>) {
        let lane = lane(1);
        let ticket = begin(&lane, 0);
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        for number in 1..=3 {
            lane.enter_doubt(begin(&lane, number), start);
        }
        assert_eq!(lane.set_aside(start + LONGEST_MUTE_BESIDE_QUICK).1, 3);
        let ticket = begin(&lane, 4);
        let limit = lane.enter_doubt(ticket, start);
        (lane, ticket, limit)
    }

    #[test]
    fn a_content_that_is_not_waited_for_says_nothing_of_the_provider() {
        let doubt = || Verdict::InDoubt { reason: String::new() };
        let long_ago = Instant::now().checked_sub(LONGEST_CONTENT_BESIDE_QUICK).unwrap();
        for (start, is_left) in [(long_ago, true), (Instant::now(), false)] {
            let (lane, ticket, limit) = with_slow_contents(start);
            assert_eq!(limit, Some(LONGEST_CONTENT_BESIDE_QUICK));
            let (verdict, of_provider) = lane.weigh(ticket, "ada@x.test", doubt());
            assert_eq!(verdict, doubt());
            assert_eq!(matches!(of_provider, Verdict::Postponed { .. }), is_left);
        }
    }

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

    #[test]
    fn mails_behind_such_that_wait_for_answers_are_given_back_but_for_the_next_ones() {
        let (lane, start) = (lane(2), Instant::now());
        ask_about(&lane, 0..2, start);
        for number in 2..7 {
            lane.push(mail(number, false)).unwrap();
        }
        let later = Instant::now() + LONGEST_QUEUE;
        assert!(lane.give_way(start).is_empty());
        let numbers: Vec<_> =
            lane.give_way(later).iter().map(|mail| mail.sealed.key.number()).collect();
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

    /// A mail to this domain.
    fn mail_to(number: u128, domain: &str) -> Queued {
        let mut mail = mail(number, false);
        Arc::get_mut(&mut mail.sealed).unwrap().to = format!("ada@{domain}");
        mail
    }

    /// A lane with two places, which mails have that take long; eight more were given back and come
    /// again behind the next two.
    fn held_up() -> (Lane, Vec<Ticket>) {
        let lane = lane(2);
        let ticket = begin(&lane, 0);
        lane.enter_envelope(ticket, Instant::now());
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        let start = Instant::now();
        for number in 1..=12 {
            lane.push(mail_to(number, &format!("{number}.test"))).unwrap();
        }
        let take = || match lane.next(Duration::ZERO) {
            Job::Send(_, ticket) => ticket,
            _ => panic!("no place"),
        };
        let tickets = vec![take(), take()];
        for ticket in &tickets {
            lane.enter_envelope(*ticket, start);
        }
        let held = lane.give_way(start + LONGEST_QUEUE + LINGERING);
        assert_eq!(held.len(), 8);
        for mail in held {
            lane.push(mail).unwrap();
        }
        (lane, tickets)
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
                taken.push(mail.sealed.key.number());
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
        for (usual, is_held_up) in [(50, true), (90, true), (110, false)] {
            let (lane, start) = (lane(2), Instant::now());
            lane.lock().pulse.note_time(Duration::from_millis(usual), Instant::now());
            ask_about(&lane, 0..2, start);
            let later = start + Duration::from_millis(300);
            for number in 2..9 {
                let waiting = Queued {
                    returnable_since: later.checked_sub(LONGEST_QUEUE),
                    ..mail(number, false)
                };
                lane.push(waiting).unwrap();
            }
            assert_eq!(lane.give_way(later).len(), if is_held_up { 3 } else { 0 }, "{usual}");
        }
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
            mails.iter().map(|(mail, _)| mail.sealed.key.number()).collect::<Vec<_>>()
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
                taken.push(mail.sealed.key.number());
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
            lane.lock().pulse.note_time(Duration::from_millis(usual), Instant::now());
            ask_about(&lane, 0..2, start);
            for second in 2..5 {
                lane.give_way(start + Duration::from_secs(second));
            }
            assert_eq!(lane.lock().order.is_crowded(), is_crowd);
        }
    }

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
        assert_eq!(mail.sealed.to, "ada@other.test");
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
