//! Trying the servers in turn: addresses, encryption, authentication,
//! and the first query of a session.

use std::collections::hash_map::RandomState;
use std::error::Error as _;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::config::{SslMode as Encryption, SslNegotiation};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Error, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::authentication::Guard;
use super::error::{self, AttemptContext, FailedAttempt, FailureKind};
use super::servers::{self, Host, Server};
use super::settings::TargetSession;
use super::tls_settings::{Roots, SslMode};
use super::{
    ConnectError, Connection, ConnectionSettings, Session, SessionOptions, explain, passfile,
    pooler, tls,
};

/// How many times two connections are compared to detect a pooler that shares server processes, and
/// the time limit.
const COMPARISONS: u32 = 20;
const COMPARISON_TIMEOUT: Duration = Duration::from_secs(5);

/// Connects to the first server that accepts.
///
/// Names are looked up, and password file and certificates read, at each call.
///
/// # Errors
///
/// Says what went wrong with each server that was tried. As with libpq, a server that refuses the
/// user or the database ends the search; one that cannot be reached or is not ready does not.
pub async fn connect(
    settings: &ConnectionSettings,
    options: &SessionOptions<'_>,
) -> Result<Session, ConnectError> {
    let password = match &settings.password_command {
        Some(command) => Some(command.run().await.map_err(|fault| {
            let (database, user) = (settings.database(), settings.user());
            ConnectError(format!(
                "cannot connect to database {database:?} as user {user:?}: the command for the \
                 password {fault}"
            ))
        })?),
        None => None,
    };
    let password = password.as_deref();
    let mut servers: Vec<&Server> = settings.servers.iter().collect();
    if settings.shuffle {
        servers.sort_by_cached_key(|_| RandomState::new().hash_one(()));
    }
    let mut attempts = Vec::new();
    'search: for server in servers {
        let endpoints = match endpoints(server, settings.connect_timeout()).await {
            Ok(endpoints) => endpoints,
            Err(failure) => {
                attempts.push(failure);
                continue;
            }
        };
        for endpoint in &endpoints {
            let attempt = Attempt::new(settings, options, password, server.port, endpoint);
            let connected = match Box::pin(attempt.connect()).await {
                Ok(session) if options.needs_session && !session.keeps_state => {
                    Box::pin(attempt.require_kept_session(session)).await
                }
                outcome => outcome,
            };
            match connected {
                Ok(session) => return Ok(session),
                Err(failure) => attempts.push(failure),
            }
            if attempts.last().is_some_and(|attempt| attempt.kind == FailureKind::Refused) {
                break 'search;
            }
        }
    }
    let database = settings.database();
    let user = settings.user();
    let attempts: Vec<String> = attempts.into_iter().map(|attempt| attempt.message).collect();
    let attempts = attempts.join(", nor on ");
    Err(ConnectError(format!(
        "cannot connect to database {database:?} as user {user:?} on {attempts}"
    )))
}

/// Where a server may be.
enum Endpoint<'a> {
    /// A folder with the server's socket.
    Socket(&'a Path),
    /// A name or address, and one of its addresses.
    Address(&'a str, IpAddr),
}

/// All endpoints of a server, at least one; a name can have several addresses.
async fn endpoints(server: &Server, limit: Duration) -> Result<Vec<Endpoint<'_>>, FailedAttempt> {
    let failed = |reason: &str| {
        Err(FailedAttempt {
            kind: FailureKind::Unavailable,
            message: format!("{server}: {reason}"),
        })
    };
    let name = match &server.host {
        Host::Sockets(folders) => {
            return Ok(vec![Endpoint::Socket(servers::folder_in_use(folders, server.port))]);
        }
        Host::Tcp(name, Some(address)) => return Ok(vec![Endpoint::Address(name, *address)]),
        Host::Tcp(name, None) => name.as_str(),
    };
    let found = match timeout(limit, tokio::net::lookup_host((name, server.port))).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return failed(&format!("the host name has no address: {error}")),
        Err(_) => {
            return failed("the host name was not looked up in time; does name resolution work?");
        }
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    if addresses.is_empty() {
        return failed("the host name has no address");
    }
    Ok(addresses.into_iter().map(|address| Endpoint::Address(name, address)).collect())
}

/// What to connect with, and where.
struct Attempt<'a> {
    settings: &'a ConnectionSettings,
    options: &'a SessionOptions<'a>,
    /// How to encrypt; sockets do without.
    ssl_mode: SslMode,
    /// Whether the server is on this machine, so that nobody else reads what is not encrypted.
    is_local: bool,
    config: Config,
    context: AttemptContext,
}

