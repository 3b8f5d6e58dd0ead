//! Certificates as servers have them, good and bad.

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints, date_time_ymd,
};

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

/// A self-signed certificate of X.509 version 1, which OpenSSL before 3.2 makes by
/// `openssl x509 -req`.
pub(crate) fn version_1() -> Identity {
    let (certificate, key) = (include_str!("version_1.crt"), include_str!("version_1.key"));
    Identity { certificate: certificate.to_owned(), key: key.to_owned() }
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
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
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
