//! What is answered: lines for batches, and lines that say which batches are being worked on.

use std::collections::HashSet;
use std::mem;
use std::time::Duration;

use serde::Serialize;

use crate::doubt::Outcome;
use crate::knows::Knows;
use crate::provider::{About, Receipt, Refusal};

/// The longest line that is written, in bytes. The collector reads twice as much.
const MAX_LINE: usize = 500_000;

/// The longest reason that is written, in bytes. The collector keeps less.
const MAX_REASON: usize = 1_000;

/// The longest text of a receipt that is written, in bytes.
const MAX_RECEIPT: usize = 200;

/// What is answered for a batch, or for a part of it.
#[derive(Debug, Default, Serialize)]
pub struct Answer {
    batch: String,
    #[serde(skip_serializing_if = "is_false")]
    exact: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ok: Vec<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    receipts: Vec<WrittenReceipt>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    retry: Vec<Refused>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    untried: Vec<Refused>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    in_doubt: Vec<Refused>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dead: Vec<Dead>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    handed_over: Vec<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<Pause>,
    #[serde(skip)]
    knows: Knows,
}

#[derive(Debug, Serialize)]
struct WrittenReceipt {
    id: i64,
    provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    answer: String,
}

#[derive(Debug, Serialize)]
struct Refused {
    id: i64,
    #[serde(flatten)]
    pause: Pause,
}

#[derive(Debug, Serialize)]
struct Dead {
    id: i64,
    reason: String,
    #[serde(skip_serializing_if = "is_false")]
    unknown_address: bool,
}

#[derive(Clone, Debug, Serialize)]
struct Pause {
    #[serde(rename = "after_ms", skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    reason: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Answer {
    /// An answer without verdicts, for a collector that understands this.
    pub fn to(batch: &str, knows: Knows) -> Self {
        Self { batch: batch.to_owned(), exact: knows.exact, knows, ..Self::default() }
    }

    /// What its collector understands.
    pub(crate) fn knows(&self) -> Knows {
        self.knows
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.ok.is_empty()
            && self.retry.is_empty()
            && self.untried.is_empty()
            && self.in_doubt.is_empty()
            && self.dead.is_empty()
            && self.handed_over.is_empty()
            && self.unavailable.is_none()
    }

    /// The token was sent, now or earlier.
    pub fn sent(&mut self, id: i64) {
        self.ok.push(id);
    }

    /// A provider has just accepted the token's mail.
    pub(crate) fn accepted(&mut self, id: i64, provider: &str, receipt: &Receipt) {
        self.sent(id);
        if self.knows.receipts {
            self.receipts.push(WrittenReceipt {
                id,
                provider: provider.to_owned(),
                message_id: receipt.message_id.as_deref().and_then(name),
                answer: cut(&redacted(&receipt.answer), MAX_RECEIPT),
            });
        }
    }

    /// A broker has stored the token's mail, for somebody else to send it. For a collector that
    /// does not understand that, it was sent, with a receipt that says what happened.
    pub fn handed_over(&mut self, id: i64, broker: &str, answer: &str) {
        if self.knows.handed_over {
            self.handed_over.push(id);
        } else {
            self.accepted(id, broker, &Receipt { message_id: None, answer: answer.to_owned() });
        }
    }

    /// The token is to be tried again.
    pub fn retry(&mut self, id: i64, after: Option<Duration>, reason: &str) {
        self.retry.push(Refused { id, pause: Pause::new(after, reason) });
    }

    /// Nothing is known against the token: its mail was not tried, or its provider takes nobody's.
    /// For a collector that does not understand that, it is to be tried again.
    pub fn untried(&mut self, id: i64, after: Option<Duration>, reason: &str) {
        let list = if self.knows.untried { &mut self.untried } else { &mut self.retry };
        list.push(Refused { id, pause: Pause::new(after, reason) });
    }

    /// Nobody knows whether the token was sent. Only for a collector that understands it.
    pub fn in_doubt(&mut self, id: i64, reason: &str) {
        self.in_doubt.push(Refused { id, pause: Pause::new(None, reason) });
    }

    /// What is to be said of a token in doubt.
    pub(crate) fn doubtful(&mut self, id: i64, outcome: &Outcome, reason: &str) {
        match outcome {
            Outcome::InDoubt => self.in_doubt(id, reason),
            Outcome::Retry(after) => self.retry(id, *after, reason),
            Outcome::Dead => self.dead(id, &format!("it may have been delivered: {reason}")),
        }
    }

    /// The token never can be sent.
    pub fn dead(&mut self, id: i64, reason: &str) {
        self.dead.push(Dead { id, reason: cut(reason, MAX_REASON), unknown_address: false });
    }

    /// A provider refuses the token's mail for ever.
    pub(crate) fn refused(&mut self, id: i64, refusal: &Refusal) {
        let is_unknown = refusal.about == About::Recipient { is_unknown: true };
        self.dead.push(Dead {
            id,
            reason: cut(&refusal.reason, MAX_REASON),
            unknown_address: is_unknown && self.knows.unknown_address,
        });
    }

