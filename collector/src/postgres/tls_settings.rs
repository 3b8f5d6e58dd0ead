//! The parameters that say whether and how a connection is encrypted.

use std::fmt;
use std::path::PathBuf;

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};
use tokio_postgres::config::{ChannelBinding, SslNegotiation};

use super::parameter::Values;
use super::{Environment, Origin, SettingsError};

/// How far a connection over the network is protected; libpq's `sslmode`. Sockets are never encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never encrypted.
    Disable,
    /// Encrypted only where the server refuses anything else.
    Allow,
    /// Encrypted where the server can; nothing is verified.
    Prefer,
    /// Encrypted; the certificate is verified like `VerifyCa` if the file of root certificates exists.
    Require,
    /// Encrypted, and the certificate is signed by a trusted authority, whatever name it is for.
    VerifyCa,
    /// Encrypted, and the certificate is signed by a trusted authority for the host that was asked for.
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
pub(super) struct TlsSettings {
    pub(super) mode: SslMode,
    pub(super) negotiation: SslNegotiation,
    pub(super) channel_binding: ChannelBinding,
    pub(super) roots: Roots,
    /// The client's certificate and key, sent if the certificate's file exists.
    pub(super) client: Option<ClientFiles>,
    pub(super) revocations: Option<OptionalFile>,
    /// Whether the host's name is sent in clear when the encryption begins.
    pub(super) sni: bool,
    pub(super) versions: &'static [&'static SupportedProtocolVersion],
}

/// Whom to trust with signing server certificates.
#[derive(Debug, Clone)]
pub(super) enum Roots {
    /// The authorities that the operating system trusts.
    System,
    /// A file of certificates.
    File(PathBuf),
    /// No file is named, and there is no home folder to look into.
    None,
}

#[derive(Debug, Clone)]
pub(super) struct ClientFiles {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// A file that may be missing where it was not named.
#[derive(Debug, Clone)]
pub(super) struct OptionalFile {
    pub(super) path: PathBuf,
    pub(super) named: bool,
}

/// Reads the parameters; no file is opened.
pub(super) fn read(values: &Values, environment: &dyn Environment) -> Result<TlsSettings, SettingsError> {
    let home = environment.home_directory();
    let in_home = |name: &str| home.as_ref().map(|home| home.join(".postgresql").join(name));
    let named = |name| -> Result<Option<PathBuf>, SettingsError> {
        Ok(values.non_empty(name)?.map(|(_, path)| PathBuf::from(path)))
    };

    let roots = match named("sslrootcert")? {
        Some(path) if path.as_os_str() == "system" => Roots::System,
        path => path.or_else(|| in_home("root.crt")).map_or(Roots::None, Roots::File),
    };
    let default_mode = if matches!(roots, Roots::System) { SslMode::VerifyFull } else { SslMode::Prefer };
    let mode = choice(values, "sslmode", MODES, MODES_TEXT, default_mode)?;
    if matches!(roots, Roots::System) && mode < SslMode::VerifyFull {
        return Err(SettingsError::Contradiction(
            "sslrootcert=system trusts every public authority and needs sslmode=verify-full; \
             use that, or name a file of root certificates",
        ));
    }
    let negotiation = choice(
        values,
        "sslnegotiation",
        &[("postgres", SslNegotiation::Postgres), ("direct", SslNegotiation::Direct)],
        "one of postgres, direct",
        SslNegotiation::Postgres,
    )?;
    if negotiation == SslNegotiation::Direct && mode < SslMode::Require {
        return Err(SettingsError::Contradiction(
            "sslnegotiation=direct needs sslmode=require, verify-ca or verify-full; \
             a server without TLS cannot be recognised with it",
        ));
    }
    let channel_binding = choice(
        values,
        "channel_binding",
        &[
            ("disable", ChannelBinding::Disable),
            ("prefer", ChannelBinding::Prefer),
            ("require", ChannelBinding::Require),
        ],
        "one of disable, prefer, require",
        ChannelBinding::Prefer,
    )?;
    if channel_binding == ChannelBinding::Require && mode == SslMode::Disable {
        return Err(SettingsError::Contradiction(
            "channel_binding=require needs an encrypted connection, but sslmode is disable",
        ));
    }

    Ok(TlsSettings {
        mode,
        negotiation,
        channel_binding,
        roots,
        client: client_files(values, &in_home)?,
        revocations: match named("sslcrl")? {
            Some(path) => Some(OptionalFile { path, named: true }),
            None => in_home("root.crl").map(|path| OptionalFile { path, named: false }),
        },
        sni: choice(values, "sslsni", &[("0", false), ("1", true)], "0 or 1", true)?,
        versions: versions(values)?,
    })
}

const MODES_TEXT: &str = "one of disable, allow, prefer, require, verify-ca, verify-full";

fn choice<T: Copy>(
    values: &Values,
    name: &'static str,
    choices: &[(&str, T)],
    allowed: &'static str,
    default: T,
) -> Result<T, SettingsError> {
    let Some((origin, value)) = values.text(name)? else { return Ok(default) };
    choices
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, choice)| *choice)
        .ok_or(SettingsError::InvalidValue { origin, allowed })
}

