//! Providers of mail: what one has to do, and what it can say. Each is a file of its own, and a feature.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::mail::Mail;
use crate::protocol::Key;

#[cfg(feature = "api")]
mod api;
pub(crate) mod folder;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(any(feature = "postmark", feature = "resend"))]
pub(crate) mod keyed;
#[cfg(feature = "postmark")]
mod postmark;
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

    /// How many connections it is to have.
    fn connections(&self) -> usize;

    /// A connection, which need not be open yet.
    fn connection(&self) -> Box<dyn Connection + '_>;

    /// Connects and authenticates.
    fn check(&self) -> Result<(), String>;
}

/// A connection to a provider, opened and closed as it is needed.
pub(crate) trait Connection {
    /// Sends a mail. It returns within the provider's timeout.
    fn deliver(&mut self, sealed: &Sealed) -> Verdict;

    /// Closes what has not been used for some time.
    fn idle(&mut self) {}
}

/// A mail as it goes out at every attempt.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    /// What the token is known by; it stands beside this in the journal.
    #[serde(skip)]
    pub(crate) key: Key,
    /// The provider whose payload it is.
    pub(crate) provider: String,
    /// The address that it is from.
    pub(crate) from: String,
    /// The address that it goes to.
    pub(crate) to: String,
    /// What the provider gets.
    pub(crate) payload: String,
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({})", self.key)
    }
}

impl Sealed {
    /// Fixes a mail for a provider.
    ///
    /// # Errors
    /// Why it cannot be sent by that one.
    pub(crate) fn new(mail: &Mail, provider: &dyn Provider) -> Result<Self, String> {
        Ok(Self {
            key: mail.key,
            provider: provider.name().to_owned(),
            from: mail.from.email.to_string(),
            to: mail.to.address().to_string(),
            payload: provider.payload(mail)?,
        })
    }
}

/// What became of an attempt. Reasons never hold a secret or a token; addresses that a server repeats are removed by the collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The provider has taken responsibility for the mail.
    Sent,
    /// This mail is refused for now, or nobody knows whether it was accepted.
    Retry {
        /// The pause that the provider asks for.
        after: Option<Duration>,
        /// Why.
        reason: String,
    },
    /// This mail is refused for ever.
    Dead(String),
    /// No mail can go out now, and this one certainly did not.
    Unavailable {
        /// The pause that the provider asks for.
        after: Option<Duration>,
        /// Why.
        reason: String,
    },
}

/// The provider that the configuration names.
///
/// # Errors
/// None or several, or settings of it that cannot be used.
pub(crate) fn of(config: &crate::config::Config) -> Result<Box<dyn Provider>, Error> {
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
    let _ = config;
    match (named.pop(), named.is_empty()) {
        (Some(provider), true) => Ok(provider),
        _ => Err(Error::configuration(
            "the configuration must have exactly one table of a provider, such as [smtp]",
        )),
    }
}
