//! What an error of a statement tells the caller and the log.
//!
//! Functions of eligibility and triggers are the application's: they may raise errors with any
//! SQLSTATE, and personal data in the message. So the server's text is repeated to nobody, except
//! what Mailroom's functions say themselves, which repeat nothing that was given.

use mailroom_connect::sqlstate::{UNDONE, UNKNOWN, is_in};
use tokio_postgres::error::DbError;

use crate::function::Function;

/// What is known of a call whose statement has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A value was refused.
    Refused,
    /// Another call has used the same key for something else.
    Conflict,
    /// The server cannot do it now; it was taken back.
    Away,
    /// Nobody knows whether it was done.
    Unknown,
    /// The database, or a function of the application, is not as it must be.
    Setup,
}

impl Outcome {
    pub(crate) fn of(sqlstate: &str) -> Self {
        match (sqlstate, class(sqlstate)) {
            _ if is_in(&UNDONE, sqlstate) => Self::Away,
            _ if is_in(&UNKNOWN, sqlstate) => Self::Unknown,
            ("23505", _) => Self::Conflict,
            (_, "22" | "23") => Self::Refused,
            _ => Self::Setup,
        }
    }
}

/// What the SQLSTATE means here.
pub(crate) fn reason(sqlstate: &str) -> &'static str {
    match (sqlstate, class(sqlstate)) {
        ("25006", _) => {
            "the database is read-only; if the server is a standby, connect to the primary, for \
             instance with target_session_attrs=read-write"
        }
        ("42501", _) => "the role has no right to the function, or its owner none to what it uses",
        ("3F000" | "42883", _) => "the schema or the function is missing; migrate the database",
        ("40003", _) => "a pooler does not know whether it was committed",
        (_, "08") => "a pooler has lost its connection to the server",
        (_, "40") => "it was taken back because other transactions changed the same rows",
        (_, "53") => "the server lacks connections, memory or disk",
        ("55000", _) => "the function needs what the action lacks, such as a predicate",
        (_, "55") => "it waited too long for rows that others have",
        (_, "57") => "the server has ended the statement, or ends itself",
        (_, "58") => "a file of the server failed",
        (_, "P0") => "a function of the application has raised an error; the server's log has it",
        _ => "the server's log says more",
    }
}

/// The sentence of a function of Mailroom's own, if it is one.
pub(crate) fn own_sentence(function: Function, error: &DbError) -> Option<&str> {
    let is_own = matches!(error.code().code(), "22023" | "23505")
        && error.message().contains(&format!("mailroom.{}()", function.name()));
    is_own.then(|| error.message())
}

fn class(sqlstate: &str) -> &str {
    sqlstate.get(..2).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_knows_is_not_called_undone() {
        for (sqlstate, expected) in [
            ("40003", Outcome::Unknown),
            ("08006", Outcome::Unknown),
            ("57P01", Outcome::Unknown),
            ("40001", Outcome::Away),
            ("57014", Outcome::Away),
            ("55P03", Outcome::Away),
            ("25006", Outcome::Away),
            ("23505", Outcome::Conflict),
            ("22023", Outcome::Refused),
            ("42501", Outcome::Setup),
            ("P0001", Outcome::Setup),
        ] {
            assert_eq!(Outcome::of(sqlstate), expected, "{sqlstate}");
        }
    }
}
