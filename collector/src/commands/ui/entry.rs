//! Who may look: whoever reads the terminal on which the program was started.
//!
//! Other users of the machine reach a port on loopback, too. So the terminal shows a word that is
//! good once; a browser gives it and gets a cookie for it. The link has the word behind `#`, which
//! browsers keep to themselves: it comes in the body of a request, and in no address that a
//! history or a log keeps.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mailroom_http::hyper::HeaderMap;
use mailroom_http::hyper::header::{COOKIE, HeaderValue};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::commands::{CommandError, random_bytes};

/// How long a browser that has given the word may look.
const SESSION: Duration = Duration::from_secs(12 * 60 * 60);

/// The word until it is given, and then the session's cookie.
pub(super) struct Entry {
    /// Browsers send a cookie to every port of a machine: of two programs, each needs a name.
    cookie: String,
    state: Mutex<State>,
}

enum State {
    /// The word has not been given.
    Open(Zeroizing<String>),
    /// It was, at this time; the value of the cookie.
    Given(Zeroizing<String>, Instant),
}

/// What a word is answered with.
pub(super) enum Admission {
    /// It is the word: the line of the cookie.
    Granted(HeaderValue),
    /// It is not.
    Wrong,
    /// The word was given before, by this browser or by another one.
    Spent,
}

impl Entry {
    /// One whose word was not given yet, and the word.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub(super) fn new(port: u16) -> Result<(Self, Zeroizing<String>), CommandError> {
        let word = random_word()?;
        let state = Mutex::new(State::Open(word.clone()));
        Ok((Self { cookie: format!("mailroom_ui_{port}"), state }, word))
    }

    /// Whether this is a request of the browser that has given the word.
    pub(super) fn admits(&self, headers: &HeaderMap) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Given(value, since) = &*state else { return false };
        let cookies = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        });
        since.elapsed() < SESSION && pairs.any(|given| is_same(given, value))
    }

    /// Takes a word, once.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub(super) fn admit(&self, given: &str) -> Result<Admission, CommandError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Open(word) = &*state else { return Ok(Admission::Spent) };
        if !is_same(given.trim(), word) {
            return Ok(Admission::Wrong);
        }
        let value = random_word()?;
        let line = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, *value);
        let mut line = HeaderValue::from_str(&line).expect("digits and letters are a header");
        line.set_sensitive(true);
        *state = State::Given(value, Instant::now());
        Ok(Admission::Granted(line))
    }
}

/// 32 random bytes in hexadecimal.
fn random_word() -> Result<Zeroizing<String>, CommandError> {
    let mut word = Zeroizing::new(String::with_capacity(64));
    for byte in random_bytes()?.iter() {
        write!(word, "{byte:02x}").expect("a string takes all that is written");
    }
    Ok(word)
}

fn is_same(given: &str, expected: &str) -> bool {
    given.as_bytes().ct_eq(expected.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(cookie).unwrap())])
    }

    #[test]
    fn the_word_is_good_once_and_its_cookie_for_twelve_hours() {
        let (entry, word) = Entry::new(8026).unwrap();
        assert!(!entry.admits(&headers(&format!("mailroom_ui_8026={}", *word))));
        assert!(matches!(entry.admit("").unwrap(), Admission::Wrong));
        assert!(matches!(entry.admit(&word[1..]).unwrap(), Admission::Wrong));
        let Admission::Granted(line) = entry.admit(&word).unwrap() else { panic!("not granted") };
        let line = line.to_str().unwrap();
        let (pair, attributes) = line.split_once("; ").unwrap();
        assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/");
        assert!(!pair.contains(word.as_str()));
        assert!(entry.admits(&headers(&format!("a=b; {pair}"))));
        for other in ["", "mailroom_ui_8026=", "mailroom_ui_8025=0", &pair[..pair.len() - 1]] {
            assert!(!entry.admits(&headers(other)), "{other}");
        }
        assert!(matches!(entry.admit(&word).unwrap(), Admission::Spent));
        if let State::Given(_, since) = &mut *entry.state.lock().unwrap() {
            *since = since.checked_sub(SESSION).unwrap();
        }
        assert!(!entry.admits(&headers(pair)));
    }
}
