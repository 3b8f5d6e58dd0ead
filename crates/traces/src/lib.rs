//! The traces that mails belong to.

mod traceparent;

pub use traceparent::Traceparent;
