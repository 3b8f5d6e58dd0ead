//! Judging a server's certificate as `sslmode` asks.
//!
//! webpki verifies chains, names and revocations. Added is what libpq's users rely on and webpki does not
//! know: a self-signed certificate that is itself in the file of roots, certificates of X.509 version 1, and
//! the host's name in the common name.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::certificate::Certificate;

/// What a certificate must prove.
#[derive(Debug)]
pub(super) enum Policy {
    /// Nothing; the connection is encrypted for whoever answers.
    Anything,
    /// That it is signed by a trusted authority.
    Chain(TrustedRoots),
    /// That it is signed by a trusted authority for the host that was asked for.
    ChainAndName(TrustedRoots),
}

/// Authorities, and how to verify what they signed.
#[derive(Debug)]
pub(super) struct TrustedRoots {
    chain: Arc<WebPkiServerVerifier>,
    /// The same authorities as certificates. Empty for those of the system, which know no exceptions.
    certificates: Vec<CertificateDer<'static>>,
    checks_revocation: bool,
}

impl TrustedRoots {
    /// Trusts the authorities in `store`, except for what `revocations` list.
    ///
    /// The exceptions of libpq hold for those of `certificates`.
    pub(super) fn new(
        store: RootCertStore,
        certificates: Vec<CertificateDer<'static>>,
        revocations: Vec<CertificateRevocationListDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let checks_revocation = !revocations.is_empty();
        let chain = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
            .with_crls(revocations)
            .enforce_revocation_expiration()
            .build()?;
        Ok(Self { chain, certificates, checks_revocation })
    }

    fn verify_chain(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        now: UnixTime,
        algorithms: &WebPkiSupportedAlgorithms,
    ) -> Result<(), Error> {
        // webpki judges the chain before the name, so that a wrong name means a good chain.
        let refusal = match self.chain.verify_server_cert(certificate, intermediates, host, &[], now) {
            Ok(_) => return Ok(()),
            Err(refusal) if is_wrong_name(&refusal) => return Ok(()),
            Err(refusal) => refusal,
        };
        // The exceptions below know nothing of revocations.
        let Some(parsed) = Certificate::parse(certificate).filter(|_| !self.checks_revocation) else {
            return Err(refusal);
        };
        let is_root = parsed.is_self_issued() && self.certificates.contains(certificate);
        let signed_by_root = || {
            parsed.is_version_1()
                && self
                    .parsed_roots()
                    .any(|root| root.is_valid_at(now) && parsed.is_signed_by(&root, algorithms))
        };
        if is_root || signed_by_root() {
            return if parsed.is_valid_at(now) { Ok(()) } else { Err(CertificateError::Expired.into()) };
        }
        match refusal {
            // webpki names the other peculiarities of such certificates first.
            Error::InvalidCertificate(CertificateError::Other(_))
                if parsed.is_self_issued() || parsed.is_version_1() =>
            {
                Err(CertificateError::UnknownIssuer.into())
            }
            refusal => Err(refusal),
        }
    }

    fn verify_name(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
    ) -> Result<(), Error> {
        let refusal = match ParsedCertificate::try_from(certificate) {
            Ok(parsed) => match verify_server_name(&parsed, host) {
                Ok(()) => return Ok(()),
                Err(refusal) => refusal,
            },
            Err(_) => CertificateError::NotValidForName.into(),
        };
        // An authority that may only sign for some names is held to that by webpki, but not in common names.
        let unconstrained = || {
            intermediates
                .iter()
                .map(Certificate::parse)
                .all(|parsed| parsed.is_some_and(|parsed| !parsed.constrains_names()))
                && self.parsed_roots().all(|root| !root.constrains_names())
        };
        let named = Certificate::parse(certificate).is_some_and(|parsed| parsed.common_name_matches(host));
        if named && !self.certificates.is_empty() && unconstrained() { Ok(()) } else { Err(refusal) }
    }

    fn parsed_roots(&self) -> impl Iterator<Item = Certificate> {
        self.certificates.iter().filter_map(Certificate::parse)
    }
}

/// A [`ServerCertVerifier`] that follows a [`Policy`].
#[derive(Debug)]
pub(super) struct Verifier {
    pub(super) policy: Policy,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
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
        match &self.policy {
            Policy::Anything => {}
            Policy::Chain(roots) => {
                roots.verify_chain(certificate, intermediates, host, now, &self.algorithms)?;
            }
            Policy::ChainAndName(roots) => {
                roots.verify_chain(certificate, intermediates, host, now, &self.algorithms)?;
                roots.verify_name(certificate, intermediates, host)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let Some(certificate) = unreadable_by_webpki(certificate) else {
            return rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms);
        };
        let algorithms = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        algorithms
            .is_some_and(|(_, algorithms)| certificate.has_signed(message, signed.signature(), algorithms))
            .then(HandshakeSignatureValid::assertion)
            .ok_or_else(|| CertificateError::BadSignature.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match unreadable_by_webpki(certificate).and_then(|certificate| certificate.public_key()) {
            None => rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms),
            Some(key) => rustls::crypto::verify_tls13_signature_with_raw_key(
                message,
                &SubjectPublicKeyInfoDer::from(key),
                signed,
                &self.algorithms,
            ),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn is_wrong_name(error: &Error) -> bool {
    use CertificateError::{NotValidForName, NotValidForNameContext};
    matches!(error, Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }))
}

fn unreadable_by_webpki(certificate: &CertificateDer<'_>) -> Option<Certificate> {
    ParsedCertificate::try_from(certificate).is_err().then(|| Certificate::parse(certificate)).flatten()
}
