//! A token that a signature has proven.

use crate::{
    action::Action, binding::Browser, consumed::ConsumedId, expiry::Expiry, secret::Secret,
    version::Version,
};

/// A token whose action, secret, expiry (v2, v3) and code (v1, v2, where its action has one) were
/// signed by a key of the ring.
#[derive(Clone, Debug)]
pub struct VerifiedToken {
    version: Version,
    action: Action,
    secret: Secret,
    expires_at: Option<Expiry>,
    code_is_proven: bool,
    browser: Browser,
}

impl VerifiedToken {
    pub(crate) const fn v1(action: Action, secret: Secret) -> Self {
        let code_is_proven = matches!(action, Action::Recover);
        Self {
            version: Version::V1,
            action,
            secret,
            expires_at: None,
            code_is_proven,
            browser: Browser::Unbound,
        }
    }

    pub(crate) const fn of_link(
        version: Version,
        action: Action,
        expires_at: Expiry,
        secret: Secret,
        code_is_proven: bool,
        browser: Browser,
    ) -> Self {
        Self { version, action, secret, expires_at: Some(expires_at), code_is_proven, browser }
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

    /// When the token ends; `None` for v1, whose expiry only the database has.
    pub const fn expires_at(&self) -> Option<Expiry> {
        self.expires_at
    }

    /// Whether the code was verified. This is `false` for an action without a code, and for v3
    /// unless the `check_code` of a [`Guard`](crate::Guard) accepted it.
    pub const fn code_is_proven(&self) -> bool {
        self.code_is_proven
    }

    /// Where the link was opened. Tell the database, which redeems a bound row without a code in
    /// the [same](Browser::Same) browser alone; it is [another](Browser::Other) one only if the
    /// code was proven there.
    pub const fn browser(&self) -> Browser {
        self.browser
    }

    /// The id under which the use of this token is remembered.
    pub fn consumed_id(&self) -> ConsumedId {
        ConsumedId::of(&self.secret)
    }
}
