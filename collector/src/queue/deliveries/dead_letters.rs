//! Logs the tokens that became dead letters.

use std::time::Instant;

use super::queue::DeliveriesQueue;
use crate::log::display::{NAMED, ids, listed, withheld};
use crate::queue::{BatchId, Nack};

/// A token that became a dead letter when its batch was settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadLetter {
    pub(super) batch: BatchId,
    pub(super) token: i64,
    pub(super) attempts: u32,
}

impl DeliveriesQueue {
    /// One line a batch of those that were just settled; the database has a record of each token.
    pub(super) fn log_dead_letters(&mut self, dead: &[DeadLetter]) {
        let nack = |dead: &DeadLetter| self.batches.nack(dead.batch, dead.token);
        let refused = dead.iter().filter(|dead| !matches!(nack(dead), Some(Nack::Dead { .. }))).count();
        self.activity.dead(dead.len(), refused);
        for dead in dead.chunk_by(|one, other| one.batch == other.batch) {
            let Some(others) = self.dead_letter_limiter.admit(Instant::now()) else { continue };
            let reason = |dead: &DeadLetter| {
                let reason = nack(dead).and_then(Nack::reason).unwrap_or_default();
                (dead.token, with_attempts(reason, dead.attempts))
            };
            let tokens: Vec<_> = dead.iter().map(reason).collect();
            tracing::warn!(
                event = "tokens_dead",
                reason = %listed(&tokens, NAMED),
                count = tokens.len(),
                ids = ?ids(&tokens, NAMED),
                attempts = dead.iter().map(|dead| dead.attempts).max(),
                put_back = put_back(&tokens),
                withheld = withheld(others),
                "tokens are given up and get no mail"
            );
        }
    }
}

fn with_attempts(reason: &str, attempts: u32) -> String {
    let plural = if attempts == 1 { "" } else { "s" };
    format!("{reason} (after {attempts} attempt{plural})")
}

/// The command that requeues them, while they can still be sent.
fn put_back<R>(tokens: &[(i64, R)]) -> String {
    if tokens.len() > NAMED {
        return "mailroom retry --all-dead".to_owned();
    }
    let ids: Vec<_> = tokens.iter().map(|(id, _)| id.to_string()).collect();
    format!("mailroom retry {}", ids.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_the_attempts_and_a_command_of_bounded_length() {
        assert_eq!(with_attempts("451 busy", 1), "451 busy (after 1 attempt)");
        assert_eq!(with_attempts("451 busy", 8), "451 busy (after 8 attempts)");
        let many: Vec<_> = (0..11).map(|id| (id, "")).collect();
        assert_eq!(put_back(&many[..10]), "mailroom retry 0 1 2 3 4 5 6 7 8 9");
        assert_eq!(put_back(&many), "mailroom retry --all-dead");
    }
}
