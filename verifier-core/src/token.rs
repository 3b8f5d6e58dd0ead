//! From an untrusted string to a link or token that a key of the ring signed.

use core::fmt;

#[cfg(feature = "external")]
use crate::external::{External, Judgement};
use crate::{
    action::Action,
    binding::{Binding, Browser},
    consumed::ConsumedId,
    error::VerifyError,
    expiry::{Expiry, Moment},
    fields::{Fields, VersionedHeader},
    header::{Header, KeyId},
    ring::{KeyRing, VerifyingKey},
    secret::Secret,
    v1, v2,
    v3::{Here, Judge},
    verified::VerifiedToken,
    version::Version,
};

/// The action and code that the caller expects of a token.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    /// The action of the page or endpoint.
    pub action: Action,
    /// The code that the person typed, as it came; `None` if there is no code to type.
    pub code: Option<&'a [u8]>,
    /// The visitor's browser, by the nonce in its cookie; `None` if there is none. A link that is
    /// bound to another one is refused, a link that is not bound ignores it.
    pub binding: Option<&'a Binding>,
}

impl<'a> Expected<'a> {
    /// An activation, which has no code.
    pub const fn activation() -> Self {
        Self { action: Action::Activate, code: None, binding: None }
    }

    /// A recovery, with the code that the person typed.
    pub fn recovery(code: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { action: Action::Recover, code: Some(code.as_ref()), binding: None }
    }

    /// The same for a visitor with this browser.
    #[must_use]
    pub const fn opened_in(self, browser: Option<&'a Binding>) -> Self {
        Self { binding: browser, ..self }
    }
}

impl fmt::Debug for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code.map(|_| "..");
        f.debug_struct("Expected")
            .field("action", &self.action)
            .field("code", &code)
            .finish_non_exhaustive()
    }
}

/// A well-formed token. Nothing about it is proven.
#[derive(Clone)]
pub struct UntrustedToken {
    fields: Fields,
}

impl UntrustedToken {
    /// Reads a token in its one accepted spelling; the length alone tells the format.
    ///
    /// # Errors
    /// [`VerifyError::Malformed`]: a length that no format has, a character outside the URL-safe
    /// alphabet, padding, white space, trailing bits that are not zero, a version or action byte
    /// that the length does not have, an expiry after the year 9999. Whether a further action is
    /// known, and with a code, is judged by whom a ring belongs to.
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

    /// The secret that the token claims to carry. **Nothing proves it**:
    /// for display and for tests only.
    pub const fn unauthenticated_secret(&self) -> &Secret {
        &self.fields.secret
    }

    /// The tag (v1, v2: 32 bytes) or signature (v3: 64 bytes) that the token carries, for display
    /// and for tests only.
    pub const fn unauthenticated_tag(&self) -> &[u8] {
        let proof = self.fields.proof();
        match self.fields.header {
            VersionedHeader::V1 | VersionedHeader::V2(_) => proof.split_at(32).0,
            VersionedHeader::V3(_) => proof,
        }
    }

