//! What answers mean, by rules of the configuration.

use std::ops::RangeInclusive;

use serde::Deserialize;

use crate::provider::api::{self, Answer, Fault};
use crate::provider::{About, Receipt, Verdict};

/// A table `[[http.answers]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleConfig {
    /// `409`, or `4xx` for all from 400 to 499.
    status: String,
    /// Where in the answer's JSON a value is (RFC 6901): `/error/code`.
    pointer: Option<String>,
    /// The value, as text.
    equals: Option<String>,
    /// What such an answer means.
    means: Meaning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Meaning {
    /// The mail was accepted.
    Ok,
    /// This mail was not accepted and is to be tried again.
    Retry,
    /// This mail never will be accepted.
    Dead,
    /// This mail was not accepted, and no other one would be now.
    Unavailable,
}

/// A rule that can be applied.
#[derive(Debug)]
pub(super) struct Rule {
    statuses: RangeInclusive<u16>,
    /// Where a value is, and which it has to be.
    value: Option<(String, String)>,
    means: Meaning,
}

impl Rule {
    pub(super) fn new(config: &RuleConfig) -> Result<Self, String> {
        let bytes = config.status.as_bytes();
        let statuses = match bytes {
            [class @ b'2'..=b'5', b'x', b'x'] => {
                let first = u16::from(class - b'0') * 100;
                first..=first + 99
            }
            [b'2'..=b'5', b'0'..=b'9', b'0'..=b'9'] => {
                let status =
                    bytes.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
                status..=status
            }
            _ => {
                return Err("a status of answers must be like \"409\" or \"4xx\", from 200 to 599"
                    .to_owned());
            }
        };
        let value = match (&config.pointer, &config.equals) {
            (None, None) => None,
            (Some(pointer), Some(value)) if is_pointer(pointer) => {
                Some((pointer.clone(), value.clone()))
            }
            (Some(_), Some(_)) => {
                return Err(
                    "a pointer of answers must be like \"/error/code\" (RFC 6901)".to_owned()
                );
            }
            _ => return Err("answers need both pointer and equals, or none of them".to_owned()),
        };
        Ok(Self { statuses, value, means: config.means })
    }

    /// Whether the rule is about answers of this status.
    fn is_about(&self, answer: &Answer) -> bool {
        self.statuses.contains(&answer.status)
    }

    /// Whether a value of the answer counts.
    fn is_conditional(&self) -> bool {
        self.value.is_some()
    }

    /// The verdict of an answer that the rule fits.
    fn judge(&self, answer: &Answer) -> Option<Verdict> {
        if !self.is_about(answer) {
            return None;
        }
        let mut words = "";
        if let Some((pointer, expected)) = &self.value {
            let found = answer.body.pointer(pointer)?;
            let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            (found == *expected).then_some(())?;
            words = expected;
        }
        let after = answer.retry_after();
        let reason = answer.reason(words);
        Some(match self.means {
            Meaning::Ok => Verdict::Sent(Receipt { message_id: None, answer: reason }),
            Meaning::Retry => Verdict::Retry { after, reason },
            Meaning::Dead => Verdict::dead(reason, About::Content),
            Meaning::Unavailable => Verdict::Unavailable { after, reason },
        })
    }
}

/// The verdict of the first rule that fits an answer.
pub(super) fn judge(rules: &[Rule], answer: &Answer) -> Option<Verdict> {
    let found = rules.iter().find_map(|rule| rule.judge(answer));
    let Some(fault) = answer.fault else { return found };
    // A rule before the one that fits might have fitted instead.
    let mut missed = rules
        .iter()
        .filter(|rule| rule.is_about(answer))
        .take_while(|rule| rule.is_conditional())
        .peekable();
    missed.peek()?;
    let verdict = found.unwrap_or_else(|| api::by_status(answer, ""));
    let what = match fault {
        Fault::Cut => "the answer did not come whole",
        Fault::Unreadable => "the answer is too long or no JSON",
    };
    let after = answer.retry_after();
    let reason = answer.reason(what);
    let is_sent = matches!(verdict, Verdict::Sent(_));
    Some(match verdict {
        Verdict::InDoubt { .. } | Verdict::Overloaded { .. } => verdict,
        _ if missed.any(|rule| (rule.means == Meaning::Ok) != is_sent) => {
            Verdict::Overloaded { after, reason }
        }
        // That this mail was not accepted is certain, and not that it never will be.
        Verdict::Dead(_) => Verdict::Retry { after, reason },
        verdict => verdict,
    })
}

/// Whether a text says where in JSON a value is (RFC 6901).
pub(super) fn is_pointer(text: &str) -> bool {
    let mut rest = text.split('~').skip(1);
    text.starts_with('/') && rest.all(|part| part.starts_with(['0', '1']))
}