    /// No mail can go out; every token without a verdict goes back to the queue.
    pub fn unavailable(&mut self, after: Option<Duration>, reason: &str) {
        self.unavailable = Some(Pause::new(after, reason));
    }

    /// The lines, each with its line feed: several where one would be too long.
    ///
    /// # Panics
    /// Never: texts and numbers are JSON.
    pub(crate) fn into_lines(self) -> Vec<u8> {
        let line = self.to_line();
        if line.len() <= MAX_LINE {
            return line;
        }
        let (first, second) = self.halves();
        // A single verdict of each kind is far shorter.
        first.into_lines().into_iter().chain(second.into_lines()).collect()
    }

    /// Two answers that say the same. What is said of all tokens without a verdict comes last.
    fn halves(mut self) -> (Self, Self) {
        fn half<T>(list: &mut Vec<T>) -> Vec<T> {
            let rest = list.split_off(list.len().div_ceil(2));
            mem::replace(list, rest)
        }
        let ok = half(&mut self.ok);
        let named: HashSet<_> = ok.iter().copied().collect();
        let (receipts, rest) =
            mem::take(&mut self.receipts).into_iter().partition(|item| named.contains(&item.id));
        self.receipts = rest;
        let first = Self {
            batch: self.batch.clone(),
            exact: self.exact,
            ok,
            receipts,
            retry: half(&mut self.retry),
            untried: half(&mut self.untried),
            in_doubt: half(&mut self.in_doubt),
            dead: half(&mut self.dead),
            handed_over: half(&mut self.handed_over),
            unavailable: None,
            knows: self.knows,
        };
        (first, self)
    }

    /// The line, with its line feed.
    ///
    /// # Panics
    /// Never: texts and numbers are JSON.
    pub fn to_line(&self) -> Vec<u8> {
        to_line(self)
    }
}

/// The line that says that these batches are being worked on, and that some of them only wait for
/// answers of a provider, with its line feed.
pub(crate) fn working(batches: &[&str], slow: &[&str]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Working<'a> {
        working: &'a [&'a str],
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        slow: &'a [&'a str],
    }
    to_line(&Working { working: batches, slow })
}

fn to_line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("texts and numbers are JSON");
    line.push(b'\n');
    line
}

impl Pause {
    fn new(after: Option<Duration>, reason: &str) -> Self {
        let after = after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        Self { after, reason: cut(reason, MAX_REASON) }
    }
}

fn cut(text: &str, most: usize) -> String {
    let end = (0..=text.len().min(most)).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or_default()].to_owned()
}

/// An id that a provider gave to a mail, if it is one: a word in ASCII, and nothing that could be a
/// token, which a server may repeat. `<…@…>` is written without its brackets.
fn name(id: &str) -> Option<String> {
    let id = id.trim().trim_start_matches('<').trim_end_matches('>');
    let is_name =
        (1..=MAX_RECEIPT).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    (is_name && !holds_token(id)).then(|| id.to_owned())
}

/// So many characters of a token's alphabet, in a row or in the pieces of an id, may be most of a
/// token.
const MAX_OF_TOKEN: usize = 32;
const MAX_OF_TOKEN_IN_PIECES: usize = 64;

/// Whether an id may hold a token, or most of one. Hexadecimal digits and hyphens, of which the ids
/// of Amazon SES and UUIDs consist, are none.
fn holds_token(id: &str) -> bool {
    let is_hexadecimal =
        |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let lengths = parts(id).filter(|part| !is_hexadecimal(part)).map(str::len);
    lengths.clone().any(|length| length >= MAX_OF_TOKEN)
        || lengths.sum::<usize>() >= MAX_OF_TOKEN_IN_PIECES
}

/// The parts of a text that consist of characters of a token.
fn parts(text: &str) -> impl Iterator<Item = &str> + Clone {
    let is_of_token =
        |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    text.split(move |character| !is_of_token(character))
}