fn client_files(
    values: &Values,
    in_home: &dyn Fn(&str) -> Option<PathBuf>,
) -> Result<Option<ClientFiles>, SettingsError> {
    #[derive(Clone, Copy, PartialEq)]
    enum CertificateMode {
        Disable,
        Allow,
        Require,
    }
    let mode = choice(
        values,
        "sslcertmode",
        &[
            ("disable", CertificateMode::Disable),
            ("allow", CertificateMode::Allow),
            ("require", CertificateMode::Require),
        ],
        "disable or allow",
        CertificateMode::Allow,
    )?;
    if mode == CertificateMode::Require {
        return Err(SettingsError::Unsupported {
            origin: values
                .bytes("sslcertmode")
                .map_or(Origin::Variable("PGSSLCERTMODE"), |(origin, _)| origin),
            because: "it cannot be checked whether the server asked for the certificate; use allow",
        });
    }
    if mode == CertificateMode::Disable {
        return Ok(None);
    }
    let path = |name, default| -> Result<Option<PathBuf>, SettingsError> {
        Ok(values.non_empty(name)?.map(|(_, path)| PathBuf::from(path)).or_else(|| in_home(default)))
    };
    let certificate = path("sslcert", "postgresql.crt")?;
    let key = path("sslkey", "postgresql.key")?;
    Ok(certificate.zip(key).map(|(certificate, key)| ClientFiles { certificate, key }))
}

/// Versions before 1.2 are never spoken, so that allowing them means to begin with 1.2.
fn versions(values: &Values) -> Result<&'static [&'static SupportedProtocolVersion], SettingsError> {
    static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    const KNOWN: &[(&str, u8)] = &[("", 0), ("TLSv1", 10), ("TLSv1.1", 11), ("TLSv1.2", 12), ("TLSv1.3", 13)];
    let allowed = "one of TLSv1, TLSv1.1, TLSv1.2, TLSv1.3";
    let lowest = choice(values, "ssl_min_protocol_version", KNOWN, allowed, 12)?;
    let highest = match choice(values, "ssl_max_protocol_version", KNOWN, allowed, 13)? {
        0 => 13,
        version => version,
    };
    if highest < 12 || highest < lowest {
        return Err(SettingsError::Contradiction(
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

    use super::super::fixture::FixedEnvironment;
    use super::*;

    fn from(string: &str) -> Result<TlsSettings, SettingsError> {
        read(&super::super::keyword::parse(string).unwrap(), &FixedEnvironment::new())
    }

    #[test]
    fn every_mode_is_read_and_shown_by_its_name() {
        for (name, mode) in MODES {
            assert_eq!(from(&format!("sslmode={name}")).unwrap().mode, *mode);
            assert_eq!(mode.to_string(), *name);
            assert!(MODES_TEXT.contains(name));
        }
    }

    #[test]
    fn defaults_are_those_of_libpq() {
        let environment = FixedEnvironment::new();
        let settings = read(&Values::default(), &environment).unwrap();
        assert_eq!(settings.mode, SslMode::Prefer);
        assert_eq!(settings.channel_binding, ChannelBinding::Prefer);
        assert_eq!(settings.negotiation, SslNegotiation::Postgres);
        assert!(settings.sni);
        assert_eq!(settings.versions.len(), 2);
        let folder = environment.home().join(".postgresql");
        assert!(matches!(settings.roots, Roots::File(path) if path == folder.join("root.crt")));
        let revocations = settings.revocations.unwrap();
        assert_eq!((revocations.path, revocations.named), (folder.join("root.crl"), false));
        let client = settings.client.unwrap();
        assert_eq!(client.certificate, folder.join("postgresql.crt"));
        assert_eq!(client.key, folder.join("postgresql.key"));
    }

    #[test]
    fn the_authorities_of_the_system_need_full_verification() {
        assert_eq!(from("sslrootcert=system").unwrap().mode, SslMode::VerifyFull);
        assert_eq!(from("sslrootcert=system sslmode=verify-full").unwrap().mode, SslMode::VerifyFull);
        for mode in ["disable", "allow", "prefer", "require", "verify-ca"] {
            let error = from(&format!("sslrootcert=system sslmode={mode}")).unwrap_err().to_string();
            assert!(error.contains("verify-full"), "{error}");
        }
    }

    #[test]
    fn versions_of_tls_are_narrowed_but_never_below_1_2() {
        let versions = |string: &str| {
            let settings = from(string)?;
            Ok::<_, SettingsError>(
                settings.versions.iter().map(|version| version.version).collect::<Vec<_>>(),
            )
        };
        assert_eq!(versions("ssl_min_protocol_version=TLSv1").unwrap(), [TLSv1_3, TLSv1_2]);
        assert_eq!(versions("ssl_min_protocol_version=TLSv1.3").unwrap(), [TLSv1_3]);
        assert_eq!(versions("ssl_max_protocol_version=TLSv1.2").unwrap(), [TLSv1_2]);
        assert_eq!(versions("ssl_max_protocol_version=''").unwrap(), [TLSv1_3, TLSv1_2]);
        for string in [
            "ssl_max_protocol_version=TLSv1.1",
            "ssl_max_protocol_version=TLSv1.2 ssl_min_protocol_version=TLSv1.3",
            "ssl_min_protocol_version=SSLv3",
            "ssl_min_protocol_version=1.2",
        ] {
            assert!(versions(string).is_err(), "{string}");
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
            ("sslsni=2", "sslsni must be 0 or 1"),
            ("sslcertmode=require", "sslcertmode cannot be honoured"),
            ("sslcertmode=no", "sslcertmode must be"),
        ] {
            let error = from(string).unwrap_err().to_string();
            assert!(error.contains(message), "{string}: {error}");
        }
        assert!(from("sslnegotiation=direct sslmode=require").is_ok());
        assert!(from("sslcertmode=disable").unwrap().client.is_none());
    }
}
