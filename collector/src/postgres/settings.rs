//! From a connection string and the environment to settings that can be connected with.

use std::fmt;
use std::path::PathBuf;

use super::liveness::Liveness;
use super::parameter::Values;
use super::password::Password;
use super::server::Server;
use super::tls_settings::TlsSettings;
use super::{Environment, SettingsError, SslMode, keyword, server, service, tls, tls_settings, uri};

/// Where and how to connect; libpq's parameters after all defaults were filled in.
///
/// Its debugging output shows no password.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    pub(super) servers: Vec<Server>,
    /// Servers are tried in a random order.
    pub(super) shuffle: bool,
    pub(super) session_kind: SessionKind,
    pub(super) user: String,
    pub(super) database: String,
    pub(super) password: Option<Password>,
    pub(super) password_file: Option<PathBuf>,
    /// The folders whose sockets a password file calls `localhost`.
    pub(super) local_folders: Vec<PathBuf>,
    pub(super) options: Option<String>,
    pub(super) application_name: Option<String>,
    pub(super) liveness: Liveness,
    pub(super) tls: TlsSettings,
}

/// What kind of server is good enough; libpq's `target_session_attrs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionKind {
    Any,
    ReadWrite,
    ReadOnly,
    Primary,
    Standby,
    PreferStandby,
}

impl ConnectionSettings {
    /// Reads a connection string, in either of libpq's forms, and fills in libpq's defaults.
    ///
    /// What the string leaves open comes from the service file, if one is named, then from the environment.
    /// Certificates are looked at, so that their faults are found now; the password file is read when
    /// connecting.
    ///
    /// # Errors
    ///
    /// Syntax errors, unknown parameters (`sslmod=require`), values outside their range (`port=0`),
    /// parameters that would have to be ignored (`gssencmode=require`), and `sslmode=verify-full` without
    /// root certificates.
    pub fn resolve(connection_string: &str, environment: &dyn Environment) -> Result<Self, SettingsError> {
        let mut values = parse(connection_string)?;
        service::apply(&mut values, environment)?;
        values.set_variables(|name| environment.variable(name));
        values.refuse_unsupported()?;

        let user = match values.non_empty("user")? {
            Some((_, user)) => user.to_owned(),
            None => environment.user_name().ok_or(SettingsError::NoUserName)?,
        };
        let database = match values.non_empty("dbname")? {
            Some((_, name)) if uri::is_uri(name) => {
                return Err(SettingsError::Contradiction(
                    "dbname is itself a URL; give the URL alone, without keywords",
                ));
            }
            Some((_, name)) => name.to_owned(),
            None => user.clone(),
        };
        let settings = Self {
            servers: server::list(&values, environment)?,
            shuffle: word(
                &values,
                "load_balance_hosts",
                &[("disable", false), ("random", true)],
                "disable or random",
            )?
            .unwrap_or(false),
            session_kind: word(&values, "target_session_attrs", SESSION_KINDS, SESSION_KINDS_TEXT)?
                .unwrap_or(SessionKind::Any),
            user,
            database,
            password: values.bytes("password").and_then(|(_, password)| Password::new(password)),
            password_file: match values.non_empty("passfile")? {
                Some((_, file)) => Some(file.into()),
                None => environment.home_directory().map(|home| home.join(".pgpass")),
            },
            local_folders: environment.socket_directories(),
            options: values.non_empty("options")?.map(|(_, options)| options.to_owned()),
            application_name: match values.non_empty("application_name")? {
                Some((_, name)) => Some(name.to_owned()),
                None => values.non_empty("fallback_application_name")?.map(|(_, name)| name.to_owned()),
            },
            liveness: Liveness::read(&values)?,
            tls: tls_settings::read(&values, environment)?,
        };
        if settings.uses_tls() {
            tls::load(&settings.tls)?;
        }
        settings.warn_of_unused_roots(&values);
        Ok(settings)
    }

    /// The database to connect to.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The user to connect as.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The servers, in the order of the list.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// How far connections over the network are protected.
    pub fn ssl_mode(&self) -> SslMode {
        self.tls.mode
    }

    /// Whether any connection may be encrypted.
    pub(super) fn uses_tls(&self) -> bool {
        self.tls.mode != SslMode::Disable && self.servers.iter().any(Server::is_tcp)
    }

    fn warn_of_unused_roots(&self, values: &Values) {
        if self.uses_tls()
            && self.tls.mode < SslMode::Require
            && let Some((origin, _)) = values.bytes("sslrootcert")
        {
            tracing::warn!(
                event = "setting_without_effect",
                "{origin} has no effect with sslmode={}: to verify the server, set sslmode=verify-full",
                self.tls.mode
            );
        }
    }
}

