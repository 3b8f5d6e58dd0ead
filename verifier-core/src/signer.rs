//! Signs any format, for callers whose format is a setting.

use crate::{
    action::Action, code::Code, expiry::Expiry, secret::Secret, shared_key::SharedKey, signed::SignedToken,
    v1, v2, version::Version,
};

#[cfg(feature = "public")]
use crate::{ed25519::PrivateKey, v3};

/// What a row of the database grants.
#[derive(Clone, Copy, Debug)]
pub struct Grant<'a> {
    /// The row's random bytes.
    pub secret: &'a Secret,
    /// What the link does, with the code where one belongs to it.
    pub purpose: Purpose<'a>,
    /// The row's expiry; v1 has no place for it.
    pub expires_at: Expiry,
}

/// What a link does, with the code where one belongs to it.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// Activates a provisioned account.
    Activation,
    /// Recovers an active account together with this code.
    Recovery(&'a Code),
}

impl Purpose<'_> {
    /// The action of the purpose.
    pub const fn action(&self) -> Action {
        match self {
            Self::Activation => Action::Activate,
            Self::Recovery(_) => Action::Recover,
        }
    }
}

/// A key together with the format that it signs.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "a process has one signer, and boxing needs an allocator")]
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
    pub fn sign(&self, grant: Grant<'_>) -> SignedToken {
        let Grant { secret, purpose, expires_at } = grant;
        match (self, purpose) {
            (Self::V1(key), Purpose::Activation) => v1::sign_activation(key, secret),
            (Self::V1(key), Purpose::Recovery(code)) => v1::sign_recovery(key, secret, code),
            (Self::V2(key), Purpose::Activation) => v2::sign_activation(key, secret, expires_at),
            (Self::V2(key), Purpose::Recovery(code)) => v2::sign_recovery(key, secret, expires_at, code),
            #[cfg(feature = "public")]
            (Self::V3(key), purpose) => v3::sign(key, purpose.action(), secret, expires_at),
        }
    }
}
