//! Values as the database's functions take them.

use std::error::Error;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::queue::{Exception, Settlement};

/// A batch's name, which is a `uuid` there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchName(pub(super) u128);

impl BatchName {
    /// A name that no other batch has: a random UUID (RFC 9562, version 4).
    pub(super) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        bytes[6] = 0x40 | bytes[6] & 0x0f;
        bytes[8] = 0x80 | bytes[8] & 0x3f;
        Ok(Self(u128::from_be_bytes(bytes)))
    }
}

impl ToSql for BatchName {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for BatchName {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }
}

/// The exceptions of settlements, as columns.
#[derive(Debug, Default)]
pub(super) struct Exceptions {
    pub(super) batches: Vec<BatchName>,
    pub(super) tokens: Vec<i64>,
    pub(super) kinds: Vec<&'static str>,
    pub(super) waits: Vec<Option<i64>>,
    pub(super) reasons: Vec<Option<String>>,
}

impl Exceptions {
    /// With reasons in ASCII where the database may have no other characters. Refusals count as failures only where they are
    /// bounded.
    pub(super) fn of(
        settlements: &[(BatchName, Settlement)],
        bounds_refusals: bool,
        is_unicode: bool,
    ) -> Self {
        let refused = if bounds_refusals { "failed" } else { "refused" };
        let mut columns = Self::default();
        let exceptions = settlements.iter().flat_map(|(name, settlement)| {
            settlement.exceptions.iter().map(move |exception| (*name, exception))
        });
        for (name, (token, exception)) in exceptions {
            let (kind, wait, reason) = match exception {
                Exception::Unanswered => ("unanswered", None, None),
                Exception::Unavailable { after, reason } => ("unavailable", *after, Some(reason)),
                Exception::Failed { reason } => ("failed", None, Some(reason)),
                Exception::Retry { after, reason } => (refused, *after, Some(reason)),
                Exception::Dead { reason } => ("dead", None, Some(reason)),
            };
            columns.batches.push(name);
            columns.tokens.push(*token);
            columns.kinds.push(kind);
            columns.waits.push(wait.map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)));
            columns.reasons.push(reason.map(|reason| storable(reason, is_unicode)));
        }
        columns
    }
}

/// A text that every database of this encoding takes.
fn storable(text: &str, is_unicode: bool) -> String {
    text.chars()
        .filter(|character| *character != '\0')
        .flat_map(|character| {
            let (plain, escaped) = if is_unicode || character.is_ascii() {
                (Some(character), None)
            } else {
                (None, Some(character.escape_unicode()))
            };
            plain.into_iter().chain(escaped.into_iter().flatten())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::BatchId;
    use std::time::Duration;

    #[test]
    fn names_are_random_uuids() {
        let (one, two) = (BatchName::random().unwrap(), BatchName::random().unwrap());
        assert_ne!(one, two);
        assert_eq!(one.0 >> 76 & 0xf, 4);
        assert_eq!(one.0 >> 62 & 3, 2);
    }

    #[test]
    fn exceptions_become_columns_of_equal_length() {
        let exceptions = vec![
            (1, Exception::Unanswered),
            (2, Exception::Retry { after: Some(Duration::MAX), reason: "später\0".to_owned() }),
            (3, Exception::Dead { reason: "nö".to_owned() }),
            (4, Exception::Unavailable { after: Some(Duration::ZERO), reason: "421".to_owned() }),
            (5, Exception::Failed { reason: "ended".to_owned() }),
        ];
        let settlement = Settlement { batch: BatchId(1), exceptions };
        let settlements = [(BatchName(5), settlement)];
        let columns = Exceptions::of(&settlements, false, false);
        assert_eq!(columns.batches, [BatchName(5); 5]);
        assert_eq!(columns.tokens, [1, 2, 3, 4, 5]);
        assert_eq!(columns.kinds, ["unanswered", "refused", "dead", "unavailable", "failed"]);
        assert_eq!(columns.waits, [None, Some(i64::MAX), None, Some(0), None]);
        let reasons = ["", "sp\\u{e4}ter", "n\\u{f6}", "421", "ended"];
        assert_eq!(columns.reasons, reasons.map(|reason| (!reason.is_empty()).then(|| reason.to_owned())));
        assert_eq!(Exceptions::of(&settlements, true, false).kinds[1], "failed");
    }
}
