//! The nacks and receipts of settlements as arrays of equal length, one a parameter.

use uuid::Uuid;

use crate::config::DeliverySettings;
use crate::log::display::milliseconds;
use crate::queue::{BatchId, Nack, Receipt};

/// Batches, tokens, kinds, waits in milliseconds, and reasons.
pub(super) type NackColumns =
    (Vec<Uuid>, Vec<i64>, Vec<&'static str>, Vec<Option<i64>>, Vec<Option<String>>);

/// Reasons are in ASCII where the database may have no other characters. Refusals count as failures
/// only where they are bounded.
pub(super) fn columns(
    settlements: &[(BatchId, &[(i64, Nack)])],
    settings: &DeliverySettings,
    is_unicode: bool,
) -> NackColumns {
    let nacks =
        settlements.iter().flat_map(|(batch, nacks)| nacks.iter().map(move |nack| (batch.0, nack)));
    let row = |(batch, (token, nack)): (Uuid, &(i64, Nack))| {
        let (kind, wait) = match nack {
            Nack::Unanswered => ("unanswered", None),
            Nack::Unavailable { after, .. } => ("unavailable", *after),
            // At its old place it would come back at once, since the sender is not paused.
            Nack::Untried { after, .. } => ("untried", Some(after.unwrap_or(settings.backoff))),
            Nack::Failed { .. } => ("failed", None),
            Nack::Retry { after, .. } => {
                (if settings.bounds_refusals { "failed" } else { "retry" }, *after)
            }
            Nack::InDoubt { .. } => ("in_doubt", None),
            Nack::HandedOver => ("handed_over", None),
            Nack::UnknownAddress { .. } if settings.suppress_unknown => ("unknown_address", None),
            Nack::Dead { .. } | Nack::UnknownAddress { .. } => ("dead", None),
        };
        let reason = nack.reason().map(|reason| storable(reason, is_unicode));
        (batch, *token, kind, wait.map(milliseconds), reason)
    };
    nacks.map(row).collect()
}

/// Batches, tokens, providers, the providers' ids and answers.
pub(super) type ReceiptColumns =
    (Vec<Uuid>, Vec<i64>, Vec<String>, Vec<Option<String>>, Vec<String>);

/// Texts are in ASCII where the database may have no other characters.
pub(super) fn receipt_columns<'a>(
    receipts: impl Iterator<Item = (BatchId, &'a (i64, Receipt))>,
    is_unicode: bool,
) -> ReceiptColumns {
    let mut columns = ReceiptColumns::default();
    for (batch, (token, Receipt { provider, message_id, answer })) in receipts {
        columns.0.push(batch.0);
        columns.1.push(*token);
        columns.2.push(storable(provider, is_unicode));
        columns.3.push(message_id.as_ref().map(|id| storable(id, is_unicode)));
        columns.4.push(storable(answer, is_unicode));
    }
    columns
}

/// A text that every database of this encoding takes.
pub(crate) fn storable(text: &str, is_unicode: bool) -> String {
    let text = text.replace('\0', "");
    if is_unicode {
        return text;
    }
    let ascii = |character: char| {
        if character.is_ascii() {
            character.to_string()
        } else {
            character.escape_unicode().to_string()
        }
    };
    text.chars().map(ascii).collect()
}
