//! What a provider said of a mail, and what is answered for it by whose fault it is taken for.

use std::time::Duration;

use super::pauses::MAX_OF_ONE;
use crate::provider::refusal::signature;
use crate::provider::{About, Verdict};

/// Refusals alike for so many domains are about us.
pub(super) const DOMAINS: usize = 3;

/// So many addresses are not all missing, if no mail is accepted between. They may all be of one
/// domain: a site may write to its own people only.
pub(super) const MISSING: usize = 10;

/// How long a mail waits until it is tried again, if its refusal is not placed.
const PAUSE: Duration = Duration::from_secs(15);

/// The longest pause of such a mail: each is as long as all before it.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// The pause of a mail over which a server says of us what it does not hold against others.
const OWN_PAUSE: Duration = Duration::from_secs(300);

/// The same, as long as it is not certain.
const DOUBTED_PAUSE: Duration = Duration::from_secs(60);

/// The pause of a mail over which the server fell silent: each attempt takes a connection for the
/// whole timeout.
const SILENCE_PAUSE: Duration = Duration::from_secs(120);

/// The longest pause of a mail over which a limit is told that is not everybody's.
const MAX_OWN_LIMIT: Duration = Duration::from_secs(3_600);

/// The text of refusals of addresses that do not exist, whatever their words.
const MISSING_TEXT: &str = "missing";

/// The text of no answer.
pub(super) const SILENCE: &str = "silence";

/// What a provider said of a mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Words that no table can place.
    Unplaced,
    /// That the recipient's address does not exist or gets no mail, which is said of too many.
    Missing,
    /// Words that are about us, with the pause that was asked for.
    Ours(Option<Duration>),
    /// Words about a limit of ours that passes, with the pause that was asked for.
    Limit(Option<Duration>),
    /// The same, where it seldom is one recipient's.
    Rate(Option<Duration>),
    /// Nothing.
    Silence,
}

/// For whom a refusal is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The recipient's.
    Theirs,
    /// That is not known yet, and has not been for this time.
    Undecided(Duration),
    /// Ours, with the pause that everybody makes.
    Ours(Option<Duration>),
    /// The recipient's, as far as anybody knows: words of others were false alarms.
    Doubted,
    /// Ours, as far as anybody knows; but this recipient alone may be the reason, and is not the
    /// next one that is tried.
    Passed,
}

impl Kind {
    /// What the refusals that are compared have in common.
    pub(super) fn text(self, reason: &str, recipient: &str) -> String {
        match self {
            Self::Unplaced => signature(reason, recipient),
            Self::Missing => MISSING_TEXT.to_owned(),
            Self::Ours(_) | Self::Limit(_) | Self::Rate(_) => {
                format!("ours: {}", signature(reason, recipient))
            }
            Self::Silence => SILENCE.to_owned(),
        }
    }

    /// Refusals for how many domains are our fault.
    pub(super) fn domains(self) -> usize {
        if self.is_of_us() { 1 } else { DOMAINS }
    }

    pub(super) fn is_of_us(self) -> bool {
        matches!(self, Self::Ours(_) | Self::Limit(_) | Self::Rate(_))
    }

    pub(super) fn verdict(self, side: Side, reason: String) -> Verdict {
        let pause = match (self, side) {
            (Self::Unplaced, Side::Theirs) => return Verdict::dead(reason, About::Unplaced),
            (Self::Unplaced, Side::Ours(_)) => {
                let what = "are refused alike, as if it were our fault";
                let reason = format!("recipients of {DOMAINS} domains {what}: {reason}");
                return Verdict::Unavailable { after: None, reason };
            }
            (Self::Missing, Side::Theirs) => {
                return Verdict::dead(reason, About::Recipient { is_unknown: false });
            }
            (Self::Missing, Side::Ours(_)) => {
                let what = "are refused in a row as if there were no such addresses";
                let reason = format!("{MISSING} recipients {what}: {reason}");
                return Verdict::Unavailable { after: None, reason };
            }
            (Self::Ours(_) | Self::Limit(_) | Self::Rate(_), Side::Ours(after)) => {
                return Verdict::Unavailable { after, reason };
            }
            (Self::Silence, Side::Ours(_)) => {
                let reason =
                    format!("mails to recipients of {DOMAINS} domains get no answer: {reason}");
                return Verdict::Unavailable { after: None, reason };
            }
            (Self::Rate(after), Side::Theirs) => {
                let after = after.unwrap_or(OWN_PAUSE).clamp(PAUSE, MAX_OWN_LIMIT);
                return Verdict::Postponed { after: Some(after), reason };
            }
            (Self::Ours(after) | Self::Limit(after) | Self::Rate(after), Side::Passed) => {
                let after = after.unwrap_or_default().clamp(PAUSE, MAX_OF_ONE);
                return Verdict::Postponed { after: Some(after), reason };
            }
            (Self::Ours(after) | Self::Limit(after), Side::Theirs) => after.unwrap_or(OWN_PAUSE),
            (Self::Ours(after) | Self::Limit(after) | Self::Rate(after), Side::Undecided(_)) => {
                after.unwrap_or(PAUSE).min(MAX_OF_ONE)
            }
            (Self::Ours(after) | Self::Limit(after) | Self::Rate(after), Side::Doubted) => {
                after.unwrap_or(DOUBTED_PAUSE).min(MAX_OF_ONE)
            }
            // A bad address costs the server a few attempts in the hour, and not hundreds.
            (Self::Unplaced | Self::Missing, Side::Undecided(age)) => age.clamp(PAUSE, MAX_PAUSE),
            (Self::Unplaced | Self::Missing, Side::Passed | Side::Doubted) => PAUSE,
            (Self::Silence, Side::Theirs | Side::Undecided(_) | Side::Passed | Side::Doubted) => {
                SILENCE_PAUSE
            }
        };
        Verdict::Retry { after: Some(pause), reason }
    }
}
