//! What a server says when it accepts a mail.

use super::reply::Reply;
use crate::provider::Receipt;

/// The longest answer that is kept, in bytes.
const MAX_ANSWER: usize = 200;

/// The longest id that is kept, in bytes.
const MAX_ID: usize = 100;

/// The receipt of a reply.
pub(super) fn of(reply: &Reply) -> Receipt {
    let mut answer = String::new();
    for word in reply.to_string().split(' ') {
        let word = if word.contains('@') { "[address]" } else { word };
        if answer.len() + 1 + word.len() > MAX_ANSWER {
            break;
        }
        if !answer.is_empty() {
            answer.push(' ');
        }
        answer.push_str(word);
    }
    Receipt { message_id: id(&reply.text()), answer }
}

/// The server's own id of the mail, as postfix, Exim, sendmail, Microsoft and Amazon write it.
fn id(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let after = |position: usize| words.get(position + 1).copied();
    let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let found = words
        .iter()
        .find_map(|word| word.strip_prefix("id="))
        .or_else(|| after(lower.windows(2).position(|pair| pair == ["queued", "as"])? + 1))
        .or_else(|| {
            // sendmail: `2.0.0 ID Message accepted for delivery`.
            let place = lower.windows(2).position(|pair| pair == ["message", "accepted"])?;
            words.get(place.checked_sub(1)?).copied()
        })
        .or_else(|| {
            // Amazon SES: `Ok ID`.
            let [first, id] = words[..] else { return None };
            (first.eq_ignore_ascii_case("ok") && id.len() > 20).then_some(id)
        })?;
    let found = found.trim_matches(['<', '>', '[', ']', '(', ')', ',', ';', '.']);
    let is_id = (1..=MAX_ID).contains(&found.len())
        && found.bytes().all(|byte| byte.is_ascii_graphic())
        && !found.contains('@')
        && found.bytes().any(|byte| byte.is_ascii_digit());
    is_id.then(|| found.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::reply::Reader;
    use super::*;

    fn receipt(line: &str) -> Receipt {
        of(&Reader::default().read(format!("{line}\r\n").as_bytes()).unwrap().1.unwrap())
    }

    #[test]
    fn the_servers_own_id_is_found_in_its_answer() {
        for (line, expected) in [
            ("250 2.0.0 Ok: queued as 4Zr0xq2Jn2z1B", Some("4Zr0xq2Jn2z1B")),
            ("250 OK id=1tABcd-000000001xY-2abc", Some("1tABcd-000000001xY-2abc")),
            ("250 2.0.0 48PKabcd012345 Message accepted for delivery", Some("48PKabcd012345")),
            ("250 Ok 0102018f0a1b2c3d-1a2b3c4d-000000", Some("0102018f0a1b2c3d-1a2b3c4d-000000")),
            ("250 2.6.0 <a@b.test> [InternalId=1] Queued mail for delivery", None),
            ("250 ok", None),
            ("250 Ok: queued as", None),
            ("250", None),
        ] {
            assert_eq!(receipt(line).message_id.as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn an_answer_is_short_and_has_no_address() {
        let long = receipt(&format!("250 for <ada@x.test> {}", "word ".repeat(100)));
        assert!(long.answer.starts_with("250 for [address] word") && long.answer.len() <= 200);
        assert_eq!(receipt("250").answer, "250");
    }
}
