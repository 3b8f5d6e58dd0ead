//! Trying one place: encryption, authentication and the first words of a session.

use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::config::SslMode as Encryption;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connect::in_time;
use super::connect_error::Circumstances;
use super::password::{self, Password, PasswordKey};
use super::server::{Host, Server, socket_path};
use super::settings::SessionKind;
use super::tls_settings::Roots;
use super::{
    Canceller, Connection, ConnectionSettings, FailedAttempt, FailureKind, Session, SessionOptions, SslMode,
    TlsFault, explain, pooler, tls,
};

/// How often two connections are compared that a pooler may serve by the same process, and for how long at most.
const ROUNDS: u32 = 5;
const COMPARING: Duration = Duration::from_secs(5);

/// One place where a server may be.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// A folder with the server's socket.
    Socket(PathBuf),
    /// One of the addresses of a name.
    Address(IpAddr),
}

/// What to connect with, and where.
pub(super) struct Attempt<'a> {
    pub(super) settings: &'a ConnectionSettings,
    pub(super) options: &'a SessionOptions<'a>,
    /// How to encrypt, or why that is impossible; sockets do without.
    pub(super) tls: &'a Result<MakeRustlsConnect, TlsFault>,
    pub(super) kind: SessionKind,
    pub(super) server: &'a Server,
    pub(super) place: Place,
}

