//! Logs, and counts, what a claim found that does not go out.

use std::time::Instant;

use mailroom_pace::{LogLimit, withheld};

use super::actions::SignableActions;
use super::claimed::Claimed;
use crate::config::Rate;
use crate::queue::activity::Activity;

#[derive(Debug)]
pub(super) struct ClaimLog {
    rate: Option<Rate>,
    /// The last rate at which others claimed, in tokens a day.
    other_rate: Option<i64>,
    /// Whether nothing was left of the month's budget at the last claim.
    is_spent: bool,
    deferral_limit: LogLimit,
}

impl ClaimLog {
    /// Of a collector that claims at this rate.
    pub(super) fn new(rate: Option<Rate>) -> Self {
        Self { rate, other_rate: None, is_spent: false, deferral_limit: LogLimit::default() }
    }

    pub(super) fn report(
        &mut self,
        claimed: &Claimed,
        actions: &SignableActions,
        activity: &mut Activity,
    ) {
        if let (Some(rate), Some(other)) = (self.rate, claimed.other_rate)
            && self.other_rate.replace(other) != Some(other)
        {
            tracing::warn!(
                event = "rates_differ",
                %rate,
                other_rate = format!("{other}/d"),
                "the queue was last claimed from at another rate; of different ones the highest \
                 counts: give all collectors the same"
            );
        }
        let is_spent = claimed.budget_left == Some(0);
        if is_spent && !self.is_spent {
            tracing::warn!(
                event = "budget_spent",
                rate = %self.rate.map(|rate| rate.to_string()).unwrap_or_default(),
                "nothing is left of the month's budget of MAILROOM_RATE: mails wait until the next \
                 month begins (UTC), or the budget is raised, and may expire meanwhile"
            );
        } else if self.is_spent && !is_spent {
            tracing::info!(event = "budget_left", "the budget allows mails again");
        }
        self.is_spent = is_spent;
        activity.expired += claimed.expired;
        for (reason, count) in [
            ("expired", claimed.expired),
            ("expired_in_doubt", claimed.dead_in_doubt),
            ("cancelled", claimed.cancelled),
            ("ineligible", claimed.deferred),
            ("unsignable", claimed.unsignable),
            ("suppressed", claimed.suppressed),
        ] {
            activity.metrics.skipped(reason, count);
        }
        if claimed.expired > 0 {
            let (reason, ids) = claimed.reasons("expired");
            tracing::warn!(
                event = "tokens_expired",
                %reason,
                count = claimed.expired,
                ?ids,
                "tokens expired before they could be sent"
            );
        }
        activity.dead(claimed.suppressed + claimed.dead_in_doubt, 0);
        if claimed.dead_in_doubt > 0 {
            let reason = "they expired after an attempt in doubt, and may have been delivered";
            tracing::warn!(
                event = "tokens_dead",
                reason,
                count = claimed.dead_in_doubt,
                "tokens are given up"
            );
        }
        let cancelled = "tokens were used, cancelled or deleted before they could be sent, or have \
                         another address than their subject";
        let deferred = "tokens wait until their subject is eligible";
        let suppressed = "tokens are given up because their address is suppressed";
        for (count, verdict, event, message) in [
            (claimed.cancelled, "cancelled", "tokens_cancelled", cancelled),
            (claimed.deferred, "ineligible", "tokens_deferred", deferred),
            (claimed.suppressed, "suppressed", "tokens_suppressed", suppressed),
        ] {
            if count > 0 {
                let (reason, ids) = claimed.reasons(verdict);
                tracing::info!(event, %reason, count, ?ids, "{message}");
            }
        }
        let admit = || self.deferral_limit.admit(Instant::now()).map(withheld);
        for (reason, count, ids) in claimed.alike("unsignable") {
            if let Some(withheld) = admit() {
                let reason = format!("{reason}, but {}", actions.what_helps());
                tracing::warn!(
                    event = "tokens_unsignable",
                    %reason,
                    count,
                    ?ids,
                    withheld,
                    "tokens wait because this collector cannot sign them"
                );
            }
        }
        // Of subjects who are just not eligible there is no reason.
        let faults = claimed.alike("ineligible").filter(|(reason, ..)| !reason.is_empty());
        for (reason, count, ids) in faults {
            if let Some(withheld) = admit() {
                tracing::warn!(
                    event = "eligibility_failed",
                    %reason,
                    count,
                    ?ids,
                    withheld,
                    "tokens wait because a predicate of eligibility fails"
                );
            }
        }
    }
}
