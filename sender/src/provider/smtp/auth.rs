//! The login (RFC 4954): PLAIN, and LOGIN, which no RFC describes.

use std::fmt::Write as _;

use base64ct::{Base64, Encoding};
use mailroom_mail::Secret;

use super::extensions::Extensions;
use super::reply::Reply;
use super::stream::Lost;

/// The longest line of a command, in bytes without its end (RFC 5321, 4.5.3.1.4).
const MAX_LINE: usize = 510;

/// What stands for a secret that a server repeats.
const REDACTED: &str = "[secret]";

/// The shortest piece of an encoded secret that is recognised.
const SHORTEST_PIECE: usize = 8;

/// Who authenticates.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) username: String,
    pub(super) password: Secret,
}

impl Credentials {
    fn plain(&self) -> String {
        let text = format!("\0{}\0{}", self.username, self.password.expose());
        Base64::encode_string(text.as_bytes())
    }

    /// What a server says, without what it repeats of the secrets.
    fn redact(&self, said: &str) -> String {
        let password = self.password.expose();
        let encoded = [self.plain(), Base64::encode_string(password.as_bytes())];
        let mut said = said.to_owned();
        for secret in encoded.iter().map(String::as_str).chain([password]) {
            said = said.replace(secret, REDACTED);
        }
        // Servers repeat commands in capitals, too, cut them or break them into lines.
        let encoded = encoded.map(|secret| secret.to_ascii_lowercase());
        let has_some = |word: &str| {
            let word = word.to_ascii_lowercase();
            let mut pieces = word.as_bytes().windows(SHORTEST_PIECE);
            pieces.any(|piece| {
                encoded
                    .iter()
                    .any(|secret| secret.as_bytes().windows(piece.len()).any(|of| of == piece))
            })
        };
        let is_apart =
            |character: char| !(character.is_ascii_alphanumeric() || "+/=".contains(character));
        let words = said.split_inclusive(is_apart).map(|word| {
            let end = word.trim_end_matches(is_apart).len();
            let (word, behind) = word.split_at(end);
            [if has_some(word) { REDACTED } else { word }, behind].concat()
        });
        words.collect()
    }
}

/// Why a login failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) reason: String,
    /// Whether the server clearly refuses these credentials, and would do so again.
    pub(super) is_of_credentials: bool,
}

impl Failure {
    fn of_server(reason: String) -> Self {
        Self { reason, is_of_credentials: false }
    }
}

/// Whether a reply refuses the credentials: it is for ever, and about neither the command nor the
/// encryption (RFC 4954, 6).
fn is_of_credentials(reply: &Reply) -> bool {
    matches!(reply.code, 505..600) && !matches!(reply.code, 530 | 538)
}

/// A mechanism that is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mechanism {
    Plain,
    Login,
}

/// In the order in which they are tried: PLAIN takes one command.
const SUPPORTED: [(Mechanism, &str); 2] =
    [(Mechanism::Plain, "PLAIN"), (Mechanism::Login, "LOGIN")];

/// Authenticates by one mechanism after the other: one that is offered may be broken, and another
/// one work.
///
/// `command` writes a line and reads the reply to it.
///
/// # Errors
/// Why it is refused.
pub(super) fn authenticate(
    credentials: &Credentials,
    offers: &Extensions,
    command: &mut dyn FnMut(&str) -> Result<Reply, Lost>,
) -> Result<(), Failure> {
    let is_offered = |name: &str| offers.mechanisms.iter().any(|other| other == name);
    let usable: Vec<_> = SUPPORTED.iter().filter(|(_, name)| is_offered(name)).collect();
    if usable.is_empty() {
        let offered = offers.mechanisms.join(" ").chars().take(200).collect::<String>();
        return Err(Failure::of_server(if offered.is_empty() {
            "the server offers no login (AUTH)".to_owned()
        } else {
            format!(
                "the server offers the login by {offered} only, and PLAIN and LOGIN are supported"
            )
        }));
    }
    let mut refusals = String::new();
    let mut is_refused = false;
    for (mechanism, name) in usable {
        let refusal = match attempt(*mechanism, credentials, command) {
            Ok(reply) if reply.is_login() => return Ok(()),
            Ok(reply) => {
                is_refused |= is_of_credentials(&reply);
                reply.to_string()
            }
            Err(lost) if refusals.is_empty() => {
                return Err(Failure::of_server(format!("the login failed: {lost}")));
            }
            // What the server said before it left is the reason.
            Err(_) => break,
        };
        let separator = if refusals.is_empty() { "" } else { "; " };
        let refusal = credentials.redact(&refusal);
        write!(refusals, "{separator}{refusal} ({name})")
            .expect("a string takes all that is written");
        if refusal.starts_with("421") {
            break;
        }
    }
    let reason = format!("the login is refused: {refusals}");
    Err(Failure { reason, is_of_credentials: is_refused })
}

