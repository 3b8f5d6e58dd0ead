//! What can be wrong with connection settings.

use std::fmt;

use super::{Origin, TlsFault};

/// Connection settings that cannot be used; trying again without changing them is useless.
///
/// The messages name the parameter or variable, its fault and what is allowed. They never repeat a value: in
/// a string that was mistyped, any part of it may be the password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// Nothing was given.
    #[error(
        "the connection string is empty; give a URL (postgresql://host/dbname) or keywords (dbname=mailroom)"
    )]
    Empty,
    /// A URL of something else, such as `mysql://` or `http://`.
    #[error("the URL is not one of PostgreSQL; it must begin with postgresql:// or postgres://")]
    UnknownScheme,
    /// Zero bytes end every text that is sent to the server.
    #[error("the connection string contains a NUL character; remove it")]
    Nul,
    /// A `%` that is not followed by two hexadecimal digits.
    #[error(
        "the {part} in the URL has a \"%\" without two hexadecimal digits after it; write \"%\" itself as %25"
    )]
    PercentEncoding {
        /// Where in the URL.
        part: UriPart,
    },
    /// An `@` in the host or database name, or a `?` in the user: most likely a password that is not encoded.
    #[error(
        "the URL has an \"@\" or \"?\" where none can be; in user and password write \"@\" as %40, \"/\" as %2F and \
         \"?\" as %3F"
    )]
    MisplacedDelimiter,
    /// Brackets that are open, empty or followed by something else than a port.
    #[error("the brackets in the URL are wrong; an IPv6 address is written [address] or [address]:port")]
    Brackets,
    /// A piece between `&` that is not `name=value`.
    #[error(
        "the {} parameter in the URL is not of the form name=value; in a value, write \"=\" as %3D and \"&\" as %26",
        ordinal(*.position)
    )]
    UriParameter {
        /// Counted from 1.
        position: usize,
    },
    /// A word in a keyword string that is not followed by `=`.
    #[error("a keyword has no \"=\" after it; write name=value, and put values with spaces in single quotes")]
    MissingEqualSign,
    /// A single quote that is never closed.
    #[error("a single quote is never closed; a quote inside a quoted value is written \\'")]
    UnterminatedQuote,
    /// libpq has no such parameter.
    #[error("unknown parameter{}", match .name {
        Some(name) => format!(" \"{name}\"; see the list of parameters in docs/CONNECTING.md"),
        None => " after a password; if it is a part of that, quote or percent-encode the password".to_owned(),
    })]
    UnknownParameter {
        /// Its name, unless it may be a piece of a password.
        name: Option<String>,
    },
    /// A name that cannot be one of a parameter.
    #[error("a parameter's name has characters other than letters, digits and \"_\"; write name=value")]
    MalformedParameterName,
    /// A value outside what is allowed.
    #[error("{origin} must be {allowed}")]
    InvalidValue {
        /// The parameter or variable.
        origin: Origin,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A value in another encoding.
    #[error("{origin} is not UTF-8 text; only the password may be other bytes")]
    NotUtf8 {
        /// The parameter or variable.
        origin: Origin,
    },
    /// A parameter of libpq that has no counterpart here and must not be ignored silently.
    #[error("{origin} cannot be honoured: {because}")]
    Unsupported {
        /// The parameter or variable.
        origin: Origin,
        /// The reason, and what to do instead.
        because: &'static str,
    },
    /// Two parameters that contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
    /// Lists of different lengths.
    #[error(
        "{origin} lists {given} entries for {hosts} hosts; give one for each host{}",
        if *.one_for_all { ", or one for all" } else { "" }
    )]
    CountMismatch {
        /// The parameter or variable of the list.
        origin: Origin,
        /// How many it has.
        given: usize,
        /// How many hosts there are.
        hosts: usize,
        /// Whether a single entry would do for all.
        one_for_all: bool,
    },
    /// The process runs under a user id without a name.
    #[error(
        "this process's user has no name in the operating system; name the database user (user=…, PGUSER)"
    )]
    NoUserName,
    /// A service that cannot be looked up.
    #[error("the service file {} {fault}", .file.display())]
    ServiceFile {
        /// The file.
        file: std::path::PathBuf,
        /// What is wrong with it.
        fault: String,
    },
    /// No service file was found although a service is named.
    #[error(
        "{origin} names a service, but there is no service file; make ~/.pg_service.conf or set PGSERVICEFILE"
    )]
    NoServiceFile {
        /// The parameter or variable that names the service.
        origin: Origin,
    },
    /// Certificate or key files that cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsFault),
}

impl SettingsError {
    /// An unknown parameter, shown with its name where that is given and looks like one.
    pub(super) fn unknown_parameter(name: Option<&str>) -> Self {
        let is_word = |name: &&str| {
            (1..=40).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        match name {
            Some(name) if !is_word(&name) => Self::MalformedParameterName,
            name => Self::UnknownParameter { name: name.map(str::to_owned) },
        }
    }
}

/// A part of a connection URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum UriPart {
    User,
    Password,
    Host,
    Port,
    Database,
    ParameterName,
    ParameterValue,
}

impl fmt::Display for UriPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::User => "user",
            Self::Password => "password",
            Self::Host => "host",
            Self::Port => "port",
            Self::Database => "database name",
            Self::ParameterName => "parameter's name",
            Self::ParameterValue => "parameter's value",
        })
    }
}

fn ordinal(number: usize) -> String {
    let suffix = match (number % 10, number % 100) {
        (1, hundred) if hundred != 11 => "st",
        (2, hundred) if hundred != 12 => "nd",
        (3, hundred) if hundred != 13 => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_read_like_english() {
        let expected = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"];
        assert_eq!([1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal), expected);
    }
}
