//! Tokens of version 2: a link that proves its own expiry, and a code that is checked apart from it (FORMAT.md,
//! "Version 2").
//!
//! An activation has 78 bytes in 104 characters, a recovery 93 bytes in 124.

use crate::{
    action::Action,
    base64,
    bytes::{concat, field},
    code::Code,
    error::{Malformed, VerifyError},
    expiry::Expiry,
    header::Header,
    hmac::{ShortMessage, same_tag},
    secret::Secret,
    shared_key::SharedKey,
    signed::SignedToken,
    token::Version,
};

const SIGNED: usize = Header::LENGTH + Secret::LENGTH;
const TAG: usize = 32;
const CODE_TAG: usize = 15;
const ACTIVATION_BYTES: usize = SIGNED + TAG;
const RECOVERY_BYTES: usize = SIGNED + TAG + CODE_TAG;

/// The number of characters of an activation token.
pub const ACTIVATION_CHARACTERS: usize = 104;

/// The number of characters of a recovery token.
pub const RECOVERY_CHARACTERS: usize = 124;

/// Signs the link that activates an account until `expires_at`.
pub fn sign_activation(key: &SharedKey, secret: &Secret, expires_at: Expiry) -> SignedToken {
    let signed = signed(&header(key, Action::Activate, expires_at), secret);
    let tag = key.link().tag(&ShortMessage::new(&signed));
    SignedToken::encode::<ACTIVATION_CHARACTERS>(&concat::<ACTIVATION_BYTES, 2>([&signed, &tag]))
}

/// Signs the link that, together with `code`, recovers an account until `expires_at`.
pub fn sign_recovery(key: &SharedKey, secret: &Secret, expires_at: Expiry, code: &Code) -> SignedToken {
    let signed = signed(&header(key, Action::Recover, expires_at), secret);
    let tag = key.link().tag(&ShortMessage::new(&signed));
    let code_tag: [u8; CODE_TAG] = field(&key.code().tag(&with_code(&signed, code)), 0);
    SignedToken::encode::<RECOVERY_CHARACTERS>(&concat::<RECOVERY_BYTES, 3>([&signed, &tag, &code_tag]))
}

const fn header(key: &SharedKey, action: Action, expires_at: Expiry) -> Header {
    Header { action, key_id: key.id(), expires_at }
}

/// What the tag covers.
fn signed(header: &Header, secret: &Secret) -> [u8; SIGNED] {
    concat([&header.to_bytes(Version::V2), secret.as_bytes()])
}

/// What the tag of the code covers.
fn with_code(signed: &[u8; SIGNED], code: &Code) -> ShortMessage {
    ShortMessage::new(&concat::<{ SIGNED + Code::LENGTH }, 2>([signed, code.as_bytes()]))
}

/// The fields of a token of which nothing is proven yet.
#[derive(Clone)]
pub(crate) struct UntrustedFields {
    pub(crate) header: Header,
    pub(crate) secret: Secret,
    tag: [u8; TAG],
    /// Present in recoveries. The tag does not cover it: until the code is checked it may be anything.
    code_tag: Option<[u8; CODE_TAG]>,
}

impl UntrustedFields {
    pub(crate) fn parse_activation(token: &[u8]) -> Result<Self, Malformed> {
        let bytes: [u8; ACTIVATION_BYTES] = base64::decode(token)?;
        Self::parse(&bytes, Action::Activate, None)
    }

    pub(crate) fn parse_recovery(token: &[u8]) -> Result<Self, Malformed> {
        let bytes: [u8; RECOVERY_BYTES] = base64::decode(token)?;
        Self::parse(&bytes, Action::Recover, Some(field(&bytes, SIGNED + TAG)))
    }

    #[inline]
    fn parse(bytes: &[u8], action: Action, code_tag: Option<[u8; CODE_TAG]>) -> Result<Self, Malformed> {
        let header = Header::parse(&field(bytes, 0), Version::V2)?;
        if header.action != action {
            return Err(Malformed::Action { found: header.action.number() });
        }
        Ok(Self {
            header,
            secret: Secret::from(field(bytes, Header::LENGTH)),
            tag: field(bytes, SIGNED),
            code_tag,
        })
    }

    pub(crate) const fn tag(&self) -> &[u8; TAG] {
        &self.tag
    }

    /// The tag that `key` makes for this header and secret.
    pub(crate) fn expected_tag(&self, key: &SharedKey) -> [u8; TAG] {
        key.link().tag(&ShortMessage::new(&signed(&self.header, &self.secret)))
    }

    /// Whether `key` signed header and secret.
    pub(crate) fn is_signed_by(&self, key: &SharedKey) -> bool {
        same_tag(&self.expected_tag(key), &self.tag)
    }

    /// Proves that the code beside this link, whose tag `key` made, is the row's.
    pub(crate) fn check_code(&self, key: &SharedKey, code: Option<&[u8]>) -> Result<(), VerifyError> {
        match (&self.code_tag, code) {
            (None, None) => Ok(()),
            (None, Some(_)) => Err(VerifyError::CodeUncheckable),
            (Some(_), None) => Err(VerifyError::CodeRequired),
            (Some(tag), Some(text)) => {
                let code = Code::parse(text).map_err(|_| VerifyError::CodeMalformed)?;
                let message = with_code(&signed(&self.header, &self.secret), &code);
                if same_tag(&key.code().tag(&message), tag) { Ok(()) } else { Err(VerifyError::CodeMismatch) }
            }
        }
    }
}
