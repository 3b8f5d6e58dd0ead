//! Messages of Amazon SNS, and whether they are signed by it.
//!
//! The certificate is trusted because it comes by TLS from the one host that the configured topic
//! determines; what a message says of hosts only has to agree.
//!
//! <https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html>

use std::sync::{Arc, Mutex, PoisonError};

use base64ct::{Base64, Encoding as _};
use ring::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};
use serde::Deserialize;
use webpki::EndEntityCert;
use webpki::ring::RSA_PKCS1_2048_8192_SHA256;

use super::date::seconds;
use super::https::Fetch;
use crate::notice::Refusal;

/// How old a message may be, in seconds: SNS tries for an hour at most.
const MAX_AGE: u64 = 2 * 3_600;

/// How far ahead the clock of SNS may be, in seconds.
const AHEAD: u64 = 300;

/// Certificates that are kept; SNS changes them rarely.
const CERTIFICATES: usize = 8;

/// The partitions of AWS: their names in ARNs, how their regions begin,
/// and the domain of their hosts.
const PARTITIONS: [(&str, &str, &str); 4] = [
    ("aws", "", "amazonaws.com"),
    ("aws-cn", "cn-", "amazonaws.com.cn"),
    ("aws-us-gov", "us-gov-", "amazonaws.com"),
    ("aws-eusc", "eusc-", "amazonaws.eu"),
];

/// A topic whose messages are taken.
pub(super) struct Topic {
    arn: String,
    /// Where its messages' links lead.
    host: String,
}

impl Topic {
    pub(super) fn parse(arn: &str) -> Option<Self> {
        let is_word = |text: &str| {
            let is_allowed =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            !text.is_empty() && text.len() <= 256 && text.bytes().all(is_allowed)
        };
        let ["arn", partition, "sns", region, account, name] =
            arn.split(':').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        let (_, of_region, domain) =
            PARTITIONS.into_iter().find(|(name, ..)| *name == partition)?;
        // A region belongs to one partition.
        let is_of_partition = match of_region {
            "" => PARTITIONS
                .iter()
                .all(|(_, other, _)| other.is_empty() || !region.starts_with(other)),
            prefix => region.starts_with(prefix),
        };
        let is_region = is_word(region) && !region.contains(['.', '_']) && is_of_partition;
        let is_topic = is_region && is_word(account) && is_word(name);
        is_topic
            .then(|| Self { arn: arn.to_owned(), host: format!("https://sns.{region}.{domain}/") })
    }

    pub(super) fn is_of(&self, message: &Message) -> bool {
        self.arn == message.topic_arn
    }
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) enum Kind {
    Notification,
    SubscriptionConfirmation,
    UnsubscribeConfirmation,
}

/// A message.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Message {
    #[serde(rename = "Type")]
    pub(super) kind: Kind,
    #[serde(rename = "Message")]
    pub(super) text: String,
    #[serde(rename = "MessageId")]
    id: String,
    subject: Option<String>,
    #[serde(rename = "SubscribeURL")]
    subscribe_url: Option<String>,
    timestamp: String,
    token: Option<String>,
    topic_arn: String,
    signature: String,
    signature_version: String,
    #[serde(rename = "SigningCertURL")]
    certificate_url: String,
}

impl Message {
    /// When it was signed, in seconds since the Unix epoch.
    pub(super) fn time(&self) -> Option<u64> {
        seconds(&self.timestamp)
    }

    /// The text that is signed: names and values, a line each.
    fn signed_text(&self) -> String {
        let of_notification = self.kind == Kind::Notification;
        let kind = match self.kind {
            Kind::Notification => "Notification",
            Kind::SubscriptionConfirmation => "SubscriptionConfirmation",
            Kind::UnsubscribeConfirmation => "UnsubscribeConfirmation",
        };
        let lines = [
            ("Message", Some(self.text.as_str())),
            ("MessageId", Some(&self.id)),
            ("Subject", self.subject.as_deref().filter(|_| of_notification)),
            ("SubscribeURL", self.subscribe_url.as_deref().filter(|_| !of_notification)),
            ("Timestamp", Some(&self.timestamp)),
            ("Token", self.token.as_deref().filter(|_| !of_notification)),
            ("TopicArn", Some(&self.topic_arn)),
            ("Type", Some(kind)),
        ];
        let lines =
            lines.into_iter().filter_map(|(name, value)| Some(format!("{name}\n{}\n", value?)));
        lines.collect()
    }
}

/// Proves messages.
pub(super) struct Signatures {
    fetch: Box<dyn Fetch>,
    /// By their places, the latest last.
    certificates: Mutex<Vec<(String, Arc<[u8]>)>>,
    fetching: Mutex<()>,
}

