//! Settings: where a value comes from, and what is allowed.
//!
//! A flag beats its environment variable, and an empty variable counts as not set. Every invalid value is one sentence
//! that names the flag or the variable; secrets come from the environment or a file only and are never shown.

mod collect;
mod deliveries;
mod flags;
mod unknown;
mod value;

use std::ffi::OsString;
use std::fmt;

use mailroom_verifier_core::Version;

pub use collect::{CollectSettings, MissingSchema, Prefetch, QueueKind, Timeouts, Wake, retention};
pub use deliveries::{DeliveryFlags, DeliverySettings};
pub use flags::CollectFlags;
pub use unknown::unknown_variables;
pub use value::{NotAllowed, Span};

/// The variable that says which database to connect to. It may hold a password, so there is no flag for it.
pub const DATABASE_URL: &str = "MAILROOM_DATABASE_URL";

/// The variable with the shared key. There is no flag for it: arguments are visible to everybody on the machine.
pub const SECRET_KEY: &str = "MAILROOM_SECRET_KEY";

/// The variable with the private key that signs v3.
pub const SIGNING_KEY: &str = "MAILROOM_SIGNING_KEY";

/// The variable with a public key that verifies v3.
pub const PUBLIC_KEY: &str = "MAILROOM_PUBLIC_KEY";

/// The variable with the path of a key file.
pub const KEY_FILE: &str = "MAILROOM_KEY_FILE";

/// Why a setting stops the start.
#[derive(Debug, thiserror::Error)]
pub enum SettingError {
    /// A setting without a default is missing.
    #[error("{name} is not set; {wanted}")]
    Missing {
        /// The variable.
        name: &'static str,
        /// What to set it to.
        wanted: &'static str,
    },
    /// The value has the wrong form or lies outside what is allowed.
    #[error("{origin} is {value}, but must be {allowed}")]
    Invalid {
        /// The flag or variable.
        origin: Origin,
        /// The value, quoted and shortened.
        value: Shown,
        /// What is allowed.
        allowed: NotAllowed,
    },
    /// The value is not text.
    #[error("{origin} is not valid UTF-8; write it in UTF-8")]
    NotUtf8 {
        /// The flag or variable.
        origin: Origin,
    },
    /// Two settings contradict each other.
    #[error(
        "{interval_origin} is {interval}, which is below the batch timeout of {timeout}; raise it, or lower {timeout_name}"
    )]
    HealthcheckBelowTimeout {
        /// The flag or variable of the health-check interval.
        interval_origin: Origin,
        /// The health-check interval.
        interval: Span,
        /// The batch timeout.
        timeout: Span,
        /// The variable of the batch timeout.
        timeout_name: &'static str,
    },
    /// A sender that is no command.
    #[error(
        "{origin} is no command; it must be a program with its arguments, separated by blanks, and quoted as in a shell"
    )]
    NoCommand {
        /// The flag or variable.
        origin: Origin,
    },
    /// A queue that cannot record what a sender answers.
    #[error(
        "{kind_origin} is `cursor`, but with a sender it must be `deliveries`: the cursor is one number and cannot record \
         which tokens are to be tried again"
    )]
    SenderOfCursor {
        /// The flag or variable of the kind of queue.
        kind_origin: Origin,
    },
    /// A channel on which nothing is announced.
    #[error(
        "{origin} is {value}, but the queue `deliveries` is announced on `{announced}`; unset it or, on a schema from before \
         migration 15, set MAILROOM_QUEUE_KIND to `cursor`"
    )]
    ChannelOfDeliveries {
        /// The flag or variable.
        origin: Origin,
        /// The value.
        value: Shown,
        /// Where tokens are announced.
        announced: &'static str,
    },
    /// A queue's name where there is none.
    #[error(
        "{origin} is {value}, but names a row of the table jobs, which the queue `deliveries` does not read; unset it or, on \
         a schema from before migration 15, set MAILROOM_QUEUE_KIND to `cursor`"
    )]
    NameOfDeliveries {
        /// The flag or variable.
        origin: Origin,
        /// The value.
        value: Shown,
    },
    /// A claim that could lapse while a sender works.
    #[error(
        "{lease_origin} is {lease}, which is below twice the sender's timeout of {timeout}; raise it, or lower {timeout_name}"
    )]
    LeaseTooShort {
        /// The flag or variable of the lease.
        lease_origin: Origin,
        /// The lease.
        lease: Span,
        /// The sender's timeout.
        timeout: Span,
        /// The variable of the sender's timeout.
        timeout_name: &'static str,
    },
    /// Two places for the key.
    #[error(
        "{variable} and MAILROOM_KEY_FILE are both set; unset one, so that it is clear which keys are meant"
    )]
    TwoKeySources {
        /// The variable that holds a key.
        variable: &'static str,
    },
}

