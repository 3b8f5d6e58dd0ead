//! The values that collecting writes, and their names.
//!
//! A label has a value of a list in this file, or the name of an action: no address, token or
//! reason.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::Health;
use crate::outcome::{Nack, SenderState};

pub(super) type Labelled<M> = Family<[(&'static str, &'static str); 1], M>;
pub(super) type Decimal = Gauge<f64, AtomicU64>;

/// States of a sender, as the column `state` of the table `mailroom.collectors` has them.
const SENDER_STATES: [&str; 6] = ["new", "unanswered", "ready", "failing", "open", "half_open"];

/// Bounds of histograms, in seconds: from what a good day has to what rings.
const DELAYS: [f64; 16] = [
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0,
    86_400.0,
];
const BATCHES: [f64; 11] =
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 10_000.0];

/// Makes an enum whose variants are all values of a label: each has a series from the start.
macro_rules! label {
    (
        $(#[$about:meta])* $Label:ident {
            $($(#[$means:meta])* $Value:ident => $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $Label {
            $($(#[$means])* $Value,)+
        }

        $(#[$about])*
        impl $Label {
            const NAMES: &'static [&'static str] = &[$($name),+];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$Value => $name,)+
                }
            }
        }
    };
}

label! {
    /// What a settlement says of a token.
    Settled {
        Sent => "sent",
        Retry => "retry",
        Failed => "failed",
        Unavailable => "unavailable",
        Untried => "untried",
        Unanswered => "unanswered",
        InDoubt => "in_doubt",
        HandedOver => "handed_over",
        Dead => "dead",
        UnknownAddress => "unknown_address",
    }
}

label! {
    /// What senders at a broker say of a mail.
    #[cfg_attr(not(feature = "relay"), expect(dead_code, reason = "nobody says it"))]
    BrokerVerdict {
        Sent => "sent",
        Dead => "dead",
        Expired => "expired",
        InDoubt => "in_doubt",
    }
}

label! {
    /// Why such a verdict changed nothing.
    #[cfg_attr(not(feature = "relay"), expect(dead_code, reason = "nobody says it"))]
    PassedOver {
        /// It was known, or a later one is.
        Repeated => "repeated",
        /// It has to come again.
        Early => "early",
        /// There is no such token any more.
        Unknown => "unknown",
        Unreadable => "unreadable",
    }
}

label! {
    /// Why a mail may go out twice.
    Cause {
        /// The database did not record at the end that it was sent.
        SettlementLost => "settlement_lost",
        /// Its lease ended while the sender had it: another collector sends it now.
        LeaseLapsed => "lease_lapsed",
        /// Nobody knows whether an attempt succeeded, and it is repeated.
        InDoubt => "in_doubt",
    }
}

label! {
    /// Why a token that was due did not go out.
    Skipped {
        Expired => "expired",
        Cancelled => "cancelled",
        Suppressed => "suppressed",
        /// It is looked at again, and counted each time.
        Ineligible => "ineligible",
        /// Likewise.
        Unsignable => "unsignable",
        /// It is a dead letter, which may have been delivered.
        ExpiredInDoubt => "expired_in_doubt",
    }
}

label! {
    /// Rows that are deleted by their age.
    Rows {
        Attempts => "attempts",
        DeadLetters => "dead_letters",
        Tokens => "tokens",
    }
}

/// What collecting counts and measures. To write a value never waits.
#[derive(Debug)]
pub struct Metrics {
    /// Whether the collector works.
    pub(crate) health: Health,
    claimed: Counter,
    settled: Labelled<Counter>,
    dead: Counter,
    skipped: Labelled<Counter>,
    duplicates: Labelled<Counter>,
    pruned: Labelled<Counter>,
    broker_verdicts: Labelled<Counter>,
    passed_over: Labelled<Counter>,
    opened: Counter,
    dropped_spans: Counter,
    batches: Histogram,
    claim_delay: Histogram,
    delivery_delay: Histogram,
    answer_time: Histogram,
    sender_state: Labelled<Gauge>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            health: Health::default(),
            claimed: Counter::default(),
            settled: Family::default(),
            dead: Counter::default(),
            skipped: Family::default(),
            duplicates: Family::default(),
            pruned: Family::default(),
            broker_verdicts: Family::default(),
            passed_over: Family::default(),
            opened: Counter::default(),
            dropped_spans: Counter::default(),
            batches: Histogram::new(BATCHES),
            claim_delay: Histogram::new(DELAYS),
            delivery_delay: Histogram::new(DELAYS),
            answer_time: Histogram::new(DELAYS),
            sender_state: Family::default(),
        };
        // A series that begins when it is first counted has no rate before.
        let begin = |family: &Labelled<Counter>, label, values: &[&'static str]| {
            for value in values {
                drop(family.get_or_create(&[(label, *value)]));
            }
        };
        begin(&metrics.settled, "verdict", Settled::NAMES);
        begin(&metrics.skipped, "reason", Skipped::NAMES);
        begin(&metrics.duplicates, "cause", Cause::NAMES);
        begin(&metrics.pruned, "rows", Rows::NAMES);
        begin(&metrics.broker_verdicts, "verdict", BrokerVerdict::NAMES);
        begin(&metrics.passed_over, "reason", PassedOver::NAMES);
        metrics
    }
}

