//! Waiting for answers: since when, for how long, and what the end of an attempt shows.

use std::time::{Duration, Instant};

use super::on_its_way::{MAX_MUTE, OnItsWay};
use super::patience::{MAX_CONTENT_BESIDE_QUICK, MAX_CONTENT_IN_LAST_PLACE, MAX_MUTE_BESIDE_QUICK};
use super::{Lane, State, Ticket};
use crate::key::Key;

impl Lane {
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
        (!is_patient).then_some(MAX_MUTE_BESIDE_QUICK)
    }

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
        let places = state.on_their_way.iter().filter(|(number, attempt)| {
            **number != ticket.0 && !attempt.is_aside && attempt.in_doubt_since.is_some()
        });
        let is_last = places.count() + 1 >= self.connections;
        let attempt = state.on_their_way.get_mut(&ticket.0)?;
        attempt.in_doubt_since = Some(now);
        let first = first.filter(|_| !attempt.is_doubtful);
        let limit = first.and_then(|first| {
            if state.pulse.may_leave(first, self.connections, now) {
                return Some(MAX_CONTENT_BESIDE_QUICK);
            }
            (is_last && state.pulse.is_quick(now)).then_some(MAX_CONTENT_IN_LAST_PLACE)
        });
        attempt.limit = limit;
        limit
    }

    /// Whether the answer to the content of an attempt was not waited for because of others.
    pub(super) fn is_left(&self, ticket: Ticket, now: Instant) -> bool {
        self.lock().on_their_way.get(&ticket.0).is_some_and(|attempt| attempt.is_left(now))
    }

    /// The tokens whose mails wait for answers of the provider, or behind others that do.
    pub(crate) fn waiting_for_answers(&self, now: Instant) -> Vec<Key> {
        let state = self.lock();
        let lingering = state.on_their_way.values().filter(|attempt| attempt.is_lingering(now));
        if state.order.is_crowded() {
            let on_their_way = state.on_their_way.values().filter_map(|attempt| attempt.key);
            let behind = state.waiting.mails().map(|mail| mail.prepared.key);
            return on_their_way.chain(behind).collect();
        }
        // Those that wait for their places would keep batches from being known to wait.
        let behind = state.waiting.mails().filter(|mail| state.mute.domain_of(mail, now).is_some());
        let behind = behind.map(|mail| mail.prepared.key);
        lingering.filter_map(|attempt| attempt.key).chain(behind).collect()
    }
}

