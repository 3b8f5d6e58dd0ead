//! The variables that the application needs, as a shell, Node.js and frameworks read them.

use std::fmt::Write as _;

use mailroom_connect::{ConnectionSettings, names_server};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use zeroize::Zeroizing;

use super::folder::FormerEnvironment;
use crate::environment::variable;

/// What clients of PostgreSQL take the database from.
const CLIENTS: &str = "DATABASE_URL";

/// Adds the URL of the database for the application's client, unless this process has one of the
/// application's own.
///
/// Clients have other defaults than libpq: where the text that Mailroom was given names no server,
/// its URL is written out. It then has no password, which clients find where libpq does.
pub(super) fn add_database(
    variables: &mut String,
    given: &str,
    settings: &ConnectionSettings,
    former: &FormerEnvironment,
) {
    if variable(CLIENTS).is_some() && !former.has(CLIENTS) {
        return;
    }
    let url = if names_server(given) { Some(given.to_owned()) } else { settings.url() };
    if let Some(url) = url.map(Zeroizing::new) {
        writeln!(variables, "{CLIENTS}={}", *quoted(&url))
            .expect("a string takes all that is written");
    }
}

/// What a shell or dotenv would expand, and what would end a word there.
const EXPANDED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'$').add(b'\'').add(b'\\').add(b'`');

/// A URL as every reader of the file takes it: what a shell or dotenv would expand is
/// percent-encoded, and what ends a word in a shell is between quotes.
fn quoted(url: &str) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(3 * url.len() + 2));
    text.extend(utf8_percent_encode(url, EXPANDED));
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/@%".contains(&byte);
    if !text.bytes().all(is_word) {
        text.insert(0, '\'');
        text.push('\'');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_url_is_one_word_that_nothing_expands() {
        for (url, expected) in [
            ("postgresql://ada@db:5432/shop", "postgresql://ada@db:5432/shop"),
            ("postgresql://db/shop?a=b&c=d", "'postgresql://db/shop?a=b&c=d'"),
            ("postgresql://a:$x'`#@db/shop", "postgresql://a:%24x%27%60%23@db/shop"),
            ("postgresql://a:\n@db/shop", "postgresql://a:%0A@db/shop"),
        ] {
            assert_eq!(*quoted(url), expected);
        }
    }
}