impl<'a> Attempt<'a> {
    fn new(
        settings: &'a ConnectionSettings,
        options: &'a SessionOptions<'a>,
        password: Option<&[u8]>,
        port: u16,
        endpoint: &Endpoint<'_>,
    ) -> Self {
        let mut config = settings.config.clone();
        config.port(port);
        if config.get_application_name().is_none() {
            config.application_name(options.application_name);
        }
        let server = match *endpoint {
            Endpoint::Socket(folder) => {
                config.host_path(folder);
                servers::socket(folder, port).display().to_string()
            }
            Endpoint::Address(name, address) => {
                config.host(name).hostaddr(address);
                if name == address.to_string() {
                    format!("{name}, port {port}")
                } else {
                    format!("{name} ({address}), port {port}")
                }
            }
        };
        let password_origin = if let Some(password) = password {
            config.password(password);
            "the password came from its command".to_owned()
        } else if config.get_password().is_some() {
            "the password came from the settings".to_owned()
        } else {
            set_password_from_file(&mut config, settings, endpoint, port)
        };
        let password =
            config.get_password().and_then(|password| std::str::from_utf8(password).ok());
        let context = AttemptContext {
            server,
            is_socket: matches!(endpoint, Endpoint::Socket(_)),
            password: password.map(str::to_owned),
            password_origin,
            roots: match &settings.tls.roots {
                Roots::System => "the system's list (sslrootcert=system)".to_owned(),
                Roots::File(path) => path.display().to_string(),
            },
        };
        let ssl_mode = if context.is_socket { SslMode::Disable } else { settings.tls.mode };
        let is_local = match endpoint {
            Endpoint::Socket(_) => true,
            Endpoint::Address(_, address) => address.is_loopback(),
        };
        Self { settings, options, ssl_mode, is_local, config, context }
    }

    async fn connect(&self) -> Result<Session, FailedAttempt> {
        let tls = tls::load(&self.settings.tls, self.ssl_mode)
            .map_err(|fault| self.context.failed(FailureKind::Tls, fault.to_string()))?;
        let limit = self.settings.connect_timeout();
        timeout(limit, self.connect_as_encrypted_as_possible(&tls)).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {} s (connect_timeout)", limit.as_secs());
            Err(self.context.failed(FailureKind::Unavailable, reason))
        })
    }

    /// Follows `sslmode` where it leaves a choice: the server's `pg_hba.conf` may insist on either.
    async fn connect_as_encrypted_as_possible(
        &self,
        tls: &MakeRustlsConnect,
    ) -> Result<Session, FailedAttempt> {
        let (first, second) = match self.ssl_mode {
            SslMode::Disable => (Encryption::Disable, None),
            SslMode::Allow => (Encryption::Disable, Some(Encryption::Require)),
            SslMode::Prefer => (Encryption::Require, Some(Encryption::Disable)),
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                (Encryption::Require, None)
            }
        };
        let first_error = match self.connect_once(first, tls).await {
            Ok(outcome) => return outcome,
            Err(error) => error,
        };
        let is_in_clear = self.ssl_mode == SslMode::Prefer && is_without_tls(&first_error);
        let Some(second) = second.filter(|_| is_in_clear || is_refusal_of_encryption(&first_error))
        else {
            return Err(self.context.explain(&first_error));
        };
        match self.connect_once(second, tls).await {
            Ok(outcome) => outcome,
            Err(error) => {
                let failure = self.context.explain(&error);
                let says_less = !is_in_clear
                    && (is_refusal_of_encryption(&error) || failure.kind == FailureKind::Tls);
                Err(if says_less { self.context.explain(&first_error) } else { failure })
            }
        }
    }

    /// The inner error is that of a server that is not suitable.
    async fn connect_once(
        &self,
        encryption: Encryption,
        tls: &MakeRustlsConnect,
    ) -> Result<Result<Session, FailedAttempt>, Error> {
        let mut config = self.config.clone();
        config.ssl_mode(encryption);
        let mut guard = Guard { tls: Some(tls.clone()), allowed: self.settings.allowed };
        if encryption == Encryption::Disable && !self.context.is_socket {
            // The library is told of an encryption without a handshake, which is none, so that it
            // reads and writes by the guard.
            config.ssl_mode(Encryption::Require).ssl_negotiation(SslNegotiation::Direct);
            guard.tls = None;
            if !self.is_local {
                guard.allowed = guard.allowed.in_clear();
            }
        }
        let (client, connection) = config.connect(guard).await?;
        let mut connection = Connection(connection);
        let announced =
            pooler::announced_process(&client.cancel_token()).await.unwrap_or_default().to_string();
        // Reads the server's state and, unless through a pooler,
        // sets the statement timeout; in one round trip.
        let mut statements = "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery(), \
             pg_catalog.current_setting('transaction_read_only')"
            .to_owned();
        if let Some(limit) = self.options.statement_timeout {
            // A pooler would give the setting to somebody else.
            let set = set_statement_timeout(limit);
            statements =
                format!("{statements}; {set} WHERE pg_catalog.pg_backend_pid() = {announced}");
        }
        let [process, is_standby, is_read_only] =
            first_row(&connection.wait_for(client.simple_query(&statements)).await?);
        let unsuitable = match self.settings.target {
            TargetSession::ReadWrite if is_read_only == "on" => {
                "the session is read-only, but target_session_attrs=read-write"
            }
            TargetSession::Primary if is_standby == "t" => {
                "the server is a standby, but target_session_attrs=primary"
            }
            _ => {
                return Ok(Ok(Session {
                    client,
                    connection,
                    keeps_state: process == announced,
                    server: self.context.server.clone(),
                }));
            }
        };
        Ok(Err(self.context.failed(FailureKind::Unavailable, unsuitable)))
    }

    /// Makes sure that a pooler keeps the session, by a second one beside it.
    async fn require_kept_session(&self, mut session: Session) -> Result<Session, FailedAttempt> {
        let lost = |error| self.context.failed(FailureKind::Unavailable, explain(&error));
        let keeps_sessions = Box::pin(async {
            let mut other = self.connect().await?;
            let first = process(&mut session).await.map_err(lost)?;
            for _ in 0..COMPARISONS {
                if process(&mut other).await.map_err(lost)? == first
                    || process(&mut session).await.map_err(lost)? != first
                {
                    return Ok(false);
                }
            }
            if let Some(limit) = self.options.statement_timeout {
                let set = set_statement_timeout(limit);
                session
                    .connection
                    .wait_for(session.client.batch_execute(&set))
                    .await
                    .map_err(lost)?;
            }
            Ok(true)
        });
        let fault = match timeout(COMPARISON_TIMEOUT, keeps_sessions).await {
            Ok(Ok(true)) => {
                session.keeps_state = true;
                return Ok(session);
            }
            Ok(Ok(false)) => "a pooler in between gives each transaction another session: ",
            Ok(Err(failure)) => return Err(failure),
            Err(_) => {
                "a pooler in between gave no second session, which is needed to find out whether \
                 it keeps sessions; allow more of them (PgBouncer: pool_size), or "
            }
        };
        Err(self.context.failed(FailureKind::Unavailable, fault.to_owned() + pooler::REMEDY))
    }
}

