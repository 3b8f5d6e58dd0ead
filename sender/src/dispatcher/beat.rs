//! What is done every second, and more often while mails that take long have the places.

use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

use mailroom_mail::Error;

use super::{BEAT, BEHIND_OTHERS, Dispatcher};
use crate::key::Key;
use crate::lane::{Lane, Refusal, Sentences};
use crate::pool::Pool;
use crate::standard_error::report;

/// The same while mails that take long have the places: batches that only wait are to be known
/// soon, so that others come.
const BEAT_IN_CROWD: Duration = Duration::from_millis(200);

/// How long a mail waits that is given back because others have all places, and what is said of it.
const PAUSE_BEHIND_OTHERS: Duration = Duration::from_secs(1);

impl<W: Write> Dispatcher<'_, W> {
    /// Sees to mails that wait for their answers, and says which batches are being worked on.
    pub(super) fn beat(&mut self, pool: &mut Pool) -> Result<(), Error> {
        let now = Instant::now();
        if now < self.next_beat {
            return if self.is_slow_news { self.say_working(now) } else { Ok(()) };
        }
        self.next_beat = now + if self.is_crowded() { BEAT_IN_CROWD } else { BEAT };
        pool.replace_waiting(now);
        self.give_way(now)?;
        self.report_slow(now);
        self.say_working(now)
    }

    /// Whether mails that take long have the places.
    pub(super) fn is_crowded(&self) -> bool {
        self.shared.lanes.iter().any(Lane::is_crowded)
    }

    /// Says which batches are being worked on, and which of them only wait.
    fn say_working(&mut self, now: Instant) -> Result<(), Error> {
        self.is_slow_news = false;
        let waiting: Vec<Key> =
            self.shared.lanes.iter().flat_map(|lane| lane.waiting_for_answers(now)).collect();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for waiting in waiting.iter().filter_map(|key| self.waiting.get(key)) {
            for (batch, _) in &waiting.tokens {
                *counts.entry(batch).or_default() += 1;
            }
        }
        let lanes: Vec<bool> = self.shared.lanes.iter().map(Lane::is_moving).collect();
        let mails = self.waiting.values().filter(|waiting| lanes[waiting.lane]);
        let named =
            mails.flat_map(|waiting| waiting.tokens.iter().map(|(batch, _)| batch.as_str()));
        let line = self.batches.working(named, &counts);
        self.write(&line)
    }

    /// Gives back mails that would keep others waiting: those that wait behind recipients about
    /// whom a server says nothing, and those to slow domains. Their collector has others, which may
    /// matter more.
    fn give_way(&mut self, now: Instant) -> Result<(), Error> {
        self.disperse(now);
        for (index, lane) in self.shared.lanes.iter().enumerate() {
            for (mail, pause) in lane.hold_back(now) {
                self.refuse(mail.prepared.key, index, &Refusal::Mute(pause));
            }
            for (mail, pause) in lane.postpone_doubtful(now) {
                self.refuse(mail.prepared.key, index, &Refusal::Behind(pause));
            }
            for mail in lane.give_way(now) {
                self.free(mail.prepared.key);
                self.say_untried(mail.prepared.key, Some(PAUSE_BEHIND_OTHERS), BEHIND_OTHERS);
            }
        }
        self.answer()
    }

    /// Gives back the mails that are more than may wait where mails that take long have the places.
    pub(super) fn disperse(&mut self, now: Instant) {
        for (index, lane) in self.shared.lanes.iter().enumerate() {
            for (mail, pause) in lane.disperse(now) {
                self.refuse(mail.prepared.key, index, &Refusal::Behind(pause));
            }
        }
    }

    /// Tells the operator of domains over which a server takes its time.
    fn report_slow(&self, now: Instant) {
        for (provider, lane) in self.shared.providers.iter().zip(&self.shared.lanes) {
            let Some(Sentences { begun, ended }) = lane.news(now) else { continue };
            let name = provider.name();
            if !begun.is_empty() {
                report(&format!(
                    "{name} says nothing for seconds about mails to {begun}: their servers may be \
                     away; such mails are tried again and leave places to others"
                ));
            }
            if !ended.is_empty() {
                report(&format!("{name} answers at once again about mails to {ended}"));
            }
        }
    }
}