impl State {
    /// Remembers about whose mails the server says nothing for long, and over which others' mails
    /// have just shown that.
    pub(super) fn note_end(&mut self, ended: &OnItsWay, is_accepted: bool, now: Instant) {
        let longest = if ended.is_patient { MAX_MUTE } else { MAX_MUTE_BESIDE_QUICK };
        let began = ended.in_envelope_since.or(ended.in_doubt_since);
        if is_accepted {
            // To open a connection may take long on a busy machine, too, and says nothing of that.
            self.pulse.accept(began.unwrap_or(ended.begun_at), now);
        }
        let took = began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        let is_long = took >= self.pulse.long();
        if began.is_some() && is_long {
            self.order.note_slow(&ended.domain, now);
        } else if began.is_some() && is_accepted {
            self.order.note_quick(&ended.domain, now);
        }
        if self.pulse.unusual().is_some_and(|unusual| took >= unusual) && !ended.is_aside {
            self.share.end(&ended.action, took, ended.counted);
        }
        if began.is_some() && is_accepted {
            self.pulse.note_time(took, now);
        }
        let is_unanswered = ended.in_doubt_since.is_some() && ended.is_slow(now);
        if ended.is_mute(longest, now) || is_unanswered || ended.is_left(now) {
            self.mute.note(&ended.domain, ended.waited(now), now);
        } else if is_accepted {
            self.mute.accept(&ended.domain, took);
        }
        if began.is_some() && !self.mute.has(&ended.domain, now) {
            let is_shown = |attempt: &&OnItsWay| attempt.is_slow_beside(took, now);
            for attempt in self.on_their_way.values().filter(is_shown) {
                self.mute.show(&attempt.domain, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lane::tests::{ask_about, begin, lane, with_slow_contents};
    use crate::provider::{Receipt, Verdict};

    #[test]
    fn a_server_that_answers_others_at_once_is_not_waited_for_long_about_many_recipients() {
        for is_quick in [false, true] {
            let (lane, start) = (lane(2), Instant::now());
            if is_quick {
                let ticket = begin(&lane, 0);
                lane.finish(ticket, &Verdict::Sent(Receipt::default()));
            }
            let limit = is_quick.then_some(MAX_MUTE_BESIDE_QUICK);
            assert_eq!(ask_about(&lane, 1..4, start), [None, None, limit]);
            let soon = start + MAX_MUTE_BESIDE_QUICK;
            assert_eq!(lane.set_aside(soon), (0, if is_quick { 2 } else { 0 }));
            assert_eq!(lane.set_aside(start + MAX_MUTE), (0, if is_quick { 0 } else { 2 }));
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
        assert_eq!(lane.set_aside(start + MAX_MUTE_BESIDE_QUICK), (0, 3));
        // As many wait as may: few more, unless a mail was accepted at once meanwhile.
        let limits = [MAX_CONTENT_BESIDE_QUICK, MAX_CONTENT_IN_LAST_PLACE].map(Some);
        assert_eq!([4, 5].map(doubt), limits);
        let ticket = begin(&lane, 6);
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        assert_eq!([7, 8].map(doubt), [Some(MAX_CONTENT_BESIDE_QUICK); 2]);
    }

    #[test]
    fn the_time_to_open_a_connection_does_not_make_a_server_slow() {
        let (lane, now) = (lane(1), Instant::now());
        let ticket = begin(&lane, 0);
        let earlier = now.checked_sub(Duration::from_secs(60)).unwrap();
        lane.lock().on_their_way.values_mut().for_each(|attempt| attempt.begun_at = earlier);
        lane.enter_envelope(ticket, now);
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        assert!(lane.lock().pulse.is_quick(now));
    }

    #[test]
    fn contents_without_an_answer_never_have_all_places_for_long() {
        let lane = lane(2);
        let ticket = begin(&lane, 0);
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
        let start = Instant::now();
        for number in 1..=6 {
            lane.enter_doubt(begin(&lane, number), start);
        }
        assert_eq!(lane.set_aside(start + MAX_MUTE_BESIDE_QUICK).1, 6);
        for number in 7..=8 {
            let ticket = begin(&lane, number);
            assert_eq!(lane.enter_doubt(ticket, start), Some(MAX_CONTENT_BESIDE_QUICK));
            lane.finish(ticket, &Verdict::InDoubt { reason: String::new() });
        }
        let tickets = [9, 10].map(|number| begin(&lane, number));
        let limits = tickets.map(|ticket| lane.enter_doubt(ticket, start));
        assert_eq!(limits, [None, Some(MAX_CONTENT_IN_LAST_PLACE)]);
    }

    #[test]
    fn a_content_that_is_not_waited_for_says_nothing_of_the_provider() {
        let doubt = || Verdict::InDoubt { reason: String::new() };
        let long_ago = Instant::now().checked_sub(MAX_CONTENT_BESIDE_QUICK).unwrap();
        for (start, is_left) in [(long_ago, true), (Instant::now(), false)] {
            let (lane, ticket, limit) = with_slow_contents(start);
            assert_eq!(limit, Some(MAX_CONTENT_BESIDE_QUICK));
            let (verdict, of_provider) = lane.weigh(ticket, "ada@x.test", doubt());
            assert_eq!(verdict, doubt());
            assert_eq!(matches!(of_provider, Verdict::Postponed { .. }), is_left);
        }
    }
}
