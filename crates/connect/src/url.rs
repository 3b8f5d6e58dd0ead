//! Connection strings in the form of a URL:
//! `postgresql://user:password@host:port/dbname?parameter=value`.
//!
//! Section 34.1.1.2 of PostgreSQL's documentation defines the form. One thing is stricter here: `@`
//! in host and database name and `?` in the user must be percent-encoded. A password with an
//! unencoded `/`, `@` or `?` would otherwise be split there, and a part of it shown in messages as
//! a host, database or user.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::SettingsError;
use super::parameters::{Parameter, Values};

/// What follows the scheme of a connection URL.
pub(crate) fn without_scheme(text: &str) -> Option<&str> {
    text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://"))
}

/// Parses a connection URL without its scheme.
pub(crate) fn parse(rest: &str) -> Result<Values, SettingsError> {
    let mut values = Values::default();

    let (user_info, rest) = match rest.find(['@', '/']) {
        Some(at) if rest[at..].starts_with('@') => (&rest[..at], &rest[at + 1..]),
        _ => ("", rest),
    };
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    if user.contains('?') {
        return Err(SettingsError::new(MISPLACED));
    }
    set(&mut values, "user", decode(user, "user")?);
    set(&mut values, "password", decode(password, "password")?);

    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if authority.contains('@') || path.contains('@') {
        return Err(SettingsError::new(MISPLACED));
    }
    set_servers(&mut values, authority)?;
    set(&mut values, "dbname", decode(path.strip_prefix('/').unwrap_or(path), "database name")?);
    set_parameters(&mut values, query)?;
    Ok(values)
}

const MISPLACED: &str = "the URL has an \"@\" or \"?\" where none can be; in user and password \
                         write \"@\" as %40, \"/\" as %2F and \"?\" as %3F";

/// Parts of a URL that are left out or empty give no value.
fn set(values: &mut Values, name: &'static str, value: Vec<u8>) {
    if !value.is_empty() {
        values.set(name, value);
    }
}

fn set_servers(values: &mut Values, authority: &str) -> Result<(), SettingsError> {
    let mut hosts = Vec::new();
    let mut ports = Vec::new();
    for server in authority.split(',') {
        let (host, port) = split_server(server)?;
        hosts.push(decode(host, "host")?);
        ports.push(decode(port, "port")?);
    }
    set(values, "host", hosts.join(&b','));
    set(values, "port", ports.join(&b','));
    Ok(())
}

/// Splits `host:port`, where the host may be an IPv6 address in brackets.
fn split_server(server: &str) -> Result<(&str, &str), SettingsError> {
    let Some(bracketed) = server.strip_prefix('[') else {
        return Ok(server.split_once(':').unwrap_or((server, "")));
    };
    match bracketed.split_once(']') {
        Some((host, "")) if !host.is_empty() => Ok((host, "")),
        Some((host, rest)) if !host.is_empty() && rest.starts_with(':') => Ok((host, &rest[1..])),
        _ => Err(SettingsError::new(
            "the brackets in the URL are wrong; \
             an IPv6 address is written [address] or [address]:port",
        )),
    }
}

fn set_parameters(values: &mut Values, query: &str) -> Result<(), SettingsError> {
    let mut rest = query;
    let mut position = 0;
    let mut after_secret = false;
    while !rest.is_empty() {
        // Where an `@` follows, this text may be a password that was not encoded.
        let may_be_secret = after_secret || rest.contains('@');
        let (pair, remaining) = rest.split_once('&').unwrap_or((rest, ""));
        rest = remaining;
        position += 1;

        let Some((name, value)) = pair.split_once('=').filter(|(_, value)| !value.contains('='))
        else {
            return Err(SettingsError::new(format!(
                "parameter {position} in the URL is not of the form name=value; in a value, write \
                 \"=\" as %3D and \"&\" as %26"
            )));
        };
        let name = decode(name, "parameter's name")?;
        let name = String::from_utf8_lossy(&name);
        let value = decode(value, "parameter's value")?;
        // libpq accepts this one spelling of the JDBC driver.
        let (name, value) = match (&*name, &*value) {
            ("ssl", b"true") => ("sslmode", b"require".to_vec()),
            _ => (&*name, value),
        };
        let parameter = Parameter::named(name)
            .ok_or_else(|| SettingsError::unknown_parameter(name, may_be_secret))?;
        after_secret |= parameter.is_secret();
        values.set(parameter.name, value);
    }
    Ok(())
}

/// Whether the text is a URL that names its server.
#[must_use]
pub fn names_server(text: &str) -> bool {
    let Some(rest) = without_scheme(text) else { return false };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let authority = &rest[..end];
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    !host.is_empty() && !host.starts_with(':')
}

/// All but what means nothing in a URL (RFC 3986, section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes every byte that may mean something in a URL as `%XX`.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// Decodes `%XX`; unlike in web forms, `+` stands for itself.
fn decode(text: &str, part: &str) -> Result<Vec<u8>, SettingsError> {
    // The library would leave such a sign as it is.
    if text.split('%').skip(1).any(|after| !begins_with_digits(after)) {
        return Err(SettingsError::new(format!(
            "the {part} in the URL has a \"%\" without two hexadecimal digits after it; \
             write \"%\" itself as %25"
        )));
    }
    let decoded: Vec<u8> = percent_decode_str(text).collect();
    if decoded.contains(&0) { Err(SettingsError::nul()) } else { Ok(decoded) }
}

