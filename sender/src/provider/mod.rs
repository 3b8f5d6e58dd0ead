//! Providers of mail: what one has to do, and what it can say. Each is a file of its own and a line
//! of the registry.

use std::fmt;
use std::time::Duration;

use mailroom_mail::Error;
use serde::{Deserialize, Serialize};

use crate::key::Key;
use crate::mail::Mail;
use crate::provider;
use crate::rate::Rate;

#[cfg(feature = "api")]
mod api;
pub(crate) mod folder;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(feature = "keyed")]
pub(crate) mod keyed;
#[cfg(feature = "keyed")]
mod postmark;
pub(crate) mod refusal;
#[cfg(feature = "keyed")]
mod resend;
#[cfg(feature = "ses")]
pub(crate) mod ses;
#[cfg(feature = "smtp")]
pub(crate) mod smtp;
mod verdict;

pub(crate) use verdict::{About, MAX_ASKED, Receipt, Refusal, Suspicion, Verdict};

/// The registry of providers, a line each: the table of the configuration that has its name, what
/// that table is read into, and what makes the provider of it. The lines go to another macro; where
/// that uses the types, `provider` must be in scope, and this module's names for the functions.
macro_rules! for_providers {
    ($then:ident) => {
        $then! {
            #[cfg(feature = "http")] http: provider::http::HttpConfig => http::of;
            #[cfg(feature = "keyed")] postmark: provider::keyed::KeyedConfig => postmark::of;
            #[cfg(feature = "keyed")] resend: provider::keyed::KeyedConfig => resend::of;
            #[cfg(feature = "ses")] ses: provider::ses::SesConfig => ses::of;
            #[cfg(feature = "smtp")] smtp: provider::smtp::SmtpConfig => smtp::Smtp::new;
        }
    };
}

pub(crate) use for_providers;

/// Makes what the registry makes of the tables of a configuration.
macro_rules! make_providers {
    ($($(#[$built:meta])* $table:ident: $Table:ty => $make:path;)+) => {
        /// The tables of a configuration, one for each provider of the registry.
        pub(crate) struct Tables<'a> {
            $(
                $(#[$built])*
                pub(crate) $table: Option<&'a $Table>,
            )+
        }

        impl Tables<'_> {
            /// The providers whose tables there are, in the order of the registry.
            fn providers(&self) -> Result<Vec<Box<dyn Provider>>, Error> {
                let mut providers: Vec<Box<dyn Provider>> = Vec::new();
                $(
                    $(#[$built])*
                    if let Some(table) = self.$table {
                        providers.push(Box::new($make(table)?));
                    }
                )+
                Ok(providers)
            }
        }
    };
}

for_providers!(make_providers);

/// The provider that the configuration has, and then the fallback, if it names one.
///
/// # Errors
/// None or too many, or settings that cannot be used.
pub(crate) fn of(
    tables: &Tables<'_>,
    fallback: Option<&str>,
) -> Result<Vec<Box<dyn Provider>>, Error> {
    let mut named = tables.providers()?;
    if let Some(fallback) = fallback {
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

/// What takes mails. It is shared by all threads; each has a connection of its own.
pub(crate) trait Provider: Send + Sync {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// What is sent for a mail, or why nothing can be. It is prepared at the first attempt.
    fn payload(&self, mail: &Mail) -> Result<String, String>;

    /// The sender of the mail's envelope, where bounces go; `None` if this provider gets no
    /// envelope. It is prepared, too.
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

    /// How long an attempt may take until a connection is open, and then until its content has
    /// begun, if it waits for others: all steps of each together.
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
    fn deliver(
        &mut self,
        prepared: &PreparedMail,
        payload: &str,
        progress: &dyn Progress,
    ) -> Verdict;

    /// Closes what has not been used for some time.
    fn idle(&mut self) {}
}

/// What an attempt reports while it goes on.
pub(crate) trait Progress {
    /// Records that from here on the provider may have the mail. It is called just before the final
    /// dot (by HTTP: the request), and again if the content is refused and given to another
    /// connection. What ends earlier is certainly not accepted.
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
pub(crate) struct PreparedMail {
    /// What the token is known by; it stands beside this in the journal.
    #[serde(skip)]
    pub(crate) key: Key,
    /// The provider that the first attempt is by.
    pub(crate) provider: String,
    /// When it was prepared, just before its first attempt; in seconds since 1970.
    #[serde(rename = "fixed_at")]
    pub(crate) prepared_at: i64,
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

impl fmt::Debug for PreparedMail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PreparedMail({})", self.key)
    }
}

impl PreparedMail {
    /// Prepares a mail for a provider, and for another one.
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
            prepared_at: crate::clock::seconds(mail.date),
            envelope_sender: envelope_sender.unwrap_or_else(|| mail.from.email.to_string()),
            to: mail.to.address().to_string(),
            payload: first.payload(mail)?,
            other,
        })
    }

    /// What a provider gets, if the mail was prepared for it.
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
