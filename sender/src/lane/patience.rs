//! How long the answers about a recipient are waited for while others need the place.
//!
//! Pure policy: the caller passes the times in. A server that is slow for everybody is waited for:
//! whoever leaves too soon sends mails twice. A server that answers others at once and says nothing
//! about a recipient waits for the recipient's own server, and strangers may have given many such
//! addresses.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::on_its_way::LINGERING;

/// A mail that is accepted within this time shows that the server answers at once.
const QUICK: Duration = Duration::from_secs(2);

/// How long that counts, and how long if a mail took longer since.
const SHOWN: Duration = Duration::from_secs(3_600);
const SHOWN_BESIDE_SLOW: Duration = Duration::from_secs(60);

/// How long a server may say nothing about a recipient where others need the place.
pub(super) const MAX_MUTE_BESIDE_QUICK: Duration = Duration::from_secs(2);

/// The same of the content, after which the mail is in doubt.
pub(super) const MAX_CONTENT_BESIDE_QUICK: Duration = Duration::from_secs(3);

/// The same of a content that has the last place, while all others wait as well and it is not known
/// whether the server still answers others at once.
pub(super) const MAX_CONTENT_IN_LAST_PLACE: Duration = Duration::from_secs(10);

/// The usual time of a mail is the third shortest of so many that were accepted last, and the
/// shortest while there are fewer: a stranger may have given most of them.
const TIMES: usize = 50;
const THIRD: usize = 2;

/// How long the usual time counts if no shorter one comes: where a stranger's mails have the
/// places, all of the last ones may be theirs.
const USUAL: Duration = Duration::from_secs(600);

/// A mail takes long if it takes so many times the usual time, within these limits.
const LONG: u32 = 3;
const SHORTEST_LONG: Duration = Duration::from_millis(150);

/// The most that this is as long as only a few mails were accepted: the first ones of a process
/// take longer than others.
const MAX_LONG_OF_FEW: Duration = Duration::from_millis(250);

/// How the server has answered of late.
#[derive(Debug, Default)]
pub(super) struct Pulse {
    /// The last mail that was accepted at once: when it began, and when it was accepted.
    quick: Option<(Instant, Instant)>,
    /// When the last mail was accepted that took longer.
    slow_at: Option<Instant>,
    /// How many contents were not waited for since a mail was accepted at once.
    unproven: usize,
    /// How long the last mails took that were accepted.
    times: VecDeque<Duration>,
    /// How long a mail usually takes, and when that was last seen.
    usual: Option<(Duration, Instant)>,
}

impl Pulse {
    /// A mail was accepted whose recipient the server was given at this time.
    pub(super) fn accept(&mut self, begun_at: Instant, now: Instant) {
        if now.saturating_duration_since(begun_at) <= QUICK {
            (self.quick, self.unproven) = (Some((begun_at, now)), 0);
        } else {
            self.slow_at = Some(now);
        }
    }

    /// A mail was accepted this long after the server was given its recipient.
    pub(super) fn note_time(&mut self, took: Duration, now: Instant) {
        self.times.truncate(TIMES - 1);
        self.times.push_front(took);
        let mut times: Vec<_> = self.times.iter().copied().collect();
        times.sort_unstable();
        let found = times.get(if times.len() < TIMES { 0 } else { THIRD });
        let counts = |usual: Duration, at| {
            usual < found.copied().unwrap_or(usual) && now.saturating_duration_since(at) < USUAL
        };
        self.usual = self.usual.filter(|(usual, at)| counts(*usual, *at));
        self.usual = self.usual.or(found.map(|found| (*found, now)));
    }

    /// What is long for a mail, as far as the server's usual time is known: less than this.
    pub(super) fn long(&self) -> Duration {
        self.unusual().map_or(LINGERING, |unusual| unusual.min(LINGERING))
    }

    /// How long only unusual mails take, if that is known, however slow the server is. A few mails
    /// do not show that it is slow.
    pub(super) fn unusual(&self) -> Option<Duration> {
        let (usual, _) = self.usual?;
        let unusual = (usual * LONG).max(SHORTEST_LONG);
        let are_few = self.times.len() < TIMES;
        Some(if are_few { unusual.min(MAX_LONG_OF_FEW) } else { unusual })
    }

    /// Whether the server answers at once, as far as anybody knows.
    pub(super) fn is_quick(&self, now: Instant) -> bool {
        let Some((_, quick_at)) = self.quick else { return false };
        let is_disproved = self.slow_at.is_some_and(|slow_at| slow_at > quick_at);
        let shown = if is_disproved { SHOWN_BESIDE_SLOW } else { SHOWN };
        now.saturating_duration_since(quick_at) < shown
    }

