//! Words by which servers say whose fault a refusal is, in lower case; `*` stands for up to 60
//! bytes of anything.

mod recipient;
mod server;
mod us;

pub(super) use recipient::{
    FIELD_OF_RECIPIENT, FULL, NO_DELIVERY, NO_SUCH_ADDRESS, NOT_IN_DIRECTORY, PERSONAL, SECOND_HAND,
};
pub(super) use server::{FAULT, GREYLISTED, POLICY};
pub(super) use us::{BLOCKED, HELO, LIMITS, LOGIN, OF_US, RELAYING, SENDER};

/// Words of one kind.
#[derive(Debug)]
pub(crate) struct Words {
    /// What the kind is called in the table.
    #[cfg_attr(not(test), expect(dead_code, reason = "the documentation shows it"))]
    pub(super) name: &'static str,
    pub(super) list: &'static [&'static str],
}

/// All of them, in the order of the documentation.
#[cfg(test)]
pub(super) const ALL: &[&Words] = &[
    GREYLISTED,
    FULL,
    SECOND_HAND,
    NO_SUCH_ADDRESS,
    OF_US,
    FAULT,
    PERSONAL,
    RELAYING,
    LOGIN,
    SENDER,
    HELO,
    LIMITS,
    BLOCKED,
    NOT_IN_DIRECTORY,
    POLICY,
    NO_DELIVERY,
    FIELD_OF_RECIPIENT,
];
