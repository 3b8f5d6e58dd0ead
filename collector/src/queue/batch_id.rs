//! The id of a batch.

use std::fmt;

use uuid::{Builder, Uuid};

use super::QueueError;

/// Identifies a batch from its claim to its settlement, in the database and towards the reader: a
/// random UUID (RFC 9562, version 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub Uuid);

impl BatchId {
    /// So many new ones, unless the operating system has no random bytes.
    pub fn random(count: usize) -> Result<Vec<Self>, QueueError> {
        let mut bytes = vec![[0; 16]; count];
        let none =
            |_| QueueError::Unavailable("the operating system has no random bytes".to_owned());
        getrandom::fill(bytes.as_flattened_mut()).map_err(none)?;
        Ok(bytes
            .into_iter()
            .map(|bytes| Self(Builder::from_random_bytes(bytes).into_uuid()))
            .collect())
    }

    /// Reads exactly what [`Display`](fmt::Display) writes; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(Uuid::try_parse(text).ok()?);
        (id.to_string() == text).then_some(id)
    }
}

/// 32 hexadecimal digits in lower case, grouped 8-4-4-4-12.
impl fmt::Display for BatchId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(formatter)
    }
}

impl From<u128> for BatchId {
    fn from(number: u128) -> Self {
        Self(Uuid::from_u128(number))
    }
}
