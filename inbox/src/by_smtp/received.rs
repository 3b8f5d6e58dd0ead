//! What the inbox shows of a mail that came by SMTP.

use mail_parser::{Address, MessageParser};
use mailroom_inbox::{Contents, Inbox, Token};
use serde_json::Value;

/// Keeps a mail. `to` is whom the envelope names, because headers may say anything.
pub(crate) fn deliver(inbox: &Inbox, to: &str, content: &[u8]) {
    let source = String::from_utf8_lossy(content).into_owned();
    let Some(mail) = MessageParser::default().parse(content) else {
        // Without a header it is all text.
        let contents = Contents { text: source.clone(), source, ..Contents::default() };
        inbox.receive(token(to, "", ""), contents, None);
        return;
    };
    let text = mail.body_text(0).unwrap_or_default().into_owned();
    let (link, action) = link(&text).unwrap_or_default();
    let token = token(to, action, code(&text));
    let contents = Contents {
        from: mail.from().map(sender).unwrap_or_default(),
        subject: mail.subject().unwrap_or_default().to_owned(),
        link: link.to_owned(),
        html: mail.body_html(0).unwrap_or_default().into_owned(),
        text,
        source,
    };
    // A mail to two people is one of each.
    let id = mail.message_id().map(|id| format!("{id} {to}"));
    inbox.receive(token, contents, id.as_deref());
}

fn token(to: &str, action: &str, code: &str) -> Token {
    Token {
        action: action.to_owned(),
        to: to.to_owned(),
        code: code.to_owned(),
        expires_at: None,
        language: None,
        payload: Value::Null,
    }
}

/// Name and address, as headers have them.
fn sender(from: &Address<'_>) -> String {
    let Some(first) = from.first() else { return String::new() };
    let address = first.address().unwrap_or_default();
    first.name().map_or_else(|| address.to_owned(), |name| format!("{name} <{address}>"))
}

/// The first link with a token, and the action that its path names. The sender writes a token
/// behind `?` or `#`, and something behind a token whose last sign mail programs would leave out.
fn link(text: &str) -> Option<(&str, &str)> {
    let is_word = |text: &str| {
        let is_sign =
            |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
        !text.is_empty() && text.chars().all(is_sign)
    };
    text.split_whitespace().find_map(|word| {
        let rest = word.strip_prefix("https://").or_else(|| word.strip_prefix("http://"))?;
        let (host, rest) = rest.split_once('/')?;
        let (action, parameters) = rest.split_once(['?', '#'])?;
        let mut parameters = parameters.split('&').map(|parameter| parameter.split_once('='));
        let is_token =
            |parameter| matches!(parameter, Some(Some(("token", token))) if is_word(token));
        let is_link = !host.is_empty()
            && !host.contains(['?', '#'])
            && is_word(action)
            && is_token(parameters.next())
            && parameters.all(|parameter| {
                parameter.is_some_and(|(name, value)| is_word(name) && is_word(value))
            });
        is_link.then_some((word, action))
    })
}

/// What a line ends with if that is a code, as `layout.txt` of the sender writes it; empty for
/// none.
fn code(text: &str) -> &str {
    let is_code = |word: &&str| {
        (4..=12).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
    };
    let mut ends = text.lines().filter_map(|line| line.split_whitespace().next_back());
    ends.find(is_code).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_action_and_code_are_those_of_the_text() {
        let text = "Recover\r\n\r\nYour code: 01234\r\n\r\nOpen\r\n\r\n\
                    http://127.0.0.1:8787/recover?token=AgF-_9\r\n\r\nuntil 2027-01-15 08:15 UTC";
        assert_eq!(link(text), Some(("http://127.0.0.1:8787/recover?token=AgF-_9", "recover")));
        assert_eq!(code(text), "01234");
        for link_of_sender in [
            "http://127.0.0.1:8787/recover?token=AgF-&from=mail",
            "http://127.0.0.1:8787/recover#token=AgF_&from=mail",
            "https://x.test/recover#token=AgF",
        ] {
            let expected = Some((link_of_sender, "recover"));
            assert_eq!(link(&format!("a {link_of_sender}\r\n")), expected);
        }
        for text in [
            "",
            "https:///y?token=b",
            "https://x?/y?token=b",
            "http://x/?token=a",
            "http://x/y?token=",
            "http://x/y/z?token=a",
            "http://x/y?token=a&b",
            "javascript:http://x/y?token=a",
            "in 123",
        ] {
            assert_eq!((link(text), code(text)), (None, ""), "{text}");
        }
    }
}
