//! The id under which a used token is remembered.

use crate::{
    bytes::{concat, field},
    hmac::sha256,
    secret::Secret,
};

/// Names a token's row to a store of used tokens (FORMAT.md, "Consumed-token id").
///
/// Every token ever made of one row has the same id, in every format and under every key. The id is one way: it reveals
/// nothing about the secret, so it may be logged and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumedId([u8; Self::LENGTH]);

impl ConsumedId {
    /// The number of bytes.
    pub const LENGTH: usize = 16;

    /// The id of the row that has this secret.
    pub fn of(secret: &Secret) -> Self {
        const LABEL: &[u8] = b"mailroom/consumed\0";
        let named = concat::<{ LABEL.len() + Secret::LENGTH }, 2>([LABEL, secret.as_bytes()]);
        Self(field(&sha256(&named), 0))
    }

    /// The bytes that a store keeps.
    pub const fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }
}
