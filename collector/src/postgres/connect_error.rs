//! Why no connection came about, in words for the person who runs the collector.

use std::error::Error as _;
use std::fmt;
use std::io;

use rustls::CertificateError;
use tokio_postgres::error::{DbError, SqlState};

use super::pooler;

/// No server let us in. It may do so later: it may be starting, or its passwords and databases being set up.
#[derive(Debug, thiserror::Error)]
pub struct ConnectError {
    pub(super) database: String,
    pub(super) user: String,
    pub(super) attempts: Vec<FailedAttempt>,
}

impl ConnectError {
    /// What went wrong with each server that was tried, in that order; at least one.
    pub fn attempts(&self) -> &[FailedAttempt] {
        &self.attempts
    }

    /// What went wrong with the last server that was tried.
    pub fn kind(&self) -> FailureKind {
        self.attempts.last().map_or(FailureKind::Unreachable, FailedAttempt::kind)
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot connect to database {:?} as user {:?}", self.database, self.user)?;
        for (index, attempt) in self.attempts.iter().enumerate() {
            let separator = if index == 0 { " on " } else { ", nor on " };
            write!(formatter, "{separator}{attempt}")?;
        }
        Ok(())
    }
}

/// What went wrong with one server.
#[derive(Debug)]
pub struct FailedAttempt {
    server: String,
    kind: FailureKind,
    reason: String,
}

/// The sort of failure, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// Nothing listens there, the name has no address, or the way is barred.
    Unreachable,
    /// No answer in time.
    TimedOut,
    /// The server is starting, stopping or has no connection left.
    NotReady,
    /// The encryption that was asked for did not come about.
    Tls,
    /// Password, certificate or the server's `pg_hba.conf`.
    Authentication,
    /// The server has no such database.
    NoSuchDatabase,
    /// The server is not of the kind that `target_session_attrs` asks for.
    WrongSession,
    /// A pooler is in between that does not keep sessions, and one is needed.
    Pooled,
    /// Anything else that the server said, or that it is no PostgreSQL.
    Other,
}

impl FailedAttempt {
    pub(super) fn new(server: &str, kind: FailureKind, reason: impl Into<String>) -> Self {
        Self { server: server.to_owned(), kind, reason: reason.into() }
    }

    /// Which server: a socket's path, or host, address and port.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The sort of failure.
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Whether libpq would go on to the next server of the list.
    pub(super) fn leaves_other_servers(&self) -> bool {
        !matches!(self.kind, FailureKind::Authentication | FailureKind::NoSuchDatabase | FailureKind::Other)
    }
}

impl fmt::Display for FailedAttempt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.server, self.reason)
    }
}

/// What an attempt was made with, as far as messages tell of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Circumstances<'a> {
    pub(super) server: &'a str,
    pub(super) is_socket: bool,
    /// The password that was sent; it is taken out of whatever the server says.
    pub(super) password: Option<&'a [u8]>,
    /// Where the password came from, or why there is none.
    pub(super) password_origin: &'a str,
    pub(super) roots: &'a str,
}

