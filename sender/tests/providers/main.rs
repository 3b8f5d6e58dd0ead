//! Providers of mail, against stand-ins that do what the providers document.
//! No live account was used.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod fallback;
mod features;
mod http;
mod limits;
mod outages;
mod sending;
mod ses;
mod settings;
mod smtp;
mod stand_in;
