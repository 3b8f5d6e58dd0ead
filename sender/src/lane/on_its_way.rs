//! An attempt on its way: what it waits for, and since when.

use std::time::{Duration, Instant};

use mailroom_mail::address::domain_of;

use crate::breaker;
use crate::key::Key;
use crate::queue::Queued;

/// An attempt that takes longer than this waits for an answer of the provider.
pub(super) const LINGERING: Duration = Duration::from_secs(1);

/// How long a server may say nothing about a recipient until another mail gets the place.
pub(super) const MAX_MUTE: Duration = Duration::from_secs(4);

/// A mail that a provider is given, or a question to it without one.
#[derive(Debug)]
pub(super) struct OnItsWay {
    /// The token; none if the provider is only tried.
    pub(super) key: Option<Key>,
    pub(super) attempt: breaker::Attempt,
    pub(super) begun_at: Instant,
    /// What the mail is for.
    pub(super) action: String,
    /// The recipient's domain.
    pub(super) domain: String,
    /// Since when the server is asked about the recipient.
    pub(super) in_envelope_since: Option<Instant>,
    /// Whether the server may take its time for that.
    pub(super) is_patient: bool,
    /// Since when it waits for the answer to its content.
    pub(super) in_doubt_since: Option<Instant>,
    /// Whether the provider may have accepted the mail at an earlier attempt, and would again.
    pub(super) is_doubtful: bool,
    /// How long the answer to its content is waited for, if others need the place.
    pub(super) limit: Option<Duration>,
    /// How much of its time `Share` has counted.
    pub(super) counted: Duration,
    /// Whether another one has its place.
    pub(super) is_aside: bool,
}

impl OnItsWay {
    pub(super) fn begin(mail: Option<&Queued>, attempt: breaker::Attempt) -> Self {
        Self {
            key: mail.map(|mail| mail.prepared.key),
            attempt,
            begun_at: Instant::now(),
            action: mail.map(|mail| mail.action.clone()).unwrap_or_default(),
            domain: mail.map(|mail| domain_of(&mail.prepared.to)).unwrap_or_default(),
            in_envelope_since: None,
            is_patient: true,
            in_doubt_since: None,
            is_doubtful: mail.is_some_and(|mail| mail.is_doubtful),
            limit: None,
            counted: Duration::ZERO,
            is_aside: false,
        }
    }

    /// Whether the server has said nothing about the recipient for this time.
    pub(super) fn is_mute(&self, longest: Duration, now: Instant) -> bool {
        let since = self.in_envelope_since.filter(|_| self.in_doubt_since.is_none());
        has_lasted(since, longest, now)
    }

    /// Whether the answer to the content has not come for this time.
    pub(super) fn is_unanswered(&self, longest: Duration, now: Instant) -> bool {
        has_lasted(self.in_doubt_since, longest, now)
    }

    /// Whether the answer to its content was not waited for any longer because of others.
    pub(super) fn is_left(&self, now: Instant) -> bool {
        self.limit.is_some_and(|limit| self.is_unanswered(limit, now))
    }

    /// Whether it waits for an answer of the provider.
    pub(super) fn is_lingering(&self, now: Instant) -> bool {
        self.has_taken(LINGERING, now)
    }

    /// Whether this time has passed since it was first asked about.
    pub(super) fn has_taken(&self, time: Duration, now: Instant) -> bool {
        has_lasted(self.in_envelope_since.or(self.in_doubt_since), time, now)
    }

    /// How long that has been.
    pub(super) fn taken(&self, now: Instant) -> Duration {
        let since = self.in_envelope_since.or(self.in_doubt_since);
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// How long it has waited for answers about the recipient, or for the one to the content.
    pub(super) fn waited(&self, now: Instant) -> Duration {
        let since = self.in_doubt_since.or(self.in_envelope_since);
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Whether it waits for longer than most: contents take longer than recipients.
    pub(super) fn is_slow(&self, now: Instant) -> bool {
        let usual = if self.in_doubt_since.is_some() { MAX_MUTE } else { LINGERING };
        self.waited(now) >= usual
    }

    /// Whether it waits for long although another mail took only this time. A server may take its
    /// time over everybody's mails, as a filter does, and much longer over some.
    pub(super) fn is_slow_beside(&self, took: Duration, now: Instant) -> bool {
        let waited = self.waited(now);
        self.is_slow(now) && (took < LINGERING || waited >= MAX_MUTE && took < waited / 2)
    }
}

/// Whether something has gone on for this time since then.
fn has_lasted(since: Option<Instant>, time: Duration, now: Instant) -> bool {
    since.is_some_and(|since| now.saturating_duration_since(since) >= time)
}
