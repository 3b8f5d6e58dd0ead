//! Bearer tokens and their rights: a file in TOML, which has SHA-256 of each in place of itself.

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
use crate::right::Right;

/// What a bearer token begins with, so that scanners of repositories know it.
pub(crate) const PREFIX: &str = "mrst_";

/// The longest file, in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// The longest name of a bearer token.
const MAX_NAME: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    /// What the log calls it.
    name: String,
    /// Of the token as it is sent, in hexadecimal digits.
    sha256: String,
    /// What it may do.
    rights: Vec<Right>,
    /// Those that it may name; all, where this is missing.
    actions: Option<Vec<String>>,
    /// Calls of each function that sends mails, and of collectors.
    rate: Option<Rate>,
}

/// A bearer token that is known.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) name: String,
    hash: [u8; 32],
    rights: Vec<Right>,
    actions: Option<Vec<String>>,
    limit: Arc<Limit>,
}

/// How many mails a bearer token may have sent, and what is left of that.
#[derive(Debug)]
struct Limit {
    rate: Rate,
    /// One for each right, by its place.
    buckets: [Bucket; Right::COUNT],
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<Arc<Token>>);

impl Tokens {
    /// Reads a file. What is left of the rate of a bearer token stays as it was in those from
    /// before, unless the rate is another one now.
    ///
    /// # Errors
    /// A file that others may write, that cannot be read or is no TOML; a setting that is unknown,
    /// missing or cannot be used; no bearer token.
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
        file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_FILE {
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
            let mut token = Token::of(entry).map_err(|why| format!("{place}: {why}"))?;
            if tokens.iter().any(|other| other.name == token.name) {
                return Err(format!("{place}: an earlier one has this name"));
            }
            if tokens.iter().any(|other| other.hash == token.hash) {
                return Err(format!("{place}: an earlier one is the same bearer token"));
            }
            let old = before.into_iter().flat_map(|before| &before.0);
            let mut same = old.filter(|old| old.hash == token.hash);
            if let Some(old) = same.find(|old| old.limit.rate == token.limit.rate) {
                token.limit = Arc::clone(&old.limit);
            }
            tokens.push(Arc::new(token));
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
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_of_name) {
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
            None if rights.iter().any(|right| right.has_rate()) => {
                return Err(
                    "a bearer token that has mails sent or collectors woken needs a rate, such as \
                     \"60/min\", or \"off\"",
                );
            }
            None => Rate::Off,
        };
        let limit = Arc::new(Limit { rate, buckets: Default::default() });
        Ok(Self { name, hash, rights, actions, limit })
    }

    pub(crate) fn may(&self, right: Right) -> bool {
        self.rights.contains(&right)
    }

    pub(crate) fn may_name(&self, action: &str) -> bool {
        self.actions.as_ref().is_none_or(|actions| actions.iter().any(|named| named == action))
    }

    /// Counts a call that sends a mail or wakes collectors.
    ///
    /// # Errors
    /// The rate is used up, until this time has passed.
    pub(crate) fn spend(&self, right: Right) -> Result<(), Duration> {
        if !right.has_rate() {
            return Ok(());
        }
        let Limit { rate, buckets } = &*self.limit;
        buckets[right.place()].take(*rate, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;

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
        assert!(
            token.may(Right::Call(Function::Redeem)) && !token.may(Right::Call(Function::Cancel))
        );
        assert!(token.may_name("recover") && !token.may_name("activate"));
        assert!(token.spend(Right::Call(Function::Enqueue)).is_ok());
        // Reading the file again gives nobody more.
        let again = Tokens::parse(&text, Some(&tokens)).unwrap();
        let token = again.find(b"").unwrap();
        assert!(token.spend(Right::Call(Function::Enqueue)).is_ok());
        assert!(token.spend(Right::Call(Function::Enqueue)).is_err());
        assert!(token.spend(Right::Call(Function::Redeem)).is_ok());
    }

    #[test]
    fn an_edit_leaves_what_is_left_of_a_rate_unless_the_rate_is_another_one() {
        fn read(settings: &str, before: Option<&Tokens>) -> Tokens {
            Tokens::parse(&entry(settings), before).unwrap()
        }
        let is_left = |tokens: &Tokens| {
            let token = tokens.find(b"").unwrap();
            token.spend(Right::Call(Function::Enqueue)).is_ok()
        };
        let first = read("rights = [\"enqueue\"]\nrate = \"1/d\"", None);
        assert!(is_left(&first) && !is_left(&first));
        let mut last = first;
        for edited in [
            "rights = [\"redeem\", \"enqueue\"]\nrate = \"1/d\"",
            "rights = [\"enqueue\"]\nrate = \"1/d\"\nactions = [\"recover\"]",
        ] {
            last = read(edited, Some(&last));
            assert!(!is_left(&last), "{edited}");
        }
        let renamed = entry("rights = [\"enqueue\"]\nrate = \"1/d\"").replace("edge", "shop");
        last = Tokens::parse(&renamed, Some(&last)).unwrap();
        assert!(!is_left(&last));
        last = read("rights = [\"enqueue\"]\nrate = \"2/d\"", Some(&last));
        assert!(is_left(&last) && is_left(&last) && !is_left(&last));
    }

    #[test]
    fn what_is_wrong_is_one_sentence_that_repeats_no_value() {
        let redeem = "rights = [\"redeem\"]";
        for (text, expected) in [
            (String::new(), "no [[token]]"),
            ("token = []".to_owned(), "no [[token]]"),
            ("hunter2".to_owned(), "line 1: "),
            (entry(""), "missing field `rights`"),
            (entry("rights = []"), "no rights"),
            (entry("rights = [\"hunter2\"]"), "line 4"),
            (entry("rights = [\"enqueue\"]"), "needs a rate"),
            (entry("rights = [\"wake\"]"), "needs a rate"),
            (entry("rights = [\"enqueue\"]\nrate = \"hunter2\""), "a rate must be"),
            (entry(&format!("{redeem}\nraet = \"off\"")), "did you mean `rate`?"),
            (entry(redeem).replace("edge", "hunter2 hunter2"), "its name must be"),
            (entry(redeem).replace(EMPTY, "hunter2"), "its sha256 must be"),
            (entry(redeem).replace(EMPTY, &EMPTY.to_uppercase()), "its sha256 must be"),
            (format!("{0}{0}", entry(redeem)), "number 2: an earlier one has this name"),
            (
                format!("{}{}", entry(redeem), entry(redeem).replace("edge", "hunter2")),
                "number 2: an earlier one is the same bearer token",
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
