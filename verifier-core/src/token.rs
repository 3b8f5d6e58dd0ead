//! From a string of which nothing is proven to what a key of the ring signed.

use core::fmt;

#[cfg(feature = "public")]
use crate::v3;
use crate::{
    action::Action,
    error::VerifyError,
    expiry::{Expiry, Moment},
    fields::{Fields, VersionedHeader},
    header::{Header, KeyId},
    ring::{KeyRing, VerifyingKey},
    secret::Secret,
    v1, v2,
    verified::{VerifiedLink, VerifiedToken},
};

/// The version of the signature format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Version {
    /// Shared key, no expiry.
    V1,
    /// Shared key, with expiry and a code that is checked apart.
    V2,
    /// Private and public key, with expiry; the code is for the database to check.
    V3,
}

impl Version {
    /// The number that follows the `v`.
    pub const fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.number())
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
    fields: Fields,
}

impl UntrustedToken {
    /// Reads a token in its one accepted spelling; the length alone tells the format.
    ///
    /// # Errors
    /// [`VerifyError::Malformed`]: a length that no format has, a character outside the URL-safe alphabet, padding, white
    /// space, trailing bits that are not zero, a version or action byte that the length does not have, an expiry after
    /// the year 9999.
    pub fn parse(token: impl AsRef<[u8]>) -> Result<Self, VerifyError> {
        Ok(Self { fields: Fields::parse(token.as_ref())? })
    }

    /// The format.
    pub const fn version(&self) -> Version {
        match self.fields.header {
            VersionedHeader::V1 => Version::V1,
            VersionedHeader::V2(_) => Version::V2,
            VersionedHeader::V3(_) => Version::V3,
        }
    }

    /// The secret that the token claims to carry. **Nothing proves it**: for display and for tests only.
    pub const fn unauthenticated_secret(&self) -> &Secret {
        &self.fields.secret
    }

    /// The tag (v1, v2: 32 bytes) or signature (v3: 64 bytes) that the token carries, for display and for tests only.
    pub const fn unauthenticated_tag(&self) -> &[u8] {
        let proof = self.fields.proof();
        match self.fields.header {
            VersionedHeader::V1 | VersionedHeader::V2(_) => proof.split_at(32).0,
            VersionedHeader::V3(_) => proof,
        }
    }

    /// The action that a v2 or v3 token claims. **Nothing proves it.**
    pub fn unauthenticated_action(&self) -> Option<Action> {
        self.header().map(|header| header.action)
    }

    /// The expiry that a v2 or v3 token claims. **Nothing proves it.**
    pub fn unauthenticated_expiry(&self) -> Option<Expiry> {
        self.header().map(|header| header.expires_at)
    }

    /// The id of the key that a v2 or v3 token claims to be signed with. **Nothing proves it.**
    pub fn unauthenticated_key_id(&self) -> Option<KeyId> {
        self.header().map(|header| header.key_id)
    }

    const fn header(&self) -> Option<&Header> {
        match &self.fields.header {
            VersionedHeader::V1 => None,
            VersionedHeader::V2(header) | VersionedHeader::V3(header) => Some(header),
        }
    }

