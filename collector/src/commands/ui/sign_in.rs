//! Who may look: whoever reads the terminal on which the program was started.
//!
//! Other users of the machine reach a port on loopback, too. So the terminal shows a one-time
//! password, for which a browser gets a cookie. The link has it behind `#`, which browsers keep to
//! themselves: it comes in the body of a request, and in no address that a server or a log keeps.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mailroom_http::hyper::HeaderMap;
use mailroom_http::hyper::header::{COOKIE, HeaderValue};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::commands::{CommandError, random_text};

/// How long a browser that has signed in may look.
const SESSION: Duration = Duration::from_secs(12 * 60 * 60);

/// The one-time password until it is used, and then the session's cookie.
pub(super) struct SignIn {
    /// Browsers send a cookie to every port of a machine: of two programs, each needs a name.
    cookie: String,
    state: Mutex<State>,
}

enum State {
    /// Nobody has signed in; the password.
    Unused(Zeroizing<String>),
    /// Somebody has, at this time; the value of the cookie.
    SignedIn(Zeroizing<String>, Instant),
}

/// What a password is answered with.
pub(super) enum Attempt {
    /// It is right: the line of the cookie.
    Granted(HeaderValue),
    Wrong,
    /// The password was used before, by this browser or by another one.
    Used,
}

impl SignIn {
    /// One whose password is unused, and the password.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub(super) fn new(port: u16) -> Result<(Self, Zeroizing<String>), CommandError> {
        let password = random_text()?;
        let state = Mutex::new(State::Unused(password.clone()));
        Ok((Self { cookie: format!("mailroom_ui_{port}"), state }, password))
    }

    /// Whether this is a request of the browser that has signed in.
    pub(super) fn is_signed_in(&self, headers: &HeaderMap) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::SignedIn(value, since) = &*state else { return false };
        let cookies = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = cookies.flat_map(|line| line.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        });
        since.elapsed() < SESSION && pairs.any(|given| is_same(given, value))
    }

    /// Takes the password, once.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub(super) fn sign_in(&self, given: &str) -> Result<Attempt, CommandError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Unused(password) = &*state else { return Ok(Attempt::Used) };
        if !is_same(given.trim(), password) {
            return Ok(Attempt::Wrong);
        }
        let value = random_text()?;
        let line = format!("{}={}; HttpOnly; SameSite=Strict; Path=/", self.cookie, *value);
        let mut line = HeaderValue::from_str(&line).expect("digits and letters are a header");
        line.set_sensitive(true);
        *state = State::SignedIn(value, Instant::now());
        Ok(Attempt::Granted(line))
    }
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
    fn the_password_is_good_once_and_its_cookie_for_twelve_hours() {
        let (sign_in, password) = SignIn::new(8026).unwrap();
        assert!(!sign_in.is_signed_in(&headers(&format!("mailroom_ui_8026={}", *password))));
        assert!(matches!(sign_in.sign_in("").unwrap(), Attempt::Wrong));
        assert!(matches!(sign_in.sign_in(&password[1..]).unwrap(), Attempt::Wrong));
        let Attempt::Granted(line) = sign_in.sign_in(&password).unwrap() else {
            panic!("not granted")
        };
        let line = line.to_str().unwrap();
        let (pair, attributes) = line.split_once("; ").unwrap();
        assert_eq!(attributes, "HttpOnly; SameSite=Strict; Path=/");
        assert!(!pair.contains(password.as_str()));
        assert!(sign_in.is_signed_in(&headers(&format!("a=b; {pair}"))));
        for other in ["", "mailroom_ui_8026=", "mailroom_ui_8025=0", &pair[..pair.len() - 1]] {
            assert!(!sign_in.is_signed_in(&headers(other)), "{other}");
        }
        assert!(matches!(sign_in.sign_in(&password).unwrap(), Attempt::Used));
        if let State::SignedIn(_, since) = &mut *sign_in.state.lock().unwrap() {
            *since = since.checked_sub(SESSION).unwrap();
        }
        assert!(!sign_in.is_signed_in(&headers(pair)));
    }
}