impl Metrics {
    /// A batch was claimed whose tokens have been due for these times. In its first attempt a token
    /// was just enqueued; later ones have another history.
    pub(crate) fn claimed(&self, tokens: usize, first_delays: impl Iterator<Item = Duration>) {
        self.claimed.inc_by(number(tokens));
        let size = u32::try_from(tokens).unwrap_or(u32::MAX);
        self.batches.observe(f64::from(size));
        first_delays.for_each(|delay| self.claim_delay.observe(delay.as_secs_f64()));
    }

    /// A batch was settled.
    pub(crate) fn settled(&self, tokens: usize, nacks: &[(i64, Nack)]) {
        let count = |verdict: Settled, count| {
            self.settled.get_or_create(&[("verdict", verdict.name())]).inc_by(number(count));
        };
        count(Settled::Sent, tokens.saturating_sub(nacks.len()));
        for (_, nack) in nacks {
            count(Settled::of(nack), 1);
            if let Nack::InDoubt { .. } = nack {
                self.may_come_twice(Cause::InDoubt, 1);
            }
        }
    }

    /// What this process has done, as JSON for the list of runs.
    pub(crate) fn counts(&self) -> String {
        let settled = |verdicts: &[Settled]| -> u64 {
            let count = |verdict: &Settled| {
                self.settled.get_or_create(&[("verdict", verdict.name())]).get()
            };
            verdicts.iter().map(count).sum()
        };
        let expired = Skipped::Expired.name();
        let expired = self.skipped.get_or_create(&[("reason", expired)]).get();
        serde_json::json!({
            "claimed": self.claimed.get(),
            "sent": settled(&[Settled::Sent]),
            "retried": settled(&[Settled::Retry, Settled::Failed]),
            "returned": settled(&[Settled::Unavailable, Settled::Untried, Settled::Unanswered]),
            "in_doubt": settled(&[Settled::InDoubt]),
            "handed_over": settled(&[Settled::HandedOver]),
            "dead": self.dead.get(),
            "expired": expired,
        })
        .to_string()
    }

    /// A token was sent so long after it was due.
    pub(crate) fn sent_after(&self, delay: Duration) {
        self.delivery_delay.observe(delay.as_secs_f64());
    }

    /// The reader of standard output, or the sender, has answered for a batch.
    pub(crate) fn answered(&self, after: Duration) {
        self.answer_time.observe(after.as_secs_f64());
    }

    /// Tokens became dead letters.
    pub(crate) fn dead(&self, tokens: usize) {
        self.dead.inc_by(number(tokens));
    }

    /// Tokens did not go out though they were due.
    pub(crate) fn skipped(&self, reason: Skipped, tokens: usize) {
        self.skipped.get_or_create(&[("reason", reason.name())]).inc_by(number(tokens));
    }

    /// Mails may go out a second time.
    pub(crate) fn may_come_twice(&self, cause: Cause, tokens: usize) {
        self.duplicates.get_or_create(&[("cause", cause.name())]).inc_by(number(tokens));
    }

    /// Rows were deleted by their age.
    pub(crate) fn pruned(&self, rows: Rows, count: i64) {
        let count = u64::try_from(count).unwrap_or_default();
        self.pruned.get_or_create(&[("rows", rows.name())]).inc_by(count);
    }

