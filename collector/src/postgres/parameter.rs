//! The parameters of libpq, and the values given for them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;

use super::SettingsError;

/// One of libpq's connection parameters.
#[derive(Debug)]
pub(super) struct Parameter {
    /// As it is written in connection strings and service files.
    pub(super) name: &'static str,
    /// The environment variable that gives it, if libpq knows one.
    pub(super) variable: Option<&'static str>,
    pub(super) support: Support,
}

/// What is done with a parameter.
#[derive(Debug)]
pub(super) enum Support {
    Honoured,
    /// Accepted and ignored: leaving it out neither weakens security nor changes what is read.
    WithoutEffect,
    /// Refused, except for values that ask for nothing.
    Refused {
        accepted: &'static [&'static str],
        because: &'static str,
    },
}

use Support::{Honoured, Refused, WithoutEffect};

/// Every parameter of libpq 18, in the order of its documentation.
pub(super) const PARAMETERS: &[Parameter] = &[
    of("host", Some("PGHOST"), Honoured),
    of("hostaddr", Some("PGHOSTADDR"), Honoured),
    of("port", Some("PGPORT"), Honoured),
    of("dbname", Some("PGDATABASE"), Honoured),
    of("user", Some("PGUSER"), Honoured),
    of("password", Some("PGPASSWORD"), Honoured),
    of("passfile", Some("PGPASSFILE"), Honoured),
    of(
        "require_auth",
        Some("PGREQUIREAUTH"),
        Refused {
            accepted: &[""],
            because: "authentication methods cannot be excluded here; use channel_binding=require",
        },
    ),
    of("channel_binding", Some("PGCHANNELBINDING"), Honoured),
    of("connect_timeout", Some("PGCONNECT_TIMEOUT"), Honoured),
    of("client_encoding", Some("PGCLIENTENCODING"), WithoutEffect),
    of("options", Some("PGOPTIONS"), Honoured),
    of("application_name", Some("PGAPPNAME"), Honoured),
    of("fallback_application_name", None, Honoured),
    of("keepalives", None, Honoured),
    of("keepalives_idle", None, Honoured),
    of("keepalives_interval", None, Honoured),
    of("keepalives_count", None, Honoured),
    of("tcp_user_timeout", None, Honoured),
    of(
        "replication",
        None,
        Refused {
            accepted: &["", "0", "false", "off", "no"],
            because: "a replication connection cannot run queries",
        },
    ),
    of(
        "gssencmode",
        Some("PGGSSENCMODE"),
        Refused {
            accepted: &["disable", "prefer"],
            because: "GSSAPI is not supported; encrypt with sslmode=verify-full",
        },
    ),
    of("sslmode", Some("PGSSLMODE"), Honoured),
    of("sslnegotiation", Some("PGSSLNEGOTIATION"), Honoured),
    of("sslcompression", Some("PGSSLCOMPRESSION"), WithoutEffect),
    of("sslcert", Some("PGSSLCERT"), Honoured),
    of("sslkey", Some("PGSSLKEY"), Honoured),
    of(
        "sslpassword",
        None,
        Refused {
            accepted: &[""],
            because: "encrypted private keys are not supported; store it in clear with permissions 0600",
        },
    ),
    of("sslcertmode", Some("PGSSLCERTMODE"), Honoured),
    of("sslrootcert", Some("PGSSLROOTCERT"), Honoured),
    of("sslcrl", Some("PGSSLCRL"), Honoured),
    of(
        "sslcrldir",
        Some("PGSSLCRLDIR"),
        Refused {
            accepted: &[""],
            because: "folders of revocation lists are not supported; name a single file in sslcrl",
        },
    ),
    of("sslsni", Some("PGSSLSNI"), Honoured),
    of(
        "requirepeer",
        Some("PGREQUIREPEER"),
        Refused {
            accepted: &[""],
            because: "the server's user is not checked here; keep the socket where only the server can write",
        },
    ),
    of("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION"), Honoured),
    of("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION"), Honoured),
    of(
        "min_protocol_version",
        Some("PGMINPROTOCOLVERSION"),
        Refused { accepted: &["", "3.0"], because: "only version 3.0 of the protocol is spoken here" },
    ),
    of("max_protocol_version", Some("PGMAXPROTOCOLVERSION"), WithoutEffect),
    of("krbsrvname", Some("PGKRBSRVNAME"), WithoutEffect),
    of("gsslib", Some("PGGSSLIB"), WithoutEffect),
    of(
        "gssdelegation",
        Some("PGGSSDELEGATION"),
        Refused { accepted: &["", "0"], because: "GSSAPI is not supported" },
    ),
    of(
        "scram_client_key",
        None,
        Refused { accepted: &[""], because: "SCRAM keys are not supported; give the password" },
    ),
    of(
        "scram_server_key",
        None,
        Refused { accepted: &[""], because: "SCRAM keys are not supported; give the password" },
    ),
    of("service", Some("PGSERVICE"), Honoured),
    of("servicefile", Some("PGSERVICEFILE"), Honoured),
    of("target_session_attrs", Some("PGTARGETSESSIONATTRS"), Honoured),
    of("load_balance_hosts", Some("PGLOADBALANCEHOSTS"), Honoured),
    of("oauth_issuer", None, Refused { accepted: &[""], because: "OAuth is not supported" }),
    of("oauth_client_id", None, Refused { accepted: &[""], because: "OAuth is not supported" }),
    of("oauth_client_secret", None, Refused { accepted: &[""], because: "OAuth is not supported" }),
    of("oauth_scope", None, Refused { accepted: &[""], because: "OAuth is not supported" }),
    of(
        "sslkeylogfile",
        None,
        Refused { accepted: &[""], because: "the keys of TLS sessions are never written anywhere" },
    ),
];

