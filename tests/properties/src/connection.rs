//! Connection strings: any text, and texts that mean something in both of libpq's forms.

use std::fmt::Write;

use arbitrary::{Arbitrary, Unstructured};
use mailroom_connect::{ConnectionSettings, Environment};

/// An environment that gives nothing but a name, so that a string alone decides.
fn bare() -> Environment {
    Environment {
        variables: [].into(),
        user_name: || Some("collector".to_owned()),
        home: "/nonexistent".into(),
        socket_folders: vec!["/nonexistent".into()],
    }
}

/// Resolves a string and prints whatever comes of it, which must not panic.
pub fn connection_string(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    // Such strings name files, which would be read: a device among them never ends.
    let names_files = ["service", "sslrootcert", "sslcert", "sslkey"];
    let decoded = percent_decoded(text);
    if !names_files.iter().any(|name| text.contains(name) || decoded.contains(name)) {
        let _ = shown(text);
    }
}

/// The text with every `%XX` decoded, and whatever else is behind a `%` left as it is.
fn percent_decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part.split_at_checked(2).map(|(digits, rest)| (u8::from_str_radix(digits, 16), rest))
        {
            Some((Ok(byte), rest)) => {
                decoded.push(byte);
                decoded.extend(rest.bytes());
            }
            _ => decoded.extend(part.bytes()),
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// All that could be logged of a string.
fn shown(text: &str) -> Result<String, String> {
    match ConnectionSettings::resolve(text, &bare()) {
        Ok(settings) => Ok(format!("{settings} {settings:?}")),
        Err(error) => Err(format!("{error} {error:?}")),
    }
}

/// Parameters whose values are taken from the string alone.
const NAMES: [&str; 16] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "gssencmode",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "load_balance_hosts",
    "options",
    "port",
    "sslmode",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// What every piece of a password contains.
const MARK: &str = "ZQX";

#[derive(Arbitrary, Debug)]
struct Case<'a> {
    parameters: Vec<(u8, &'a str)>,
    password: Vec<&'a str>,
}

/// Writes parameters as keywords and as a URL, and resolves both.
///
/// # Panics
/// If one means something else than the other, or a piece of the password is shown.
pub fn connection_settings(data: &[u8]) {
    let Ok(case) = Case::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let password =
        case.password.iter().fold(MARK.to_owned(), |password, piece| password + piece + MARK);
    let mut parameters = vec![("password", password.as_str())];
    let named = case
        .parameters
        .iter()
        .map(|(name, value)| (NAMES[usize::from(*name) % NAMES.len()], *value));
    parameters.extend(named.filter(|(_, value)| !value.contains(MARK)));

    let (mut keywords, mut url) = (String::new(), "postgresql://?".to_owned());
    for (name, value) in parameters {
        let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
        write!(keywords, "{name}='{quoted}' ").expect("a string has room");
        write!(url, "{name}={}&", percent_encoded(value)).expect("a string has room");
    }
    let (keywords, url) = (shown(&keywords), shown(&url));
    for shown in [&keywords, &url] {
        let text = shown.as_ref().unwrap_or_else(|text| text);
        assert!(!text.contains(MARK), "{text}");
    }
    assert_eq!(keywords, url);
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |encoded, byte| format!("{encoded}%{byte:02x}"))
}
