//! Certificates as servers have them, good and bad.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    DistinguishedName, DnType, GeneralSubtree, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, NameConstraints,
    RevocationReason, RevokedCertParams, SerialNumber, SigningKey, date_time_ymd,
};
use x509_cert::der::asn1::BitString;
use x509_cert::der::pem::LineEnding;
use x509_cert::der::{Decode, Encode, EncodePem};

/// Who signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its private key, in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        Self(CertifiedIssuer::self_signed(authority(name), KeyPair::generate().unwrap()).unwrap())
    }

    /// An authority that may only sign for names below `domain`, signed by this one.
    pub(crate) fn limited_to(&self, domain: &str) -> Self {
        let mut parameters = authority("limited");
        parameters.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName(domain.to_owned())],
            excluded_subtrees: Vec::new(),
        });
        Self(CertifiedIssuer::signed_by(parameters, KeyPair::generate().unwrap(), &self.0).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate as `parameters` say.
    pub(crate) fn sign(&self, parameters: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        identity(&parameters.signed_by(&key, &self.0).unwrap(), &key)
    }

    /// The same as [`Authority::sign`], in the form of X.509 version 1, which has no extensions.
    pub(crate) fn sign_version_1(&self, parameters: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let signed = parameters.signed_by(&key, &self.0).unwrap();
        let mut certificate = x509_cert::Certificate::from_der(signed.der()).unwrap();
        certificate.tbs_certificate.version = x509_cert::Version::V1;
        certificate.tbs_certificate.extensions = None;
        let signature = self.0.key().sign(&certificate.tbs_certificate.to_der().unwrap()).unwrap();
        certificate.signature = BitString::from_bytes(&signature).unwrap();
        Identity { certificate: certificate.to_pem(LineEnding::LF).unwrap(), key: key.serialize_pem() }
    }

    /// A list that revokes the certificate with a serial number.
    pub(crate) fn revoke(&self, serial_number: u8, next_year: i32) -> String {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(next_year, 1, 1),
            crl_number: SerialNumber::from_slice(&[1]),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from_slice(&[serial_number]),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: Some(RevocationReason::KeyCompromise),
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0).unwrap().pem().unwrap()
    }
}

/// A certificate with these alternative names.
pub(crate) fn for_names(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut parameters = CertificateParams::new(names).unwrap();
    parameters.distinguished_name = common_name("a server");
    parameters
}

/// A certificate that names the host in the common name only.
pub(crate) fn for_common_name(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = common_name(name);
    parameters
}

/// A certificate that is good from the first day of a year to that of another.
pub(crate) fn between(years: (i32, i32), mut parameters: CertificateParams) -> CertificateParams {
    parameters.not_before = date_time_ymd(years.0, 1, 1);
    parameters.not_after = date_time_ymd(years.1, 1, 1);
    parameters
}

/// A certificate that a revocation list can name.
pub(crate) fn numbered(serial_number: u8, mut parameters: CertificateParams) -> CertificateParams {
    parameters.serial_number = Some(SerialNumber::from_slice(&[serial_number]));
    parameters
}

/// What `openssl req -x509` makes: a certificate that is its own authority.
pub(crate) fn self_signed(mut parameters: CertificateParams) -> Identity {
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    identity(&parameters.self_signed(&key).unwrap(), &key)
}

fn authority(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = common_name(name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn identity(certificate: &Certificate, key: &KeyPair) -> Identity {
    Identity { certificate: certificate.pem(), key: key.serialize_pem() }
}
