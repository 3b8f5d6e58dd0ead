//! The nacks of settlements as arrays of equal length, one a parameter.

use uuid::Uuid;

use crate::log::display::milliseconds;
use crate::queue::{BatchId, Nack};

/// Batches, tokens, kinds, waits in milliseconds, and reasons.
pub(super) type NackColumns = (Vec<Uuid>, Vec<i64>, Vec<&'static str>, Vec<Option<i64>>, Vec<Option<String>>);

/// Reasons are in ASCII where the database may have no other characters. Refusals count as failures only where they are bounded.
pub(super) fn columns(
    settlements: &[(BatchId, &[(i64, Nack)])],
    bounds_refusals: bool,
    is_unicode: bool,
) -> NackColumns {
    let nacks = settlements.iter().flat_map(|(batch, nacks)| nacks.iter().map(move |nack| (batch.0, nack)));
    let row = |(batch, (token, nack)): (Uuid, &(i64, Nack))| {
        let (kind, wait) = match nack {
            Nack::Unanswered => ("unanswered", None),
            Nack::Unavailable { after, .. } => ("unavailable", *after),
            Nack::Failed { .. } => ("failed", None),
            Nack::Refused { after, .. } => (if bounds_refusals { "failed" } else { "refused" }, *after),
            Nack::Dead { .. } => ("dead", None),
        };
        let reason = nack.reason().map(|reason| storable(reason, is_unicode));
        (batch, *token, kind, wait.map(milliseconds), reason)
    };
    nacks.map(row).collect()
}

/// A text that every database of this encoding takes.
fn storable(text: &str, is_unicode: bool) -> String {
    let text = text.replace('\0', "");
    if is_unicode {
        return text;
    }
    let ascii = |character: char| {
        if character.is_ascii() { character.to_string() } else { character.escape_unicode().to_string() }
    };
    text.chars().map(ascii).collect()
}