fn begins_with_digits(text: &str) -> bool {
    text.as_bytes().first_chunk::<2>().is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> String {
        let values =
            parse(without_scheme(url).unwrap()).unwrap_or_else(|error| panic!("{url}: {error}"));
        values.shown(&[
            "user", "password", "host", "port", "dbname", "hostaddr", "sslmode", "options",
        ])
    }

    #[test]
    fn every_form_that_libpq_documents_is_understood() {
        for (url, expected) in [
            ("postgresql://", ""),
            ("postgres://", ""),
            ("postgres:///", ""),
            ("postgres:///db", "dbname=<db>"),
            ("postgresql://host", "host=<host>"),
            ("postgresql://host/", "host=<host>"),
            ("postgresql://host?", "host=<host>"),
            ("postgresql://host:12345", "host=<host> port=<12345>"),
            ("postgresql://host:12345/", "host=<host> port=<12345>"),
            ("postgresql://host:/db", "host=<host> dbname=<db>"),
            ("postgresql://:12345/db", "port=<12345> dbname=<db>"),
            ("postgresql://@host", "host=<host>"),
            ("postgresql://us@", "user=<us>"),
            ("postgresql://us@/db", "user=<us> dbname=<db>"),
            (
                "postgresql://us:pw@host:12345/db",
                "user=<us> password=<pw> host=<host> port=<12345> dbname=<db>",
            ),
            ("postgresql://us:p:w@host", "user=<us> password=<p:w> host=<host>"),
            ("postgresql://us:p?w@host", "user=<us> password=<p?w> host=<host>"),
            ("postgresql://us:%2F%40%3a%25@host", "user=<us> password=</@:%> host=<host>"),
            ("postgresql://us:p+w@host", "user=<us> password=<p+w> host=<host>"),
            ("postgresql://%68ost/%64b", "host=<host> dbname=<db>"),
            ("postgresql://[::1]:12345/db", "host=<::1> port=<12345> dbname=<db>"),
            ("postgresql://[2001:db8::1234]", "host=<2001:db8::1234>"),
            ("postgresql://[::1],[::2]:2/", "host=<::1,::2> port=<,2>"),
            ("postgresql://a:1,b:2,c/db", "host=<a,b,c> port=<1,2,> dbname=<db>"),
            ("postgresql://a,b/db", "host=<a,b> port=<,> dbname=<db>"),
            ("postgresql://%2Fvar%2Frun%2Fpostgresql/db", "host=</var/run/postgresql> dbname=<db>"),
            ("postgresql:///db?host=/tmp&port=1", "host=</tmp> port=<1> dbname=<db>"),
            ("postgresql://a/b?host=c&dbname=d", "host=<c> dbname=<d>"),
            ("postgresql://host/db?u%73er=us", "user=<us> host=<host> dbname=<db>"),
            ("postgresql://h/db?user=me@realm", "user=<me@realm> host=<h> dbname=<db>"),
            ("postgresql://?hostaddr=127.0.0.1", "hostaddr=<127.0.0.1>"),
            ("postgresql://h?options=-c%20geqo%3Doff&", "host=<h> options=<-c geqo=off>"),
            ("postgresql://h?ssl=true", "host=<h> sslmode=<require>"),
            ("postgresql://h/a/b", "host=<h> dbname=<a/b>"),
        ] {
            assert_eq!(parsed(url), expected, "{url}");
        }
    }

    #[test]
    fn malformed_urls_are_refused() {
        for (url, message) in [
            ("postgres://[::1", "brackets"),
            ("postgres://[]", "brackets"),
            ("postgres://[::1]z", "brackets"),
            ("postgresql://host?zzz", "parameter 1 "),
            ("postgresql://host?user=a&value2", "parameter 2 "),
            ("postgresql://host?user=a&&port=1", "parameter 2 "),
            ("postgresql://host?options=a=b", "parameter 1 "),
            ("postgresql://host?uzer=", "\"uzer\""),
            ("postgresql://host/db?u%7aer=x", "\"uzer\""),
            ("postgresql://host?ssl=1", "\"ssl\""),
            ("postgres://host?dbname=%XXfoo", "parameter's value"),
            ("postgresql://a%00b", "NUL"),
            ("postgresql://%zz", "host"),
            ("postgresql://%1", "host"),
            ("postgresql://%", "host"),
            ("postgresql://u%@h", "user"),
            ("postgresql://u:100%@h", "password"),
            ("postgresql://h:%2/", "port"),
            ("postgresql://h/%é", "database name"),
            ("postgresql://u:a@b@h/", "%40"),
            ("postgresql://u:a/b@h/", "%2F"),
        ] {
            let error = parse(without_scheme(url).unwrap())
                .err()
                .unwrap_or_else(|| panic!("{url} was accepted"))
                .to_string();
            assert!(error.contains(message), "{url}: {error}");
        }
    }
}
