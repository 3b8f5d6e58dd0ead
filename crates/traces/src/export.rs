//! A thread that exports spans by OTLP, and the queue before it.

use std::env;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use opentelemetry::trace::{
    Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    IdGenerator, RandomIdGenerator, SpanData, SpanEvents, SpanExporter as _, SpanLinks,
};

use crate::client::{Client, Fault, PATIENCE};
use crate::{Context, Kind, Span, Traceparent};

/// How many spans wait at most: a few megabytes, and tens of them where batches are large and each
/// mail has a trace of its own.
const QUEUE: usize = 4_096;

/// How many spans one request has at most, and how long a span waits for others.
const BATCH: usize = 512;
const PAUSE: Duration = Duration::from_secs(1);

/// How long nothing is exported after a failure. What comes meanwhile waits in the queue.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// How often it is said that spans are dropped.
const LOG_PAUSE: Duration = Duration::from_secs(60);

/// That of all crates and of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Told how many spans were dropped.
pub(crate) type CountDropped = Box<dyn Fn(usize) + Send + Sync>;

pub(crate) struct Exporter {
    queue: Mutex<Option<SyncSender<SpanData>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    dropped: Arc<Dropped>,
    ids: RandomIdGenerator,
    scope: InstrumentationScope,
}

impl fmt::Debug for Exporter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Exporter").finish_non_exhaustive()
    }
}

/// Counts what is dropped, and says so now and then.
struct Dropped {
    count: CountDropped,
    unsaid: Mutex<(usize, Option<Instant>)>,
    is_ending: AtomicBool,
}

impl Dropped {
    fn add(&self, spans: usize, reason: &str) {
        (self.count)(spans);
        let mut unsaid = self.unsaid.lock().unwrap_or_else(PoisonError::into_inner);
        unsaid.0 += spans;
        let now = Instant::now();
        if unsaid.1.is_none_or(|said| now >= said + LOG_PAUSE) {
            tracing::warn!(
                event = "spans_dropped",
                reason,
                count = unsaid.0,
                "spans of traces are dropped: the receiver of OTLP does not take them"
            );
            *unsaid = (0, Some(now));
        }
    }
}

