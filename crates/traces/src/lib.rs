//! The traces that mails belong to: what names one, and spans that say what a program did for mails
//! of one, exported by OTLP.
//!
//! Spans are exported by a thread of their own, from a queue of bounded length. Recording one never
//! waits: what has no room is dropped, and counted.

#[cfg(feature = "export")]
mod client;
#[cfg(feature = "export")]
mod export;
mod recorder;
mod span;
mod traceparent;

pub use recorder::Recorder;
pub use span::{Context, Kind, Span};
pub use traceparent::Traceparent;