/// A provider's answer in one line without what could be an address or a token of the mail.
fn redacted(answer: &str) -> String {
    let is_secret = |word: &str| parts(word).any(|part| part.len() >= 40);
    let words = answer.split(|character: char| character.is_whitespace() || character.is_control());
    let words = words.filter(|word| !word.is_empty()).map(|word| {
        if word.contains('@') || word.contains("%40") {
            "[address]"
        } else if is_secret(word) {
            "[secret]"
        } else {
            word
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Knows = Knows {
        in_doubt: true,
        working: true,
        exact: true,
        receipts: true,
        unknown_address: true,
        untried: true,
        slow: true,
        handed_over: true,
    };

    fn text(answer: &Answer) -> String {
        String::from_utf8(answer.to_line()).unwrap()
    }

    #[test]
    fn an_answer_names_what_it_has_verdicts_for_and_nothing_else() {
        let mut answer = Answer::to("b", Knows::default());
        assert!(answer.is_empty());
        answer.sent(1);
        answer.retry(2, Some(Duration::from_secs(60)), "451 greylisted");
        answer.dead(3, &"ü".repeat(MAX_REASON));
        let cut = "ü".repeat(MAX_REASON / 2);
        let expected = format!(
            concat!(
                r#"{{"batch":"b","ok":[1],"#,
                r#""retry":[{{"id":2,"after_ms":60000,"reason":"451 greylisted"}}],"#,
                r#""dead":[{{"id":3,"reason":"{cut}"}}]}}"#,
            ),
            cut = cut
        );
        assert_eq!(text(&answer), expected + "\n");
        let mut answer = Answer::to("b", Knows::default());
        answer.unavailable(None, "421");
        assert_eq!(answer.to_line(), b"{\"batch\":\"b\",\"unavailable\":{\"reason\":\"421\"}}\n");
        assert_eq!(working(&["b", "c"], &[]), b"{\"working\":[\"b\",\"c\"]}\n");
        let line = b"{\"working\":[\"b\",\"c\"],\"slow\":[\"c\"]}\n";
        assert_eq!(working(&["b", "c"], &["c"]), line);
    }

    #[test]
    fn a_collector_gets_only_what_it_has_announced() {
        let receipt =
            Receipt { message_id: Some("<A1@mx>".to_owned()), answer: "250 queued".to_owned() };
        let about = About::Recipient { is_unknown: true };
        for (knows, expected) in [
            (
                Knows::default(),
                concat!(
                    r#"{"batch":"b","ok":[1,5],"#,
                    r#""retry":[{"id":4,"after_ms":5000,"reason":"rate"}],"#,
                    r#""dead":[{"id":2,"reason":"550 5.1.1"}]}"#
                ),
            ),
            (
                NEW,
                concat!(
                    r#"{"batch":"b","exact":true,"ok":[1],"receipts":[{"id":1,"provider":"smtp","#,
                    r#""message_id":"A1@mx","answer":"250 queued"}],"#,
                    r#""untried":[{"id":4,"after_ms":5000,"reason":"rate"}],"#,
                    r#""dead":[{"id":2,"reason":"550 5.1.1","unknown_address":true}],"#,
                    r#""handed_over":[5]}"#
                ),
            ),
        ] {
            let mut answer = Answer::to("b", knows);
            answer.accepted(1, "smtp", &receipt);
            answer.untried(4, Some(Duration::from_secs(5)), "rate");
            answer.refused(2, &Refusal { reason: "550 5.1.1".to_owned(), about });
            answer.handed_over(5, "nats", "stored");
            assert_eq!(text(&answer), format!("{expected}\n"));
        }
        let mut answer = Answer::to("b", NEW);
        answer.in_doubt(3, "no answer");
        let expected = r#"{"batch":"b","exact":true,"in_doubt":[{"id":3,"reason":"no answer"}]}"#;
        assert_eq!(text(&answer), format!("{expected}\n"));
    }

    #[test]
    fn a_receipt_holds_no_address_no_token_and_no_second_line() {
        let token = "aB3_-".repeat(9);
        for (said, expected) in [
            ("250 2.0.0 Ok: queued as 4F1A", "250 2.0.0 Ok: queued as 4F1A"),
            ("250 <ada@x.test>\r\n accepted\0", "250 [address] accepted"),
            (&format!("250 https://x.test/?token={token} ok"), "250 [secret] ok"),
        ] {
            assert_eq!(redacted(said), expected);
        }
        let mut answer = Answer::to("b", NEW);
        for id in ["", "two words", "ü", &"x".repeat(201)] {
            let receipt = Receipt { message_id: Some(id.to_owned()), answer: "ü".repeat(300) };
            answer.accepted(1, "smtp", &receipt);
        }
        let pieces: Vec<_> = token.as_bytes().chunks(5).collect();
        let link = format!("https://x.test/a#{token}");
        for id in [&token[..], &token[..32], &format!("<{token}@x.test>"), &link] {
            assert_eq!(name(id), None, "{id}");
        }
        let pieces = [pieces.join(&b'.'), pieces.join(&b'/')].concat();
        assert_eq!(name(str::from_utf8(&pieces).unwrap()), None);
        let written = text(&answer);
        assert!(!written.contains("message_id"), "{written}");
        for id in [
            "0102018f3a5c7d9e-1a2b3c4d-5e6f-7081-92a3-b4c5d6e7f809-000000",
            "b9a16650-bbdc-ba5d-d029-8fef5dd25661",
            "14c5d75ce93.dfd.64b469.filter0001.16648.5515E0B88.0",
            "1tABcd-000000001xY-2abc",
            "20261126084218.1.A1B2C3D4E5F60718@mail.x.test",
        ] {
            assert_eq!(name(id).as_deref(), Some(id));
        }
        assert!(answer.receipts.iter().all(|receipt| receipt.answer.len() == MAX_RECEIPT));
    }
}
