//! The parameters of libpq, and the values given for them.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::{Environment, SettingsError};

/// One of libpq's connection parameters.
pub(crate) struct Parameter {
    /// As it is written in connection strings and service files.
    pub(crate) name: &'static str,
    /// The environment variable that gives it, if libpq knows one.
    variable: Option<&'static str>,
    support: Support,
}

/// What is done with a parameter.
enum Support {
    Used,
    /// Used, but these values are refused.
    Except(&'static [&'static str], &'static str),
    /// Ignored: leaving it out neither weakens security nor changes what is read.
    Ignored,
    /// Refused, but for values that ask for nothing.
    Refused(&'static [&'static str], &'static str),
}

use Support::{Except, Ignored, Refused, Used};

// Why parameters are refused, and what to do instead.
const KEY_IN_CLEAR: &str =
    "encrypted private keys are not supported; store the key in clear with permissions 0600";
const NO_GSSAPI: &str = "GSSAPI is not supported; encrypt with sslmode=verify-full";
const NO_KEY_LOG: &str = "the keys of TLS sessions are never written anywhere; remove it";
const NO_OAUTH: &str = "OAuth is not supported; give a password or a client certificate";
const NO_PEER: &str =
    "the server's user is not checked here; keep the socket where only the server can write";
const NO_REPLICATION: &str = "a replication connection cannot run queries; remove it";
const NO_REQUEST: &str =
    "it cannot be checked whether the server requested the certificate; use allow";
const NO_REVOCATION: &str =
    "revocation lists are not supported; remove it, and give certificates a short life";
const NO_SCRAM_KEYS: &str = "SCRAM keys are not supported; give the password";
const NO_STANDBY: &str = "a primary is needed; use read-write";
const NO_VERSION: &str = "only version 3.0 of the protocol is supported; remove it";

const STANDBYS: &[&str] = &["read-only", "standby", "prefer-standby"];

/// Every parameter of libpq 18.
const PARAMETERS: &[Parameter] = &[
    of("host", Some("PGHOST"), Used),
    of("hostaddr", Some("PGHOSTADDR"), Used),
    of("port", Some("PGPORT"), Used),
    of("dbname", Some("PGDATABASE"), Used),
    of("user", Some("PGUSER"), Used),
    of("password", Some("PGPASSWORD"), Used),
    of("passfile", Some("PGPASSFILE"), Used),
    of("service", Some("PGSERVICE"), Used),
    of("servicefile", Some("PGSERVICEFILE"), Used),
    of("load_balance_hosts", Some("PGLOADBALANCEHOSTS"), Used),
    of("connect_timeout", Some("PGCONNECT_TIMEOUT"), Used),
    of("keepalives", None, Used),
    of("keepalives_idle", None, Used),
    of("keepalives_interval", None, Used),
    of("keepalives_count", None, Used),
    of("tcp_user_timeout", None, Used),
    of("application_name", Some("PGAPPNAME"), Used),
    of("fallback_application_name", None, Used),
    of("options", Some("PGOPTIONS"), Used),
    of("channel_binding", Some("PGCHANNELBINDING"), Used),
    of("require_auth", Some("PGREQUIREAUTH"), Used),
    of("sslmode", Some("PGSSLMODE"), Used),
    of("sslnegotiation", Some("PGSSLNEGOTIATION"), Used),
    of("sslrootcert", Some("PGSSLROOTCERT"), Used),
    of("sslcert", Some("PGSSLCERT"), Used),
    of("sslkey", Some("PGSSLKEY"), Used),
    of("sslsni", Some("PGSSLSNI"), Used),
    of("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION"), Used),
    of("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION"), Used),
    of("sslcertmode", Some("PGSSLCERTMODE"), Except(&["require"], NO_REQUEST)),
    of("target_session_attrs", Some("PGTARGETSESSIONATTRS"), Except(STANDBYS, NO_STANDBY)),
    of("client_encoding", Some("PGCLIENTENCODING"), Ignored),
    of("sslcompression", Some("PGSSLCOMPRESSION"), Ignored),
    of("max_protocol_version", Some("PGMAXPROTOCOLVERSION"), Ignored),
    of("krbsrvname", Some("PGKRBSRVNAME"), Ignored),
    of("gsslib", Some("PGGSSLIB"), Ignored),
    of("requirepeer", Some("PGREQUIREPEER"), Refused(&[""], NO_PEER)),
    of("gssencmode", Some("PGGSSENCMODE"), Refused(&["disable", "prefer"], NO_GSSAPI)),
    of("gssdelegation", Some("PGGSSDELEGATION"), Refused(&["", "0"], NO_GSSAPI)),
    of("sslcrl", Some("PGSSLCRL"), Refused(&[""], NO_REVOCATION)),
    of("sslcrldir", Some("PGSSLCRLDIR"), Refused(&[""], NO_REVOCATION)),
    of("sslpassword", None, Refused(&[""], KEY_IN_CLEAR)),
    of("sslkeylogfile", None, Refused(&[""], NO_KEY_LOG)),
    of("replication", None, Refused(&["", "0", "false", "off", "no"], NO_REPLICATION)),
    of("min_protocol_version", Some("PGMINPROTOCOLVERSION"), Refused(&["", "3.0"], NO_VERSION)),
    of("scram_client_key", None, Refused(&[""], NO_SCRAM_KEYS)),
    of("scram_server_key", None, Refused(&[""], NO_SCRAM_KEYS)),
    of("oauth_issuer", None, Refused(&[""], NO_OAUTH)),
    of("oauth_client_id", None, Refused(&[""], NO_OAUTH)),
    of("oauth_client_secret", None, Refused(&[""], NO_OAUTH)),
    of("oauth_scope", None, Refused(&[""], NO_OAUTH)),
];

