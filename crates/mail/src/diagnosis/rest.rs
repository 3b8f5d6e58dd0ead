//! What an answer says besides that an address does not exist. Words that nobody foresaw may give
//! another reason, in any language.

use super::gone;

/// Words of refusals that give no other reason.
const REFUSED: &[&str] = &[
    "rejected",
    "refused",
    "unavailable",
    "gone",
    "inactive",
    "requested",
    "action",
    "not",
    "taken",
    "undeliverable",
    "bad",
    "error",
    "permanent",
    "failure",
    "failed",
    "fatal",
    "delivery",
    "attempts",
    "moved",
    "deleted",
    "removed",
    "terminated",
    "retired",
    "no",
    "longer",
    "active",
    "works",
    "employed",
    "exists",
    "exist",
    "does",
    "doesnt",
    "found",
    "sorry",
    "illegal",
    "rcpt",
    "invalid",
    "unknown",
];

/// Words beside those that say that an address does not exist.
const BESIDE: &[&str] = &[
    "there",
    "please",
    "try",
    "check",
    "double",
    "checking",
    "typos",
    "unnecessary",
    "spaces",
    "spelling",
    "misspelled",
    "recipients",
    "your",
    "message",
    "cannot",
    "delivered",
    "because",
    "learn",
    "more",
    "information",
    "see",
    "go",
    "one",
    "all",
    "relevant",
    "mx",
    "records",
    "table",
    "virtual",
    "relay",
    "callout",
    "verification",
    "dd",
    "mta",
    "infodomainnonexistent",
    "lastattemptedservername",
    "resolver",
    "adr",
    "recipnotfound",
    "recipientnotfound",
    "lookup",
    "aborted",
    "au",
    "moins",
    "un",
    "d",
    "s",
    "type",
    "service",
    "aaaa",
    "looking",
    "up",
    "hard",
    "dns",
    "nxdomain",
    "point",
    "only",
    "gsmtp",
];

/// Whether an answer with a code of its own has no words beside those that name an address, and say
/// that it does not exist or that a mail cannot go there.
pub(super) fn is_empty(words: &str) -> bool {
    let is_code = |word: &&str| word.chars().any(|character| character.is_ascii_digit());
    let words: Vec<&str> = words.split_whitespace().filter(|word| !is_code(word)).collect();
    let is_known = |word: &&str| REFUSED.contains(word) || gone::is_of_it(word);
    words.iter().all(is_known)
        && (words.is_empty() || words.iter().any(|word| gone::names_somebody(word)))
}

/// Whether all words of an answer that says by words alone that an address does not exist are of
/// that, or of a refusal without another reason.
pub(super) fn is_known(words: &str) -> bool {
    words
        .split_whitespace()
        .all(|word| REFUSED.contains(&word) || BESIDE.contains(&word) || gone::is_of_it(word))
}
