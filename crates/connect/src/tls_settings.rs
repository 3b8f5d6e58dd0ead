//! The parameters that say whether and how a connection is encrypted.

use std::fmt;
use std::path::PathBuf;

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, SslNegotiation};

use super::parameters::Values;
use super::{Environment, SettingsError};

/// How far a connection over the network is protected; `docs/reference/connection.md` explains the
/// values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SslMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

const MODES: &[(&str, SslMode)] = &[
    ("disable", SslMode::Disable),
    ("allow", SslMode::Allow),
    ("prefer", SslMode::Prefer),
    ("require", SslMode::Require),
    ("verify-ca", SslMode::VerifyCa),
    ("verify-full", SslMode::VerifyFull),
];

impl fmt::Display for SslMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) = MODES.iter().find(|(_, mode)| mode == self).expect("every mode has a name");
        formatter.write_str(name)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct TlsSettings {
    pub(crate) mode: SslMode,
    pub(crate) roots: Roots,
    /// The files of the client's certificate and key, sent if the first exists.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
    /// Where libpq looks for a revocation list, which is not supported.
    pub(crate) revocation_list: PathBuf,
    /// Whether the host's name is sent in clear when the encryption begins.
    pub(crate) sni: bool,
    pub(crate) versions: &'static [&'static SupportedProtocolVersion],
}

/// Whom to trust with signing server certificates.
#[derive(Debug, Clone)]
pub(crate) enum Roots {
    /// The authorities that the operating system trusts.
    System,
    /// A file of certificates.
    File(PathBuf),
}

/// Reads the parameters; no file is opened.
pub(crate) fn read(
    values: &Values,
    environment: &Environment,
    config: &mut Config,
) -> Result<TlsSettings, SettingsError> {
    let folder = environment.home.join(".postgresql");
    let file = |name, default| values.path(name, folder.join(default));
    let roots = match file("sslrootcert", "root.crt")? {
        path if path.as_os_str() == "system" => Roots::System,
        path => Roots::File(path),
    };
    let default_mode =
        if matches!(roots, Roots::System) { SslMode::VerifyFull } else { SslMode::Prefer };
    let mode = values.choice("sslmode", MODES, default_mode)?;
    if matches!(roots, Roots::System) && mode < SslMode::VerifyFull {
        return Err(SettingsError::new(
            "sslrootcert=system trusts every public authority and needs sslmode=verify-full; \
             use that, or name a file of root certificates",
        ));
    }
    let negotiations = [("postgres", SslNegotiation::Postgres), ("direct", SslNegotiation::Direct)];
    let negotiation = values.choice("sslnegotiation", &negotiations, SslNegotiation::Postgres)?;
    if negotiation == SslNegotiation::Direct && mode < SslMode::Require {
        return Err(SettingsError::new(
            "sslnegotiation=direct needs sslmode=require, verify-ca or verify-full; \
             a server without TLS cannot be recognised with it",
        ));
    }
    let bindings = [
        ("disable", ChannelBinding::Disable),
        ("prefer", ChannelBinding::Prefer),
        ("require", ChannelBinding::Require),
    ];
    let channel_binding = values.choice("channel_binding", &bindings, ChannelBinding::Prefer)?;
    if channel_binding == ChannelBinding::Require && mode == SslMode::Disable {
        return Err(SettingsError::new(
            "channel_binding=require needs an encrypted connection, but sslmode is disable",
        ));
    }
    config.ssl_negotiation(negotiation).channel_binding(channel_binding);

    let client = (file("sslcert", "postgresql.crt")?, file("sslkey", "postgresql.key")?);
    let sends_certificate =
        values.choice("sslcertmode", &[("disable", false), ("allow", true)], true)?;
    Ok(TlsSettings {
        mode,
        roots,
        client: sends_certificate.then_some(client),
        revocation_list: folder.join("root.crl"),
        sni: values.choice("sslsni", &[("0", false), ("1", true)], true)?,
        versions: versions(values)?,
    })
}

