//! Tokens of version 2: a link that proves its own expiry, and a code that is checked separately (FORMAT.md,
//! "Version 2").
//!
//! An activation has 78 bytes in 104 characters, a recovery 93 bytes in 124.

use crate::{
    action::Action,
    bytes::{concat, field},
    code::Code,
    error::VerifyError,
    expiry::Expiry,
    header::Header,
    hmac::ShortMessage,
    secret::{Secret, wipe},
    shared_key::SharedKey,
    signed::SignedToken,
    version::Version,
};

const SIGNED: usize = Header::LENGTH + Secret::LENGTH;
const TAG: usize = 32;
pub(crate) const CODE_TAG: usize = 15;
pub(crate) const ACTIVATION_BYTES: usize = SIGNED + TAG;
pub(crate) const RECOVERY_BYTES: usize = SIGNED + TAG + CODE_TAG;

/// The number of characters of an activation token.
pub const ACTIVATION_CHARACTERS: usize = 104;

/// The number of characters of a recovery token.
pub const RECOVERY_CHARACTERS: usize = 124;

/// Signs the link that activates an account until `expires_at`.
pub fn sign_activation(key: &SharedKey, secret: &Secret, expires_at: Expiry) -> SignedToken {
    let signed = signed(&header(key, Action::Activate, expires_at), secret);
    let mut tag = key.link().tag(&ShortMessage::new(&signed));
    let token =
        SignedToken::encode::<ACTIVATION_CHARACTERS>(&mut concat::<ACTIVATION_BYTES, 2>([&signed, &tag]));
    wipe(&mut tag);
    token
}

/// Signs the link that, together with `code`, recovers an account until `expires_at`.
pub fn sign_recovery(key: &SharedKey, secret: &Secret, expires_at: Expiry, code: &Code) -> SignedToken {
    let signed = signed(&header(key, Action::Recover, expires_at), secret);
    let mut tag = key.link().tag(&ShortMessage::new(&signed));
    let mut whole = key.code().tag(&with_code(&signed, code));
    let mut code_tag: [u8; CODE_TAG] = field(&whole, 0);
    let mut bytes = concat::<RECOVERY_BYTES, 3>([&signed, &tag, &code_tag]);
    let token = SignedToken::encode::<RECOVERY_CHARACTERS>(&mut bytes);
    for bytes in [&mut tag[..], &mut whole, &mut code_tag] {
        wipe(bytes);
    }
    token
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

/// Whether `key` signed header and secret.
pub(crate) fn is_signed_by(key: &SharedKey, header: &Header, secret: &Secret, tag: &[u8; TAG]) -> bool {
    key.link().confirms(&ShortMessage::new(&signed(header, secret)), tag)
}

/// Proves that the code beside a link, whose tag `key` made, is the row's; an activation has none.
pub(crate) fn check_code(
    key: &SharedKey,
    header: &Header,
    secret: &Secret,
    code_tag: &[u8; CODE_TAG],
    code: Option<&[u8]>,
) -> Result<(), VerifyError> {
    match (header.action, code) {
        (Action::Activate, None) => Ok(()),
        (Action::Activate, Some(_)) => Err(VerifyError::CodeUncheckable),
        (Action::Recover, None) => Err(VerifyError::CodeRequired),
        (Action::Recover, Some(text)) => {
            let code = Code::parse(text).map_err(|_| VerifyError::CodeMalformed)?;
            let message = with_code(&signed(header, secret), &code);
            if key.code().confirms(&message, code_tag) { Ok(()) } else { Err(VerifyError::CodeMismatch) }
        }
    }
}
