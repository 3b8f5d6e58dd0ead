//! Words about the server: what it cannot do for now, and what it does to everybody.

use super::Words;

/// The server cannot say, for now as it seems, whatever its code is.
pub(crate) const FAULT: &Words = &Words {
    name: "fault",
    list: &[
        "system error",
        "internal error",
        "server error",
        "database error",
        "directory error",
        "configuration error",
        "config error",
        "lookup fail",
        "lookup error",
        "lookup timed out",
        "ldap",
        "mysql",
        "sql error",
        "unable to verify",
        "cannot verify",
        "can't verify",
        "could not verify",
        "unable to validate",
        "unable to check",
        "cannot be verified",
        "could not be verified",
        "temporar",
        "right now",
        "at this time",
        "at the moment",
        "try again later",
        "try later",
        "timed out",
        "timeout",
        "server busy",
        "system busy",
        "too busy",
        "out of memory",
        "out of disk",
        "disk full",
        "disk is full",
        "insufficient system",
        "insufficient disk",
        "insufficient resources",
        "service unavailable",
        "service not available",
        "service is not available",
        "backend",
        "maintenance",
    ],
};

/// What is said of a recipient, of a mail and of us alike, even beside the code of an address that
/// does not exist.
pub(crate) const POLICY: &Words = &Words {
    name: "policy",
    list: &[
        "access denied",
        "permission denied",
        "administrative prohibition",
        "administratively",
        "policy",
        "prohibited",
        "not permitted",
        "not authorized",
        "not authorised",
        "unauthorized",
        "denied by",
        "rejected by",
        "blocked",
        "refused",
        "suspended",
        "suspension",
        "standing",
        "not accepted from",
        "from your country",
        "spam",
        "abuse",
    ],
};

pub(crate) const GREYLISTED: &Words = &Words {
    name: "greylisted",
    list: &["greylist", "graylist", "grey-list", "gray-list", "greylisting", "grey listed"],
};