    /// Whether no mail was accepted lately that would show how the server answers.
    pub(super) fn is_unknown(&self, now: Instant) -> bool {
        let last = self.slow_at.max(self.quick.map(|(_, quick_at)| quick_at));
        last.is_none_or(|last| now.saturating_duration_since(last) >= SHOWN)
    }

    /// Whether another content need not be waited for, while as many as may are waited for since
    /// this time: the server has accepted a mail at once that began later. So many may be left
    /// without that, since such a mail needs a place; if the server has become slow for everybody,
    /// they are in doubt for nothing.
    pub(super) fn may_leave(&mut self, since: Instant, most_unproven: usize, now: Instant) -> bool {
        if !self.is_quick(now) {
            return false;
        }
        if self.quick.is_some_and(|(begun_at, _)| begun_at > since) {
            return true;
        }
        let is_left = self.unproven < most_unproven;
        self.unproven += usize::from(is_left);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_quick_for_an_hour_or_for_a_minute_beside_slow_answers() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pulse = Pulse::default();
        assert!(!pulse.is_quick(start));
        pulse.accept(at(0), at(3));
        assert!(!pulse.is_quick(at(3)));
        pulse.accept(at(3), at(4));
        assert_eq!([4, 3_603, 3_604].map(|now| pulse.is_quick(at(now))), [true, true, false]);
        pulse.accept(at(10), at(20));
        assert_eq!([20, 63, 64].map(|now| pulse.is_quick(at(now))), [true, true, false]);
        pulse.accept(at(70), at(71));
        assert!(pulse.is_quick(at(200)));
        assert!(Pulse::default().is_unknown(start) && !pulse.is_unknown(at(3_670)));
        assert!(pulse.is_unknown(at(3_671)));
    }

    #[test]
    fn what_is_long_for_a_server_follows_its_quickest_mails() {
        let start = Instant::now();
        let mut pulse = Pulse::default();
        assert_eq!((pulse.long(), pulse.unusual()), (LINGERING, None));
        let note = |pulse: &mut Pulse, milliseconds, now| {
            pulse.note_time(Duration::from_millis(milliseconds), now);
        };
        note(&mut pulse, 10, start);
        assert_eq!(pulse.long(), SHORTEST_LONG);
        // Most are a stranger's; what was seen before counts for some time.
        let mut stranger = |at: Instant| {
            for number in 0..60 {
                note(&mut pulse, if number % 16 == 0 { 120 } else { 1_500 }, at);
            }
            pulse.long()
        };
        assert_eq!(stranger(start + USUAL / 2), SHORTEST_LONG);
        assert_eq!(stranger(start + 2 * USUAL), Duration::from_millis(360));
        // A server that is slow for everybody is as it is.
        for number in 0..60 {
            note(&mut pulse, 2_000, start + USUAL * (3 + number / 59));
        }
        assert_eq!(pulse.long(), LINGERING);
        assert_eq!(pulse.unusual(), Some(Duration::from_secs(6)));
    }

    #[test]
    fn a_few_mails_after_a_start_do_not_show_that_a_server_is_slow() {
        let start = Instant::now();
        let mut pulse = Pulse::default();
        for number in 1..=TIMES {
            pulse.note_time(Duration::from_millis(333), start);
            let is_known = number == TIMES;
            let expected = if is_known { Duration::from_millis(999) } else { MAX_LONG_OF_FEW };
            assert_eq!(pulse.unusual(), Some(expected), "{number}");
        }
    }

    #[test]
    fn mails_of_a_stranger_alone_do_not_make_a_server_slow() {
        let start = Instant::now();
        let mut pulse = Pulse::default();
        pulse.note_time(Duration::from_millis(50), start);
        for second in 1..200 {
            pulse.note_time(Duration::from_millis(1_500), start + Duration::from_secs(second));
        }
        assert_eq!(pulse.long(), SHORTEST_LONG);
    }

    #[test]
    fn few_contents_are_left_unless_a_mail_was_accepted_at_once_since() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut pulse = Pulse::default();
        assert!(!pulse.may_leave(at(0), 2, at(0)));
        pulse.accept(at(0), at(1));
        assert_eq!([(); 3].map(|()| pulse.may_leave(at(2), 2, at(5))), [true, true, false]);
        pulse.accept(at(6), at(7));
        assert_eq!([(); 3].map(|()| pulse.may_leave(at(2), 2, at(8))), [true; 3]);
        // The server has become slow for everybody.
        pulse.accept(at(8), at(68));
        assert!(!pulse.may_leave(at(2), 2, at(68)));
    }
}