impl Attempt<'_> {
    pub(super) async fn connect(&self) -> Result<Session, FailedAttempt> {
        let label = self.label();
        let (password, password_origin) = self.password();
        let roots = match &self.settings.tls.roots {
            Roots::System => "the system's list (sslrootcert=system)".to_owned(),
            Roots::File(path) => path.display().to_string(),
            Roots::None => "a file of root certificates".to_owned(),
        };
        let circumstances = Circumstances {
            server: &label,
            is_socket: matches!(self.place, Place::Socket(_)),
            password: password.as_ref().map(Password::expose),
            password_origin: &password_origin,
            roots: &roots,
        };
        let tls = match (&self.place, self.tls) {
            (Place::Socket(_), _) => &tls::without_encryption(),
            (Place::Address(_), Ok(tls)) => tls,
            (Place::Address(_), Err(fault)) => {
                return Err(circumstances.failed(FailureKind::Tls, fault.to_string()));
            }
        };
        let means = Means { tls, password: password.as_ref(), circumstances: &circumstances };
        let limit = self.settings.liveness.connect_timeout;
        match in_time(limit, self.connect_as_encrypted_as_possible(&means)).await {
            Some(outcome) => outcome,
            None => Err(circumstances.failed(
                FailureKind::TimedOut,
                format!("no answer within {} s (connect_timeout)", limit.unwrap_or_default().as_secs()),
            )),
        }
    }

    /// Follows `sslmode` where it leaves a choice: the server's `pg_hba.conf` may insist on either.
    async fn connect_as_encrypted_as_possible(&self, means: &Means<'_>) -> Result<Session, FailedAttempt> {
        let explain = |error: &_| means.circumstances.explain(error);
        let (first, second) = match (&self.place, self.settings.tls.mode) {
            (Place::Socket(_), _) | (_, SslMode::Disable) => (Encryption::Disable, None),
            (_, SslMode::Allow) => (Encryption::Disable, Some(Encryption::Require)),
            (_, SslMode::Prefer) => (Encryption::Prefer, Some(Encryption::Disable)),
            (_, SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull) => (Encryption::Require, None),
        };
        let first_error = match self.connect_once(first, means).await {
            Ok(session) => return Ok(session),
            Err(ConnectOnceError::Library(error)) => error,
            Err(ConnectOnceError::Unsuitable(failure)) => return Err(failure),
        };
        let Some(second) = second.filter(|_| is_refusal_of_encryption(&first_error)) else {
            return Err(explain(&first_error));
        };
        match self.connect_once(second, means).await {
            Ok(session) => Ok(session),
            Err(ConnectOnceError::Library(error))
                if is_refusal_of_encryption(&error) || explain(&error).kind() == FailureKind::Tls =>
            {
                Err(explain(&first_error))
            }
            Err(ConnectOnceError::Library(error)) => Err(explain(&error)),
            Err(ConnectOnceError::Unsuitable(failure)) => Err(failure),
        }
    }

    async fn connect_once(
        &self,
        encryption: Encryption,
        means: &Means<'_>,
    ) -> Result<Session, ConnectOnceError> {
        let config = self.config(encryption, means.password);
        let (client, connection) = config.connect(means.tls.clone()).await?;
        let mut connection = Connection::new(connection);
        let facts = self.set_up(&client, &mut connection).await?;
        if let Some(unsuitable) = facts.misses(self.kind) {
            let failure = means.circumstances.failed(FailureKind::WrongSession, unsuitable);
            return Err(ConnectOnceError::Unsuitable(failure));
        }
        let canceller = Canceller::new(client.cancel_token(), means.tls.clone());
        let server = means.circumstances.server.to_owned();
        Ok(Session { client, connection, canceller, keeps_state: !facts.is_pooled, server })
    }

    fn config(&self, encryption: Encryption, password: Option<&Password>) -> Config {
        let settings = self.settings;
        let mut config = Config::new();
        config
            .user(&settings.user)
            .dbname(&settings.database)
            .port(self.server.port)
            .ssl_mode(encryption)
            .ssl_negotiation(settings.tls.negotiation)
            .channel_binding(settings.tls.channel_binding)
            .application_name(settings.application_name.as_deref().unwrap_or(self.options.application_name));
        match (&self.place, &self.server.host) {
            (Place::Socket(folder), _) => config.host_path(folder),
            (Place::Address(address), Host::Tcp(name)) => config.host(name).hostaddr(*address),
            (Place::Address(_), _) => unreachable!("only names have addresses"),
        };
        if let Some(password) = password {
            config.password(password.expose());
        }
        if let Some(options) = &settings.options {
            config.options(options);
        }
        settings.liveness.apply_to(&mut config);
        config
    }

    /// Sets the session up, unless it is a pooler's, and learns about the server; in one round trip.
    async fn set_up(
        &self,
        client: &Client,
        connection: &mut Connection,
    ) -> Result<ServerFacts, tokio_postgres::Error> {
        let told = pooler::process_told(&client.cancel_token()).await.unwrap_or_default();
        let mut statements = "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery(), \
             pg_catalog.current_setting('transaction_read_only')"
            .to_owned();
        if let Some(timeout) = self.options.statement_timeout {
            // A pooler would give the setting to somebody else.
            let set = set_statement_timeout(timeout);
            statements = format!("{statements}; {set} WHERE pg_catalog.pg_backend_pid() = {told}");
        }
        let answers = drive(connection, client.simple_query(&statements)).await?;
        let row = answers.iter().find_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let fact = |index| row.and_then(|row| row.get(index)).unwrap_or_default();
        Ok(ServerFacts {
            is_pooled: fact(0) != told.to_string(),
            is_standby: fact(1) == "t",
            is_read_only: fact(2) == "on",
        })
    }

    /// Makes sure that a pooler keeps the session, by a second one beside it.
    pub(super) async fn keep(&self, mut session: Session) -> Result<Session, FailedAttempt> {
        let label = self.label();
        let lost = |error: tokio_postgres::Error| {
            FailedAttempt::new(&label, FailureKind::Unreachable, explain(&error))
        };
        let keeps_sessions = Box::pin(async {
            let mut other = self.connect().await?;
            let first = process(&mut session).await.map_err(lost)?;
            for _ in 0..ROUNDS {
                if process(&mut other).await.map_err(lost)? == first
                    || process(&mut session).await.map_err(lost)? != first
                {
                    return Ok(false);
                }
            }
            if let Some(timeout) = self.options.statement_timeout {
                let set = set_statement_timeout(timeout);
                drive(&mut session.connection, session.client.batch_execute(&set)).await.map_err(lost)?;
            }
            Ok(true)
        });
        let pooled = |reason: String| Err(FailedAttempt::new(&label, FailureKind::Pooled, reason));
        match in_time(Some(COMPARING), keeps_sessions).await {
            Some(Ok(true)) => {}
            Some(Ok(false)) => {
                let fault = "a pooler in between gives each transaction another session";
                return pooled(format!("{fault}: {}", pooler::MEND));
            }
            Some(Err(failure)) => return Err(failure),
            None => {
                let fault =
                    "a pooler in between has no second session by which it could be told that it keeps them";
                return pooled(format!("{fault}; allow it more (PgBouncer: pool_size), or {}", pooler::MEND));
            }
        }
        session.keeps_state = true;
        Ok(session)
    }

    fn label(&self) -> String {
        let port = self.server.port;
        match (&self.place, &self.server.host) {
            (Place::Socket(folder), _) => socket_path(folder, port).display().to_string(),
            (Place::Address(address), Host::Tcp(name)) if *name != address.to_string() => {
                format!("{name} ({address}), port {port}")
            }
            (Place::Address(address), _) => format!("{address}, port {port}"),
        }
    }

    /// The password for this server, and where it came from or why there is none.
    fn password(&self) -> (Option<Password>, String) {
        let settings = self.settings;
        if let Some(password) = &settings.password {
            return (Some(password.clone()), "the password came from the settings".to_owned());
        }
        let nowhere = "there is none in the URL, in PGPASSWORD";
        let Some(file) = &settings.password_file else {
            return (None, format!("{nowhere} or in a password file (PGPASSFILE)"));
        };
        let folder;
        let host = match &self.server.host {
            Host::Tcp(name) => name.as_str(),
            Host::AnySocket(_) => "localhost",
            Host::Socket(path) if settings.local_folders.contains(path) => "localhost",
            Host::Socket(path) => {
                folder = path.to_string_lossy();
                &folder
            }
        };
        let key =
            PasswordKey { host, port: self.server.port, database: &settings.database, user: &settings.user };
        match password::look_up(file, &key) {
            Ok(Some(password)) => (Some(password), format!("the password came from {}", file.display())),
            Ok(None) => (None, format!("{nowhere} or, for this server, in {}", file.display())),
            Err(fault) => {
                tracing::warn!(event = "password_file_unusable", "{fault}");
                (None, fault.to_string())
            }
        }
    }
}

