//! How many notifications came, by provider and verdict, and what they reported.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::notice::{Notice, Reason};

/// What becomes of a notification.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    /// It reported addresses, which are suppressed now.
    Taken,
    /// It reported nothing that suppresses an address.
    Ignored,
    Unproven,
    Unreadable,
    Unavailable,
}

impl Verdict {
    const ALL: [Self; 5] =
        [Self::Taken, Self::Ignored, Self::Unproven, Self::Unreadable, Self::Unavailable];

    fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Ignored => "ignored",
            Self::Unproven => "unproven",
            Self::Unreadable => "unreadable",
            Self::Unavailable => "unavailable",
        }
    }
}

type Counts<const LABELS: usize> = Family<[(&'static str, &'static str); LABELS], Counter>;

/// Counts, of providers that are configured: what a client names else is not counted.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    notifications: Counts<2>,
    reported: Counts<2>,
    suppressed: Counts<1>,
}

impl Metrics {
    /// Begins at zero for each of these providers: a series that begins when it is first counted
    /// has no rate before.
    pub(crate) fn of(providers: impl Iterator<Item = &'static str>) -> Self {
        let metrics = Self::default();
        for provider in providers {
            for verdict in Verdict::ALL {
                metrics.count(provider, verdict, 0);
            }
            for reason in [Reason::Bounce, Reason::Complaint] {
                metrics.report(provider, reason, 0);
            }
            metrics.suppress(provider, 0);
        }
        metrics
    }

    /// A notification of a provider was written, after which so many addresses are suppressed that
    /// were not before.
    pub(crate) fn took(&self, provider: &'static str, notices: &[Notice], suppressed: usize) {
        let verdict = if notices.is_empty() { Verdict::Ignored } else { Verdict::Taken };
        self.count(provider, verdict, 1);
        for notice in notices {
            // It has all forms in which accounts may write the address.
            self.report(provider, notice.reason, 1);
        }
        self.suppress(provider, suppressed);
    }

    /// A notification of a provider was refused.
    pub(crate) fn refused(&self, provider: &'static str, verdict: Verdict) {
        self.count(provider, verdict, 1);
    }

    fn count(&self, provider: &'static str, verdict: Verdict, count: u64) {
        let labels = [("provider", provider), ("verdict", verdict.name())];
        self.notifications.get_or_create(&labels).inc_by(count);
    }

    fn report(&self, provider: &'static str, reason: Reason, count: u64) {
        let labels = [("provider", provider), ("reason", reason.name())];
        self.reported.get_or_create(&labels).inc_by(count);
    }

    fn suppress(&self, provider: &'static str, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.suppressed.get_or_create(&[("provider", provider)]).inc_by(count);
    }

    /// The values with their names.
    pub(crate) fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("mailroom_bounces");
        registry.register(
            "notifications",
            "Notifications, by provider and what became of them",
            self.notifications.clone(),
        );
        registry.register(
            "reported_addresses",
            "Addresses that were reported, by provider and reason, each time",
            self.reported.clone(),
        );
        registry.register(
            "suppressed_addresses",
            "Addresses that notifications suppressed and that were not before, by provider",
            self.suppressed.clone(),
        );
        registry
    }
}
