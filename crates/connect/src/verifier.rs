//! Verifies a server's certificate as `sslmode` requires.
//!
//! webpki verifies chains and names. Added here is what libpq's users rely on and webpki refuses: a
//! self-signed certificate that is itself in the file of roots.

use std::sync::Arc;

use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// A [`ServerCertVerifier`] that verifies as much as the settings require.
#[derive(Debug)]
pub(crate) struct Verifier {
    /// Without them the certificate is not verified;
    /// the connection is encrypted for whoever answers.
    pub(crate) roots: Option<TrustedRoots>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

/// Authorities, and the verifier of the certificates that they signed.
#[derive(Debug)]
pub(crate) struct TrustedRoots {
    pub(crate) chain: Arc<WebPkiServerVerifier>,
    /// The same authorities as certificates, except for those of the system.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
    /// Whether the certificate must be for the host in the settings.
    pub(crate) checks_name: bool,
}

impl TrustedRoots {
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        match self.chain.verify_server_cert(certificate, intermediates, host, &[], now) {
            Ok(_) => Ok(()),
            // webpki verifies the chain before the name, so that a wrong name means a good chain.
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
                if !self.checks_name =>
            {
                Ok(())
            }
            // webpki checks the period of validity before it refuses
            // an authority's own certificate.
            Err(error)
                if webpki_error(&error) == Some(&webpki::Error::CaUsedAsEndEntity)
                    && self.certificates.contains(certificate) =>
            {
                if self.checks_name {
                    verify_server_name(&ParsedCertificate::try_from(certificate)?, host)?;
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// What webpki reports and rustls has no variant for.
pub(crate) fn webpki_error(error: &Error) -> Option<&webpki::Error> {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else { return None };
    other.0.downcast_ref()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            roots.verify(certificate, intermediates, host, now)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
