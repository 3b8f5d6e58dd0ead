//! What proves a mail about a recipient: a return address that only mails to the recipient carried.
//! Nothing else does.

use mailroom_mail::ReturnPath;

/// The most return addresses that are looked at, and the most spellings of a recipient.
const MAX_PROOFS: usize = 16;

/// The longest spelling of a recipient, in bytes.
const MAX_BYTES: usize = 1_024;

/// The most words in a mail that are tried as addresses.
const MAX_WORDS: usize = 512;

/// Return addresses that a mail came to or names.
pub(super) struct Proof<'a> {
    return_path: &'a ReturnPath,
    addresses: Vec<String>,
}

impl<'a> Proof<'a> {
    /// Takes the return addresses out of values of fields.
    pub(super) fn of<'b>(
        return_path: &'a ReturnPath,
        values: impl Iterator<Item = &'b str>,
    ) -> Self {
        let addresses =
            values.flat_map(words).filter(|word| return_path.is_of_form(word)).take(MAX_PROOFS);
        Self { return_path, addresses: addresses.map(str::to_owned).collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The sender of the mails to a recipient.
    pub(super) fn sender_to(&self, recipient: &str) -> String {
        self.return_path.of(recipient)
    }

    /// The recipient in the spelling that a return address proves.
    pub(super) fn proven(&self, recipient: &str) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        spellings(recipient).into_iter().find(|spelling| self.proves(spelling))
    }

    /// Whether the mail names a recipient of whom one of its return addresses is, wherever it does.
    pub(super) fn is_of_somebody_in(&self, text: &str) -> bool {
        let mut named = words(text)
            .filter(|word| word.len() <= MAX_BYTES && word.contains('@'))
            .take(MAX_WORDS);
        !self.is_empty() && named.any(|word| self.proves(word.trim_end_matches('.')))
    }

    fn proves(&self, recipient: &str) -> bool {
        self.addresses.iter().any(|address| self.return_path.proves(address, recipient))
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| character.is_whitespace() || "<>,;:\"()[]".contains(character))
}

/// The addresses that a field may mean: with and without the type, brackets, comments, quotes and
/// encodings that servers write.
fn spellings(field: &str) -> Vec<String> {
    if field.len() > MAX_BYTES {
        return Vec::new();
    }
    let value = field.split_once(';').map_or(field, |(_, value)| value).trim();
    let value = match (value.find('<'), value.rfind('>')) {
        (Some(start), Some(end)) if start < end => &value[start + 1..end],
        _ => value.split_once([' ', '\t']).map_or(value, |(address, _)| address),
    };
    // A route before the address (RFC 5321, appendix C).
    let value = if value.starts_with('@') {
        value.split_once(':').map_or(value, |(_, rest)| rest)
    } else {
        value
    };
    let mut spellings = vec![value.trim_end_matches('.').to_owned()];
    let mut add = |spelling: Option<String>| {
        if let Some(spelling) = spelling.filter(|spelling| !spellings.contains(spelling)) {
            spellings.push(spelling);
        }
    };
    add(without_escapes(value));
    add(without_xtext(value));
    let quoted = value.strip_prefix('"').and_then(|rest| rest.split_once("\"@"));
    add(quoted.map(|(local, domain)| format!("{local}@{domain}")));
    for spelling in spellings.clone() {
        let Some((local, domain)) = spelling.rsplit_once('@') else { continue };
        let (unicode, outcome) = idna::domain_to_unicode(domain);
        let others = [idna::domain_to_ascii(domain).ok(), outcome.is_ok().then_some(unicode)];
        for other in others.into_iter().flatten() {
            let form = format!("{local}@{other}");
            if !spellings.contains(&form) {
                spellings.push(form);
            }
        }
    }
    spellings.truncate(MAX_PROOFS);
    spellings
}

/// `\x{E9}` as RFC 6533 writes characters.
fn without_escapes(text: &str) -> Option<String> {
    let mut parts = text.split("\\x{");
    let mut plain = parts.next()?.to_owned();
    for part in parts {
        let (digits, rest) = part.split_once('}')?;
        plain.push(u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)?);
        plain.push_str(rest);
    }
    Some(plain)
}

/// `+2B` as RFC 3461 writes bytes.
fn without_xtext(text: &str) -> Option<String> {
    let mut parts = text.split('+');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mailroom_mail::normal_address;

    #[test]
    fn a_recipient_is_found_in_each_spelling_and_proven_by_its_return_address_alone() {
        let path =
            ReturnPath::new("bounces@example.org", "0123456789abcdef0123456789abcdef").unwrap();
        for (address, fields) in [
            (
                "ada@x.test",
                &[
                    "rfc822; ada@x.test",
                    "rfc822;<ada@x.test>",
                    "RFC822 ; Ada@X.TEST",
                    "ada@x.test",
                    "<ada@x.test>",
                    "rfc/822;ada@x.test",
                    "rfc822; ada@x.test (Ada)",
                    "rfc822; ada@x.test.",
                    "x-local;ada@x.test",
                    "rfc822; \"Ada L.\" <ada@x.test>",
                    "rfc822; @relay.test:ada@x.test",
                    "rfc822; \"ada\"@x.test",
                    "utf-8; a\\x{64}a@x.test",
                ][..],
            ),
            ("ada+list@x.test", &["rfc822; ada+list@x.test", "rfc822; ada+2Blist@x.test"]),
            ("j\u{f6}s@x.test", &["utf-8; j\\x{F6}s@x.test", "utf-8; j\u{f6}s@x.test"]),
            (
                "ada@xn--bcher-kva.test",
                &[
                    "rfc822; ada@xn--bcher-kva.test",
                    "utf-8; ada@b\\x{FC}cher.test",
                    "utf-8; ada@b\u{fc}cher.test",
                ],
            ),
        ] {
            let to = path.of(address);
            let proof = Proof::of(&path, [to.as_str()].into_iter());
            let bob = path.of("bob@x.test");
            let other = Proof::of(&path, [bob.as_str()].into_iter());
            for field in fields {
                assert!(
                    proof.proven(field).and_then(|found| normal_address(&found))
                        == normal_address(address),
                    "{field}"
                );
                assert!(other.proven(field).is_none(), "{field}");
            }
        }
        let to = path.of("ada@x.test");
        let proof = Proof::of(&path, [to.as_str()].into_iter());
        let long = format!("rfc822; {}ada@x.test", "a".repeat(5_000));
        for field in [
            "",
            ";",
            "rfc822;",
            "rfc822; bob@x.test",
            "rfc822; ada@x.test@y.test",
            "\\x{",
            "+",
            "+zz",
            "@",
            &long,
        ] {
            assert!(proof.proven(field).is_none(), "{field}");
        }
    }
}