/// Versions before 1.2 are never used, so that allowing them means to begin with 1.2.
fn versions(
    values: &Values,
) -> Result<&'static [&'static SupportedProtocolVersion], SettingsError> {
    static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    const NAMES: &[(&str, u8)] =
        &[("", 0), ("TLSv1", 10), ("TLSv1.1", 11), ("TLSv1.2", 12), ("TLSv1.3", 13)];
    let lowest = values.choice("ssl_min_protocol_version", NAMES, 12)?;
    let highest = match values.choice("ssl_max_protocol_version", NAMES, 13)? {
        0 => 13,
        version => version,
    };
    if highest < 12 || highest < lowest {
        return Err(SettingsError::new(
            "ssl_max_protocol_version leaves no version of TLS; allow TLSv1.2 or TLSv1.3, \
             and not less than ssl_min_protocol_version",
        ));
    }
    Ok(match (lowest, highest) {
        (13, _) => &BOTH[..1],
        (_, 12) => &BOTH[1..],
        _ => &BOTH,
    })
}

#[cfg(test)]
mod tests {
    use rustls::ProtocolVersion::{TLSv1_2, TLSv1_3};

    use super::*;
    use crate::fixture::TestEnvironment;

    fn from(string: &str) -> Result<TlsSettings, SettingsError> {
        let values = crate::keywords::parse(string).unwrap();
        read(&values, &TestEnvironment::new(), &mut Config::new())
    }

    #[test]
    fn defaults_are_those_of_libpq() {
        let environment = TestEnvironment::new();
        let mut config = Config::new();
        let settings = read(&Values::default(), &environment, &mut config).unwrap();
        assert_eq!(settings.mode, SslMode::Prefer);
        assert_eq!(config.get_channel_binding(), ChannelBinding::Prefer);
        assert_eq!(config.get_ssl_negotiation(), SslNegotiation::Postgres);
        assert!(settings.sni);
        assert_eq!(settings.versions.len(), 2);
        let folder = environment.home.join(".postgresql");
        assert!(matches!(settings.roots, Roots::File(path) if path == folder.join("root.crt")));
        assert_eq!(
            settings.client,
            Some((folder.join("postgresql.crt"), folder.join("postgresql.key")))
        );
    }

    #[test]
    fn versions_of_tls_are_narrowed_but_never_below_1_2() {
        for (string, expected) in [
            ("ssl_min_protocol_version=TLSv1", &[TLSv1_3, TLSv1_2][..]),
            ("ssl_min_protocol_version=TLSv1.3", &[TLSv1_3]),
            ("ssl_max_protocol_version=TLSv1.2", &[TLSv1_2]),
            ("ssl_max_protocol_version=''", &[TLSv1_3, TLSv1_2]),
        ] {
            let versions = from(string).unwrap().versions.iter().map(|version| version.version);
            assert_eq!(versions.collect::<Vec<_>>(), expected, "{string}");
        }
        for string in [
            "ssl_max_protocol_version=TLSv1.1",
            "ssl_max_protocol_version=TLSv1.2 ssl_min_protocol_version=TLSv1.3",
            "ssl_min_protocol_version=SSLv3",
            "ssl_min_protocol_version=1.2",
        ] {
            assert!(from(string).is_err(), "{string}");
        }
    }

    #[test]
    fn invalid_and_contradicting_values_are_refused() {
        for (string, message) in [
            ("sslmode=", "sslmode must be one of disable"),
            ("sslmode=Require", "sslmode must be one of disable"),
            ("sslmode=verify_full", "sslmode must be one of disable"),
            ("sslnegotiation=tls", "sslnegotiation must be"),
            ("sslnegotiation=direct", "needs sslmode=require"),
            ("channel_binding=yes", "channel_binding must be"),
            ("channel_binding=require sslmode=disable", "channel_binding=require needs"),
            ("sslsni=2", "sslsni must be one of 0, 1"),
            ("sslcertmode=no", "sslcertmode must be"),
            ("sslrootcert=system sslmode=prefer", "needs sslmode=verify-full"),
            ("sslrootcert=system sslmode=verify-ca", "needs sslmode=verify-full"),
        ] {
            let error = from(string).unwrap_err().to_string();
            assert!(error.contains(message), "{string}: {error}");
        }
        assert!(from("sslnegotiation=direct sslmode=require").is_ok());
        assert!(from("sslcertmode=disable").unwrap().client.is_none());
        assert_eq!(from("sslrootcert=system").unwrap().mode, SslMode::VerifyFull);
    }
}
