//! A small HTTP server for what Mailroom answers itself: HTTP/1.1, one request a connection, and
//! bounds on connections, on the head of a request and on time.
//!
//! A listener adds TLS where it is wanted, or a reverse proxy does. A connection has one request,
//! so that nothing that stands behind it can be taken for another one. The body of a request is
//! read by who answers it, with bounds of its own: [`read_body`].

mod address;
mod body;
mod listen;
mod metrics;
mod page;
mod server;
mod termination;
mod unread;
mod visitor;

pub use address::address;
pub use body::{BodyFault, media_type, read_body};
pub use http_body_util;
pub use hyper;
pub use listen::Listen;
pub use metrics::{
    METRICS_LIMITS, exposition, listen_for_metrics, not_allowed, only_get, serve_metrics,
};
pub use page::{BASE_CSS, protect};
pub use server::{Answer, Limits, Request, plain, serve};
pub use termination::termination;
pub use unread::Reading;
pub use visitor::Hosts;
