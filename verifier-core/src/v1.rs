//! Tokens of version 1: a secret and its tag, 64 bytes in 86 characters (FORMAT.md, "v1").
//!
//! A v1 token carries no expiry, so a signature alone never proves that it is still valid, and a wrong code cannot be
//! told from a forged link: only the database can judge a v1 recovery.

use core::fmt;

use crate::{
    action::Action,
    base64,
    bytes::concat,
    code::Code,
    error::{Malformed, VerifyError},
    hmac::{MacKey, ShortMessage, same_tag},
    key::SharedKey,
    secret::Secret,
};

const SECRET: usize = Secret::LENGTH;
const TAG: usize = 32;

/// The number of characters of a token.
pub const CHARACTERS: usize = 86;

/// Signs the link that activates an account.
pub fn sign_activation(key: &SharedKey, secret: &Secret) -> SignedToken {
    SignedToken::new(secret, &key.mac().short_tag(&activation(secret)))
}

/// Signs the link that, together with `code`, recovers an account.
pub fn sign_recovery(key: &SharedKey, secret: &Secret, code: &Code) -> SignedToken {
    SignedToken::new(secret, &key.mac().short_tag(&recovery(secret, code)))
}

fn activation(secret: &Secret) -> ShortMessage {
    const PATH: &[u8] = Action::Activate.path().as_bytes();
    ShortMessage::new(&concat::<{ PATH.len() + SECRET }, 2>([PATH, secret.as_bytes()]))
}

fn recovery(secret: &Secret, code: &Code) -> ShortMessage {
    const PATH: &[u8] = Action::Recover.path().as_bytes();
    let parts = [PATH, secret.as_bytes(), code.as_bytes()];
    ShortMessage::new(&concat::<{ PATH.len() + SECRET + Code::LENGTH }, 3>(parts))
}

/// A token as it goes into a link: 86 characters of base64url, followed by nothing.
///
/// `Debug` shows none of it; `Display` and [`as_str`](Self::as_str) are the link itself, so keep them out of logs.
#[derive(Clone)]
pub struct SignedToken {
    text: [u8; CHARACTERS],
}

impl SignedToken {
    fn new(secret: &Secret, tag: &[u8; TAG]) -> Self {
        let mut bytes = [0; SECRET + TAG];
        let (start, end) = bytes.split_at_mut(SECRET);
        start.copy_from_slice(secret.as_bytes());
        end.copy_from_slice(tag);
        Self { text: base64::encode(&bytes) }
    }

    /// The characters.
    pub fn as_str(&self) -> &str {
        // The alphabet is ASCII; an empty token, which every verifier refuses, stands for a case that cannot occur.
        str::from_utf8(&self.text).unwrap_or_default()
    }
}

impl fmt::Display for SignedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SignedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignedToken(..)")
    }
}

/// The fields of a token of which nothing is proven yet.
#[derive(Clone)]
pub(crate) struct UntrustedFields {
    secret: Secret,
    tag: [u8; TAG],
}

impl UntrustedFields {
    pub(crate) fn parse(token: &[u8]) -> Result<Self, Malformed> {
        let bytes: [u8; SECRET + TAG] = base64::decode(token)?;
        let (mut secret, mut tag) = ([0; SECRET], [0; TAG]);
        let (start, end) = bytes.split_at(SECRET);
        secret.copy_from_slice(start);
        tag.copy_from_slice(end);
        Ok(Self { secret: Secret::from(secret), tag })
    }

    pub(crate) const fn secret(&self) -> &Secret {
        &self.secret
    }

    pub(crate) const fn tag(&self) -> &[u8; TAG] {
        &self.tag
    }

    /// The tag that `key` makes for this secret, `action` and `code`.
    ///
    /// The code is part of what is signed, so its presence and shape are judged before the key is used.
    pub(crate) fn expected_tag(
        &self,
        key: &MacKey,
        action: Action,
        code: Option<&[u8]>,
    ) -> Result<[u8; TAG], VerifyError> {
        let message = match (action, code) {
            (Action::Activate, None) => activation(&self.secret),
            (Action::Activate, Some(_)) => return Err(VerifyError::CodeUncheckable),
            (Action::Recover, None) => return Err(VerifyError::CodeRequired),
            (Action::Recover, Some(text)) => {
                recovery(&self.secret, &Code::parse(text).map_err(|_| VerifyError::CodeMalformed)?)
            }
        };
        Ok(key.short_tag(&message))
    }

    /// Proves that one of `keys` signed these fields for `action` and `code`.
    pub(crate) fn verify<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k MacKey>,
        action: Action,
        code: Option<&[u8]>,
    ) -> Result<(), VerifyError> {
        // Which key of the ring fits is no secret: its owner knows when it was rotated.
        for key in keys {
            if same_tag(&self.expected_tag(key, action, code)?, &self.tag) {
                return Ok(());
            }
        }
        Err(VerifyError::Signature)
    }
}
