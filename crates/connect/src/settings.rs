//! From a connection string and the environment to settings that can be connected with.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;

use super::authentication::Allowed;
use super::parameters::Values;
use super::servers::{self, Host, Server};
use super::tls_settings::{self, SslMode, TlsSettings};
use super::{
    Environment, PasswordCommand, Schema, SettingsError, keywords, service, timeouts, tls, url,
};

/// Where and how to connect; libpq's parameters after all defaults were filled in.
///
/// Its debugging output shows no password.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// What does not depend on the server, with the password if it is not to be looked up.
    pub(crate) config: Config,
    pub(crate) servers: Vec<Server>,
    /// Servers are tried in a random order.
    pub(crate) shuffle: bool,
    pub(crate) target: TargetSession,
    pub(crate) password_file: PathBuf,
    /// The folders whose sockets a password file calls `localhost`.
    pub(crate) local_folders: Vec<PathBuf>,
    pub(crate) tls: TlsSettings,
    /// Which methods of authentication a server may ask for.
    pub(crate) allowed: Allowed,
    /// What prints the password for each connection; no parameter of libpq's.
    pub(crate) password_command: Option<PasswordCommand>,
    /// The schema of Mailroom in the database; no parameter of libpq's.
    pub schema: Schema,
}

/// What kind of server is good enough; libpq's `target_session_attrs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetSession {
    Any,
    ReadWrite,
    Primary,
}

const TARGETS: &[(&str, TargetSession)] = &[
    ("", TargetSession::Any),
    ("any", TargetSession::Any),
    ("read-write", TargetSession::ReadWrite),
    ("primary", TargetSession::Primary),
];

impl ConnectionSettings {
    /// From now on the search begins with the server that was the second one until now. It is for
    /// whoever has reached a server that answers, and can do nothing there: the same one would be
    /// found again and again. Nothing changes where any server is good enough, and so a standby
    /// would be found.
    pub fn begin_with_next(&mut self) {
        if self.target != TargetSession::Any && !self.servers.is_empty() {
            self.servers.rotate_left(1);
        }
    }

    /// Reads a connection string, in either of libpq's forms, and fills in libpq's defaults.
    ///
    /// What the string leaves open comes from the service file, if one is named, then from the
    /// environment. Certificates are read, so that their faults are found now; the password file is
    /// read when connecting.
    ///
    /// # Errors
    ///
    /// Syntax errors, unknown parameters (`sslmod=require`), values outside their range (`port=0`),
    /// parameters that would have to be ignored (`gssencmode=require`), and `sslmode=verify-full`
    /// without root certificates.
    pub fn resolve(
        connection_string: &str,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let mut values = parse(connection_string)?;
        service::apply(&mut values, environment)?;
        values.set_from_variables(environment, None);
        values.refuse_unsupported()?;

        let mut config = Config::new();
        let user =
            values.string("user")?.or_else(environment.user_name).ok_or(SettingsError::new(
                "this process's user has no name in the operating system; \
                 name the database user (user=…, PGUSER)",
            ))?;
        let database = values.string("dbname")?.unwrap_or_else(|| user.clone());
        if url::without_scheme(&database).is_some() {
            return Err(SettingsError::new(
                "dbname is itself a URL; give the URL alone, without keywords",
            ));
        }
        config.user(user).dbname(database);
        if let Some((_, password)) =
            values.bytes("password").filter(|(_, password)| !password.is_empty())
        {
            config.password(password);
        }
        if let Some(options) = values.string("options")? {
            config.options(options);
        }
        for name in ["fallback_application_name", "application_name"] {
            if let Some(name) = values.string(name)? {
                config.application_name(name);
            }
        }
        timeouts::apply(&values, &mut config)?;
        let settings = Self {
            servers: servers::list(&values, environment)?,
            shuffle: values.choice(
                "load_balance_hosts",
                &[("", false), ("disable", false), ("random", true)],
                false,
            )?,
            target: values.choice("target_session_attrs", TARGETS, TargetSession::Any)?,
            password_file: values.path("passfile", environment.home.join(".pgpass"))?,
            local_folders: environment.socket_folders.clone(),
            tls: tls_settings::read(&values, environment, &mut config)?,
            allowed: Allowed::read(&values)?,
            password_command: None,
            schema: Schema::default(),
            config,
        };
        let is_socket = |server: &Server| matches!(server.host, Host::Sockets(_));
        if settings.allowed.is_restricted && settings.servers.iter().any(is_socket) {
            return Err(SettingsError::new(
                "require_auth is not checked on a socket; leave it out there, and keep the socket \
                 where only the server can write",
            ));
        }
        if settings.servers.iter().any(|server| matches!(server.host, Host::Tcp(..))) {
            let mode = settings.tls.mode;
            tls::load(&settings.tls, mode)?;
            if (SslMode::Allow..SslMode::Require).contains(&mode)
                && let Some((origin, _)) = values.bytes("sslrootcert")
            {
                tracing::warn!(
                    event = "setting_without_effect",
                    "{origin} has no effect with sslmode={mode}: \
                     to verify the server, set sslmode=verify-full"
                );
            }
        }
        Ok(settings)
    }