    /// The number of the action that a v2 or v3 token claims, from 1 to 127. **Nothing proves it.**
    pub fn unauthenticated_action(&self) -> Option<u8> {
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

    /// The browser that a v2 or v3 token claims to be bound to. **Nothing proves it.**
    pub fn unauthenticated_binding(&self) -> Option<&Binding> {
        self.header().and_then(|header| header.binding.as_ref())
    }

    const fn header(&self) -> Option<&Header> {
        match &self.fields.header {
            VersionedHeader::V1 => None,
            VersionedHeader::V2(header) | VersionedHeader::V3(header) => Some(header),
        }
    }

    /// Proves that a key of `ring` signed this link for `action` and that it is still valid, before
    /// a code is typed.
    ///
    /// # Errors
    /// In the order of the checks: [`LinkUncheckable`](VerifyError::LinkUncheckable) for v1, which
    /// has no link apart from its code and no expiry; [`Malformed`](VerifyError::Malformed) for an
    /// action that the ring does not [know](KeyRing::knowing), or not of this length;
    /// [`Signature`](VerifyError::Signature); [`Action`](VerifyError::Action);
    /// [`Expired`](VerifyError::Expired).
    pub fn verify_link<'r, K: AsRef<[VerifyingKey]>>(
        &self,
        ring: &'r KeyRing<K>,
        action: Action,
        moment: Moment,
    ) -> Result<VerifiedLink<'r>, VerifyError> {
        let (key, expires_at) = self.signed_link(ring, action, moment, &Here)?;
        Ok(VerifiedLink { token: self.clone(), key, action, expires_at })
    }

    /// As [`verify_link`](Self::verify_link) with a ring of one key, but another implementation of
    /// Ed25519 may have accepted the signature. Returns the expiry of the link.
    ///
    /// `judge` gets the signed bytes and the signature of a v3 link that names the key, unless
    /// implementations may disagree about the signature, which this crate judges. **Nothing else
    /// proves what `judge` accepts**, so it says [`Accepted`](Judgement::Accepted) only for the
    /// very bytes that the other implementation accepted under this very key. This does not compare
    /// the browser that a link is bound to: see
    /// [`unauthenticated_binding`](Self::unauthenticated_binding).
    ///
    /// # Errors
    /// Those of [`verify_link`](Self::verify_link); for as long as the judgement is
    /// [`Pending`](Judgement::Pending) [`Signature`](VerifyError::Signature).
    #[cfg(feature = "external")]
    pub fn verify_link_with(
        &self,
        ring: &KeyRing,
        action: Action,
        moment: Moment,
        judge: impl Fn(&[u8], &[u8; 64]) -> Judgement,
    ) -> Result<Expiry, VerifyError> {
        self.signed_link(ring, action, moment, &External(judge)).map(|(_, expires_at)| expires_at)
    }

    /// Proves that a key of `ring` signed this token for what is `expected`,
    /// and that it is still valid.
    ///
    /// Of a recovery **it does not count the attempt**: there are only 100,000 codes, so redeem
    /// through a [`Guard`](crate::Guard), or count before you call it. It does not prove that the
    /// link was not used before, and of v1 not that it is still valid,
    /// since a v1 token carries no expiry.
    ///
    /// # Errors
    /// v2 and v3: those of [`verify_link`](Self::verify_link), then
    /// [`OtherBrowser`](VerifyError::OtherBrowser), then
    /// [`CodeUncheckable`](VerifyError::CodeUncheckable) if a code is given and none is signed (v3,
    /// or an action without one); in v2 also [`CodeRequired`](VerifyError::CodeRequired),
    /// [`CodeMalformed`](VerifyError::CodeMalformed) and
    /// [`CodeMismatch`](VerifyError::CodeMismatch). v1: the presence and the shape of the code are
    /// checked first; a wrong code or another action is then a wrong
    /// [`Signature`](VerifyError::Signature).
    pub fn verify<K: AsRef<[VerifyingKey]>>(
        &self,
        ring: &KeyRing<K>,
        expected: Expected<'_>,
        moment: Moment,
    ) -> Result<VerifiedToken, VerifyError> {
        let Fields { header: VersionedHeader::V1, secret, .. } = &self.fields else {
            let (key, expires_at) = self.signed_link(ring, expected.action, moment, &Here)?;
            let browser = Browser::of(self.unauthenticated_binding(), expected.binding);
            if browser == Browser::Other {
                return Err(VerifyError::OtherBrowser);
            }
            self.check_code(key, expected.action, expected.code)?;
            let code_is_proven = expected.code.is_some();
            return Ok(self.verified(expected.action, expires_at, code_is_proven, browser));
        };
        v1::verify(secret, &self.fields.tag(), ring.shared(), expected.action, expected.code)?;
        Ok(VerifiedToken::v1(expected.action, secret.clone()))
    }

    /// This token, once its link and its code, if it has one, are proven.
    fn verified(
        &self,
        action: Action,
        expires_at: Expiry,
        code_is_proven: bool,
        browser: Browser,
    ) -> VerifiedToken {
        let secret = self.fields.secret.clone();
        VerifiedToken::of_link(self.version(), action, expires_at, secret, code_is_proven, browser)
    }

    /// The key that signed this link for `action`, and when it ends, if it is still valid.
    // Not inlined: WebAssembly verifies links and tokens.
    #[inline(never)]
    fn signed_link<'r, K: AsRef<[VerifyingKey]>>(
        &self,
        ring: &'r KeyRing<K>,
        action: Action,
        moment: Moment,
        #[cfg_attr(
            not(feature = "public"),
            expect(unused_variables, reason = "v3 alone has signatures")
        )]
        judge: &impl Judge,
    ) -> Result<(&'r VerifyingKey, Expiry), VerifyError> {
        let secret = &self.fields.secret;
        let Some(header) = self.header() else { return Err(VerifyError::LinkUncheckable) };
        let digits = self.fields.digits(header, ring.actions())?;
        let key = match &self.fields.header {
            VersionedHeader::V1 => return Err(VerifyError::LinkUncheckable),
            VersionedHeader::V2(header) => {
                let tag = self.fields.tag();
                let signed = |key: &&VerifyingKey| match key {
                    VerifyingKey::Shared(key) => v2::is_signed_by(key, header, secret, &tag),
                    #[cfg(feature = "public")]
                    VerifyingKey::Public(_) => false,
                };
                ring.named(header.key_id).find(signed)
            }
            #[cfg(feature = "public")]
            VersionedHeader::V3(header) => {
                let signature = self.fields.proof();
                let signed = |key: &&VerifyingKey| match key {
                    VerifyingKey::Public(key) => judge.is_signed_by(key, header, secret, signature),
                    VerifyingKey::Shared(_) => false,
                };
                ring.named(header.key_id).find(signed)
            }
            // Without the feature no key can verify a v3 token.
            #[cfg(not(feature = "public"))]
            VersionedHeader::V3(_) => None,
        };
        let key = key.ok_or(VerifyError::Signature)?;
        // An action of the same number with another code is not the one that the ring knows.
        if (header.action, digits) != (action.number(), action.digits()) {
            return Err(VerifyError::Action { found: header.action });
        }
        if !moment.is_before(header.expires_at) {
            return Err(VerifyError::Expired { now: moment.now, expires_at: header.expires_at });
        }
        Ok((key, header.expires_at))
    }

    /// Proves that the code beside this link, signed by `key` for `action`, is the row's.
    fn check_code(
        &self,
        key: &VerifyingKey,
        action: Action,
        code: Option<&[u8]>,
    ) -> Result<(), VerifyError> {
        match (&self.fields.header, key) {
            (VersionedHeader::V2(header), VerifyingKey::Shared(key)) => {
                let secret = &self.fields.secret;
                let code_tag = &self.fields.code_tag();
                v2::check_digits(key, header, secret, code_tag, action.digits(), code)
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

/// A v2 or v3 link whose signature, action and expiry are proven; of its code nothing is.
#[derive(Clone)]
pub struct VerifiedLink<'r> {
    token: UntrustedToken,
    key: &'r VerifyingKey,
    action: Action,
    expires_at: Expiry,
}

impl VerifiedLink<'_> {
    /// The format that the link was signed in.
    pub const fn version(&self) -> Version {
        self.token.version()
    }

    /// What the link is good for.
    pub const fn action(&self) -> Action {
        self.action
    }

    /// When the link ends.
    pub const fn expires_at(&self) -> Expiry {
        self.expires_at
    }

    /// The secret of the token's row, by which the database finds it.
    pub const fn secret(&self) -> &Secret {
        self.token.unauthenticated_secret()
    }

    /// The id under which attempts and use of this link are remembered.
    pub fn consumed_id(&self) -> ConsumedId {
        ConsumedId::of(self.secret())
    }

    /// Whether the link was opened in the browser that it is bound to. `visitor` is the binding of
    /// the request's cookie; `None` if there is no cookie.
    pub fn browser(&self, visitor: Option<&Binding>) -> Browser {
        Browser::of(self.token.unauthenticated_binding(), visitor)
    }

    /// Proves the code that was typed beside this link by a `visitor`, **without counting the
    /// attempt**: there are only 100,000 codes, so use a [`Guard`](crate::Guard), or count before
    /// you call it.
    ///
    /// In [another](Browser::Other) browser the code proves the person,
    /// where a signature covers it.
    ///
    /// # Errors
    /// [`OtherBrowser`](VerifyError::OtherBrowser) in another browser for an action without a code
    /// and in v3, [`CodeUncheckable`](VerifyError::CodeUncheckable),
    /// [`CodeRequired`](VerifyError::CodeRequired), [`CodeMalformed`](VerifyError::CodeMalformed),
    /// [`CodeMismatch`](VerifyError::CodeMismatch).
    pub fn with_code(
        self,
        code: Option<&[u8]>,
        visitor: Option<&Binding>,
    ) -> Result<VerifiedToken, VerifyError> {
        let browser = self.browser(visitor);
        let covers_code = self.version().has_code_tag() && self.action.digits() > 0;
        if browser == Browser::Other && !covers_code {
            return Err(VerifyError::OtherBrowser);
        }
        self.token.check_code(self.key, self.action, code)?;
        Ok(self.token.verified(self.action, self.expires_at, code.is_some(), browser))
    }

    /// The token of this link, after the caller has compared its code.
    pub(crate) fn with_proven_code(self, browser: Browser) -> VerifiedToken {
        self.token.verified(self.action, self.expires_at, true, browser)
    }
}

impl fmt::Debug for VerifiedLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedLink")
            .field("version", &self.version())
            .field("action", &self.action())
            .field("expires_at", &self.expires_at())
            .finish_non_exhaustive()
    }
}
