//! What a signature has proven.

use core::fmt;

use crate::{
    action::Action,
    consumed::ConsumedId,
    error::VerifyError,
    expiry::Expiry,
    header::Header,
    ring::VerifyingKey,
    secret::Secret,
    token::{UntrustedToken, Version},
};

/// A v2 or v3 link whose signature, action and expiry are proven; of its code nothing is.
#[derive(Clone)]
pub struct VerifiedLink<'r> {
    token: UntrustedToken,
    key: &'r VerifyingKey,
    header: Header,
}

impl<'r> VerifiedLink<'r> {
    pub(crate) const fn new(token: UntrustedToken, key: &'r VerifyingKey, header: Header) -> Self {
        Self { token, key, header }
    }

    /// The format that the link was signed in.
    pub const fn version(&self) -> Version {
        self.token.version()
    }

    /// What the link is good for.
    pub const fn action(&self) -> Action {
        self.header.action
    }

    /// When the link ends.
    pub const fn expires_at(&self) -> Expiry {
        self.header.expires_at
    }

    /// The secret of the token's row, by which the database finds it.
    pub const fn secret(&self) -> &Secret {
        self.token.unauthenticated_secret()
    }

    /// The id under which the tries and the use of this link are remembered.
    pub fn consumed_id(&self) -> ConsumedId {
        ConsumedId::of(self.secret())
    }

    /// Proves the code that was typed beside this link, **without counting the try**: there are only 100,000 codes, so ask
    /// through a [`Guard`](crate::Guard), or count before you ask.
    ///
    /// # Errors
    /// [`CodeUncheckable`](VerifyError::CodeUncheckable), [`CodeRequired`](VerifyError::CodeRequired),
    /// [`CodeMalformed`](VerifyError::CodeMalformed), [`CodeMismatch`](VerifyError::CodeMismatch).
    pub fn with_code(self, code: Option<&[u8]>) -> Result<VerifiedToken, VerifyError> {
        self.token.check_code(self.key, code)?;
        Ok(self.token.verified(self.header, code.is_some()))
    }

    /// The token of this link once somebody has compared its code, who says that it is the row's.
    pub(crate) fn with_proven_code(self) -> VerifiedToken {
        self.token.verified(self.header, true)
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

/// A token whose action, secret, expiry (v2, v3) and code (v1, v2 recoveries) were signed by a key of the ring.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    version: Version,
    action: Action,
    secret: Secret,
    expires_at: Option<Expiry>,
    code_is_proven: bool,
}

impl VerifiedToken {
    pub(crate) const fn v1(action: Action, secret: Secret) -> Self {
        let code_is_proven = matches!(action, Action::Recover);
        Self { version: Version::V1, action, secret, expires_at: None, code_is_proven }
    }

    pub(crate) const fn of_link(
        version: Version,
        header: Header,
        secret: Secret,
        code_is_proven: bool,
    ) -> Self {
        Self { version, action: header.action, secret, expires_at: Some(header.expires_at), code_is_proven }
    }

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

    /// When the token ends; `None` for v1, of which only the database knows.
    pub const fn expires_at(&self) -> Option<Expiry> {
        self.expires_at
    }

    /// Whether a code was proven. It is not for an activation, which has none, nor for a v3 recovery, whose code no
    /// signature covers, unless the comparison that a [`Guard`](crate::Guard) was given has said yes.
    pub const fn code_is_proven(&self) -> bool {
        self.code_is_proven
    }

    /// The id under which the use of this token is remembered.
    pub fn consumed_id(&self) -> ConsumedId {
        ConsumedId::of(&self.secret)
    }
}