const fn of(name: &'static str, variable: Option<&'static str>, support: Support) -> Parameter {
    Parameter { name, variable, support }
}

impl Parameter {
    /// The parameter that connection strings call `name`.
    pub(super) fn named(name: &str) -> Option<&'static Parameter> {
        PARAMETERS.iter().find(|parameter| parameter.name == name)
    }

    /// Whether its value must never be shown.
    pub(super) fn is_secret(&self) -> bool {
        matches!(
            self.name,
            "password" | "sslpassword" | "scram_client_key" | "scram_server_key" | "oauth_client_secret"
        )
    }
}

/// Where a value came from; shown in errors as the name that a person can look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The connection string's parameter of this name.
    ConnectionString(&'static str),
    /// The service file's parameter of this name.
    ServiceFile(&'static str),
    /// The environment variable of this name.
    Variable(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConnectionString(name) | Self::Variable(name) => formatter.write_str(name),
            Self::ServiceFile(name) => write!(formatter, "{name} of the service file"),
        }
    }
}

/// The values given for parameters, as they were written.
///
/// A later value replaces an earlier one, as in libpq. Values are bytes because a password need not be UTF-8.
/// Nothing here is printable.
#[derive(Default)]
pub(super) struct Values(BTreeMap<&'static str, (Origin, Vec<u8>)>);

impl Values {
    /// Sets a value of the connection string.
    pub(super) fn set(&mut self, parameter: &'static Parameter, value: impl Into<Vec<u8>>) {
        self.0.insert(parameter.name, (Origin::ConnectionString(parameter.name), value.into()));
    }

    /// Sets a value of a service file, unless the parameter has one.
    pub(super) fn set_default(&mut self, parameter: &'static Parameter, value: &[u8]) {
        self.0.entry(parameter.name).or_insert_with(|| (Origin::ServiceFile(parameter.name), value.to_vec()));
    }

    /// Takes what has no value yet from environment variables.
    pub(super) fn set_variables(&mut self, variable: impl Fn(&str) -> Option<OsString>) {
        for parameter in PARAMETERS {
            let Some(name) = parameter.variable else { continue };
            if self.0.contains_key(parameter.name) {
                continue;
            }
            if let Some(value) = variable(name) {
                self.0.insert(parameter.name, (Origin::Variable(name), value.into_vec()));
            }
        }
    }

    /// The value of a parameter and where it came from.
    pub(super) fn bytes(&self, name: &'static str) -> Option<(Origin, &[u8])> {
        debug_assert!(Parameter::named(name).is_some(), "{name} is no parameter");
        self.0.get(name).map(|(origin, value)| (*origin, value.as_slice()))
    }

    /// The value of a parameter that must be text.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<(Origin, &str)>, SettingsError> {
        self.bytes(name)
            .map(|(origin, value)| match std::str::from_utf8(value) {
                Ok(value) => Ok((origin, value)),
                Err(_) => Err(SettingsError::NotUtf8 { origin }),
            })
            .transpose()
    }

    /// The value of a parameter that must be text and for which the empty text means that it was not given.
    pub(super) fn non_empty(&self, name: &'static str) -> Result<Option<(Origin, &str)>, SettingsError> {
        Ok(self.text(name)?.filter(|(_, value)| !value.is_empty()))
    }

    /// Refuses what is not supported and would be unsafe or misleading to ignore.
    pub(super) fn refuse_unsupported(&self) -> Result<(), SettingsError> {
        for parameter in PARAMETERS {
            let Refused { accepted, because } = &parameter.support else { continue };
            if let Some((origin, value)) = self.bytes(parameter.name)
                && !accepted.iter().any(|accepted| accepted.as_bytes() == value)
            {
                return Err(SettingsError::Unsupported { origin, because });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_variables_are_listed_once() {
        for (index, parameter) in PARAMETERS.iter().enumerate() {
            for other in &PARAMETERS[index + 1..] {
                assert_ne!(parameter.name, other.name);
                assert!(parameter.variable.is_none() || parameter.variable != other.variable);
            }
        }
    }

    #[test]
    fn the_operator_page_names_every_parameter_and_variable() {
        let page = include_str!("../../../docs/CONNECTING.md");
        for parameter in PARAMETERS {
            assert!(page.contains(&format!("`{}`", parameter.name)), "{} is not documented", parameter.name);
            if let Some(variable) = parameter.variable {
                assert!(page.contains(&format!("`{variable}`")), "{variable} is not documented");
            }
        }
    }

    #[test]
    fn a_connection_string_wins_over_a_service_file_and_that_over_a_variable() {
        let parameter = |name| Parameter::named(name).unwrap();
        let mut values = Values::default();
        values.set(parameter("host"), "from-string");
        values.set_default(parameter("host"), b"from-service");
        values.set_default(parameter("port"), b"1");
        values.set_variables(|name| Some(name.into()));

        assert_eq!(values.text("host").unwrap().unwrap().1, "from-string");
        assert_eq!(values.text("port").unwrap().unwrap(), (Origin::ServiceFile("port"), "1"));
        assert_eq!(values.text("user").unwrap().unwrap(), (Origin::Variable("PGUSER"), "PGUSER"));
        assert!(values.text("keepalives").unwrap().is_none());
    }

    #[test]
    fn an_unsupported_parameter_is_refused_unless_it_asks_for_nothing() {
        for (name, value, refused) in [
            ("gssencmode", "require", true),
            ("gssencmode", "prefer", false),
            ("gssencmode", "disable", false),
            ("gssencmode", "", true),
            ("require_auth", "scram-sha-256", true),
            ("require_auth", "", false),
            ("requirepeer", "postgres", true),
            ("sslcrldir", "/crl", true),
            ("sslpassword", "hunter2", true),
            ("replication", "database", true),
            ("replication", "off", false),
            ("min_protocol_version", "3.2", true),
            ("max_protocol_version", "latest", false),
            ("client_encoding", "LATIN1", false),
            ("sslkeylogfile", "/tmp/keys", true),
        ] {
            let mut values = Values::default();
            values.set(Parameter::named(name).unwrap(), value);
            let outcome = values.refuse_unsupported();
            assert_eq!(outcome.is_err(), refused, "{name}={value}");
            if let Err(error) = outcome {
                assert!(error.to_string().starts_with(name), "{error}");
                assert!(!error.to_string().contains("hunter2"));
            }
        }
    }
}