/// Goes through one mechanism. The prompts are not read: what comes first is the name.
fn attempt(
    mechanism: Mechanism,
    credentials: &Credentials,
    command: &mut dyn FnMut(&str) -> Result<Reply, Lost>,
) -> Result<Reply, Lost> {
    let (mut line, answers) = match mechanism {
        Mechanism::Plain => {
            let plain = credentials.plain();
            let whole = format!("AUTH PLAIN {plain}");
            // One server in some wants it after a prompt of its own, which is asked for with
            // nothing.
            let line = if whole.len() > MAX_LINE { "AUTH PLAIN".to_owned() } else { whole };
            (line, vec![plain])
        }
        Mechanism::Login => {
            let encode = |text: &str| Base64::encode_string(text.as_bytes());
            let answers =
                vec![encode(&credentials.username), encode(credentials.password.expose())];
            ("AUTH LOGIN".to_owned(), answers)
        }
    };
    for answer in answers {
        let reply = command(&line)?;
        if !reply.is_intermediate() {
            return Ok(reply);
        }
        line = answer;
    }
    let reply = command(&line)?;
    if !reply.is_intermediate() {
        return Ok(reply);
    }
    // It asks without end: `*` ends the exchange, by which the connection stays of use.
    let ended = command("*")?;
    Ok(if ended.is_refusal() { ended } else { reply })
}

#[cfg(test)]
mod tests {
    use super::super::reply::Reader;
    use super::*;