/// The database and the servers, for messages: `"mailroom" on db1, port 5432 or db2, port 5432`.
impl fmt::Display for ConnectionSettings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} on ", self.database)?;
        for (index, server) in self.servers.iter().enumerate() {
            let separator = if index == 0 { "" } else { " or " };
            write!(formatter, "{separator}{server}")?;
        }
        Ok(())
    }
}

fn parse(connection_string: &str) -> Result<Values, SettingsError> {
    let text = connection_string.trim();
    if text.is_empty() {
        return Err(SettingsError::Empty);
    }
    if text.contains('\0') {
        return Err(SettingsError::Nul);
    }
    if uri::is_uri(text) {
        return uri::parse(text);
    }
    // A keyword string has an equal sign before anything that could look like the scheme of a URL.
    if text.split_once("://").is_some_and(|(before, _)| !before.contains('=')) {
        return Err(SettingsError::UnknownScheme);
    }
    keyword::parse(text)
}

const SESSION_KINDS: &[(&str, SessionKind)] = &[
    ("any", SessionKind::Any),
    ("read-write", SessionKind::ReadWrite),
    ("read-only", SessionKind::ReadOnly),
    ("primary", SessionKind::Primary),
    ("standby", SessionKind::Standby),
    ("prefer-standby", SessionKind::PreferStandby),
];
const SESSION_KINDS_TEXT: &str = "one of any, read-write, read-only, primary, standby, prefer-standby";