    /// Has this command print the password for each connection.
    ///
    /// # Errors
    ///
    /// There is a password already, and one of the two would be ignored.
    pub fn ask_for_password(&mut self, command: PasswordCommand) -> Result<(), SettingsError> {
        if self.config.get_password().is_some() {
            return Err(SettingsError::new(
                "a password is set, too, in the URL or by PGPASSWORD; leave one of them out",
            ));
        }
        self.password_command = Some(command);
        Ok(())
    }

    /// The URL of the first server, without a password, for programs that have other defaults than
    /// libpq. A socket's folder is the host, percent-encoded; of several the one with the socket.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        let Server { host, port } = self.servers.first()?;
        let host = match host {
            Host::Tcp(name, _) if name.contains(':') => format!("[{name}]"),
            Host::Tcp(name, _) => url::encode(name),
            Host::Sockets(folders) => {
                let name = format!(".s.PGSQL.{port}");
                let with_socket = folders.iter().find(|folder| folder.join(&name).exists());
                url::encode(with_socket.or(folders.first())?.to_str()?)
            }
        };
        let (user, database) = (url::encode(self.user()), url::encode(self.database()));
        Some(format!("postgresql://{user}@{host}:{port}/{database}"))
    }

    pub(crate) fn database(&self) -> &str {
        self.config.get_dbname().unwrap_or_default()
    }

    pub(crate) fn user(&self) -> &str {
        self.config.get_user().unwrap_or_default()
    }

    /// For looking up a name; for one address, from the first packet to the answer
    /// of the first query.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.config.get_connect_timeout().copied().unwrap_or(Duration::MAX)
    }
}

/// The database and the servers, for messages: `"mailroom" on db1, port 5432 or db2, port 5432`.
impl fmt::Display for ConnectionSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<String> = self.servers.iter().map(Server::to_string).collect();
        write!(formatter, "{:?} on {}", self.database(), servers.join(" or "))
    }
}