/// What was looked up for an attempt.
struct Means<'a> {
    tls: &'a MakeRustlsConnect,
    password: Option<&'a Password>,
    circumstances: &'a Circumstances<'a>,
}

enum ConnectOnceError {
    Library(tokio_postgres::Error),
    Unsuitable(FailedAttempt),
}

impl From<tokio_postgres::Error> for ConnectOnceError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Library(error)
    }
}

/// `pg_hba.conf` has no line for this user with, or without, encryption.
fn is_refusal_of_encryption(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
}

/// Waits for a query while reading the connection.
async fn drive<T>(
    connection: &mut Connection,
    query: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    let mut query = std::pin::pin!(query);
    loop {
        tokio::select! {
            biased;
            answer = &mut query => return answer,
            message = connection.notification() => match message {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                // The client is alive, so that the connection has no reason to end; the query knows more.
                None => return query.await,
            },
        }
    }
}

/// Zero would switch the time limit off; the server takes at most 2³¹ − 1.
fn set_statement_timeout(timeout: Duration) -> String {
    let milliseconds = timeout.as_millis().clamp(1, 0x7fff_ffff);
    format!("SELECT pg_catalog.set_config('statement_timeout', '{milliseconds}', false)")
}

/// The process that serves a session now.
async fn process(session: &mut Session) -> Result<String, tokio_postgres::Error> {
    let question = session.client.simple_query("SELECT pg_catalog.pg_backend_pid()");
    let answers = drive(&mut session.connection, question).await?;
    Ok(answers.iter().find_map(first_value).unwrap_or_default())
}

fn first_value(answer: &SimpleQueryMessage) -> Option<String> {
    let SimpleQueryMessage::Row(row) = answer else { return None };
    row.get(0).map(ToOwned::to_owned)
}

struct ServerFacts {
    is_pooled: bool,
    is_standby: bool,
    is_read_only: bool,
}

impl ServerFacts {
    /// Why the server is not good enough, if it is not.
    fn misses(&self, kind: SessionKind) -> Option<&'static str> {
        match kind {
            SessionKind::ReadWrite if self.is_read_only => {
                Some("the session is read-only, but target_session_attrs=read-write")
            }
            SessionKind::ReadOnly if !self.is_read_only => {
                Some("the session is not read-only, but target_session_attrs=read-only")
            }
            SessionKind::Primary if self.is_standby => {
                Some("the server is a standby, but target_session_attrs=primary")
            }
            SessionKind::Standby if !self.is_standby => {
                Some("the server is not a standby, but target_session_attrs=standby")
            }
            _ => None,
        }
    }
}
