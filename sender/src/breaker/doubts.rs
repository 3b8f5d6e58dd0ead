//! Mails that a provider's answers leave in doubt, one after the other. The caller passes the times
//! in.

use std::time::{Duration, Instant};

use super::pauses::FIRST_PAUSE;

/// So many mails in doubt, one after the other, may be the fault of their recipients while the
/// provider answers well without a mail. After them there are pauses.
pub(super) const OWN_DOUBTS: u32 = 20;

/// The longest of these pauses: the first one is a second, and each is twice as long as the one
/// before. Others wait as long, if all of them were a stranger's.
const MAX_DOUBT_PAUSE: Duration = Duration::from_secs(5);

/// How long mails in doubt wait, if the provider answered well without a mail and failed with one:
/// longer each time, up to the longest time.
const MISTRUST: Duration = Duration::from_secs(900);
const MAX_MISTRUST: Duration = Duration::from_secs(3_600);

#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// How many mails were left in doubt after the provider had answered without one, since it
    /// accepted one.
    own: u32,
    /// Until when mails in doubt wait for an acceptance.
    mistrusted_until: Option<Instant>,
    /// When the last mail was left in doubt.
    last: Option<Instant>,
}

impl Doubts {
    pub(super) fn own(&self) -> u32 {
        self.own
    }

    /// A mail was left in doubt.
    pub(super) fn note(&mut self, now: Instant) {
        self.last = Some(now);
    }

    /// The same, after the provider had answered without one. Returns the pause.
    pub(super) fn note_own(&mut self, now: Instant) -> Duration {
        self.own += 1;
        let doubled = |first: Duration, times: u32, longest| {
            first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(longest)
        };
        let mistrust = doubled(MISTRUST, self.own - 1, MAX_MISTRUST);
        self.mistrusted_until = Some(now + mistrust);
        let further = self.own.checked_sub(OWN_DOUBTS);
        further.map_or(Duration::ZERO, |further| doubled(FIRST_PAUSE, further, MAX_DOUBT_PAUSE))
    }

    /// Whether the last mail was left in doubt within this time.
    pub(super) fn is_within(&self, time: Duration, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) < time)
    }

    /// Whether answers without a mail prove little, until a mail is accepted.
    pub(super) fn is_mistrusted(&self) -> bool {
        self.mistrusted_until.is_some()
    }

    /// How long a mail in doubt has to wait for an acceptance.
    pub(super) fn mistrust_left(&self, now: Instant) -> Option<Duration> {
        self.mistrusted_until?.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// The provider works.
    pub(super) fn reset(&mut self) {
        (self.own, self.mistrusted_until) = (0, None);
    }
}
