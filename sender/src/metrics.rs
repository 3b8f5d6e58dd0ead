//! What became of the mails that providers were given, and how the providers do.
//!
//! Threads that send count; how long queues are and how providers do is read when somebody asks.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::lane::Figures;
use crate::provider::{About, Provider, Refusal, Verdict};
use crate::standard_error::report;

/// The verdicts on an attempt.
const VERDICTS: [&str; 9] = [
    "sent",
    "retry",
    "postponed",
    "suspected",
    "in_doubt",
    "overloaded",
    "unavailable",
    "dead",
    "unknown_address",
];

/// Bounds of histograms, in seconds: the longest answers take ten minutes.
const TIMES: [f64; 13] =
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];

type Labels<const COUNT: usize> = [(&'static str, &'static str); COUNT];

/// Counts and times since the start, by provider. To write a value never waits.
#[derive(Debug)]
pub(crate) struct Metrics {
    attempts: Family<Labels<2>, Counter>,
    answers: Family<Labels<1>, Histogram, fn() -> Histogram>,
    connections: Family<Labels<1>, Gauge>,
    mails: Family<Labels<2>, Gauge>,
    state: Family<Labels<2>, Gauge>,
    reasons: Family<Labels<2>, Gauge>,
}

impl Metrics {
    /// Begins at zero for each provider: a series that begins when it is first counted has no rate
    /// before.
    pub(crate) fn of(providers: &[Box<dyn Provider>]) -> Self {
        let metrics = Self {
            attempts: Family::default(),
            answers: Family::new_with_constructor(|| Histogram::new(TIMES)),
            connections: Family::default(),
            mails: Family::default(),
            state: Family::default(),
            reasons: Family::default(),
        };
        for provider in providers {
            for verdict in VERDICTS {
                let labels = [("provider", provider.name()), ("verdict", verdict)];
                drop(metrics.attempts.get_or_create(&labels));
            }
            drop(metrics.answers.get_or_create(&[("provider", provider.name())]));
        }
        metrics
    }

    /// An attempt by a provider took so long and ended so.
    pub(crate) fn attempted(&self, provider: &'static str, verdict: &Verdict, took: Duration) {
        let labels = [("provider", provider), ("verdict", name_of(verdict))];
        self.attempts.get_or_create(&labels).inc();
        self.answers.get_or_create(&[("provider", provider)]).observe(took.as_secs_f64());
    }

    /// A thread has a connection to a provider as long as what is returned exists.
    pub(crate) fn connection(&self, provider: &'static str) -> Connection {
        let gauge = self.connections.get_or_create_owned(&[("provider", provider)]);
        gauge.inc();
        Connection(gauge)
    }

    pub(crate) fn set(&self, provider: &'static str, figures: &Figures) {
        let set = |family: &Family<Labels<2>, Gauge>, state, value: usize| {
            let labels = [("provider", provider), ("state", state)];
            family.get_or_create(&labels).set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        set(&self.mails, "waiting", figures.waiting);
        set(&self.mails, "under_way", figures.under_way);
        set(&self.mails, "unanswered", figures.unanswered);
        for (state, is_now) in figures.health {
            set(&self.state, state, usize::from(is_now));
        }
        set(&self.reasons, "watched", figures.watched);
        set(&self.reasons, "open", figures.open);
    }

    pub(crate) fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("mailroom_send");
        registry.register(
            "attempts",
            "Mails that a provider was given, by what became of them",
            self.attempts.clone(),
        );
        registry.register_with_unit(
            "answer",
            "How long an attempt took, with its connection where there was none yet",
            Unit::Seconds,
            self.answers.clone(),
        );
        registry.register(
            "connections",
            "Threads that send, each of which has at most one connection",
            self.connections.clone(),
        );
        registry.register(
            "mails",
            "Mails of a provider that wait for their turn, are under way before their content has \
             gone out, or wait for the answer to it and are in doubt until then",
            self.mails.clone(),
        );
        registry.register("provider_state", "1 for how a provider does", self.state.clone());
        registry.register(
            "refusal_reasons",
            "Reasons of refusals that are watched because they may be our own fault, and those of \
             them that seem to be (open)",
            self.reasons.clone(),
        );
        registry
    }
}

/// The connection of a thread.
#[derive(Debug)]
pub(crate) struct Connection(Gauge);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Serves metrics, which `refresh` brings up to date before each answer. An address that cannot be
/// had is no reason to send no mail.
pub(crate) fn serve(
    address: SocketAddr,
    registry: Registry,
    refresh: impl Fn() + Send + Sync + 'static,
) {
    let say = move |outcome: io::Result<SocketAddr>| match outcome {
        Ok(address) => report(&format!("metrics are served at http://{address}/metrics")),
        Err(error) => report(&format!(
            "metrics are not served at {address} yet, and it is tried again: {error}"
        )),
    };
    if let Err(error) = mailroom_http::serve_metrics(address, registry, refresh, say) {
        report(&format!("metrics are not served: {error}"));
    }
}

fn name_of(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Sent(_) => "sent",
        Verdict::Retry { .. } => "retry",
        Verdict::Postponed { .. } => "postponed",
        Verdict::Suspected { .. } => "suspected",
        Verdict::InDoubt { .. } => "in_doubt",
        Verdict::Overloaded { .. } => "overloaded",
        Verdict::Unavailable { .. } => "unavailable",
        Verdict::Dead(Refusal { about: About::Recipient { is_unknown: true }, .. }) => {
            "unknown_address"
        }
        Verdict::Dead(_) => "dead",
    }
}