impl Circumstances<'_> {
    pub(super) fn failed(&self, kind: FailureKind, reason: impl Into<String>) -> FailedAttempt {
        FailedAttempt::new(self.server, kind, reason)
    }

    /// Puts an error of the library into words.
    pub(super) fn explain(&self, error: &tokio_postgres::Error) -> FailedAttempt {
        if let Some(refusal) = error.as_db_error() {
            return self.refusal(refusal);
        }
        if let Some(tls) = tls_error(error) {
            return self.failed(FailureKind::Tls, self.tls_reason(tls));
        }
        if let Some(error) = error.source().and_then(|source| source.downcast_ref::<io::Error>()) {
            return self.io_failure(error);
        }
        if error.is_closed() {
            return self.failed(
                FailureKind::Unreachable,
                "the server closed the connection while it was being made; its log says why",
            );
        }
        // The remaining causes are texts of the library.
        match error.source().map(ToString::to_string).unwrap_or_default().as_str() {
            "password missing" => self.failed(
                FailureKind::Authentication,
                format!("the server asks for a password, but {}", self.password_origin),
            ),
            "server does not support TLS" => self.failed(
                FailureKind::Tls,
                "the server offers no TLS; switch it on there (ssl = on), or use another sslmode",
            ),
            "server did not use channel binding" => self.failed(
                FailureKind::Authentication,
                "the server does not bind the password to the encryption, as channel_binding=require demands",
            ),
            cause => self.failed(FailureKind::Other, self.quoted(&format!("{error}: {cause}"))),
        }
    }

    fn refusal(&self, refusal: &DbError) -> FailedAttempt {
        let said = format!("the server says: {}", self.quoted(refusal.message()));
        match *refusal.code() {
            SqlState::INVALID_PASSWORD => {
                self.failed(FailureKind::Authentication, format!("{said}; {}", self.password_origin))
            }
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION => self.failed(
                FailureKind::Authentication,
                format!("{said}; its roles and its file pg_hba.conf decide who may connect, and how"),
            ),
            SqlState::INVALID_CATALOG_NAME => self.failed(
                FailureKind::NoSuchDatabase,
                format!("{said}; create the database or name another one"),
            ),
            SqlState::CANNOT_CONNECT_NOW | SqlState::TOO_MANY_CONNECTIONS => {
                self.failed(FailureKind::NotReady, said)
            }
            _ => {
                let hint = pooler::hint(refusal).map_or_else(String::new, |hint| format!("; {hint}"));
                self.failed(FailureKind::Other, said + &hint)
            }
        }
    }

    fn io_failure(&self, error: &io::Error) -> FailedAttempt {
        use io::ErrorKind::{
            ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidData, InvalidInput, NotFound,
            PermissionDenied, TimedOut, UnexpectedEof,
        };
        let (kind, reason) = match (error.kind(), self.is_socket) {
            (NotFound | ConnectionRefused, true) => {
                (FailureKind::Unreachable, "no server listens there; is PostgreSQL running?".to_owned())
            }
            (ConnectionRefused, false) => (
                FailureKind::Unreachable,
                "no server listens there; is PostgreSQL running, and are listen_addresses and port right?"
                    .to_owned(),
            ),
            (PermissionDenied, true) => (
                FailureKind::Unreachable,
                "this process may not use the socket; see unix_socket_permissions of the server".to_owned(),
            ),
            (TimedOut, _) => (FailureKind::TimedOut, "no answer in time (connect_timeout)".to_owned()),
            (ConnectionReset | ConnectionAborted | UnexpectedEof, _) => {
                (FailureKind::Unreachable, "the connection was cut off while it was being made".to_owned())
            }
            (InvalidData | InvalidInput, _) => {
                (FailureKind::Other, format!("what answers does not speak PostgreSQL's protocol ({error})"))
            }
            _ => (FailureKind::Unreachable, error.to_string()),
        };
        self.failed(kind, self.quoted(&reason))
    }

    fn tls_reason(&self, error: &rustls::Error) -> String {
        use rustls::Error::{AlertReceived, InvalidCertificate, PeerIncompatible};
        let roots = self.roots;
        match error {
            InvalidCertificate(fault) => match fault {
                CertificateError::UnknownIssuer => {
                    format!("the server's certificate is not signed by an authority in {roots}")
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "the server's certificate has expired; renew it".to_owned()
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    "the server's certificate is not valid yet; is the clock right?".to_owned()
                }
                CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
                    format!(
                        "the server's certificate is for {} only; use such a name as host",
                        self.quoted(
                            &presented.iter().map(|name| plain_name(name)).collect::<Vec<_>>().join(", ")
                        )
                    )
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    "the server's certificate is not for this host; use the name that it is for as host"
                        .to_owned()
                }
                CertificateError::Revoked => "the server's certificate was revoked".to_owned(),
                CertificateError::UnknownRevocationStatus => {
                    "sslcrl has no list of the authority that signed the server's certificate".to_owned()
                }
                CertificateError::ExpiredRevocationList
                | CertificateError::ExpiredRevocationListContext { .. } => {
                    "the revocation list in sslcrl has expired; fetch a new one".to_owned()
                }
                fault => format!("the server's certificate is refused: {}", self.quoted(&fault.to_string())),
            },
            AlertReceived(alert) => format!(
                "the server broke off the encryption ({alert:?}); it may want a client certificate (sslcert, \
                 sslkey), and its log says more"
            ),
            PeerIncompatible(fault) => {
                format!(
                    "the server has no version or algorithm of TLS in common with this program ({fault:?})"
                )
            }
            error => self.quoted(&error.to_string()),
        }
    }

    /// Text from outside on one line, of bounded length and without the password.
    fn quoted(&self, text: &str) -> String {
        const LONGEST: usize = 300;
        let mut text = text.to_owned();
        if let Some(password) = self.password.and_then(|password| std::str::from_utf8(password).ok()) {
            text = text.replace(password, "***");
        }
        text.chars()
            .take(LONGEST)
            .map(|character| if character.is_control() { ' ' } else { character })
            .collect()
    }
}

/// A certificate's name as it is written: webpki presents `DnsName("localhost")` and `IpAddress(127.0.0.1)`.
fn plain_name(presented: &str) -> &str {
    let inside = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inside.unwrap_or(presented).trim_matches('"')
}

/// The error of the encryption, wherever it is among the causes.
fn tls_error(error: &tokio_postgres::Error) -> Option<&rustls::Error> {
    error.source()?.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<rustls::Error>()
}