impl Exporter {
    /// `None` unless the environment names a receiver.
    pub(crate) fn of_environment(count: CountDropped) -> Result<Option<Self>, String> {
        let is = |name: &str, value: &str| env::var(name).is_ok_and(|set| set == value);
        let names = ENDPOINTS.iter().find(|name| env::var(name).is_ok_and(|set| !set.is_empty()));
        let Some(name) = names else { return Ok(None) };
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let fault = Fault::default();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Client::new(Arc::clone(&fault)))
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(PATIENCE)
            .build()
            // The error may repeat a password of the address.
            .map_err(|_| format!("{name}, or another variable of OTLP, has an invalid value"))?;
        let (sender, receiver) = sync_channel(QUEUE);
        let dropped = Arc::new(Dropped {
            count,
            unsaid: Mutex::default(),
            is_ending: AtomicBool::new(false),
        });
        let worker = Worker { exporter, fault, dropped: Arc::clone(&dropped) };
        let thread = thread::Builder::new()
            .name("traces".to_owned())
            .spawn(move || worker.run(&receiver))
            .map_err(|error| format!("a thread for traces cannot be started: {error}"))?;
        Ok(Some(Self {
            queue: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
            dropped,
            ids: RandomIdGenerator::default(),
            scope: InstrumentationScope::builder("mailroom").with_version(VERSION).build(),
        }))
    }

    pub(crate) fn begin(&self, traces: &[(i64, Traceparent)], span: Span) -> Option<Context> {
        let sampled = traces.iter().find(|(_, trace)| trace.is_sampled())?.1;
        let is_one = traces.iter().all(|(_, trace)| *trace == sampled);
        let (trace, parent) = if is_one {
            let of_caller = context_of(&sampled);
            (of_caller.trace_id(), of_caller.span_id())
        } else {
            (self.ids.new_trace_id(), SpanId::INVALID)
        };
        let own = self.ids.new_span_id();
        self.send(trace, own, parent, is_one, span);
        Some(Context { trace: trace.to_bytes(), span: own.to_bytes() })
    }

    pub(crate) fn record(&self, context: Context, span: Span) {
        let (trace, parent) =
            (TraceId::from_bytes(context.trace), SpanId::from_bytes(context.span));
        self.send(trace, self.ids.new_span_id(), parent, false, span);
    }

    /// Never waits.
    fn send(&self, trace: TraceId, own: SpanId, parent: SpanId, is_remote: bool, span: Span) {
        let mut attributes: Vec<_> =
            span.numbers.into_iter().map(|(name, number)| KeyValue::new(name, number)).collect();
        attributes.extend(span.batch.map(|batch| KeyValue::new("mailroom.batch", batch)));
        attributes.extend(span.outcome.map(|outcome| KeyValue::new("mailroom.outcome", outcome)));
        let mut links = SpanLinks::default();
        links.links = span.links.iter().map(link).collect();
        let data = SpanData {
            span_context: sampled_context(trace, own, false),
            parent_span_id: parent,
            parent_span_is_remote: is_remote,
            span_kind: match span.kind {
                Kind::Consumer => SpanKind::Consumer,
                Kind::Producer => SpanKind::Producer,
                Kind::Client => SpanKind::Client,
                Kind::Server => SpanKind::Server,
                Kind::Internal => SpanKind::Internal,
            },
            name: span.name.into(),
            start_time: span.began,
            end_time: span.ended.max(span.began),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            status: span.failure.map_or(Status::Unset, Status::error),
            instrumentation_scope: self.scope.clone(),
        };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.as_ref().is_none_or(|queue| queue.try_send(data).is_err()) {
            self.dropped.add(1, "the queue of spans is full");
        }
    }

    /// Waits for the thread, at most so long. It ends with the program otherwise.
    pub(crate) fn finish(&self, within: Duration) {
        self.dropped.is_ending.store(true, Ordering::Relaxed);
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let end = Instant::now() + within;
        while thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

struct Worker {
    exporter: SpanExporter,
    fault: Fault,
    dropped: Arc<Dropped>,
}

impl Worker {
    /// Until the queue is closed.
    fn run(mut self, queue: &Receiver<SpanData>) {
        self.exporter.set_resource(&resource());
        // The client blocks, so that there is nothing else to run.
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime without drivers needs nothing of the system");
        let mut is_open = true;
        while is_open {
            let Ok(first) = queue.recv() else { return };
            let mut batch = vec![first];
            let end = Instant::now() + PAUSE;
            while batch.len() < BATCH {
                match queue.recv_timeout(end.saturating_duration_since(Instant::now())) {
                    Ok(span) => batch.push(span),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => {
                        is_open = false;
                        break;
                    }
                }
            }
            let count = batch.len();
            if runtime.block_on(self.exporter.export(batch)).is_err() {
                let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
                self.dropped.add(count, &fault);
                self.pause();
            }
        }
    }

    fn pause(&self) {
        let end = Instant::now() + FAILURE_PAUSE;
        while Instant::now() < end && !self.dropped.is_ending.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What the spans are of: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`, or `mailroom`.
fn resource() -> Resource {
    let is_named = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"].iter().any(|name| {
        env::var(name)
            .is_ok_and(|set| *name == "OTEL_SERVICE_NAME" || set.contains("service.name="))
    });
    let resource = Resource::builder();
    let resource = if is_named { resource } else { resource.with_service_name("mailroom") };
    resource.with_attribute(KeyValue::new("service.version", VERSION)).build()
}

fn sampled_context(trace: TraceId, span: SpanId, is_remote: bool) -> SpanContext {
    SpanContext::new(trace, span, TraceFlags::SAMPLED, is_remote, TraceState::default())
}

fn context_of(traceparent: &Traceparent) -> SpanContext {
    let trace = TraceId::from_hex(traceparent.trace_id()).unwrap_or(TraceId::INVALID);
    let span = SpanId::from_hex(traceparent.parent_id()).unwrap_or(SpanId::INVALID);
    sampled_context(trace, span, true)
}

fn link((token, traceparent): &(i64, Traceparent)) -> Link {
    Link::new(context_of(traceparent), vec![KeyValue::new("mailroom.token", *token)], 0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::SystemTime;

    use super::*;

    const SAMPLED: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const UNSAMPLED: &str = "00-11111111111111111111111111111111-2222222222222222-00";

    /// An exporter that nobody empties, and how many spans it dropped.
    fn stuck() -> (Exporter, Receiver<SpanData>, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let (sender, receiver) = sync_channel(QUEUE);
        let dropped = Dropped {
            count: Box::new(move |spans| {
                counted.fetch_add(spans, Ordering::Relaxed);
            }),
            unsaid: Mutex::default(),
            is_ending: AtomicBool::new(false),
        };
        let exporter = Exporter {
            queue: Mutex::new(Some(sender)),
            thread: Mutex::default(),
            dropped: Arc::new(dropped),
            ids: RandomIdGenerator::default(),
            scope: InstrumentationScope::builder("mailroom").build(),
        };
        (exporter, receiver, count)
    }

    fn traces(texts: &[&str]) -> Vec<(i64, Traceparent)> {
        let parsed = texts.iter().map(|text| Traceparent::parse(text).unwrap());
        (1..).zip(parsed).collect()
    }

    fn span() -> Span {
        Span::until_now("claim", Kind::Consumer, SystemTime::now())
    }

    #[test]
    fn a_queue_that_is_full_drops_spans_counts_them_and_never_waits() {
        let (exporter, _receiver, dropped) = stuck();
        for _ in 0..QUEUE + 10 {
            exporter.begin(&traces(&[SAMPLED]), span());
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 10);
    }

    #[test]
    fn after_the_end_spans_are_dropped() {
        let (exporter, _receiver, dropped) = stuck();
        exporter.finish(Duration::ZERO);
        exporter.begin(&traces(&[SAMPLED]), span());
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn whoever_begins_a_trace_decides_whether_there_are_spans_and_one_trace_is_taken_part_in() {
        let (exporter, receiver, _) = stuck();
        assert_eq!(exporter.begin(&[], span()), None);
        assert_eq!(exporter.begin(&traces(&[UNSAMPLED]), span()), None);
        assert!(receiver.try_recv().is_err());

        let one = traces(&[SAMPLED, SAMPLED]);
        let context = exporter.begin(&one, span()).unwrap();
        let data = receiver.try_recv().unwrap();
        assert_eq!(data.span_context.trace_id().to_string(), SAMPLED[3..35]);
        assert_eq!(data.parent_span_id.to_string(), SAMPLED[36..52]);
        exporter.record(context, span());
        let child = receiver.try_recv().unwrap();
        assert_eq!(child.parent_span_id, data.span_context.span_id());

        for several in [traces(&[SAMPLED, OTHER]), traces(&[UNSAMPLED, SAMPLED])] {
            exporter.begin(&several, span().linked(&several)).unwrap();
            let data = receiver.try_recv().unwrap();
            assert_eq!((data.parent_span_id, data.links.len()), (SpanId::INVALID, 2));
            let own = data.span_context.trace_id().to_string();
            assert!(several.iter().all(|(_, trace)| trace.trace_id() != own));
        }
    }
}
