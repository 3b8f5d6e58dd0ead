//! What is logged of a sender's answers.

use std::time::Instant;

use mailroom_pace::withheld;

use super::Sender;
use crate::log::display::{NAMED, ids, listed, traceparents_of};
use crate::queue::{BatchId, Nack};
use crate::sink::Ack;

impl Sender {
    /// Logs that the whole line, or its verdicts on `count` tokens, are ignored.
    pub(super) fn log_ignored(
        &mut self,
        reason: &str,
        batch: Option<BatchId>,
        count: Option<usize>,
        now: Instant,
    ) {
        if let Some(others) = self.ignored_answers.admit(now) {
            tracing::warn!(
                event = "answer_ignored",
                reason = %reason,
                batch = batch.map(tracing::field::display),
                count,
                withheld = withheld(others),
                "what the sender answers is ignored"
            );
        }
    }

    /// Logs the tokens that were not sent. Dead letters are logged by the queue, which decides on
    /// them.
    pub(super) fn log_unsent(&mut self, ack: &Ack, now: Instant) {
        let refused = reasons(ack, |nack| matches!(nack, Nack::Retry { .. }));
        if !refused.is_empty()
            && let Some(others) = self.refused_tokens.admit(now)
        {
            tracing::info!(
                event = "tokens_refused",
                reason = %listed(&refused, NAMED),
                count = refused.len(),
                ids = ?ids(&refused, NAMED),
                traceparents = traceparents_of(&refused, &ack.traces),
                withheld = withheld(others),
                "the sender wants to try tokens again"
            );
        }
        let untried = reasons(ack, |nack| matches!(nack, Nack::Untried { .. }));
        if !untried.is_empty()
            && let Some(others) = self.untried_tokens.admit(now)
        {
            tracing::info!(
                event = "tokens_untried",
                reason = %listed(&untried, NAMED),
                count = untried.len(),
                ids = ?ids(&untried, NAMED),
                traceparents = traceparents_of(&untried, &ack.traces),
                withheld = withheld(others),
                "the sender has not tried tokens, and gives them back"
            );
        }
        let doubtful = reasons(ack, |nack| matches!(nack, Nack::InDoubt { .. }));
        if !doubtful.is_empty()
            && let Some(others) = self.doubtful_tokens.admit(now)
        {
            tracing::warn!(
                event = "tokens_in_doubt",
                reason = %listed(&doubtful, NAMED),
                count = doubtful.len(),
                ids = ?ids(&doubtful, NAMED),
                traceparents = traceparents_of(&doubtful, &ack.traces),
                withheld = withheld(others),
                "nobody knows whether the provider accepted mails"
            );
        }
    }
}

/// The tokens with verdicts of a kind, and the reasons.
fn reasons(ack: &Ack, is_wanted: impl Fn(&Nack) -> bool) -> Vec<(i64, &str)> {
    let nacks = ack.nacks.iter().filter(|(_, nack)| is_wanted(nack));
    nacks.filter_map(|(id, nack)| Some((*id, nack.reason()?))).collect()
}
