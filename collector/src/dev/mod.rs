//! The parts of `mailroom dev`, which shows the mails of a developer's database.
//!
//! `folder` (files of this machine: key, configuration, environment), `postgres` (a server that is
//! deleted at the end, under an `account` that may run it), `database` (whether it may be used, its
//! schema and its mark), `sink` (mails into the inbox).

pub(crate) mod database;
pub(crate) mod folder;
pub(crate) mod postgres;
pub(crate) mod sink;

/// Why this machine cannot do it, and what helps.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DevError(String);
