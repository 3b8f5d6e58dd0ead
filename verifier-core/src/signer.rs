//! Signs any format, for callers whose format is a setting.

use crate::{
    action::Action, binding::Binding, code::Code, expiry::Expiry, secret::Secret,
    shared_key::SharedKey, signed::SignedToken, unsignable::Unsignable, v1, v2, version::Version,
};

#[cfg(feature = "public")]
use crate::{ed25519::PrivateKey, unsignable::check_code, v3};

/// What a row of the database grants.
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    /// The row's random bytes.
    pub secret: &'a Secret,
    /// What the link does.
    pub action: Action,
    /// The code of an action that has one. v3 does not sign it, but refuses a missing or unsuitable
    /// one as v1 and v2 do.
    pub code: Option<&'a Code>,
    /// The row's expiry; v1 has no place for it.
    pub expires_at: Expiry,
    /// The browser that the link is for, if the row is bound to one.
    pub binding: Option<&'a Binding>,
}

/// A key together with the format that it signs.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "a process has one signer, and boxing needs an allocator"
)]
pub enum Signer {
    /// Signs v1.
    V1(SharedKey),
    /// Signs v2.
    V2(SharedKey),
    /// Signs v3.
    #[cfg(feature = "public")]
    V3(PrivateKey),
}

impl Signer {
    /// The format of the tokens.
    pub const fn version(&self) -> Version {
        match self {
            Self::V1(_) => Version::V1,
            Self::V2(_) => Version::V2,
            #[cfg(feature = "public")]
            Self::V3(_) => Version::V3,
        }
    }

    /// Signs the link of a row.
    ///
    /// # Errors
    /// [`Unsignable`]: the code is missing, has another number of digits than its action says, or
    /// its action has no code; v1 has no further actions and no binding; no list of actions would
    /// accept the action.
    pub fn sign(&self, grant: Grant<'_>) -> Result<SignedToken, Unsignable> {
        let Grant { secret, action, code, expires_at, binding } = grant;
        match self {
            Self::V1(_) if binding.is_some() => Err(Unsignable::BoundInV1),
            Self::V1(key) => v1::sign(key, action, secret, code),
            Self::V2(key) => v2::sign_for(key, action, binding, secret, expires_at, code),
            #[cfg(feature = "public")]
            Self::V3(key) => check_code(action, code)
                .and_then(|()| v3::sign_for(key, action, binding, secret, expires_at)),
        }
    }
}
