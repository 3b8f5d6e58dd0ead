//! Errors of settings, of connecting and of statements,
//! in words for the person who runs the program.

use std::borrow::Cow;
use std::error::Error as _;
use std::fmt::Display;
use std::io;

use rustls::CertificateError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use super::authentication::RefusedMethod;
use super::pooler;
use super::verifier::webpki_error;

/// Connection settings that cannot be used; trying again without changing them is useless.
///
/// The messages name the parameter or variable, its fault and what is allowed. They never repeat a
/// value: in a string that was mistyped, any part of it may be the password.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(Cow<'static, str>);

impl SettingsError {
    pub(crate) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self(message.into())
    }

    /// Zero bytes end every text that is sent to the server.
    pub(crate) fn nul() -> Self {
        Self::new("the connection string contains a NUL character; remove it")
    }

    pub(crate) fn invalid(origin: &str, allowed: &str) -> Self {
        Self::new(format!("{origin} must be {allowed}"))
    }

    pub(crate) fn unsupported(origin: &str, because: &str) -> Self {
        Self::new(format!("{origin} cannot be honoured: {because}"))
    }

    /// An unknown parameter, whose name is shown if it looks like one
    /// and cannot be a piece of a password.
    pub(crate) fn unknown_parameter(name: &str, may_be_secret: bool) -> Self {
        let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        Self::new(if is_word && (1..=40).contains(&name.len()) && !may_be_secret {
            format!(
                "unknown parameter \"{name}\"; it must be one of libpq's connection parameters, \
                 such as host, port, user, password, dbname, sslmode, sslrootcert or options"
            )
        } else {
            "unknown parameter; if it is a part of a password, quote or percent-encode the password"
                .to_owned()
        })
    }
}

/// What the library says of a server that offers no TLS.
pub(crate) const WITHOUT_TLS: &str = "server does not support TLS";

/// What helps where nothing can be written.
const READ_ONLY: &str = "; if the server is a standby, connect to the primary, for instance with \
                         target_session_attrs=read-write; otherwise switch \
                         default_transaction_read_only off for this role or database";

/// What the server refuses, or how the connection was lost, in one sentence.
///
/// The server's detail is left out, because it can quote rows.
pub fn explain(error: &Error) -> String {
    if let Some(refusal) = error.as_db_error() {
        let message = refusal.message();
        let code = refusal.code().code();
        let hint = pooler::hint(refusal);
        let advice =
            if *refusal.code() == SqlState::READ_ONLY_SQL_TRANSACTION { READ_ONLY } else { "" };
        return format!("the server says: {message} (SQLSTATE {code}){hint}{advice}");
    }
    match error.source() {
        Some(cause) if cause.is::<io::Error>() => format!("the connection is lost: {cause}"),
        Some(cause) => format!("{error}: {cause}"),
        None if error.is_closed() => "the connection is lost: the server closed it".to_owned(),
        None => error.to_string(),
    }
}

/// No server accepted the connection. It may do so later: it may be starting, or its passwords and
/// databases being set up.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(pub(crate) String);

/// What went wrong with one server.
#[derive(Debug)]
pub(crate) struct FailedAttempt {
    pub(crate) kind: FailureKind,
    /// The server, which is a socket's path, or host, address and port; and the reason.
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The server cannot be reached or used now; another one may do.
    Unavailable,
    /// The same: the encryption that the settings require was not established.
    Tls,
    /// As in libpq, no other server is tried: user or database are refused, or it is no PostgreSQL.
    Refused,
}

/// What the errors of an attempt mention.
#[derive(Debug)]
pub(crate) struct AttemptContext {
    pub(crate) server: String,
    pub(crate) is_socket: bool,
    /// The password that was sent; it is replaced wherever the server repeats it.
    pub(crate) password: Option<String>,
    /// Where the password came from, or why there is none.
    pub(crate) password_origin: String,
    /// Where the trusted authorities came from.
    pub(crate) roots: String,
}

impl AttemptContext {
    pub(crate) fn failed(&self, kind: FailureKind, reason: impl Display) -> FailedAttempt {
        FailedAttempt { kind, message: format!("{}: {reason}", self.server) }
    }