    fn credentials() -> Credentials {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "hunter2").unwrap();
        let password = Secret::read("password", Some(&file), None).unwrap();
        Credentials { username: "us".to_owned(), password }
    }

    /// What the client says, and how it ends, where the server says these lines.
    fn talk(offered: &str, replies: &[&str]) -> (Vec<String>, Result<(), String>) {
        let (said, outcome) = log_in(offered, replies);
        (said, outcome.map_err(|failure| failure.reason))
    }

    fn log_in(offered: &str, replies: &[&str]) -> (Vec<String>, Result<(), Failure>) {
        let offers = Extensions {
            mechanisms: offered.split_whitespace().map(str::to_owned).collect(),
            ..Extensions::default()
        };
        let (mut said, mut replies) = (Vec::new(), replies.iter());
        let outcome = authenticate(&credentials(), &offers, &mut |line| {
            said.push(line.to_owned());
            let reply = replies.next().ok_or(Lost::Closed)?;
            Ok(Reader::default().read(format!("{reply}\r\n").as_bytes())?.1.unwrap())
        });
        (said, outcome)
    }

    const PLAIN: &str = "AHVzAGh1bnRlcjI=";

    #[test]
    fn prompts_are_answered_whatever_they_say() {
        let (said, outcome) = talk("LOGIN", &["334 SWRlbnRpdHk=", "334 not base64", "235"]);
        assert_eq!(
            (said, outcome),
            (vec!["AUTH LOGIN".into(), "dXM=".into(), "aHVudGVyMg==".into()], Ok(()))
        );
        let (said, outcome) = talk("PLAIN LOGIN", &["334", "235 ok"]);
        assert_eq!((said, outcome), (vec![format!("AUTH PLAIN {PLAIN}"), PLAIN.into()], Ok(())));
        assert_eq!(talk("PLAIN", &["250 ok"]).1, Ok(()));
    }

    #[test]
    fn another_mechanism_is_tried_after_a_refusal() {
        for refusal in ["504 5.5.4 unrecognized", "535 5.7.8 no", "454 4.7.0 later"] {
            let (said, outcome) = talk("XOAUTH2 PLAIN LOGIN", &[refusal, "334", "334", "235"]);
            assert!(said[1] == "AUTH LOGIN" && outcome.is_ok(), "{said:?} {outcome:?}");
        }
        let (_, outcome) = talk("LOGIN PLAIN", &["535 5.7.8 no", "334", "334", "535 never"]);
        assert_eq!(
            outcome,
            Err("the login is refused: 535 5.7.8 no (PLAIN); 535 never (LOGIN)".into())
        );
        let (said, outcome) = talk("LOGIN PLAIN", &["535 no"]);
        assert_eq!((said.len(), outcome), (2, Err("the login is refused: 535 no (PLAIN)".into())));
        let (said, _) = talk("LOGIN PLAIN", &["421 closing", "235"]);
        assert_eq!(said.len(), 1);
    }

    #[test]
    fn a_refusal_of_the_credentials_is_told_from_one_of_the_moment_or_the_command() {
        for (replies, expected) in [
            (&["535 5.7.8 no"][..], true),
            (&["534 5.7.9 application-specific password required"], true),
            (&["504 5.5.4 unrecognized", "535 5.7.8 no"], true),
            (&["550 authentication failed"], true),
            (&["454 4.7.0 later"], false),
            (&["421 4.7.0 closing"], false),
            (&["500 5.5.2 too long"], false),
            (&["530 5.7.0 STARTTLS first"], false),
            (&["538 5.7.11 encryption required"], false),
            (&[], false),
        ] {
            let failure = log_in("PLAIN LOGIN", replies).1.unwrap_err();
            assert_eq!(failure.is_of_credentials, expected, "{replies:?}: {failure:?}");
        }
    }

    #[test]
    fn a_server_that_asks_without_end_is_left() {
        let (said, outcome) = talk("LOGIN", &["334"; 20]);
        assert!(said.len() == 4 && said[3] == "*", "{said:?}");
        assert_eq!(outcome, Err("the login is refused: 334 (LOGIN)".into()));
    }

    #[test]
    fn what_is_offered_and_not_supported_is_said() {
        let (said, outcome) = talk("CRAM-MD5 XOAUTH2", &[]);
        let reason = outcome.unwrap_err();
        assert!(
            said.is_empty()
                && reason.contains("CRAM-MD5 XOAUTH2 only")
                && reason.contains("PLAIN and LOGIN")
        );
        assert_eq!(talk("", &[]).1, Err("the server offers no login (AUTH)".into()));
    }

    #[test]
    fn no_secret_is_repeated() {
        for echo in [format!("500 what is AUTH PLAIN {PLAIN}"), "535 hunter2 is wrong".into()] {
            let reason = talk("PLAIN", &[&echo]).1.unwrap_err();
            assert!(
                reason.contains("[secret]")
                    && !reason.contains("hunter2")
                    && !reason.contains(PLAIN)
            );
        }
        let reason = talk("LOGIN", &["334", "334", "535 aHVudGVyMg=="]).1.unwrap_err();
        assert!(reason.contains("[secret]"), "{reason}");
        let (begin, end) = PLAIN.split_at(8);
        for echo in [
            format!("500 \"AUTH PLAIN {}...\"", &PLAIN[..12]),
            format!("500 unknown:AUTH PLAIN {}", PLAIN.to_ascii_uppercase()),
            format!("500-AUTH PLAIN {begin}\r\n500 {end} is unknown"),
        ] {
            let reason = talk("PLAIN", &[&echo]).1.unwrap_err();
            assert!(reason.contains("[secret]"), "{reason}");
            assert!(!reason.to_ascii_lowercase().contains("gh1bn"), "{reason}");
        }
    }
}