fn word<T: Copy>(
    values: &Values,
    name: &'static str,
    words: &[(&str, T)],
    allowed: &'static str,
) -> Result<Option<T>, SettingsError> {
    let Some((origin, value)) = values.non_empty(name)? else { return Ok(None) };
    match words.iter().find(|(word, _)| *word == value) {
        Some((_, meaning)) => Ok(Some(*meaning)),
        None => Err(SettingsError::InvalidValue { origin, allowed }),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::super::fixture::FixedEnvironment;
    use super::super::server::Host;
    use super::*;

    fn resolve(string: &str, environment: &FixedEnvironment) -> Result<ConnectionSettings, SettingsError> {
        ConnectionSettings::resolve(string, environment)
    }

    fn hosts(settings: &ConnectionSettings) -> Vec<(Host, u16)> {
        settings.servers.iter().map(|server| (server.host.clone(), server.port)).collect()
    }

    #[test]
    fn a_url_alone_takes_the_rest_from_the_operating_system() {
        let environment = FixedEnvironment::new();
        let settings = resolve("postgres://", &environment).unwrap();
        assert_eq!((settings.user(), settings.database()), ("os-user", "os-user"));
        let folders = environment.socket_directories();
        assert_eq!(hosts(&settings), [(Host::AnySocket(folders.clone()), 5432)]);
        assert_eq!(settings.password_file, Some(environment.home().join(".pgpass")));
        assert_eq!(settings.local_folders, folders);
        assert_eq!(settings.password, None);
        assert_eq!(settings.ssl_mode(), SslMode::Prefer);
        assert_eq!(settings.to_string(), "\"os-user\" on /nowhere/run/.s.PGSQL.5432");
    }

    #[test]
    fn the_database_is_named_after_the_user_that_is_given() {
        let settings = resolve("postgres://collector@h", &FixedEnvironment::new()).unwrap();
        assert_eq!((settings.user(), settings.database()), ("collector", "collector"));
    }

    #[test]
    fn variables_fill_in_what_the_string_leaves_open() {
        let environment = FixedEnvironment::new()
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
        assert_eq!(hosts(&settings), [(Host::Tcp("db1".into()), 6000), (Host::Tcp("db2".into()), 6001)]);
        assert_eq!((settings.user(), settings.database()), ("collector", "other"));
        assert_eq!(settings.password, Password::new(b"secret"));
        assert_eq!(settings.password_file, Some("/etc/mailroom/pgpass".into()));
        assert_eq!(settings.ssl_mode(), SslMode::Disable);
        assert_eq!(settings.application_name.as_deref(), Some("app"));
        assert_eq!(settings.options.as_deref(), Some("-c geqo=off"));
        assert_eq!(settings.liveness.connect_timeout, Some(std::time::Duration::from_secs(3)));
        assert_eq!(settings.session_kind, SessionKind::ReadWrite);
        assert!(settings.shuffle);
    }

    #[test]
    fn the_string_wins_over_variables_even_with_an_empty_value() {
        let environment = FixedEnvironment::new().set("PGHOST", "db").set("PGPASSWORD", "secret");
        let settings = resolve("host='' password='' dbname=x", &environment).unwrap();
        assert!(matches!(settings.servers[0].host, Host::AnySocket(_)));
        assert_eq!(settings.password, None);
    }

    #[test]
    fn passwords_need_not_be_utf_8_but_all_else_must() {
        let environment = FixedEnvironment::new().set("PGPASSWORD", OsStr::from_bytes(b"\xff\xfe"));
        let settings = resolve("dbname=x", &environment).unwrap();
        assert_eq!(settings.password, Password::new(b"\xff\xfe"));
        let settings = resolve("postgres://u:%FF%FE@h", &FixedEnvironment::new()).unwrap();
        assert_eq!(settings.password, Password::new(b"\xff\xfe"));

        let environment = FixedEnvironment::new().set("PGUSER", OsStr::from_bytes(b"\xff"));
        let error = resolve("dbname=x", &environment).unwrap_err().to_string();
        assert_eq!(error, "PGUSER is not UTF-8 text; only the password may be other bytes");
        for uri in ["postgres://%FF@h", "postgres://%FF", "postgres://h/%FF", "postgres://h?options=%FF"] {
            let error = resolve(uri, &FixedEnvironment::new()).unwrap_err().to_string();
            assert!(error.contains("not UTF-8"), "{uri}: {error}");
        }
    }

    #[test]
    fn the_application_name_is_taken_before_its_fallback() {
        let name = |string| resolve(string, &FixedEnvironment::new()).unwrap().application_name;
        assert_eq!(name("application_name=a fallback_application_name=b").as_deref(), Some("a"));
        assert_eq!(name("fallback_application_name=b").as_deref(), Some("b"));
        assert_eq!(name("dbname=x"), None);
    }

    #[test]
    fn settings_that_cannot_be_used_are_refused_with_one_sentence() {
        for (string, message) in [
            ("", "the connection string is empty"),
            ("  \n", "the connection string is empty"),
            ("mailroom", "a keyword has no \"=\""),
            ("db\0name=x", "NUL"),
            ("mysql://root@h/db", "must begin with postgresql://"),
            ("http://h", "must begin with postgresql://"),
            ("Postgres://h", "must begin with postgresql://"),
            ("://", "must begin with postgresql://"),
            ("dbname=postgres://u:p@h/db", "dbname is itself a URL"),
            ("sslmode=verify", "sslmode must be one of"),
            ("connect_timeout=soon", "connect_timeout must be a whole number"),
            ("target_session_attrs=master", "target_session_attrs must be one of"),
            ("load_balance_hosts=yes", "load_balance_hosts must be disable or random"),
            ("gssencmode=require", "gssencmode cannot be honoured"),
            ("host=h sslmode=verify-full", "root.crt does not exist"),
            ("host=h sslmode=verify-ca sslrootcert=/nowhere/ca.pem", "/nowhere/ca.pem does not exist"),
            ("host=h sslmode=verify-ca sslrootcert=/dev/null", "/dev/null cannot be used"),
            ("host=h sslcrl=/nowhere/crl.pem sslmode=require sslrootcert=/nowhere", ""),
        ] {
            let outcome = resolve(string, &FixedEnvironment::new());
            if message.is_empty() {
                assert!(outcome.is_ok(), "{string:?}");
                continue;
            }
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains(message), "{string:?}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn huge_input_is_answered_like_any_other() {
        let environment = FixedEnvironment::new();
        let huge = "x".repeat(2_000_000);
        assert!(resolve(&huge, &environment).is_err());
        assert!(resolve(&format!("{huge}=1"), &environment).is_err());
        assert!(resolve(&format!("postgres://{huge}"), &environment).is_err());
        assert!(
            resolve(&format!("postgres://h?{huge}=1"), &environment).unwrap_err().to_string().len() < 300
        );
        assert!(resolve(&format!("password={huge}"), &environment).is_ok());
        assert!(resolve(&format!("postgres://{}", ",".repeat(10_000)), &environment).is_ok());
    }

    #[test]
    fn files_for_encryption_are_not_needed_where_nothing_is_encrypted() {
        for string in
            ["host=/run/postgresql sslmode=verify-full", "sslmode=verify-full", "host=h sslmode=disable"]
        {
            assert!(resolve(string, &FixedEnvironment::new()).is_ok(), "{string}");
        }
    }

    #[test]
    fn a_process_without_a_user_name_must_name_the_user() {
        let environment = FixedEnvironment::new().without_user();
        assert!(matches!(resolve("dbname=x", &environment), Err(SettingsError::NoUserName)));
        assert!(resolve("user=u", &environment).is_ok());
    }
}
