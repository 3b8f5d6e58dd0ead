//! The thread that serves metrics, and what it answers.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mailroom_connect::ConnectionSettings;
use mailroom_http::hyper::header::ORIGIN;
use mailroom_http::hyper::{Method, StatusCode};
use mailroom_http::{
    Answer, METRICS_LIMITS, Request, exposition, listen_for_metrics, not_allowed, only_get, plain,
    serve,
};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::Metrics;
use super::figures::Figures;
use super::values::Labelled;
use crate::config::Rate;
use crate::log::outage::OutageLog;
use crate::migrate::MIGRATIONS;

/// What the server needs.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) connection: ConnectionSettings,
    pub(crate) rate: Option<Rate>,
    /// How long a claim lasts without a heartbeat; `None` for a queue that needs none, of which the
    /// database has no figures either.
    pub(crate) lease: Option<Duration>,
    /// Counts calls, if the collector is woken by them.
    pub(crate) calls: Option<watch::Sender<u64>>,
}

/// What answers of all connections share.
struct Shared {
    metrics: Arc<Metrics>,
    figures: Figures,
    registry: Registry,
    ready: Gauge,
    resting: Gauge,
    lease: Option<Duration>,
    calls: Option<watch::Sender<u64>>,
}

impl Server {
    /// Serves until the process ends, on a thread of its own: the system gives it a processor when
    /// collecting needs none, and nothing here can stop collecting.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("metrics".to_owned());
        thread.spawn(move || runtime.block_on(self.serve())).map(drop)
    }

    async fn serve(self) {
        let Self { address, metrics, connection, rate, lease, calls } = self;
        let (figures, ready, resting) = (Figures::default(), Gauge::default(), Gauge::default());
        let mut registry = Registry::with_prefix("mailroom");
        metrics.register(&mut registry);
        if lease.is_some() {
            figures.register(&mut registry, rate);
        }
        let name = "1 while the collector collects, as /readyz says";
        registry.register("ready", name, ready.clone());
        let name = "1 while the collector has no session with the database, because nothing is due";
        registry.register("resting", name, resting.clone());
        let version = Gauge::<i64>::default();
        version.set(MIGRATIONS.last().map_or(0, |migration| migration.version));
        registry.register(
            "schema_version",
            "The newest migration that this program knows",
            version,
        );
        let build: Labelled<Gauge> = Family::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("build_info", "The version of this program, as a label", build);
        let shared = Arc::new(Shared { metrics, figures, registry, ready, resting, lease, calls });
        if lease.is_some() {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                shared.figures.keep(connection, rate, &shared.metrics.health).await;
            });
        }
        let mut outage = OutageLog::of("serving metrics");
        let listener = listen_for_metrics(address, |outcome| match outcome {
            Ok(address) => {
                outage.over(Instant::now());
                tracing::info!(event = "metrics_served", %address, "metrics are served");
            }
            Err(error) => outage.failed(&format!("{address}: {error}"), Instant::now()),
        });
        let answer = move |request: Request, reading| {
            // A request without a body has come whole.
            drop(reading);
            let answer = shared.answer(&request);
            async move { answer }
        };
        serve(listener.await, METRICS_LIMITS, std::future::pending(), answer).await;
    }
}

impl Shared {
    fn answer(&self, request: &Request) -> Answer {
        if let (Some(calls), "/wake") = (&self.calls, request.uri().path()) {
            return wake(calls, request);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return only_get();
        }
        let of_health = |trouble: Option<&'static str>| match trouble {
            None => plain(StatusCode::OK, "ok\n"),
            Some(trouble) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")),
        };
        match request.uri().path() {
            "/metrics" => {
                let trouble = self.metrics.health.trouble(self.lease);
                self.ready.set(i64::from(trouble.is_none()));
                self.resting.set(i64::from(self.metrics.health.is_resting()));
                exposition(&self.registry, request)
            }
            "/livez" => of_health(self.metrics.health.hung()),
            "/readyz" => of_health(self.metrics.health.trouble(self.lease)),
            _ => plain(StatusCode::NOT_FOUND, "there are /metrics, /livez and /readyz\n"),
        }
    }
}

/// Counts a call. It says nothing and has no answer but this, so that it needs no secret; who
/// reaches the address can have the database asked, and nothing else. A page in a browser of this
/// machine cannot: browsers name the page.
fn wake(calls: &watch::Sender<u64>, request: &Request) -> Answer {
    if request.method() != Method::POST {
        return not_allowed("POST", "only POST wakes\n");
    }
    if request.headers().contains_key(ORIGIN) || request.headers().contains_key("sec-fetch-site") {
        return plain(StatusCode::FORBIDDEN, "a page in a browser wakes nobody\n");
    }
    calls.send_modify(|count| *count += 1);
    plain(StatusCode::ACCEPTED, "ok\n")
}
