//! Where spans are recorded.

#[cfg(feature = "export")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "export")]
use crate::export::Exporter;
use crate::{Context, Span, Traceparent};

/// Records spans, if this program exports any. Clones record into the same queue.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    #[cfg(feature = "export")]
    exporter: Option<Arc<Exporter>>,
}

impl Recorder {
    /// One that exports to where the environment says, by the variables of OpenTelemetry. Without
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, and in a program
    /// that was built without the feature `traces`, nothing is recorded.
    ///
    /// `count_dropped` is told of spans that are dropped, and must not wait.
    ///
    /// # Errors
    /// Why it cannot export, in a sentence.
    #[cfg_attr(not(feature = "export"), expect(unused_variables, reason = "nothing is dropped"))]
    pub fn of_environment(
        version: &'static str,
        count_dropped: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Self, String> {
        #[cfg(feature = "export")]
        {
            let exporter = Exporter::of_environment(version, Box::new(count_dropped))?;
            Ok(Self { exporter: exporter.map(Arc::new) })
        }
        #[cfg(not(feature = "export"))]
        Ok(Self::default())
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

    /// Exports what is left, for this long at most; what is left then is dropped.
    #[cfg_attr(not(feature = "export"), expect(unused_variables, reason = "nothing is recorded"))]
    pub fn finish(&self, within: Duration) {
        #[cfg(feature = "export")]
        if let Some(exporter) = &self.exporter {
            exporter.finish(within);
        }
    }
}