fn parse(connection_string: &str) -> Result<Values, SettingsError> {
    let text = connection_string.trim();
    if text.is_empty() {
        return Err(SettingsError::new(
            "the connection string is empty; \
             give a URL (postgresql://host/dbname) or keywords (dbname=mailroom)",
        ));
    }
    if text.contains('\0') {
        return Err(SettingsError::nul());
    }
    if let Some(rest) = url::without_scheme(text) {
        return url::parse(rest);
    }
    // A keyword string has an equal sign before anything that could look like the scheme of a URL.
    if text.split_once("://").is_some_and(|(before, _)| !before.contains('=')) {
        return Err(SettingsError::new(
            "the URL is not one of PostgreSQL; it must begin with postgresql:// or postgres://",
        ));
    }
    keywords::parse(text)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::fixture::TestEnvironment;

    fn resolve(
        string: &str,
        environment: &TestEnvironment,
    ) -> Result<ConnectionSettings, SettingsError> {
        ConnectionSettings::resolve(string, environment)
    }

    fn hosts(settings: &ConnectionSettings) -> Vec<(Host, u16)> {
        settings.servers.iter().map(|server| (server.host.clone(), server.port)).collect()
    }

    #[test]
    fn the_search_begins_with_the_next_server_unless_a_standby_would_be_found() {
        for (target, order) in [("read-write", ["b", "c", "a"]), ("any", ["a", "b", "c"])] {
            let string = format!("host=a,b,c target_session_attrs={target}");
            let mut settings = resolve(&string, &TestEnvironment::new()).unwrap();
            settings.begin_with_next();
            let wanted = order.map(|name| (Host::Tcp(name.to_owned(), None), 5432));
            assert_eq!(hosts(&settings), wanted, "{target}");
        }
    }

    #[test]
    fn a_url_alone_takes_the_rest_from_the_operating_system() {
        let environment = TestEnvironment::new();
        let settings = resolve("postgres://", &environment).unwrap();
        assert_eq!((settings.user(), settings.database()), ("os-user", "os-user"));
        let folders = environment.socket_folders.clone();
        assert_eq!(hosts(&settings), [(Host::Sockets(folders.clone()), 5432)]);
        assert_eq!(settings.password_file, environment.home.join(".pgpass"));
        assert_eq!(settings.local_folders, folders);
        assert_eq!(settings.config.get_password(), None);
        assert_eq!(settings.tls.mode, SslMode::Prefer);
        assert_eq!(settings.to_string(), "\"os-user\" on /nowhere/run/.s.PGSQL.5432");
    }

    #[test]
    fn require_auth_is_refused_where_it_would_not_be_checked() {
        let environment = TestEnvironment::new();
        let error = resolve("require_auth=scram-sha-256", &environment).unwrap_err().to_string();
        assert!(error.contains("not checked on a socket"), "{error}");
        assert!(resolve("host=db1 require_auth=scram-sha-256", &environment).is_ok());
        assert!(resolve("require_auth=", &environment).is_ok());
    }

    #[test]
    fn variables_fill_in_what_the_string_leaves_open() {
        let environment = TestEnvironment::new()
            .set("PGHOST", "db1,db2")
            .set("PGPORT", "6000,6001")
            .set("PGUSER", "collector")
            .set("PGPASSWORD", "secret")
            .set("PGDATABASE", "mailroom")
            .set("PGPASSFILE", "/etc/mailroom/pgpass")
            .set("PGSSLMODE", "disable")
            .set("PGAPPNAME", "app")
            .set("PGOPTIONS", "-c geqo=off")
            .set("PGCONNECT_TIMEOUT", "3")
            .set("PGTARGETSESSIONATTRS", "read-write")
            .set("PGLOADBALANCEHOSTS", "random");
        let settings = resolve("dbname=other", &environment).unwrap();
        let tcp = |name: &str| Host::Tcp(name.to_owned(), None);
        assert_eq!(hosts(&settings), [(tcp("db1"), 6000), (tcp("db2"), 6001)]);
        assert_eq!((settings.user(), settings.database()), ("collector", "other"));
        assert_eq!(settings.config.get_password(), Some(&b"secret"[..]));
        assert_eq!(settings.password_file, PathBuf::from("/etc/mailroom/pgpass"));
        assert_eq!(settings.tls.mode, SslMode::Disable);
        assert_eq!(settings.config.get_application_name(), Some("app"));
        assert_eq!(settings.config.get_options(), Some("-c geqo=off"));
        assert_eq!(settings.connect_timeout(), Duration::from_secs(3));
        assert_eq!(settings.target, TargetSession::ReadWrite);
        assert!(settings.shuffle);
    }

    #[test]
    fn the_string_wins_over_variables_even_with_an_empty_value() {
        let environment = TestEnvironment::new().set("PGHOST", "db").set("PGPASSWORD", "secret");
        let settings = resolve("host='' password='' dbname=x", &environment).unwrap();
        assert!(matches!(settings.servers[0].host, Host::Sockets(_)));
        assert_eq!(settings.config.get_password(), None);
    }

    #[test]
    fn passwords_need_not_be_utf_8_but_all_else_must() {
        let environment = TestEnvironment::new().set("PGPASSWORD", OsStr::from_bytes(b"\xff\xfe"));
        let settings = resolve("dbname=x", &environment).unwrap();
        assert_eq!(settings.config.get_password(), Some(&b"\xff\xfe"[..]));
        let settings = resolve("postgres://u:%FF%FE@h", &TestEnvironment::new()).unwrap();
        assert_eq!(settings.config.get_password(), Some(&b"\xff\xfe"[..]));

        let environment = TestEnvironment::new().set("PGUSER", OsStr::from_bytes(b"\xff"));
        let error = resolve("dbname=x", &environment).unwrap_err().to_string();
        assert_eq!(error, "PGUSER is not UTF-8 text; only the password may be other bytes");
        for uri in
            ["postgres://%FF@h", "postgres://%FF", "postgres://h/%FF", "postgres://h?options=%FF"]
        {
            let error = resolve(uri, &TestEnvironment::new()).unwrap_err().to_string();
            assert!(error.contains("not UTF-8"), "{uri}: {error}");
        }
    }

    #[test]
    fn user_and_application_name_are_the_defaults_of_others() {
        for (string, database, name) in [
            ("user=u application_name=a fallback_application_name=b", "u", Some("a")),
            ("user=u fallback_application_name=b", "u", Some("b")),
            ("user=u dbname=x", "x", None),
        ] {
            let settings = resolve(string, &TestEnvironment::new()).unwrap();
            let found =
                (settings.user(), settings.database(), settings.config.get_application_name());
            assert_eq!(found, ("u", database, name), "{string}");
        }
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused_with_one_sentence() {
        for (string, message) in [
            ("", "the connection string is empty"),
            ("  \n", "the connection string is empty"),
            ("db\0name=x", "NUL"),
            ("mysql://root@h/db", "must begin with postgresql://"),
            ("http://h", "must begin with postgresql://"),
            ("Postgres://h", "must begin with postgresql://"),
            ("://", "must begin with postgresql://"),
            ("dbname=postgres://u:p@h/db", "dbname is itself a URL"),
            ("target_session_attrs=master", "target_session_attrs must be one of"),
            ("load_balance_hosts=yes", "load_balance_hosts must be one of disable, random"),
            ("host=h sslmode=verify-full", "root.crt does not exist"),
            (
                "host=h sslmode=verify-ca sslrootcert=/nowhere/ca.pem",
                "/nowhere/ca.pem does not exist",
            ),
            ("host=h sslmode=verify-ca sslrootcert=/dev/null", "/dev/null cannot be used"),
            ("host=h sslcrl=/nowhere/crl.pem", "sslcrl cannot be honoured: revocation lists"),
        ] {
            let error = resolve(string, &TestEnvironment::new()).unwrap_err().to_string();
            assert!(error.contains(message), "{string:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn huge_input_is_answered_like_any_other() {
        let huge = "x".repeat(2_000_000);
        let commas = ",".repeat(10_000);
        for (string, accepted) in [
            (huge.clone(), false),
            (format!("{huge}=1"), false),
            (format!("postgres://{huge}"), false),
            (format!("postgres://h?{huge}=1"), false),
            (format!("password={huge}"), true),
            (format!("postgres://{commas}"), true),
        ] {
            match resolve(&string, &TestEnvironment::new()) {
                Ok(_) => assert!(accepted),
                Err(error) => assert!(!accepted && error.to_string().len() < 300, "{error}"),
            }
        }
    }

    #[test]
    fn a_process_without_a_user_name_must_name_the_user() {
        let mut environment = TestEnvironment::new();
        environment.inner.user_name = || None;
        let error = resolve("dbname=x", &environment).unwrap_err().to_string();
        assert!(error.contains("name the database user"), "{error}");
        assert!(resolve("user=u", &environment).is_ok());
    }
}
