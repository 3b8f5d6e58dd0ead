//! Reading certificates and keys, and preparing the encryption of a connection.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Socket;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::tls_settings::{ClientFiles, Roots, SslMode, TlsSettings};
use super::verifier::{Policy, TrustedRoots, Verifier};

/// What encrypts a connection, or does not where that is not asked for.
pub type TlsStream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Certificate or key files that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFault {
    /// Verification is asked for, and there is nothing to verify with.
    #[error(
        "sslmode={mode} needs root certificates, but {} does not exist; put them there, \
         name another file in sslrootcert, or use sslrootcert=system",
        .path.display()
    )]
    NoRootFile {
        /// The mode that asks for it.
        mode: SslMode,
        /// The file that was looked for.
        path: PathBuf,
    },
    /// Verification is asked for, no file is named, and there is no home folder.
    #[error(
        "sslmode={mode} needs root certificates; name their file in sslrootcert, or use sslrootcert=system"
    )]
    NoRoots {
        /// The mode that asks for it.
        mode: SslMode,
    },
    /// A file that cannot be read or has other content.
    #[error("{what} {} cannot be used: {reason}", .path.display())]
    File {
        /// What the file is for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system's list of authorities is missing.
    #[error("sslrootcert=system finds no authorities: {reason}; install ca-certificates, or name a file")]
    NoSystemRoots {
        /// What was found instead.
        reason: String,
    },
}

/// Reads the files that the settings name.
///
/// They are read for each connection, so that renewed certificates count without a restart.
pub(super) fn load(settings: &TlsSettings) -> Result<MakeRustlsConnect, TlsFault> {
    let provider = Arc::new(ring::default_provider());
    let policy = policy(settings, &provider)?;
    let verifier = Verifier { policy, algorithms: provider.signature_verification_algorithms };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(settings.versions)
        .expect("the provider has cipher suites for TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));

    let mut config = match settings.client.as_ref().map(client_identity).transpose()?.flatten() {
        None => builder.with_no_client_auth(),
        Some((chain, key, path)) => builder
            .with_client_auth_cert(chain, key)
            .map_err(|error| file_fault(CLIENT_CERTIFICATE, &path, error.to_string()))?,
    };
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    config.enable_sni = settings.sni;
    // Each connection has a configuration of its own, so that there is nothing to resume.
    config.resumption = Resumption::disabled();
    Ok(MakeRustlsConnect::new(config))
}

/// What to give where nothing is encrypted; every certificate would be refused.
pub(super) fn without_encryption() -> MakeRustlsConnect {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for TLS 1.2 and 1.3")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    MakeRustlsConnect::new(config)
}

const ROOT_CERTIFICATES: &str = "the file of root certificates";
const CLIENT_CERTIFICATE: &str = "the client certificate";
const CLIENT_KEY: &str = "the private key";
const REVOCATIONS: &str = "the revocation list";

fn policy(settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> Result<Policy, TlsFault> {
    let mode = settings.mode;
    if mode < SslMode::Require {
        return Ok(Policy::Anything);
    }
    let (store, certificates, path) = match &settings.roots {
        Roots::System => (system_roots()?, Vec::new(), Path::new("system")),
        Roots::File(path) if path.exists() => {
            let (store, certificates) = file_roots(path)?;
            (store, certificates, path.as_path())
        }
        _ if mode == SslMode::Require => return Ok(Policy::Anything),
        Roots::File(path) => return Err(TlsFault::NoRootFile { mode, path: path.clone() }),
        Roots::None => return Err(TlsFault::NoRoots { mode }),
    };
    let revocations = match &settings.revocations {
        Some(file) if file.named || file.path.exists() => {
            read_pem::<CertificateRevocationListDer<'static>>(REVOCATIONS, &file.path)?
        }
        _ => Vec::new(),
    };
    let roots = TrustedRoots::new(store, certificates, revocations, provider)
        .map_err(|error| file_fault(ROOT_CERTIFICATES, path, error.to_string()))?;
    Ok(if mode == SslMode::VerifyFull { Policy::ChainAndName(roots) } else { Policy::Chain(roots) })
}

fn file_roots(path: &Path) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), TlsFault> {
    let certificates = read_pem::<CertificateDer<'static>>(ROOT_CERTIFICATES, path)?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        store
            .add(certificate.clone())
            .map_err(|error| file_fault(ROOT_CERTIFICATES, path, error.to_string()))?;
    }
    Ok((store, certificates))
}

fn system_roots() -> Result<RootCertStore, TlsFault> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    // A machine may hold certificates in outdated forms; without them the others still count.
    let (usable, _) = store.add_parsable_certificates(found.certs);
    if usable == 0 {
        let reason = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
        return Err(TlsFault::NoSystemRoots { reason });
    }
    Ok(store)
}

type ClientIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, PathBuf);

/// The client's certificate, if its file exists; then its key must exist too.
fn client_identity(files: &ClientFiles) -> Result<Option<ClientIdentity>, TlsFault> {
    match std::fs::metadata(&files.certificate) {
        Ok(_) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(file_fault(CLIENT_CERTIFICATE, &files.certificate, error.to_string())),
    }
    let chain = read_pem::<CertificateDer<'static>>(CLIENT_CERTIFICATE, &files.certificate)?;

    let key_fault = |reason: String| file_fault(CLIENT_KEY, &files.key, reason);
    let metadata = std::fs::metadata(&files.key).map_err(|error| key_fault(error.to_string()))?;
    if !metadata.is_file() {
        return Err(key_fault("it is not a plain file".to_owned()));
    }
    // Packages give keys to a group by root's own files, as Debian's ssl-cert does.
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    if metadata.mode() & forbidden != 0 {
        return Err(key_fault("others may read it; run chmod 0600 on it".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| key_fault(pem_fault(error)))?;
    Ok(Some((chain, key, files.certificate.clone())))
}

/// All objects of one kind in a PEM file, at least one.
fn read_pem<T: PemObject>(what: &'static str, path: &Path) -> Result<Vec<T>, TlsFault> {
    let fault = |error| file_fault(what, path, pem_fault(error));
    let objects = T::pem_file_iter(path).map_err(fault)?.collect::<Result<Vec<_>, _>>().map_err(fault)?;
    if objects.is_empty() { Err(fault(pem::Error::NoItemsFound)) } else { Ok(objects) }
}

/// Some of the library's messages quote the file, which may be a key.
fn pem_fault(error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "it has nothing of that kind in PEM form".to_owned(),
        _ => "it is not well-formed PEM".to_owned(),
    }
}

fn file_fault(what: &'static str, path: &Path, reason: String) -> TlsFault {
    TlsFault::File { what, path: path.to_owned(), reason }
}