const fn of(name: &'static str, variable: Option<&'static str>, support: Support) -> Parameter {
    Parameter { name, variable, support }
}

impl Parameter {
    /// The parameter that connection strings call `name`.
    pub(crate) fn named(name: &str) -> Option<&'static Parameter> {
        PARAMETERS.iter().find(|parameter| parameter.name == name)
    }

    /// Whether its value must never be shown.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(
            self.name,
            "password"
                | "sslpassword"
                | "scram_client_key"
                | "scram_server_key"
                | "oauth_client_secret"
        )
    }
}

/// What messages call the origin of a value, such as `PGPORT`, and the value.
pub(crate) type Text<'a> = (&'a str, &'a str);

/// The values given for parameters, as they were written.
///
/// A later value replaces an earlier one, as in libpq. Values are bytes because a password need not
/// be UTF-8. Nothing here is printable.
#[derive(Default)]
pub(crate) struct Values(BTreeMap<&'static str, (String, Vec<u8>)>);

impl Values {
    /// Sets a value of the connection string.
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<Vec<u8>>) {
        self.0.insert(name, (name.to_owned(), value.into()));
    }

    /// Sets a value of a service file, unless the parameter has one.
    pub(crate) fn set_default(&mut self, name: &'static str, value: &[u8]) {
        self.0
            .entry(name)
            .or_insert_with(|| (format!("{name} of the service file"), value.to_vec()));
    }

    /// Takes what has no value yet from environment variables.
    pub(crate) fn set_from_variables(&mut self, environment: &Environment, only: Option<&str>) {
        for parameter in
            PARAMETERS.iter().filter(|parameter| only.is_none_or(|only| parameter.name == only))
        {
            if let Some(variable) = parameter.variable
                && let Some(value) = environment.variable(variable)
            {
                let value = || (variable.to_owned(), value.as_bytes().to_vec());
                self.0.entry(parameter.name).or_insert_with(value);
            }
        }
    }

    /// The value of a parameter and where it came from.
    pub(crate) fn bytes(&self, name: &'static str) -> Option<(&str, &[u8])> {
        debug_assert!(Parameter::named(name).is_some(), "{name} is no parameter");
        self.0.get(name).map(|(origin, value)| (origin.as_str(), value.as_slice()))
    }

    fn text(&self, name: &'static str) -> Result<Option<Text<'_>>, SettingsError> {
        let Some((origin, value)) = self.bytes(name) else { return Ok(None) };
        let not_utf8 = |_| {
            SettingsError::new(format!(
                "{origin} is not UTF-8 text; only the password may be other bytes"
            ))
        };
        std::str::from_utf8(value).map(|value| Some((origin, value))).map_err(not_utf8)
    }

    /// The value of a parameter for which the empty text means that it was not given.
    pub(crate) fn non_empty(&self, name: &'static str) -> Result<Option<Text<'_>>, SettingsError> {
        Ok(self.text(name)?.filter(|(_, value)| !value.is_empty()))
    }

    /// The same, without its origin.
    pub(crate) fn string(&self, name: &'static str) -> Result<Option<String>, SettingsError> {
        Ok(self.non_empty(name)?.map(|(_, value)| value.to_owned()))
    }

    /// The path of a file.
    pub(crate) fn path(
        &self,
        name: &'static str,
        default: PathBuf,
    ) -> Result<PathBuf, SettingsError> {
        Ok(self.string(name)?.map_or(default, PathBuf::from))
    }

    /// One of a few words.
    pub(crate) fn choice<T: Copy>(
        &self,
        name: &'static str,
        choices: &[(&str, T)],
        default: T,
    ) -> Result<T, SettingsError> {
        let Some((origin, value)) = self.text(name)? else { return Ok(default) };
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == value) {
            return Ok(*choice);
        }
        let words: Vec<&str> =
            choices.iter().map(|(word, _)| *word).filter(|word| !word.is_empty()).collect();
        Err(SettingsError::invalid(origin, &format!("one of {}", words.join(", "))))
    }

    /// A whole number in the range of C's `int`, which is what libpq reads.
    pub(crate) fn integer(&self, name: &'static str) -> Result<Option<i32>, SettingsError> {
        let Some((origin, value)) = self.non_empty(name)? else { return Ok(None) };
        let number = value.trim_ascii().parse();
        number.map(Some).map_err(|_| SettingsError::invalid(origin, "a whole number"))
    }

    /// Refuses what is not supported and would be unsafe or misleading to ignore.
    pub(crate) fn refuse_unsupported(&self) -> Result<(), SettingsError> {
        for parameter in PARAMETERS {
            let (listed, is_refused, because) = match parameter.support {
                Except(values, because) => (values, true, because),
                Refused(values, because) => (values, false, because),
                Used | Ignored => continue,
            };
            if let Some((origin, value)) = self.bytes(parameter.name)
                && listed.iter().any(|listed| listed.as_bytes() == value) == is_refused
            {
                return Err(SettingsError::unsupported(origin, because));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
impl Values {
    /// The text of a parameter that has a value.
    pub(crate) fn of(&self, name: &'static str) -> Option<&str> {
        self.text(name).unwrap().map(|(_, value)| value)
    }

    /// The given ones of these parameters, as in `user=<me> host=<h>`.
    pub(crate) fn shown(&self, names: &[&'static str]) -> String {
        let given = names.iter().filter_map(|name| Some(format!("{name}=<{}>", self.of(name)?)));
        given.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_variables_are_listed_once_and_documented() {
        let page = include_str!("../../../docs/reference/connection.md");
        for (index, parameter) in PARAMETERS.iter().enumerate() {
            for other in &PARAMETERS[index + 1..] {
                assert_ne!(parameter.name, other.name);
                assert!(parameter.variable.is_none() || parameter.variable != other.variable);
            }
            for name in [parameter.name].into_iter().chain(parameter.variable) {
                assert!(page.contains(&format!("`{name}`")), "{name} is not documented");
            }
        }
    }

    #[test]
    fn a_connection_string_wins_over_a_service_file_and_that_over_a_variable() {
        let mut values = Values::default();
        values.set("host", "from-string");
        values.set_default("host", b"from-service");
        values.set_default("port", b"1");
        let environment = crate::fixture::TestEnvironment::new();
        let environment =
            environment.set("PGHOST", "no").set("PGPORT", "2").set("PGUSER", "from-variable");
        values.set_from_variables(&environment, None);

        assert_eq!(values.text("host").unwrap(), Some(("host", "from-string")));
        assert_eq!(values.text("port").unwrap(), Some(("port of the service file", "1")));
        assert_eq!(values.text("user").unwrap(), Some(("PGUSER", "from-variable")));
        assert_eq!(values.text("keepalives").unwrap(), None);
    }

    #[test]
    fn an_unsupported_parameter_is_refused_unless_it_asks_for_nothing() {
        for (name, value, refused) in [
            ("gssencmode", "require", true),
            ("gssencmode", "prefer", false),
            ("gssencmode", "disable", false),
            ("gssencmode", "", true),
            ("requirepeer", "postgres", true),
            ("sslcertmode", "require", true),
            ("sslcertmode", "allow", false),
            ("sslcrl", "/crl.pem", true),
            ("sslcrldir", "/crl", true),
            ("sslcrldir", "", false),
            ("sslpassword", "hunter2", true),
            ("replication", "database", true),
            ("replication", "off", false),
            ("min_protocol_version", "3.2", true),
            ("max_protocol_version", "latest", false),
            ("client_encoding", "LATIN1", false),
            ("sslkeylogfile", "/tmp/keys", true),
            ("target_session_attrs", "standby", true),
            ("target_session_attrs", "prefer-standby", true),
            ("target_session_attrs", "read-only", true),
            ("target_session_attrs", "read-write", false),
        ] {
            let mut values = Values::default();
            values.set(name, value);
            let outcome = values.refuse_unsupported();
            assert_eq!(outcome.is_err(), refused, "{name}={value}");
            if let Err(error) = outcome {
                assert!(
                    error.to_string().starts_with(&format!("{name} cannot be honoured: ")),
                    "{error}"
                );
                assert!(!error.to_string().contains("hunter2"));
            }
        }
    }
}