/// Looks the password up; returns where it came from, or why there is none.
fn set_password_from_file(
    config: &mut Config,
    settings: &ConnectionSettings,
    endpoint: &Endpoint<'_>,
    port: u16,
) -> String {
    let file = &settings.password_file;
    let host = match endpoint {
        Endpoint::Address(name, _) => (*name).into(),
        Endpoint::Socket(folder) if settings.local_folders.iter().any(|local| local == folder) => {
            "localhost".into()
        }
        Endpoint::Socket(folder) => folder.to_string_lossy(),
    };
    match passfile::look_up(file, [&host, &port.to_string(), settings.database(), settings.user()])
    {
        Ok(Some(password)) => {
            config.password(password);
            format!("the password came from {}", file.display())
        }
        Ok(None) => {
            format!(
                "there is none in the URL, in PGPASSWORD or, for this server, in {}",
                file.display()
            )
        }
        Err(fault) => {
            tracing::warn!(event = "password_file_unusable", "{fault}");
            fault
        }
    }
}

/// The server speaks no TLS, so that a mode which only prefers it does without.
fn is_without_tls(error: &Error) -> bool {
    error.source().is_some_and(|source| source.to_string() == error::WITHOUT_TLS)
}

/// `pg_hba.conf` has no line for this user with, or without, encryption.
fn is_refusal_of_encryption(error: &Error) -> bool {
    error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// Zero would switch the time limit off; the server takes at most 2³¹ − 1.
fn set_statement_timeout(limit: Duration) -> String {
    let milliseconds = limit.as_millis().clamp(1, 0x7fff_ffff);
    format!("SELECT pg_catalog.set_config('statement_timeout', '{milliseconds}', false)")
}

/// The process that serves a session now.
async fn process(session: &mut Session) -> Result<String, Error> {
    let query = session.client.simple_query("SELECT pg_catalog.pg_backend_pid()");
    let [process] = first_row(&session.connection.wait_for(query).await?);
    Ok(process)
}

/// The first values of the first row.
fn first_row<const N: usize>(answers: &[SimpleQueryMessage]) -> [String; N] {
    let row = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    std::array::from_fn(|index| row.and_then(|row| row.get(index)).unwrap_or_default().to_owned())
}
