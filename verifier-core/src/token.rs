//! From a string of which nothing is proven to a token that a key of the ring signed.

use core::fmt;

use crate::{
    action::Action,
    consumed::ConsumedId,
    error::{Malformed, VerifyError},
    key::{KeyRing, SharedKey},
    secret::Secret,
    v1,
};

/// The version of the signature format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Version {
    /// Shared key, no expiry.
    V1,
}

impl Version {
    /// The number that follows the `v`.
    pub const fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
        }
    }
}

/// What the caller expects a token to be good for.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    /// What the followed link is about to do.
    pub action: Action,
    /// The code that the person typed, as it came; `None` only where nobody was asked for one.
    pub code: Option<&'a [u8]>,
}

impl<'a> Expected<'a> {
    /// An activation, which has no code.
    pub const fn activation() -> Self {
        Self { action: Action::Activate, code: None }
    }

    /// A recovery, with the code that the person typed.
    pub fn recovery(code: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { action: Action::Recover, code: Some(code.as_ref()) }
    }
}

impl fmt::Debug for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.map(|_| "..");
        f.debug_struct("Expected").field("action", &self.action).field("code", &code).finish()
    }
}

/// A well-formed token of which nothing is proven.
#[derive(Clone)]
pub struct UntrustedToken {
    fields: v1::UntrustedFields,
}

impl UntrustedToken {
    /// Reads a token in its one accepted spelling.
    ///
    /// # Errors
    /// [`VerifyError::Malformed`]: a length that no format has, a character outside the URL-safe alphabet, padding, white
    /// space, trailing bits that are not zero.
    pub fn parse(token: impl AsRef<[u8]>) -> Result<Self, VerifyError> {
        let token = token.as_ref();
        match token.len() {
            v1::CHARACTERS => Ok(Self { fields: v1::UntrustedFields::parse(token)? }),
            found => Err(Malformed::Length { found }.into()),
        }
    }

    /// The format, which the length alone tells.
    pub const fn version(&self) -> Version {
        Version::V1
    }

    /// The secret that the token claims to carry. **Nothing proves it**: for display and for tests only.
    pub const fn unauthenticated_secret(&self) -> &Secret {
        self.fields.secret()
    }

    /// The tag that the token carries, for display and for tests only.
    pub const fn unauthenticated_tag(&self) -> &[u8; 32] {
        self.fields.tag()
    }

    /// The tag that `key` makes for this secret and what is `expected`, for tools that show what is wrong with a token.
    ///
    /// Whoever learns it can forge the token. [`verify`](Self::verify) is what decides.
    ///
    /// # Errors
    /// Those of `verify`, except for [`Signature`](VerifyError::Signature).
    pub fn expected_tag(&self, key: &SharedKey, expected: Expected<'_>) -> Result<[u8; 32], VerifyError> {
        self.fields.expected_tag(key.mac(), expected.action, expected.code)
    }

    /// Proves that a key of `ring` signed this token for what is `expected`.
    ///
    /// It proves neither that the link is still valid (a v1 token carries no expiry) nor that it was not used before.
    ///
    /// # Errors
    /// In the order of the checks: [`CodeUncheckable`](VerifyError::CodeUncheckable) for a code beside an activation,
    /// [`CodeRequired`](VerifyError::CodeRequired) and [`CodeMalformed`](VerifyError::CodeMalformed) for a recovery,
    /// [`Signature`](VerifyError::Signature) for a forged or altered token, another key, the other action, a wrong code.
    pub fn verify<K: AsRef<[SharedKey]>>(
        &self,
        ring: &KeyRing<K>,
        expected: Expected<'_>,
    ) -> Result<VerifiedToken, VerifyError> {
        let keys = ring.keys().iter().map(SharedKey::mac);
        self.fields.verify(keys, expected.action, expected.code)?;
        Ok(VerifiedToken {
            version: self.version(),
            action: expected.action,
            secret: self.fields.secret().clone(),
        })
    }
}

impl fmt::Debug for UntrustedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UntrustedToken").field("version", &self.version()).finish_non_exhaustive()
    }
}

/// A token whose action, secret and, for a recovery, code were signed by a key of the ring.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    version: Version,
    action: Action,
    secret: Secret,
}

impl VerifiedToken {
    /// The format that the token was signed in.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// What the token is good for.
    pub const fn action(&self) -> Action {
        self.action
    }

    /// The secret of the token's row, by which the database finds it.
    pub const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The id under which the use of this token is remembered.
    pub fn consumed_id(&self) -> ConsumedId {
        ConsumedId::of(&self.secret)
    }
}
