//! What all threads share: providers, their queues, the journal and the metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::journal::Journal;
use crate::lane::Lane;
use crate::metrics::{self, Metrics};
use crate::provider::Provider;
use crate::rate::Domains;

/// What all threads share.
pub(crate) struct Shared {
    /// The first provider, and then the fallback.
    pub(crate) providers: Vec<Box<dyn Provider>>,
    /// Their queues.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) journal: Journal,
    pub(crate) metrics: Metrics,
}

impl Shared {
    pub(crate) fn new(
        providers: Vec<Box<dyn Provider>>,
        domains: Domains,
        journal: Journal,
    ) -> Arc<Self> {
        let domains = Arc::new(domains);
        let has_other = providers.len() > 1;
        let lanes = providers.iter().map(|provider| {
            Lane::new(provider.rate(), provider.connections(), Arc::clone(&domains), has_other)
        });
        let lanes = lanes.collect();
        let metrics = Metrics::of(&providers);
        Arc::new(Self { providers, lanes, journal, metrics })
    }

    /// Serves the metrics at an address.
    pub(crate) fn serve_metrics(self: &Arc<Self>, address: SocketAddr) {
        let asked = Arc::clone(self);
        metrics::serve(address, self.metrics.registry(), move || asked.refresh_metrics());
    }

    /// Reads how long queues are and how providers do.
    fn refresh_metrics(&self) {
        for (provider, lane) in self.providers.iter().zip(&self.lanes) {
            self.metrics.set(provider.name(), &lane.figures());
        }
    }
}
