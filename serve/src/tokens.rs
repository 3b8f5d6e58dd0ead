//! Bearer tokens and their rights: a file in TOML, which has no token but SHA-256 of it.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mailroom_mail::toml_file::{self, Table};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::Error;
use crate::bucket::{Bucket, Rate};
use crate::function::Function;

/// What a token begins with, so that scanners of repositories know it.
pub(crate) const PREFIX: &str = "mrst_";

/// The longest file, in bytes.
const LONGEST_FILE: u64 = 1024 * 1024;

/// The longest name of a token.
const LONGEST_NAME: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// What the log calls it.
    name: String,
    /// Of the token as it is sent, in hexadecimal digits.
    sha256: String,
    /// The functions that it may call.
    rights: Vec<Function>,
    /// Those that it may name; all, where this is missing.
    actions: Option<Vec<String>>,
    /// Calls of each function that sends mails.
    rate: Option<Rate>,
}

/// A token that is known.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) name: String,
    hash: [u8; 32],
    rights: Vec<Function>,
    actions: Option<Vec<String>>,
    rate: Rate,
    /// One for each right.
    buckets: Vec<Bucket>,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<Arc<Token>>);

impl Tokens {
    /// Reads a file; what is left of rates stays as it was in those from before.
    ///
    /// # Errors
    /// A file that others may write, that cannot be read or is no TOML; a setting that is unknown,
    /// missing or cannot be used; no token.
    pub(crate) fn read(path: &Path, before: Option<&Self>) -> Result<Self, Error> {
        let unusable = |why: &str| Error(format!("{} cannot be used: {why}", path.display()));
        let unreadable =
            |error: std::io::Error| Error(format!("{} cannot be read: {error}", path.display()));
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if metadata.permissions().mode() & 0o022 != 0 {
            return Err(unusable(
                "others than its owner may write it, and so give themselves every right; \
                 `chmod go-w` ends that",
            ));
        }
        let mut text = String::new();
        file.take(LONGEST_FILE + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > LONGEST_FILE {
            return Err(unusable("it is larger than 1 MiB"));
        }
        Self::parse(&text, before).map_err(|why| unusable(&why))
    }

    fn parse(text: &str, before: Option<&Self>) -> Result<Self, String> {
        let tables = [Table::of::<TokenFile>(""), Table::of::<Entry>("token")];
        let TokenFile { token: entries } = toml_file::parse(text, &tables)?;
        let mut tokens: Vec<Arc<Token>> = Vec::new();
        for (at, entry) in entries.into_iter().enumerate() {
            let place = format!("[[token]] number {}", at + 1);
            let token = Token::of(entry).map_err(|why| format!("{place}: {why}"))?;
            if tokens.iter().any(|other| other.name == token.name) {
                return Err(format!("{place}: an earlier one has this name"));
            }
            if tokens.iter().any(|other| other.hash == token.hash) {
                return Err(format!("{place}: an earlier one is the same token"));
            }
            let same = before.into_iter().flat_map(|before| &before.0).find(|old| {
                old.hash == token.hash && old.rate == token.rate && old.rights == token.rights
            });
            match same {
                // With what is left of its rate.
                Some(same) if same.name == token.name && same.actions == token.actions => {
                    tokens.push(Arc::clone(same));
                }
                _ => tokens.push(Arc::new(token)),
            }
        }
        if tokens.is_empty() {
            return Err("it has no [[token]]; `mailroom serve token` makes one".to_owned());
        }
        Ok(Self(tokens))
    }

    /// The one that was sent. How long that takes tells nothing of those that are known.
    pub(crate) fn find(&self, sent: &[u8]) -> Option<&Arc<Token>> {
        let hash: [u8; 32] = Sha256::digest(sent).into();
        let mut found = None;
        for token in &self.0 {
            if bool::from(token.hash.ct_eq(&hash)) {
                found = Some(token);
            }
        }
        found
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

impl Token {
    fn of(entry: Entry) -> Result<Self, &'static str> {
        let Entry { name, sha256, rights, actions, rate } = entry;
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_of_name) {
            return Err("its name must be 1 to 64 letters, digits, `-`, `_` and `.`");
        }
        let mut hash = [0; 32];
        base16ct::lower::decode(sha256.as_bytes(), &mut hash)
            .ok()
            .filter(|decoded| decoded.len() == 32)
            .ok_or(
                "its sha256 must be 64 small hexadecimal digits, as `mailroom serve token` \
                    prints them",
            )?;
        if rights.is_empty() {
            return Err("it has no rights");
        }
        let rate = match rate {
            Some(rate) => rate,
            None if rights.iter().any(|right| right.sends()) => {
                return Err(
                    "a token that has mails sent needs a rate, such as \"60/min\", or \"off\"",
                );
            }
            None => Rate::Off,
        };
        let buckets = rights.iter().map(|_| Bucket::default()).collect();
        Ok(Self { name, hash, rights, actions, rate, buckets })
    }

    pub(crate) fn may(&self, function: Function) -> bool {
        self.rights.contains(&function)
    }

    pub(crate) fn may_name(&self, action: &str) -> bool {
        self.actions.as_ref().is_none_or(|actions| actions.iter().any(|named| named == action))
    }

    /// Counts a call that sends a mail.
    ///
    /// # Errors
    /// The rate is used up, until this time has passed.
    pub(crate) fn spend(&self, function: Function) -> Result<(), Duration> {
        let at = self.rights.iter().position(|right| *right == function);
        match at {
            Some(at) if function.sends() => self.buckets[at].take(self.rate, Instant::now()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn entry(more: &str) -> String {
        format!("[[token]]\nname = \"edge\"\nsha256 = \"{EMPTY}\"\n{more}\n")
    }

    #[test]
    fn a_token_is_found_by_its_hash_and_may_do_what_its_table_says() {
        let text =
            entry("rights = [\"redeem\", \"enqueue\"]\nrate = \"2/h\"\nactions = [\"recover\"]");
        let tokens = Tokens::parse(&text, None).unwrap();
        assert!(tokens.find(b"x").is_none());
        let token = tokens.find(b"").unwrap();
        assert!(token.may(Function::Redeem) && !token.may(Function::Cancel));
        assert!(token.may_name("recover") && !token.may_name("activate"));
        assert!(token.spend(Function::Enqueue).is_ok());
        // Reading the file again gives nobody more.
        let again = Tokens::parse(&text, Some(&tokens)).unwrap();
        let token = again.find(b"").unwrap();
        assert!(token.spend(Function::Enqueue).is_ok());
        assert!(token.spend(Function::Enqueue).is_err());
        assert!(token.spend(Function::Redeem).is_ok());
    }

    #[test]
    fn what_is_wrong_is_one_sentence_that_repeats_no_value() {
        let redeem = "rights = [\"redeem\"]";
        for (text, expected) in [
            (String::new(), "missing field `token`"),
            ("token = []".to_owned(), "no [[token]]"),
            ("hunter2".to_owned(), "line 1: "),
            (entry(""), "missing field `rights`"),
            (entry("rights = []"), "no rights"),
            (entry("rights = [\"hunter2\"]"), "line 4"),
            (entry("rights = [\"enqueue\"]"), "needs a rate"),
            (entry("rights = [\"enqueue\"]\nrate = \"hunter2\""), "a rate must be"),
            (entry(&format!("{redeem}\nraet = \"off\"")), "did you mean `rate`?"),
            (entry(redeem).replace("edge", "hunter2 hunter2"), "its name must be"),
            (entry(redeem).replace(EMPTY, "hunter2"), "its sha256 must be"),
            (entry(redeem).replace(EMPTY, &EMPTY.to_uppercase()), "its sha256 must be"),
            (format!("{0}{0}", entry(redeem)), "number 2: an earlier one has this name"),
            (
                format!("{}{}", entry(redeem), entry(redeem).replace("edge", "hunter2")),
                "number 2: an earlier one is the same token",
            ),
        ] {
            let error = Tokens::parse(&text, None).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains("hunter2") && !error.contains('\n'),
                "{error}"
            );
        }
    }
}
