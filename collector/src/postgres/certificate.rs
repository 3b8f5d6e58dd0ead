//! What a server's certificate says, where webpki does not read it.
//!
//! `openssl x509 -req`, as in the chapter on TLS of PostgreSQL's documentation, makes certificates of X.509
//! version 1 before OpenSSL 3.2, and names the host in the common name only. libpq accepts both, webpki
//! neither.

use std::net::IpAddr;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, UnixTime};
use x509_cert::Version;
use x509_cert::der::asn1::{Any, Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Decode, Encode, EncodeValue, Tag, Tagged};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, NameConstraints, SubjectAltName};
use x509_cert::spki::{AlgorithmIdentifierOwned, ObjectIdentifier};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// A certificate that was taken apart; nothing about it is proven.
pub(super) struct Certificate(x509_cert::Certificate);

impl Certificate {
    /// Takes a certificate apart, if it is well-formed.
    pub(super) fn parse(der: &CertificateDer<'_>) -> Option<Self> {
        x509_cert::Certificate::from_der(der).ok().map(Self)
    }

    pub(super) fn is_version_1(&self) -> bool {
        self.0.tbs_certificate.version == Version::V1
    }

    /// Whether its issuer has the same name as itself.
    pub(super) fn is_self_issued(&self) -> bool {
        self.0.tbs_certificate.issuer == self.0.tbs_certificate.subject
    }

    pub(super) fn is_valid_at(&self, now: UnixTime) -> bool {
        let validity = &self.0.tbs_certificate.validity;
        let seconds = |time: &x509_cert::time::Time| time.to_unix_duration().as_secs();
        (seconds(&validity.not_before)..=seconds(&validity.not_after)).contains(&now.as_secs())
    }

    /// Its `SubjectPublicKeyInfo` in DER.
    pub(super) fn public_key(&self) -> Option<Vec<u8>> {
        self.0.tbs_certificate.subject_public_key_info.to_der().ok()
    }

    /// Whether it limits the names for which certificates below it are good, or cannot be read there.
    pub(super) fn constrains_names(&self) -> bool {
        !matches!(self.0.tbs_certificate.get::<NameConstraints>(), Ok(None))
    }

    /// Whether `issuer` may sign certificates and signed this one.
    pub(super) fn is_signed_by(&self, issuer: &Self, algorithms: &WebPkiSupportedAlgorithms) -> bool {
        let issuer = &issuer.0.tbs_certificate;
        let may_sign = issuer.version == Version::V1
            || matches!(issuer.get::<BasicConstraints>(), Ok(Some((_, constraints))) if constraints.ca);
        let Ok(message) = self.0.tbs_certificate.to_der() else { return false };
        let key = &issuer.subject_public_key_info;
        may_sign
            && self.0.tbs_certificate.issuer == issuer.subject
            && self.0.signature_algorithm == self.0.tbs_certificate.signature
            && algorithms.all.iter().any(|algorithm| {
                is_algorithm(&self.0.signature_algorithm, &algorithm.signature_alg_id())
                    && is_algorithm(&key.algorithm, &algorithm.public_key_alg_id())
                    && algorithm
                        .verify_signature(
                            key.subject_public_key.raw_bytes(),
                            &message,
                            self.0.signature.raw_bytes(),
                        )
                        .is_ok()
            })
    }

    /// Whether the holder of this certificate's key signed `message` with one of `algorithms`.
    pub(super) fn has_signed(
        &self,
        message: &[u8],
        signature: &[u8],
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> bool {
        let key = &self.0.tbs_certificate.subject_public_key_info;
        algorithms.iter().any(|algorithm| {
            is_algorithm(&key.algorithm, &algorithm.public_key_alg_id())
                && algorithm.verify_signature(key.subject_public_key.raw_bytes(), message, signature).is_ok()
        })
    }

    /// Whether its common name is the host's, in a certificate that gives no alternative name of that kind.
    ///
    /// RFC 6125, section 6.4.4, and libpq: the common name counts only where the certificate does not say
    /// better.
    pub(super) fn common_name_matches(&self, host: &ServerName<'_>) -> bool {
        let Ok(alternatives) = self.0.tbs_certificate.get::<SubjectAltName>() else { return false };
        let names = alternatives.map(|(_, names)| names.0).unwrap_or_default();
        let same_kind = |name: &GeneralName| match host {
            ServerName::IpAddress(_) => matches!(name, GeneralName::IpAddress(_)),
            _ => matches!(name, GeneralName::DnsName(_)),
        };
        if names.iter().any(same_kind) {
            return false;
        }
        let Some(common_name) = self.common_name() else { return false };
        match host {
            ServerName::DnsName(host) => matches_host(&common_name, host.as_ref()),
            ServerName::IpAddress(host) => {
                common_name.parse::<IpAddr>().is_ok_and(|address| address == IpAddr::from(*host))
            }
            _ => false,
        }
    }

    /// The first common name of the subject.
    fn common_name(&self) -> Option<String> {
        let subject = &self.0.tbs_certificate.subject;
        let mut attributes = subject.0.iter().flat_map(|name| name.0.iter());
        let attribute = attributes.find(|attribute| attribute.oid == COMMON_NAME)?;
        text(&attribute.value)
    }
}

fn text(value: &Any) -> Option<String> {
    let text = match value.tag() {
        Tag::Utf8String => value.decode_as::<Utf8StringRef<'_>>().ok()?.as_str().to_owned(),
        Tag::PrintableString => value.decode_as::<PrintableStringRef<'_>>().ok()?.as_str().to_owned(),
        Tag::Ia5String => value.decode_as::<Ia5StringRef<'_>>().ok()?.as_str().to_owned(),
        Tag::TeletexString => value.decode_as::<TeletexStringRef<'_>>().ok()?.as_str().to_owned(),
        _ => return None,
    };
    Some(text)
}

/// Whether `host` is `pattern`; a pattern `*.example.test` stands for one label before the first dot.
fn matches_host(pattern: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    if pattern.eq_ignore_ascii_case(host) {
        return !pattern.contains('*');
    }
    let Some(parent) = pattern.strip_prefix("*.") else { return false };
    host.split_once('.').is_some_and(|(label, rest)| {
        !label.is_empty()
            && parent.contains('.')
            && !parent.contains('*')
            && rest.eq_ignore_ascii_case(parent)
    })
}

/// rustls writes an algorithm's identifier as the content of its DER sequence.
fn is_algorithm(found: &AlgorithmIdentifierOwned, expected: &[u8]) -> bool {
    let mut content = Vec::new();
    found.encode_value(&mut content).is_ok() && content == expected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_names_match_whole_hosts_and_one_label() {
        for (pattern, host, expected) in [
            ("db.example.test", "db.example.test", true),
            ("DB.example.test", "db.Example.test", true),
            ("db.example.test", "db.example.test.", true),
            ("db.example.test", "db2.example.test", false),
            ("*.example.test", "db.example.test", true),
            ("*.example.test", "a.db.example.test", false),
            ("*.example.test", "example.test", false),
            ("*.example.test", ".example.test", false),
            ("*.test", "example.test", false),
            ("d*.example.test", "db.example.test", false),
            ("*", "db", false),
            ("", "db", false),
            ("*.", "db.", false),
        ] {
            assert_eq!(matches_host(pattern, host), expected, "{pattern} for {host}");
        }
    }
}
