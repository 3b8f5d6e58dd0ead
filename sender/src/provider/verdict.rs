//! What became of an attempt to send a mail.

use std::time::Duration;

/// The longest pause that a provider is granted.
pub(crate) const MAX_ASKED: Duration = Duration::from_secs(3_600);

/// What became of an attempt. Reasons never hold a secret or a token; addresses that a server
/// repeats are removed by the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "no provider says everything, and a build may have a single provider")]
pub(crate) enum Verdict {
    /// The provider has taken responsibility for the mail.
    Sent(Receipt),
    /// This mail was refused for now, and certainly not accepted.
    Retry {
        /// The pause that the provider asks for.
        after: Option<Duration>,
        /// Why.
        reason: String,
    },
    /// This mail was refused for now and certainly not accepted, by a limit of ours that may be in
    /// force for it alone. It says nothing of others, which are to be tried before it, and is no
    /// failure of this one.
    Postponed {
        /// The pause of this mail.
        after: Option<Duration>,
        /// Why.
        reason: String,
    },
    /// This mail is refused for ever.
    Dead(Refusal),
    /// Nobody knows whether this mail was accepted. It says nothing of others.
    InDoubt {
        /// What is known.
        reason: String,
    },
    /// Nobody knows whether this mail was accepted, and others may fare like it: a gateway may say
    /// so after it has passed the mail on.
    Overloaded {
        /// The pause that the provider asks for.
        after: Option<Duration>,
        /// Why.
        reason: String,
    },
    /// This mail certainly was not accepted, and the guard decides whose fault that is.
    Suspected {
        /// What speaks for our own fault.
        suspicion: Suspicion,
        /// The pause that the provider asks for.
        after: Option<Duration>,
        /// Why.
        reason: String,
    },
    /// No mail can go out now, and this one certainly did not.
    Unavailable {
        /// The pause that the provider asks for.
        after: Option<Duration>,
        /// Why.
        reason: String,
    },
}

/// Why a mail may not have been accepted because of us, though one recipient may be the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "no provider says everything, and a build may have a single provider")]
pub(crate) enum Suspicion {
    /// The provider's words are about us.
    Words,
    /// They are of a limit of ours that passes.
    Limit,
    /// The same, said by a provider that seldom means one recipient (HTTP 429).
    Rate,
    /// The provider fell silent when it heard of the recipient.
    Silence,
}

/// What a provider said when it accepted a mail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The id that the provider gave to the mail, if it said one.
    pub(crate) message_id: Option<String>,
    /// Its answer, in one line: `250 2.0.0 queued as ABC`.
    pub(crate) answer: String,
}

/// Why a mail is refused for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The provider's words.
    pub(crate) reason: String,
    /// What they are about.
    pub(crate) about: About,
}

/// What a refusal is about. What is about us is no refusal of a mail, but `Unavailable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "no provider says everything, and a build may have a single provider")]
pub(crate) enum About {
    /// The recipient's address.
    Recipient {
        /// Whether the provider said for sure that there is no such address.
        is_unknown: bool,
    },
    /// This mail: its text, or an address that this server cannot be told.
    Content,
    /// Nothing that the provider says tells.
    Unplaced,
}

impl Verdict {
    /// A refusal for ever.
    pub(crate) fn dead(reason: impl Into<String>, about: About) -> Self {
        Self::Dead(Refusal { reason: reason.into(), about })
    }

    /// The pause that the provider asks for.
    pub(crate) fn after(&self) -> Option<Duration> {
        match self {
            Self::Sent(_) | Self::Dead(_) | Self::InDoubt { .. } => None,
            Self::Retry { after, .. }
            | Self::Postponed { after, .. }
            | Self::Overloaded { after, .. }
            | Self::Suspected { after, .. }
            | Self::Unavailable { after, .. } => *after,
        }
    }

    /// What was said; nothing of success.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Sent(_) => "",
            Self::Dead(Refusal { reason, .. })
            | Self::Retry { reason, .. }
            | Self::Postponed { reason, .. }
            | Self::InDoubt { reason }
            | Self::Overloaded { reason, .. }
            | Self::Suspected { reason, .. }
            | Self::Unavailable { reason, .. } => reason,
        }
    }
}
