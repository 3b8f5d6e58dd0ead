//! What an answer means where the provider does not say it.

use super::{Answer, Fault};
use crate::provider::refusal::Step;
use crate::provider::{About, Receipt, Refusal, Suspicion, Verdict};

/// An acceptance with the provider's id, by which its support and its notices know the mail.
pub(super) fn with_id(id: Option<String>, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Sent(Receipt { message_id: None, answer }) => {
            Verdict::Sent(Receipt { message_id: id, answer })
        }
        verdict => verdict,
    }
}

/// A refusal that nothing places is none for ever if the provider's words did not arrive.
pub(super) fn without_hearing(fault: Option<Fault>, verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Dead(Refusal { reason, about: About::Unplaced }) if fault == Some(Fault::Cut) => {
            let reason = format!("{reason}: the answer did not come whole");
            Verdict::Retry { after: None, reason }
        }
        verdict => verdict,
    }
}

/// The verdict of an acceptance that does not have what the provider always gives: a proxy, or a
/// page for the login of a network, may have answered in its place. JSON that came whole and cannot
/// be read, because it is compressed unasked or very long, is none of these.
#[cfg(any(feature = "keyed", feature = "ses"))]
pub(in crate::provider) fn unproven(answer: &Answer) -> Verdict {
    if answer.fault == Some(Fault::Unreadable) && answer.says_json() {
        return by_status(answer, "");
    }
    let reason = answer.reason("without the id that the provider gives to a mail");
    Verdict::Overloaded { after: None, reason }
}

/// The outcome for an HTTP status that the provider does not define. `words` is the provider's
/// error text.
pub(in crate::provider) fn by_status(answer: &Answer, words: &str) -> Verdict {
    let after = answer.retry_after();
    let reason = answer.reason(words);
    match answer.status {
        200..300 => Verdict::Sent(Receipt { message_id: None, answer: reason }),
        // The login and the account are those of all mails.
        401 | 402 | 407 => Verdict::Unavailable { after, reason },
        429 => Verdict::Suspected { suspicion: Suspicion::Rate, after, reason },
        400 | 413 | 422 => answer.refused(Step::Http, "", "", words),
        // A fault of the server or of a gateway, which others would meet, too; after it has begun
        // with this mail.
        500..600 => Verdict::Overloaded { after, reason },
        // It refuses, but may have had the mail: it waited too long for it, had it already or was
        // about to take it.
        408 | 409 | 423 | 425 | 499 => Verdict::InDoubt { reason },
        // Whatever else is refused was not accepted. Mostly it is the request as such, which is the
        // same for all mails; but firewalls and some APIs refuse one recipient or text like that.
        300..500 => Verdict::Suspected { suspicion: Suspicion::Words, after, reason },
        _ => Verdict::InDoubt { reason },
    }
}
