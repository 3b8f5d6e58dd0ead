//! The inbox of `mailroom dev`: it keeps mails in memory, shows them on a page of this machine and
//! answers browser tests in JSON. It sends nothing.
//!
//! `mails` (what is kept) ← `search` (which of them), `scheme` (light or dark) ← `answer` (what a
//! request gets) ← `server`.

mod answer;
mod mails;
mod scheme;
mod search;
mod server;

pub use mails::{Contents, Inbox, Token};
pub use server::serve;
