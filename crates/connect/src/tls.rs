//! Reading certificates and keys, and preparing the encryption of a connection.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::SettingsError;
use super::tls_settings::{Roots, SslMode, TlsSettings};
use super::verifier::{TrustedRoots, Verifier};

const ROOT_CERTIFICATES: &str = "the file of root certificates";
const CLIENT_CERTIFICATE: &str = "the client certificate";
const CLIENT_KEY: &str = "the private key";

/// Reads the files that the settings name.
///
/// They are read for each connection, so that renewed certificates count without a restart. What is
/// never encrypted needs none of them.
pub(crate) fn load(
    settings: &TlsSettings,
    mode: SslMode,
) -> Result<MakeRustlsConnect, SettingsError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier {
        roots: roots(settings, mode)?,
        algorithms: provider.signature_verification_algorithms,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(settings.versions)
        .expect("the provider has cipher suites for TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));

    let mut config = match &settings.client {
        Some((certificate, key)) if mode != SslMode::Disable && exists(certificate) => {
            let chain = read_certificates(CLIENT_CERTIFICATE, certificate)?;
            builder
                .with_client_auth_cert(chain, private_key(key)?)
                .map_err(|error| file_error(CLIENT_CERTIFICATE, certificate, &error.to_string()))?
        }
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    config.enable_sni = settings.sni;
    // Each connection has a configuration of its own, so that there is nothing to resume.
    config.resumption = Resumption::disabled();
    Ok(MakeRustlsConnect::new(config))
}

/// The authorities to verify with, if the mode is one that verifies.
fn roots(settings: &TlsSettings, mode: SslMode) -> Result<Option<TrustedRoots>, SettingsError> {
    if mode < SslMode::Require {
        return Ok(None);
    }
    let mut store = RootCertStore::empty();
    let mut certificates = Vec::new();
    match &settings.roots {
        Roots::System => add_system_roots(&mut store)?,
        Roots::File(path) if path.exists() => {
            certificates = read_certificates(ROOT_CERTIFICATES, path)?;
            for certificate in &certificates {
                let added = store.add(certificate.clone());
                added.map_err(|error| file_error(ROOT_CERTIFICATES, path, &error.to_string()))?;
            }
        }
        _ if mode == SslMode::Require => return Ok(None),
        Roots::File(path) => {
            return Err(SettingsError::new(format!(
                "sslmode={mode} needs root certificates, but {} does not exist; put them there, \
                 name another file in sslrootcert, or use sslrootcert=system",
                path.display()
            )));
        }
    }
    let list = &settings.revocation_list;
    if exists(list) {
        return Err(SettingsError::new(format!(
            "{} is not used, because revocation lists are not supported; remove it, and give \
             certificates a short life instead",
            list.display()
        )));
    }
    let provider = Arc::new(ring::default_provider());
    let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build();
    let chain =
        chain.map_err(|error| SettingsError::new(format!("{ROOT_CERTIFICATES}: {error}")))?;
    Ok(Some(TrustedRoots { chain, certificates, checks_name: mode == SslMode::VerifyFull }))
}

fn add_system_roots(store: &mut RootCertStore) -> Result<(), SettingsError> {
    let found = rustls_native_certs::load_native_certs();
    // A machine may hold certificates in outdated forms; without them the others still count.
    let (usable, _) = store.add_parsable_certificates(found.certs);
    if usable > 0 {
        return Ok(());
    }
    let reason =
        found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
    Err(SettingsError::new(format!(
        "sslrootcert=system finds no authorities: {reason}; install ca-certificates, or name a file"
    )))
}

/// Whether there is a file, even if it cannot be read.
fn exists(path: &Path) -> bool {
    let kind = std::fs::metadata(path).map_err(|error| error.kind());
    !matches!(kind, Err(ErrorKind::NotFound | ErrorKind::NotADirectory))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, SettingsError> {
    let fault = |reason: &str| file_error(CLIENT_KEY, path, reason);
    let metadata = std::fs::metadata(path).map_err(|error| fault(&error.to_string()))?;
    if !metadata.is_file() {
        return Err(fault("it is not a plain file"));
    }
    // Packages let a group read keys that belong to root, as Debian's ssl-cert does.
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & forbidden != 0 {
        return Err(fault("others may read it; run chmod 0600 on it"));
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| fault(&pem_error(error)))
}

/// All certificates of a PEM file, at least one.
fn read_certificates(
    what: &str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, SettingsError> {
    let read = || {
        let certificates = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
        if certificates.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(certificates) }
    };
    read().map_err(|error| file_error(what, path, &pem_error(error)))
}

/// Some of the library's messages quote the file, which may be a key.
fn pem_error(error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it has nothing of that kind in PEM form".to_owned(),
        _ => "it is not well-formed PEM".to_owned(),
    }
}

fn file_error(what: &str, path: &Path, reason: &str) -> SettingsError {
    SettingsError::new(format!("{what} {} cannot be used: {reason}", path.display()))
}