impl Signatures {
    pub(super) fn new(fetch: Box<dyn Fetch>) -> Self {
        Self { fetch, certificates: Mutex::default(), fetching: Mutex::default() }
    }

    /// # Errors
    /// It is not signed by SNS, or was long ago; the certificate cannot be had.
    pub(super) fn prove(&self, message: &Message, topic: &Topic, now: u64) -> Result<(), Refusal> {
        let algorithm: &dyn SignatureVerificationAlgorithm =
            match message.signature_version.as_str() {
                "1" => &Sha1,
                "2" => RSA_PKCS1_2048_8192_SHA256,
                _ => return Err(Refusal::Unproven("its signature is of an unknown version")),
            };
        let signature = Base64::decode_vec(&message.signature);
        let signature = signature.map_err(|_| Refusal::Unproven("its signature is no base64"))?;
        let certificate =
            CertificateDer::from(self.certificate(&message.certificate_url, topic)?.to_vec());
        let certificate = EndEntityCert::try_from(&certificate);
        let certificate = certificate.map_err(|_| Refusal::Unproven("its certificate is none"))?;
        certificate
            .verify_signature(algorithm, message.signed_text().as_bytes(), &signature)
            .map_err(|_| Refusal::Unproven("its signature is not right"))?;
        match message.time() {
            Some(time)
                if time <= now.saturating_add(AHEAD) && time.saturating_add(MAX_AGE) >= now =>
            {
                Ok(())
            }
            _ => Err(Refusal::Unproven(
                "it was signed more than two hours ago, or the clock is wrong",
            )),
        }
    }

    /// Confirms the subscription that a proven message is about.
    ///
    /// # Errors
    /// A link that leads elsewhere, and whatever keeps it from being confirmed.
    pub(super) fn subscribe(&self, message: &Message, topic: &Topic) -> Result<(), Refusal> {
        let url = message.subscribe_url.as_deref().unwrap_or_default();
        let is_known = url
            .strip_prefix(&topic.host)
            .is_some_and(|rest| rest.starts_with("?Action=ConfirmSubscription&"));
        if !is_known || !url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return Err(Refusal::Unproven(
                "its SubscribeURL is not one of SNS in the topic's region",
            ));
        }
        match self.fetch.get(url) {
            Some((200, _)) => {
                tracing::warn!(
                    event = "subscribed",
                    provider = "ses",
                    "a topic sends notifications from now on"
                );
                Ok(())
            }
            _ => Err(Refusal::Unavailable("the subscription cannot be confirmed now")),
        }
    }

    fn certificate(&self, url: &str, topic: &Topic) -> Result<Arc<[u8]>, Refusal> {
        let name = url
            .strip_prefix(&topic.host)
            .and_then(|name| name.strip_prefix("SimpleNotificationService-"));
        let name = name.and_then(|name| name.strip_suffix(".pem"));
        if !name.is_some_and(|name| {
            name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        }) {
            return Err(Refusal::Unproven(
                "its SigningCertURL is not one of SNS in the topic's region",
            ));
        }
        let known = || self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, certificate)) = known().iter().find(|(place, _)| place == url) {
            return Ok(Arc::clone(certificate));
        }
        // One at a time, and nobody waits: whoever makes names up keeps no other
        // message from being read.
        let Ok(_fetching) = self.fetching.try_lock() else {
            return Err(Refusal::Unavailable("another certificate is being fetched"));
        };
        let Some((200, pem)) = self.fetch.get(url) else {
            return Err(Refusal::Unavailable("the certificate cannot be had now"));
        };
        let certificate = CertificateDer::from_pem_slice(&pem);
        let certificate =
            certificate.map_err(|_| Refusal::Unavailable("the certificate cannot be read"))?;
        let certificate: Arc<[u8]> = certificate.as_ref().into();
        let mut known = known();
        if known.len() >= CERTIFICATES {
            known.remove(0);
        }
        known.push((url.to_owned(), Arc::clone(&certificate)));
        Ok(certificate)
    }
}

/// RSA with SHA-1, which SNS signs with unless the topic says otherwise (`SignatureVersion` 1).
/// webpki does not have it.
#[derive(Debug)]
struct Sha1;

impl SignatureVerificationAlgorithm for Sha1 {
    fn verify_signature(
        &self,
        key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, key);
        key.verify(message, signature).map_err(|_| InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        // sha1WithRSAEncryption (RFC 3279, 2.2.1), with null for parameters.
        AlgorithmIdentifier::from_slice(&[
            0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05, 0x05, 0x00,
        ])
    }
}