/// The format of tokens that are signed: `v1` unless flag or variable say otherwise.
///
/// # Errors
/// A format that does not exist.
pub fn token_format(flag: Option<&OsString>, variables: Variables<'_>) -> Result<Version, SettingError> {
    const TOKEN_FORMAT: Setting = Setting { flag: "--token-format", variable: "MAILROOM_TOKEN_FORMAT" };
    const FORMATS: [(&str, Version); 3] = [("v1", Version::V1), ("v2", Version::V2), ("v3", Version::V3)];
    let (_, format) = TOKEN_FORMAT.value(flag, variables, "v1", |text| value::one_of(text, &FORMATS))?;
    Ok(format)
}

/// Where a value was given; shown as the name that a person can look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command line.
    Flag(&'static str),
    /// An environment variable.
    Variable(&'static str),
    /// Nowhere: the default of this variable.
    Default(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Variable(name) => formatter.write_str(name),
            Self::Default(variable) => write!(formatter, "the default of {variable}"),
        }
    }
}

/// A value in an error: quoted, control characters escaped, cut after 40 characters. A key in the wrong place is not shown.
#[derive(Debug)]
pub struct Shown(String);

impl Shown {
    fn new(value: &str) -> Self {
        const LONGEST: usize = 40;
        if looks_like_a_key(value) {
            return Self("a text that looks like a key".to_owned());
        }
        let mut text: String = value.chars().take(LONGEST).flat_map(char::escape_debug).collect();
        if value.chars().nth(LONGEST).is_some() {
            text.push('…');
        }
        Self(format!("`{text}`"))
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Whether a text that should be something else may be a secret key, or most of one.
pub(crate) fn looks_like_a_key(text: &str) -> bool {
    let is_hexadecimal = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Digits alone are a number that is too large.
    text.contains("mrsk_") || is_hexadecimal && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Looks up an environment variable; tests give their own, because a process has only one environment.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The environment of this process.
pub fn process_variables(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// One setting that has a flag and a variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) flag: &'static str,
    pub(crate) variable: &'static str,
}

impl Setting {
    /// The given or default text and where it came from.
    pub(crate) fn text(
        self,
        flag: Option<&OsString>,
        variables: Variables<'_>,
        default: &str,
    ) -> Result<(Origin, String), SettingError> {
        let (origin, value) = match (flag, set_variable(variables, self.variable)) {
            (Some(value), _) => (Origin::Flag(self.flag), value.clone()),
            (None, Some(value)) => (Origin::Variable(self.variable), value),
            (None, None) => (Origin::Default(self.variable), default.into()),
        };
        let value = value.into_string().map_err(|_| SettingError::NotUtf8 { origin })?;
        Ok((origin, value))
    }

    /// The given or default value, read by `parse`.
    pub(crate) fn value<T>(
        self,
        flag: Option<&OsString>,
        variables: Variables<'_>,
        default: &str,
        parse: impl FnOnce(&str) -> Result<T, NotAllowed>,
    ) -> Result<(Origin, T), SettingError> {
        let (origin, text) = self.text(flag, variables, default)?;
        match parse(&text) {
            Ok(value) => Ok((origin, value)),
            Err(allowed) => Err(SettingError::Invalid { origin, value: Shown::new(&text), allowed }),
        }
    }
}

/// The value of a variable that is set to something.
pub(crate) fn set_variable(variables: Variables<'_>, name: &str) -> Option<OsString> {
    variables(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_value_is_escaped_and_cut() {
        assert_eq!(Shown::new("a\nb\u{1b}[1m").to_string(), "`a\\nb\\u{1b}[1m`");
        assert_eq!(Shown::new(&"9".repeat(41)).to_string(), format!("`{}…`", "9".repeat(40)));
    }

    #[test]
    fn a_key_in_the_wrong_place_is_not_shown() {
        let hexadecimal = "F0862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";
        let cut = &hexadecimal[..33];
        for key in [hexadecimal, cut, "mrsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", " mrsk_AAEC"] {
            assert_eq!(Shown::new(key).to_string(), "a text that looks like a key");
        }
        for text in ["deadbeef", "mailroom_of_the_department_of_letters", &"1".repeat(64)] {
            assert!(!looks_like_a_key(text), "{text}");
        }
    }
}
