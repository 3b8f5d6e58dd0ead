//! TLS to a mail server: which certificates are trusted, and what a refused one means.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use mailroom_mail::Error;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};

/// How to encrypt.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

impl Tls {
    /// Trusts the certificates of a file, or those of the system.
    ///
    /// # Errors
    /// A file that cannot be read or holds none, no certificates on this system.
    pub(super) fn new(server: &str, ca_file: Option<&Path>) -> Result<Self, Error> {
        let name = ServerName::try_from(server.to_owned()).map_err(|_| {
            Error::configuration(
                "[smtp] server is no name of a host, nor an address, such as mail.example.org; \
                 a port has a setting of its own, port",
            )
        })?;
        let mut roots = RootCertStore::empty();
        if let Some(file) = ca_file {
            for certificate in read(file)? {
                roots.add(certificate).map_err(|error| {
                    let file = file.display();
                    Error::configuration(format!(
                        "[smtp] ca_file: {file} holds a certificate that cannot be used: {error}"
                    ))
                })?;
            }
        } else {
            // One that cannot be read is of no use, and the others are.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(Error::configuration(
                    "[smtp] this system has no certificates to trust: install ca-certificates, \
                     or set ca_file",
                ));
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::configuration(format!("[smtp] TLS cannot be used: {error}")))?;
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        Ok(Self { config: Arc::new(config), name })
    }
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong =
        |what: &str| Error::configuration(format!("[smtp] ca_file: {} {what}", file.display()));
    let pem = fs::read(file).map_err(|error| wrong(&format!("cannot be read: {error}")))?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(wrong("holds no certificates")),
    }
}

/// What to do about a server that speaks in clear where TLS is expected.
pub(super) const NO_TLS: &str = "the server does not speak TLS here; a port for STARTTLS, such as \
                                 587, needs tls = \"starttls\", and one for implicit TLS, such \
                                 as 465, tls = \"implicit\"";

/// What an error of TLS means, and what to do about it.
pub(super) fn describe(error: &rustls::Error) -> String {
    let advice = match error {
        rustls::Error::InvalidCertificate(error) => of_certificate(error),
        rustls::Error::AlertReceived(_) | rustls::Error::PeerIncompatible(_) => {
            "server and client have no version of TLS, cipher or kind of key in common; TLS 1.2 \
             and 1.3 with ECDHE are supported"
        }
        rustls::Error::InvalidMessage(_) => NO_TLS,
        _ => return error.to_string(),
    };
    format!("{error} ({advice})")
}

fn of_certificate(error: &CertificateError) -> &'static str {
    match error {
        CertificateError::UnknownIssuer => {
            "nobody whom this machine trusts has signed the server's certificate; set ca_file to \
             the certificate of the authority that did or, if the server signed it itself, to that \
             certificate; a server on the Internet has to send the certificates between, too"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the server's certificate has expired, or the clock of this machine is wrong"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the server's certificate is not valid yet, or the clock of this machine is wrong"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the server's certificate is for another name; \
             set server to a name that it has as a subjectAltName"
        }
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the server's certificate is one of an authority (CA:TRUE), which no server may show \
             as its own; make it one with CA:FALSE, \
             or have an authority of your own sign one and set ca_file to that"
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the certificate is signed in a way that is not supported; RSA from 2048 bits with \
             SHA-256 or more, ECDSA with P-256 or P-384, and Ed25519 are"
        }
        CertificateError::BadEncoding => {
            "the certificate cannot be read; those of X.509 version 1 are not supported"
        }
        _ => "the server's certificate is not accepted",
    }
}
