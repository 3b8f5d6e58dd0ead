//! Words about the recipient: nobody has the address, it gets nothing, its mailbox is full.

use super::Words;

/// The recipient is not there.
pub(crate) const NO_SUCH_ADDRESS: &Words = &Words {
    name: "no such address",
    list: &[
        "user unknown",
        "user is unknown",
        "user not known",
        "unknown user",
        "unknown local part",
        "unknown mailbox",
        "no such user",
        "no such recipient",
        "no such mailbox",
        "no such address",
        "no such person",
        "no such account",
        "user not found",
        "user*was not found",
        "user not exist",
        "recipient not found",
        "recipientnotfound",
        "recipnotfound",
        "recipient unknown",
        "unknown recipient",
        "unknown address",
        "invalid recipient",
        "bad recipient address",
        "invalid mailbox",
        "mailbox invalid",
        "not a valid mailbox",
        "not a valid recipient",
        "not a valid user",
        "no mailbox",
        "no mail box",
        "mailbox not found",
        "mailbox does not exist",
        "mailbox*doesn't exist",
        "recipient not exist",
        "account*does not exist",
        "user*does not exist",
        "user*doesn't exist",
        "user doesn't have a",
        "address does not exist",
        "address could not be found",
        "recipient does not exist",
        "recipient no longer",
        "unrouteable address",
        "unroutable address",
        "address unknown",
        "is not a known user",
        "badrcptto",
        "utilisateur inconnu",
    ],
};

/// The recipient gets nothing, though the address may exist: only beside a code that says so, too,
/// since servers have the same words for what they refuse to us.
pub(crate) const NO_DELIVERY: &Words = &Words {
    name: "no delivery",
    list: &[
        "recipient address rejected",
        "recipient rejected",
        "tried to reach",
        "trying to contact",
        "mailbox unavailable",
        "mailbox is unavailable",
        "mailbox disabled",
        "mailbox is disabled",
        "mailbox has been disabled",
        "mailbox is frozen",
        "mailbox*inactive",
        "recipient*disabled",
        "recipient*inactive",
        "inactive user",
        "inactive email",
        "inactive recipient",
        "host not found",
        "domain not found",
        "domain*does not exist",
        "domain*not exist",
        "domain is not reachable",
        "unknown host",
        "host unknown",
        "mail receiving disabled",
        "not accepting mail",
        "not accepting messages",
        "does not accept mail",
        "nullmx",
        "null mx",
    ],
};

/// Microsoft 365 says so of addresses that nobody has.
pub(crate) const NOT_IN_DIRECTORY: &Words =
    &Words { name: "not in the directory", list: &["recipient address rejected: access denied"] };

/// The server has asked the recipient's server. What follows are the words of that one, which a
/// stranger may have chosen.
pub(crate) const SECOND_HAND: &Words = &Words {
    name: "second hand",
    list: &[
        "recipient address rejected: unverified address",
        "recipient address rejected: undeliverable address",
        // Exim, which has other words for a sender.
        "callout verification failed:",
        "could not complete recipient verify callout",
        "recipient verify failed",
        "recipient verification failed",
    ],
};

/// The mailbox takes nothing for now.
pub(crate) const FULL: &Words = &Words {
    name: "full",
    list: &[
        "mail at a rate",
        "mail too quickly",
        "user is over",
        "mailbox full",
        "mailbox is full",
        "mailbox quota",
        "mailbox size",
        "mailbox limit",
        "mailbox storage",
        "mailbox exceed",
        "mailbox has exceed",
        "mailbox would exceed",
        "storage limit",
        "storage quota",
        "over quota",
        "overquota",
        "quota full",
        "storage space",
        "out of storage",
        "disk quota",
        "recipient*quota",
    ],
};

/// The recipient does not want this sender.
pub(crate) const PERSONAL: &Words = &Words {
    name: "own choice",
    list: &["resolver.rst", "recipient preferences", "recipient's list"],
};

/// Postmark's name of the field that a recipient is in, where it says what is wrong with it.
pub(crate) const FIELD_OF_RECIPIENT: &Words =
    &Words { name: "recipient's field", list: &["parsing 'to'", "invalid 'to'"] };
