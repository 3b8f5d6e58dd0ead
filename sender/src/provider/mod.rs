//! Providers of mail: what one has to do, and what it can say. Each is a file of its own, and a
//! feature.

use std::fmt;
use std::time::Duration;

use mailroom_mail::Error;
use serde::{Deserialize, Serialize};

use crate::mail::Mail;
use crate::protocol::Key;
use crate::rate::Rate;

#[cfg(feature = "api")]
mod api;
pub(crate) mod folder;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(any(feature = "postmark", feature = "resend"))]
pub(crate) mod keyed;
#[cfg(feature = "postmark")]
mod postmark;
pub(crate) mod refusal;
#[cfg(feature = "resend")]
mod resend;
#[cfg(feature = "ses")]
pub(crate) mod ses;
#[cfg(feature = "smtp")]
pub(crate) mod smtp;

/// What takes mails. It is shared by all threads; each has a connection of its own.
pub(crate) trait Provider: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// What is sent for a mail, or why nothing can be. It is fixed at the first attempt.
    fn payload(&self, mail: &Mail) -> Result<String, String>;

    /// The sender of the mail's envelope, where bounces go; `None` if this provider gets no
    /// envelope. It is fixed, too.
    fn envelope_sender(&self, _: &Mail) -> Option<String> {
        None
    }

    /// How long it knows a mail by its key after the first attempt, so that another one does not
    /// double it; `None` without keys.
    fn key_window(&self) -> Option<Duration> {
        None
    }

    /// How many connections it is to have.
    fn connections(&self) -> usize;

    /// How long an attempt may take until its content has begun, if it waits for others: all steps
    /// together.
    fn timeout(&self) -> Option<Duration>;

    /// How many mails it may get in a time.
    fn rate(&self) -> Option<Rate> {
        None
    }

    /// A connection, which need not be open yet.
    fn connection(&self) -> Box<dyn Connection + '_>;

    /// Connects and authenticates; returns what works, but should be changed.
    ///
    /// # Errors
    /// Why no mail could go out.
    fn check(&self) -> Result<Option<String>, String>;

    /// Finds out after a failure whether the provider answers again, without a mail.
    ///
    /// # Errors
    /// Why it does not.
    fn probe(&self) -> Result<(), String> {
        self.check().map(|_| ())
    }
}

/// A connection to a provider, opened and closed as it is needed.
pub(crate) trait Connection {
    /// Sends a mail, of which `payload` is what this provider gets. It returns within the
    /// provider's timeout, after which a final answer has its own.
    fn deliver(&mut self, sealed: &Sealed, payload: &str, progress: &dyn Progress) -> Verdict;

    /// Closes what has not been used for some time.
    fn idle(&mut self) {}
}

/// What an attempt reports while it goes on.
pub(crate) trait Progress {
    /// Records that from here on the provider may have the mail. It is called just before the final
    /// dot (by HTTP: the request), once for an attempt. What ends earlier is certainly not
    /// accepted.
    ///
    /// Returns how long the answer may be waited for, if others need the place.
    ///
    /// # Errors
    /// Why it cannot be recorded; then nothing may be sent, and the verdict is `Unavailable`.
    fn enter_doubt(&self) -> Result<Option<Duration>, String>;

    /// Notes that from here on the provider is asked about the recipient, which it may have to ask
    /// others about. Returns how long that may take, if others need the place.
    fn enter_envelope(&self) -> Option<Duration> {
        None
    }
}

/// A mail as it goes out at every attempt.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    /// What the token is known by; it stands beside this in the journal.
    #[serde(skip)]
    pub(crate) key: Key,
    /// The provider that the first attempt is by.
    pub(crate) provider: String,
    /// When it was fixed, just before its first attempt; in seconds since 1970.
    pub(crate) fixed_at: i64,
    /// The sender of its envelope.
    pub(crate) envelope_sender: String,
    /// The address that it goes to.
    pub(crate) to: String,
    /// What this provider gets.
    pub(crate) payload: String,
    /// Another provider, and what that one gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) other: Option<(String, String)>,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({})", self.key)
    }
}

impl Sealed {
    /// Fixes a mail for a provider, and for another one.
    ///
    /// # Errors
    /// Why it cannot be sent by the first.
    pub(crate) fn new(
        mail: &Mail,
        first: &dyn Provider,
        other: Option<&dyn Provider>,
    ) -> Result<Self, String> {
        let envelope_sender =
            [Some(first), other].into_iter().flatten().find_map(|by| by.envelope_sender(mail));
        let other =
            other.and_then(|other| Some((other.name().to_owned(), other.payload(mail).ok()?)));
        Ok(Self {
            key: mail.key,
            provider: first.name().to_owned(),
            fixed_at: crate::serve::seconds(mail.date),
            envelope_sender: envelope_sender.unwrap_or_else(|| mail.from.email.to_string()),
            to: mail.to.address().to_string(),
            payload: first.payload(mail)?,
            other,
        })
    }

    /// What a provider gets, if the mail was fixed for it.
    pub(crate) fn payload(&self, provider: &str) -> Option<&str> {
        if self.provider == provider {
            return Some(&self.payload);
        }
        self.other
            .as_ref()
            .filter(|(name, _)| name == provider)
            .map(|(_, payload)| payload.as_str())
    }
}

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

/// The provider that the configuration has, and then the fallback, if it names one.
///
/// # Errors
/// None or too many, or settings that cannot be used.
pub(crate) fn of(config: &crate::config::Config) -> Result<Vec<Box<dyn Provider>>, Error> {
    let mut named: Vec<Box<dyn Provider>> = Vec::new();
    #[cfg(feature = "http")]
    if let Some(http) = &config.http {
        named.push(Box::new(http::of(http)?));
    }
    #[cfg(feature = "postmark")]
    if let Some(postmark) = &config.postmark {
        named.push(Box::new(postmark::of(postmark)?));
    }
    #[cfg(feature = "resend")]
    if let Some(resend) = &config.resend {
        named.push(Box::new(resend::of(resend)?));
    }
    #[cfg(feature = "ses")]
    if let Some(ses) = &config.ses {
        named.push(Box::new(ses::of(ses)?));
    }
    #[cfg(feature = "smtp")]
    if let Some(smtp) = &config.smtp {
        named.push(Box::new(smtp::Smtp::new(smtp)?));
    }
    if let Some(fallback) = &config.fallback {
        let place = named.iter().position(|provider| provider.name() == fallback);
        let Some(place) = place.filter(|_| named.len() == 2) else {
            return Err(Error::configuration(
                "fallback must name one of exactly two tables of providers, such as [smtp]",
            ));
        };
        let last = named.remove(place);
        named.push(last);
    } else if named.len() != 1 {
        return Err(Error::configuration(
            "the configuration must have exactly one table of a provider, such as [smtp], \
             or two and `fallback`",
        ));
    }
    Ok(named)
}