    /// Proves that a key of `ring` signed this link for `action` and that it is still valid, before a code is typed.
    ///
    /// # Errors
    /// In the order of the checks: [`LinkUncheckable`](VerifyError::LinkUncheckable) for v1, which has no link apart from
    /// its code and no expiry; [`Signature`](VerifyError::Signature); [`Action`](VerifyError::Action);
    /// [`Expired`](VerifyError::Expired).
    pub fn verify_link<'r, K: AsRef<[VerifyingKey]>>(
        &self,
        ring: &'r KeyRing<K>,
        action: Action,
        moment: Moment,
    ) -> Result<VerifiedLink<'r>, VerifyError> {
        let (key, header) = self.signed_link(ring, action, moment)?;
        Ok(VerifiedLink::new(self.clone(), key, header))
    }

    /// Proves that a key of `ring` signed this token for what is `expected`, and that it is still valid.
    ///
    /// Of a recovery **it does not count the try**: there are only 100,000 codes, so redeem through a
    /// [`Guard`](crate::Guard), or count before you ask. It does not prove that the link was not used before, and of v1 not
    /// that it is still valid, since a v1 token carries no expiry.
    ///
    /// # Errors
    /// Those of [`verify_link`](Self::verify_link), then [`CodeUncheckable`](VerifyError::CodeUncheckable) for a code beside
    /// an activation or any v3 token, [`CodeRequired`](VerifyError::CodeRequired),
    /// [`CodeMalformed`](VerifyError::CodeMalformed) and [`CodeMismatch`](VerifyError::CodeMismatch) for a v2 recovery. In v1
    /// the code is part of what is signed: its presence and shape are judged first, and a wrong one, like the other
    /// action, is a wrong [`Signature`](VerifyError::Signature).
    pub fn verify<K: AsRef<[VerifyingKey]>>(
        &self,
        ring: &KeyRing<K>,
        expected: Expected<'_>,
        moment: Moment,
    ) -> Result<VerifiedToken, VerifyError> {
        let Fields { header: VersionedHeader::V1, secret, .. } = &self.fields else {
            let (key, header) = self.signed_link(ring, expected.action, moment)?;
            self.check_code(key, expected.code)?;
            return Ok(self.verified(header, expected.code.is_some()));
        };
        v1::verify(secret, &self.fields.tag(), ring.shared(), expected.action, expected.code)?;
        Ok(VerifiedToken::v1(expected.action, secret.clone()))
    }

    /// What is said of this token once its link, with this header, and its code, if it has one, are proven.
    pub(crate) fn verified(&self, header: Header, code_is_proven: bool) -> VerifiedToken {
        let secret = self.fields.secret.clone();
        VerifiedToken::of_link(self.version(), header, secret, code_is_proven)
    }

    /// The key that signed this link for `action`, and what it signed, if that is still valid.
    // In one place: WebAssembly asks for links and for tokens.
    #[inline(never)]
    fn signed_link<'r, K: AsRef<[VerifyingKey]>>(
        &self,
        ring: &'r KeyRing<K>,
        action: Action,
        moment: Moment,
    ) -> Result<(&'r VerifyingKey, Header), VerifyError> {
        let secret = &self.fields.secret;
        let (key, header) = match &self.fields.header {
            VersionedHeader::V1 => return Err(VerifyError::LinkUncheckable),
            VersionedHeader::V2(header) => {
                let tag = self.fields.tag();
                let signed = |key: &&VerifyingKey| match key {
                    VerifyingKey::Shared(key) => v2::is_signed_by(key, header, secret, &tag),
                    #[cfg(feature = "public")]
                    VerifyingKey::Public(_) => false,
                };
                (ring.named(header.key_id).find(signed), *header)
            }
            #[cfg(feature = "public")]
            VersionedHeader::V3(header) => {
                let signature = self.fields.proof();
                let signed = |key: &&VerifyingKey| match key {
                    VerifyingKey::Public(key) => v3::is_signed_by(key, header, secret, signature),
                    VerifyingKey::Shared(_) => false,
                };
                (ring.named(header.key_id).find(signed), *header)
            }
            // Without the feature no key can verify a v3 token.
            #[cfg(not(feature = "public"))]
            VersionedHeader::V3(header) => (None, *header),
        };
        let key = key.ok_or(VerifyError::Signature)?;
        if header.action != action {
            return Err(VerifyError::Action { found: header.action });
        }
        if !moment.is_before(header.expires_at) {
            return Err(VerifyError::Expired { now: moment.now, expires_at: header.expires_at });
        }
        Ok((key, header))
    }

    /// Proves that the code beside this link, signed by `key`, is the row's.
    pub(crate) fn check_code(&self, key: &VerifyingKey, code: Option<&[u8]>) -> Result<(), VerifyError> {
        match (&self.fields.header, key) {
            (VersionedHeader::V2(header), VerifyingKey::Shared(key)) => {
                v2::check_code(key, header, &self.fields.secret, &self.fields.code_tag(), code)
            }
            _ if code.is_some() => Err(VerifyError::CodeUncheckable),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for UntrustedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UntrustedToken").field("version", &self.version()).finish_non_exhaustive()
    }
}
