//! A small HTTP server for what Mailroom answers itself: HTTP/1.1, one request a connection, and
//! bounds on connections, on the head of a request and on time.
//!
//! A listener adds TLS where it is wanted, or a reverse proxy does. A connection has one request,
//! so that nothing that stands behind it can be taken for another one. The body of a request is
//! read by who answers it, with a bound of its own, as `http_body_util::Limited` has it.

mod address;
mod listen;
mod metrics;
mod server;
mod unread;

pub use address::address;
pub use http_body_util;
pub use hyper;
pub use listen::Listen;
pub use metrics::{exposition, only_get, serve_metrics};
pub use server::{Answer, Limits, Request, plain, serve};
pub use unread::Reading;
