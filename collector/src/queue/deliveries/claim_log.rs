//! Logs, and counts, what a claim found that does not go out.

use std::time::Instant;

use mailroom_pace::{LogLimit, withheld};

use super::actions::SignableActions;
use super::claimed::Claimed;
use crate::config::Rate;
use crate::log::display::some_traceparents;
use crate::metrics::Skipped;
use crate::queue::activity::Activity;

#[derive(Debug)]
pub(super) struct ClaimLog {
    rate: Option<Rate>,
    /// The last rate at which others claimed, in tokens a day.
    other_rate: Option<i64>,
    /// The last budget with which others claimed, in tokens a month; 0 for none.
    other_budget: Option<i64>,
    /// Whether this one has claimed with its budget before. Where nobody had one until then, it
    /// differs from none.
    has_claimed: bool,
    /// Whether nothing was left of the month's budget at the last claim.
    is_spent: bool,
    deferral_limit: LogLimit,
}

impl ClaimLog {
    /// Of a collector that claims at this rate.
    pub(super) fn new(rate: Option<Rate>) -> Self {
        Self {
            rate,
            other_rate: None,
            other_budget: None,
            has_claimed: false,
            is_spent: false,
            deferral_limit: LogLimit::default(),
        }
    }

    /// Warns of collectors that claim at another rate or with another budget, once for each.
    fn compare_limits(&mut self, claimed: &Claimed) {
        let Some(rate) = self.rate else { return };
        let is_first = !std::mem::replace(&mut self.has_claimed, true);
        let other_rate = claimed.other_rate.filter(|other| self.other_rate != Some(*other));
        let other_budget = claimed
            .other_budget
            .filter(|other| self.other_budget != Some(*other) && !(is_first && *other == 0));
        self.other_rate = other_rate.or(self.other_rate);
        self.other_budget = other_budget.or(self.other_budget);
        let others = [
            other_rate.map(|other| format!("{other}/d")),
            other_budget.map(|other| match other {
                0 => "no budget".to_owned(),
                other => format!("{other}/month"),
            }),
        ];
        for other in others.into_iter().flatten() {
            tracing::warn!(
                event = "rates_differ",
                %rate,
                other_rate = other,
                "the queue was last claimed from at another rate; of different ones the highest \
                 counts: give all collectors the same"
            );
        }
    }

    pub(super) fn report(
        &mut self,
        claimed: &Claimed,
        actions: &SignableActions,
        activity: &mut Activity,
    ) {
        self.compare_limits(claimed);
        self.compare_budget(claimed);
        count(claimed, activity);
        report_ended(claimed);
        self.report_deferred(claimed, actions);
    }

    /// Says once that the month's budget is spent, and once that it allows mails again.
    fn compare_budget(&mut self, claimed: &Claimed) {
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
    }

    /// Warns of tokens that wait though their subject may be eligible, at most so often.
    fn report_deferred(&self, claimed: &Claimed, actions: &SignableActions) {
        let admit = || self.deferral_limit.admit(Instant::now()).map(withheld);
        for (reason, count, ids, traces) in claimed.alike("unsignable") {
            if let Some(withheld) = admit() {
                let reason = format!("{reason}, but {}", actions.what_helps());
                tracing::warn!(
                    event = "tokens_unsignable",
                    %reason,
                    count,
                    ?ids,
                    traceparents = some_traceparents(traces),
                    withheld,
                    "tokens wait because this collector cannot sign them"
                );
            }
        }
        // Of subjects who are just not eligible there is no reason.
        let faults = claimed.alike("ineligible").filter(|(reason, ..)| !reason.is_empty());
        for (reason, count, ids, traces) in faults {
            if let Some(withheld) = admit() {
                tracing::warn!(
                    event = "eligibility_failed",
                    %reason,
                    count,
                    ?ids,
                    traceparents = some_traceparents(traces),
                    withheld,
                    "tokens wait because a predicate of eligibility fails"
                );
            }
        }
    }
}

/// Counts what was found.
fn count(claimed: &Claimed, activity: &mut Activity) {
    activity.expired += claimed.expired;
    for (reason, count) in [
        (Skipped::Expired, claimed.expired),
        (Skipped::ExpiredInDoubt, claimed.dead_in_doubt),
        (Skipped::Cancelled, claimed.cancelled),
        (Skipped::Ineligible, claimed.deferred),
        (Skipped::Unsignable, claimed.unsignable),
        (Skipped::Suppressed, claimed.suppressed),
    ] {
        activity.metrics.skipped(reason, count);
    }
    activity.dead(claimed.suppressed + claimed.dead_in_doubt, 0);
}

/// Logs the tokens that will not go out any more, or not before their subject is eligible.
fn report_ended(claimed: &Claimed) {
    if claimed.expired > 0 {
        let (reason, ids) = claimed.reasons("expired");
        tracing::warn!(
            event = "tokens_expired",
            %reason,
            count = claimed.expired,
            ?ids,
            traceparents = some_traceparents(claimed.traces("expired")),
            "tokens expired before they could be sent"
        );
    }
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
            let traceparents = some_traceparents(claimed.traces(verdict));
            tracing::info!(event, %reason, count, ?ids, traceparents, "{message}");
        }
    }
}