    /// Puts an error of tokio-postgres into words.
    pub(crate) fn explain(&self, error: &Error) -> FailedAttempt {
        use FailureKind::{Refused, Tls, Unavailable};
        if let Some(code) = error.code() {
            let (kind, advice) = self.advice(code);
            return self.failed(kind, self.quoted(&explain(error)) + &advice);
        }
        let cause = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        if let Some(cause) = cause {
            let inner = cause.get_ref();
            if let Some(refused) = inner.and_then(|inner| inner.downcast_ref::<RefusedMethod>()) {
                return self.failed(Refused, refused);
            }
            return match cause.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>()) {
                Some(tls) => self.failed(Tls, self.tls_reason(tls)),
                None => self.io_failure(cause),
            };
        }
        // The remaining causes are texts of the library.
        match error.source().map(ToString::to_string).unwrap_or_default().as_str() {
            _ if error.is_closed() => self.failed(
                Unavailable,
                "the server closed the connection while it was being made; its log says why",
            ),
            "password missing" => self.failed(
                Refused,
                format!("the server requires a password, but {}", self.password_origin),
            ),
            WITHOUT_TLS => self.failed(
                Tls,
                "the server offers no TLS; switch it on there (ssl = on), or use another sslmode",
            ),
            "server did not use channel binding" => self.failed(
                Refused,
                "the server does not bind the password to the encryption, as \
                 channel_binding=require demands",
            ),
            cause => self.failed(Refused, self.quoted(&format!("{error}: {cause}"))),
        }
    }

    fn advice(&self, code: &SqlState) -> (FailureKind, String) {
        let advice = match *code {
            SqlState::CANNOT_CONNECT_NOW | SqlState::TOO_MANY_CONNECTIONS => {
                return (FailureKind::Unavailable, String::new());
            }
            SqlState::INVALID_PASSWORD => &self.password_origin,
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                "its roles and its file pg_hba.conf decide who may connect, and how"
            }
            SqlState::INVALID_CATALOG_NAME => "create the database or name another one",
            _ => return (FailureKind::Refused, String::new()),
        };
        (FailureKind::Refused, format!("; {advice}"))
    }

    fn io_failure(&self, error: &io::Error) -> FailedAttempt {
        use io::ErrorKind::{
            ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidData, InvalidInput,
            NotFound, PermissionDenied, TimedOut, UnexpectedEof,
        };
        let reason = match (error.kind(), self.is_socket) {
            (NotFound | ConnectionRefused, true) => {
                "no server listens there; is PostgreSQL running?"
            }
            (ConnectionRefused, false) => {
                "no server listens there; is PostgreSQL running, \
                 and are listen_addresses and port right?"
            }
            (PermissionDenied, true) => {
                "this process may not use the socket; see unix_socket_permissions of the server"
            }
            (TimedOut, _) => "no answer in time (connect_timeout)",
            (ConnectionReset | ConnectionAborted | UnexpectedEof, _) => {
                "the connection was cut off while it was being made"
            }
            (InvalidData | InvalidInput, _) => {
                let reason = format!("what answers does not speak PostgreSQL's protocol ({error})");
                return self.failed(FailureKind::Refused, self.quoted(&reason));
            }
            _ => return self.failed(FailureKind::Unavailable, self.quoted(&error.to_string())),
        };
        self.failed(FailureKind::Unavailable, reason)
    }

    fn tls_reason(&self, error: &rustls::Error) -> String {
        use rustls::Error::{AlertReceived, InvalidCertificate, PeerIncompatible};
        match error {
            InvalidCertificate(fault) => {
                format!(
                    "the server's certificate {}",
                    self.certificate_fault(fault, webpki_error(error))
                )
            }
            AlertReceived(alert) => format!(
                "the server broke off the encryption ({alert:?}); it may want a client certificate \
                 (sslcert, sslkey), and its log says more"
            ),
            PeerIncompatible(fault) => {
                format!(
                    "the server has no version or algorithm of TLS in common \
                     with this program ({fault:?})"
                )
            }
            error => self.quoted(&error.to_string()),
        }
    }

    fn certificate_fault(
        &self,
        fault: &CertificateError,
        unusual: Option<&webpki::Error>,
    ) -> String {
        use CertificateError as Fault;
        match fault {
            _ if unusual == Some(&webpki::Error::UnsupportedCertVersion) => {
                "is of an X.509 version before 3; make one of version 3 with the host as \
                 alternative name (subjectAltName)"
                    .to_owned()
            }
            _ if unusual == Some(&webpki::Error::CaUsedAsEndEntity) => {
                format!(
                    "is an authority's own and not itself in {}; if it is self-signed, name its \
                     file in sslrootcert, or make one that is no authority \
                     (basicConstraints=CA:FALSE)",
                    self.roots
                )
            }
            Fault::UnknownIssuer => format!(
                "is not signed by an authority in {}; name the file of its authority's certificate \
                 in sslrootcert",
                self.roots
            ),
            Fault::Expired | Fault::ExpiredContext { .. } => "has expired; renew it".to_owned(),
            Fault::NotValidYet | Fault::NotValidYetContext { .. } => {
                "is not valid yet; is the clock right?".to_owned()
            }
            Fault::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
                let names: Vec<&str> = presented.iter().map(|name| plain_name(name)).collect();
                format!("is for {} only; use such a name as host", self.quoted(&names.join(", ")))
            }
            Fault::NotValidForName | Fault::NotValidForNameContext { .. } => {
                "is for no host; make one with the host as alternative name (subjectAltName), \
                 because the common name does not count"
                    .to_owned()
            }
            fault => format!("is refused: {}", self.quoted(&fault.to_string())),
        }
    }

    /// Text from outside on one line, of bounded length and without the password.
    fn quoted(&self, text: &str) -> String {
        const MAX_SHOWN: usize = 800;
        let mut text = text.to_owned();
        if let Some(password) = &self.password {
            text = text.replace(password, "***");
        }
        text.chars()
            .take(MAX_SHOWN)
            .map(|character| if character.is_control() { ' ' } else { character })
            .collect()
    }
}

/// A certificate's name as it is written: webpki presents `DnsName("localhost")` and
/// `IpAddress(127.0.0.1)`.
fn plain_name(presented: &str) -> &str {
    let inside = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.unwrap_or(presented).trim_matches('"')
}
