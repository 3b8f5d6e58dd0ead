//! Where spans are recorded.

#[cfg(feature = "export")]
use std::sync::Arc;
#[cfg(feature = "export")]
use std::time::Duration;

#[cfg(feature = "export")]
use crate::export::Exporter;
use crate::{Context, Span, Traceparent};

/// How long the last spans may take at the end, when all else is done.
#[cfg(feature = "export")]
const LAST_SPANS: Duration = Duration::from_secs(1);

/// Records spans, if this program exports any. Clones record into the same queue.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    #[cfg(feature = "export")]
    exporter: Option<Arc<Exporter>>,
}

impl Recorder {
    /// One that exports to where the environment says, by the variables of OpenTelemetry. Without
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, and in a program
    /// that was built without the feature `traces`, nothing is recorded. Nor is it if it cannot
    /// export, which is logged: that keeps no mail waiting.
    ///
    /// `count_dropped` is told of spans that are dropped, and must not wait.
    #[cfg_attr(not(feature = "export"), expect(unused_variables, reason = "nothing is dropped"))]
    pub fn of_environment(count_dropped: impl Fn(usize) + Send + Sync + 'static) -> Self {
        #[cfg(feature = "export")]
        {
            let exporter = Exporter::of_environment(Box::new(count_dropped));
            let exporter = exporter.unwrap_or_else(|reason| {
                tracing::error!(
                    event = "traces_unusable",
                    %reason,
                    "no spans of traces are exported"
                );
                None
            });
            Self { exporter: exporter.map(Arc::new) }
        }
        #[cfg(not(feature = "export"))]
        Self::default()
    }

    /// Whether anything is recorded.
    pub fn is_on(&self) -> bool {
        #[cfg(feature = "export")]
        let is_on = self.exporter.is_some();
        #[cfg(not(feature = "export"))]
        let is_on = false;
        is_on
    }

    /// Records a span for mails of these traces, and returns where others hang that belong to it.
    /// `None` unless one of the traces is sampled: whoever began a trace decides.
    ///
    /// If all mails belong to one trace, so does the span. Else it begins a trace of its own.
    #[cfg_attr(
        not(feature = "export"),
        expect(unused_variables, clippy::needless_pass_by_value, reason = "nothing is recorded")
    )]
    pub fn begin(&self, traces: &[(i64, Traceparent)], span: Span) -> Option<Context> {
        #[cfg(feature = "export")]
        if let Some(exporter) = &self.exporter {
            return exporter.begin(traces, span);
        }
        None
    }

    /// Records a span that belongs to another one.
    #[cfg_attr(
        not(feature = "export"),
        expect(unused_variables, clippy::needless_pass_by_value, reason = "nothing is recorded")
    )]
    pub fn record(&self, context: Context, span: Span) {
        #[cfg(feature = "export")]
        if let Some(exporter) = &self.exporter {
            exporter.record(context, span);
        }
    }

    /// Exports what is left, for a second at most; what is left then is dropped.
    pub fn finish(&self) {
        #[cfg(feature = "export")]
        if let Some(exporter) = &self.exporter {
            exporter.finish(LAST_SPANS);
        }
    }
}