    /// A verdict of a sender at a broker was recorded.
    #[cfg(feature = "relay")]
    pub(crate) fn verdict_applied(&self, verdict: BrokerVerdict) {
        self.broker_verdicts.get_or_create(&[("verdict", verdict.name())]).inc();
        if matches!(verdict, BrokerVerdict::InDoubt) {
            self.may_come_twice(Cause::InDoubt, 1);
        }
    }

    /// Such verdicts changed nothing.
    #[cfg(feature = "relay")]
    pub(crate) fn verdicts_passed_over(&self, reason: PassedOver, count: usize) {
        self.passed_over.get_or_create(&[("reason", reason.name())]).inc_by(number(count));
    }

    /// The queue was opened, at the start or again.
    pub(crate) fn opened(&self) {
        self.opened.inc();
    }

    /// Spans of traces were dropped.
    pub(crate) fn spans_dropped(&self, spans: usize) {
        self.dropped_spans.inc_by(number(spans));
    }

    /// The sender has this state now.
    pub(crate) fn sender(&self, state: &SenderState) {
        for name in SENDER_STATES {
            let is_now = i64::from(name == state.name);
            self.sender_state.get_or_create(&[("state", name)]).set(is_now);
        }
    }

    /// Whether the sender is known not to work, so that mails wait.
    pub(crate) fn is_sender_unavailable(&self) -> bool {
        SenderState::UNAVAILABLE
            .iter()
            .any(|name| self.sender_state.get_or_create(&[("state", name)]).get() == 1)
    }

    /// Names all values. `_total` and the unit are added as the formats want it.
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "claimed_tokens",
            "Tokens that this collector claimed",
            self.claimed.clone(),
        );
        registry.register(
            "settled_tokens",
            "Tokens whose attempt ended, by what the sender said of it",
            self.settled.clone(),
        );
        registry.register("dead_letters", "Tokens that were given up", self.dead.clone());
        registry.register(
            "skipped_tokens",
            "Tokens that were due and did not go out, by reason",
            self.skipped.clone(),
        );
        registry.register(
            "possible_duplicates",
            "Mails that may go out a second time, by cause",
            self.duplicates.clone(),
        );
        registry.register(
            "pruned_rows",
            "Rows that were deleted by their age",
            self.pruned.clone(),
        );
        registry.register(
            "dropped_spans",
            "Spans of traces that were dropped because the receiver did not take them",
            self.dropped_spans.clone(),
        );
        registry.register(
            "broker_verdicts",
            "Verdicts of senders at a broker that were recorded, by what they say",
            self.broker_verdicts.clone(),
        );
        registry.register(
            "broker_verdicts_passed_over",
            "Verdicts of senders at a broker that changed nothing, by reason",
            self.passed_over.clone(),
        );
        registry.register(
            "queue_openings",
            "How often the queue was opened: once at the start, then after lost connections",
            self.opened.clone(),
        );
        registry.register("batch_tokens", "Tokens of a claimed batch", self.batches.clone());
        registry.register_with_unit(
            "claim_delay",
            "How long a token had been due when it was claimed for the first time",
            Unit::Seconds,
            self.claim_delay.clone(),
        );
        registry.register_with_unit(
            "delivery_delay",
            "How long a token had been due when it was sent",
            Unit::Seconds,
            self.delivery_delay.clone(),
        );
        registry.register_with_unit(
            "answer",
            "How long the sender, or the reader of standard output, had a batch",
            Unit::Seconds,
            self.answer_time.clone(),
        );
        registry.register(
            "sender_state",
            "1 for the state in which the sender is; open and half_open are the circuit's",
            self.sender_state.clone(),
        );
    }
}

impl Settled {
    fn of(nack: &Nack) -> Self {
        match nack {
            Nack::Retry { .. } => Self::Retry,
            Nack::Failed { .. } => Self::Failed,
            Nack::Unavailable { .. } => Self::Unavailable,
            Nack::Untried { .. } => Self::Untried,
            Nack::Unanswered => Self::Unanswered,
            Nack::InDoubt { .. } => Self::InDoubt,
            Nack::HandedOver => Self::HandedOver,
            Nack::Dead { .. } => Self::Dead,
            Nack::UnknownAddress { .. } => Self::UnknownAddress,
        }
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
