//! Says which tokens were given up.

use std::time::Instant;

use super::DeliveriesQueue;
use super::wire::BatchName;
use crate::complaints::{NAMED, ids, listed, withheld};
use crate::queue::Exception;

impl DeliveriesQueue {
    /// One line a batch of those that were just settled; the database has it of each token.
    pub(super) fn tell_given_up(&mut self, tokens: &[(BatchName, i64, u32)]) {
        let is_verdict = |(batch, id, _): &&(BatchName, i64, u32)| {
            let settlements = self.settling.iter().filter(|(name, _)| name == batch);
            let mut exceptions = settlements.flat_map(|(_, settlement)| &settlement.exceptions);
            exceptions.any(|(token, exception)| token == id && matches!(exception, Exception::Dead { .. }))
        };
        let verdicts = tokens.iter().filter(is_verdict).count();
        self.activity.given_up(tokens.len(), tokens.len() - verdicts);
        for tokens in tokens.chunk_by(|(one, ..), (other, ..)| one == other) {
            let Some(others) = self.complaints.admit(Instant::now()) else { continue };
            let settlement =
                self.settling.iter().find(|(name, _)| tokens.iter().any(|(batch, ..)| batch == name));
            let exceptions = settlement.map_or(&[][..], |(_, settlement)| &settlement.exceptions);
            let reason = |id: i64| {
                let exception = exceptions.iter().find(|(token, _)| *token == id);
                exception.and_then(|(_, exception)| exception.reason()).unwrap_or_default()
            };
            let given_up: Vec<_> =
                tokens.iter().map(|(_, id, attempts)| (*id, told(reason(*id), *attempts))).collect();
            tracing::warn!(
                event = "tokens_dead",
                reason = %listed(&given_up, NAMED),
                count = given_up.len(),
                ids = ?ids(&given_up, NAMED),
                attempts = tokens.iter().map(|(.., attempts)| *attempts).max(),
                put_back = put_back(&given_up),
                withheld = withheld(others),
                "tokens are given up and get no mail"
            );
        }
    }
}

fn told(reason: &str, attempts: u32) -> String {
    let plural = if attempts == 1 { "" } else { "s" };
    format!("{reason} (after {attempts} attempt{plural})")
}

/// The command that puts them back, while they can still be sent.
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
        assert_eq!(told("451 busy", 1), "451 busy (after 1 attempt)");
        assert_eq!(told("451 busy", 8), "451 busy (after 8 attempts)");
        assert_eq!(put_back(&[(4, ""), (7, "")]), "mailroom retry 4 7");
        let many: Vec<_> = (0..11).map(|id| (id, "")).collect();
        assert_eq!(put_back(&many[..10]), "mailroom retry 0 1 2 3 4 5 6 7 8 9");
        assert_eq!(put_back(&many), "mailroom retry --all-dead");
    }
}
