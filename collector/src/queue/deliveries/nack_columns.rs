//! The nacks of settlements as arrays, one a parameter.

use uuid::Uuid;

use crate::queue::{BatchId, Nack};

/// Arrays of equal length.
#[derive(Debug, Default)]
pub(super) struct NackColumns {
    pub(super) batches: Vec<Uuid>,
    pub(super) tokens: Vec<i64>,
    pub(super) kinds: Vec<&'static str>,
    pub(super) waits: Vec<Option<i64>>,
    pub(super) reasons: Vec<Option<String>>,
}

impl NackColumns {
    /// Reasons in ASCII where the database may have no other characters. Refusals count as failures only where they are bounded.
    pub(super) fn of(
        settlements: &[(BatchId, &[(i64, Nack)])],
        bounds_refusals: bool,
        is_unicode: bool,
    ) -> Self {
        let refused = if bounds_refusals { "failed" } else { "refused" };
        let mut columns = Self::default();
        for (batch, (token, nack)) in
            settlements.iter().flat_map(|(batch, nacks)| nacks.iter().map(move |nack| (batch, nack)))
        {
            let (kind, wait) = match nack {
                Nack::Abandoned => ("unanswered", None),
                Nack::Unavailable { after, .. } => ("unavailable", *after),
                Nack::Failed { .. } => ("failed", None),
                Nack::Retry { after, .. } => (refused, *after),
                Nack::Dead { .. } => ("dead", None),
            };
            columns.batches.push(batch.0);
            columns.tokens.push(*token);
            columns.kinds.push(kind);
            columns.waits.push(wait.map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)));
            columns.reasons.push(nack.reason().map(|reason| storable(reason, is_unicode)));
        }
        columns
    }
}

/// A text that every database of this encoding takes.
fn storable(text: &str, is_unicode: bool) -> String {
    let mut storable = String::with_capacity(text.len());
    for character in text.chars().filter(|character| *character != '\0') {
        if is_unicode || character.is_ascii() {
            storable.push(character);
        } else {
            storable.extend(character.escape_unicode());
        }
    }
    storable
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn nacks_become_columns_of_equal_length() {
        let nacks = [
            (1, Nack::Abandoned),
            (2, Nack::Retry { after: Some(Duration::MAX), reason: "später\0".to_owned() }),
            (3, Nack::Dead { reason: "nö".to_owned() }),
            (4, Nack::Unavailable { after: Some(Duration::ZERO), reason: "421".to_owned() }),
            (5, Nack::Failed { reason: "ended".to_owned() }),
        ];
        let settlements = [(BatchId::from(5), nacks.as_slice())];
        let columns = NackColumns::of(&settlements, false, false);
        assert_eq!(columns.batches, [Uuid::from_u128(5); 5]);
        assert_eq!(columns.tokens, [1, 2, 3, 4, 5]);
        assert_eq!(columns.kinds, ["unanswered", "refused", "dead", "unavailable", "failed"]);
        assert_eq!(columns.waits, [None, Some(i64::MAX), None, Some(0), None]);
        let reasons = ["", "sp\\u{e4}ter", "n\\u{f6}", "421", "ended"];
        assert_eq!(columns.reasons, reasons.map(|reason| (!reason.is_empty()).then(|| reason.to_owned())));
        let columns = NackColumns::of(&settlements, true, true);
        assert_eq!((columns.kinds[1], columns.reasons[2].as_deref()), ("failed", Some("nö")));
    }
}
