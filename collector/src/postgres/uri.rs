//! Connection strings in the form of a URI: `postgresql://user:password@host:port/dbname?parameter=value`.
//!
//! Section 34.1.1.2 of PostgreSQL's documentation defines the form. One thing is stricter here: `@` in host
//! and database name and `?` in the user must be percent-encoded. A password with an unencoded `/`, `@` or
//! `?` would otherwise be split there, and a part of it shown in messages as a host, database or user.

use super::parameter::{Parameter, Values};
use super::{SettingsError, UriPart};

/// Whether `text` is meant as a connection URI.
pub(super) fn is_uri(text: &str) -> bool {
    without_scheme(text).is_some()
}

/// Takes a connection URI apart.
pub(super) fn parse(uri: &str) -> Result<Values, SettingsError> {
    let rest = without_scheme(uri).ok_or(SettingsError::UnknownScheme)?;
    let mut values = Values::default();

    let (user_info, rest) = match rest.find(['@', '/']) {
        Some(at) if rest[at..].starts_with('@') => (&rest[..at], &rest[at + 1..]),
        _ => ("", rest),
    };
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    if user.contains('?') {
        return Err(SettingsError::MisplacedDelimiter);
    }
    set(&mut values, "user", decode(user, UriPart::User)?);
    set(&mut values, "password", decode(password, UriPart::Password)?);

    let (authority, rest) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    if authority.contains('@') || path.contains('@') {
        return Err(SettingsError::MisplacedDelimiter);
    }
    set_servers(&mut values, authority)?;
    set(&mut values, "dbname", decode(path.strip_prefix('/').unwrap_or(path), UriPart::Database)?);
    set_parameters(&mut values, query)?;
    Ok(values)
}

fn without_scheme(text: &str) -> Option<&str> {
    text.strip_prefix("postgresql://").or_else(|| text.strip_prefix("postgres://"))
}

/// Parts of a URI that are left out or empty give no value.
fn set(values: &mut Values, name: &'static str, value: Vec<u8>) {
    let parameter = Parameter::named(name).expect("parts of a URI are parameters");
    if !value.is_empty() {
        values.set(parameter, value);
    }
}

fn set_servers(values: &mut Values, authority: &str) -> Result<(), SettingsError> {
    let mut hosts = Vec::new();
    let mut ports = Vec::new();
    for (index, server) in authority.split(',').enumerate() {
        if index > 0 {
            hosts.push(b',');
            ports.push(b',');
        }
        let (host, port) = split_server(server)?;
        hosts.extend(decode(host, UriPart::Host)?);
        ports.extend(decode(port, UriPart::Port)?);
    }
    set(values, "host", hosts);
    set(values, "port", ports);
    Ok(())
}

/// Splits `host:port`, where the host may be an IPv6 address in brackets.
fn split_server(server: &str) -> Result<(&str, &str), SettingsError> {
    let Some(bracketed) = server.strip_prefix('[') else {
        return Ok(server.split_once(':').unwrap_or((server, "")));
    };
    let (host, rest) = bracketed.split_once(']').ok_or(SettingsError::Brackets)?;
    let port = match rest {
        "" => "",
        rest => rest.strip_prefix(':').ok_or(SettingsError::Brackets)?,
    };
    if host.is_empty() {
        return Err(SettingsError::Brackets);
    }
    Ok((host, port))
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

        let (name, value) = pair.split_once('=').ok_or(SettingsError::UriParameter { position })?;
        if value.contains('=') {
            return Err(SettingsError::UriParameter { position });
        }
        let name = decode(name, UriPart::ParameterName)?;
        let name = String::from_utf8_lossy(&name);
        let value = decode(value, UriPart::ParameterValue)?;
        // libpq accepts this one spelling of the JDBC driver.
        let (name, value) = match (&*name, &*value) {
            ("ssl", b"true") => ("sslmode", b"require".to_vec()),
            _ => (&*name, value),
        };
        let parameter = Parameter::named(name)
            .ok_or_else(|| SettingsError::unknown_parameter((!may_be_secret).then_some(name)))?;
        after_secret |= parameter.is_secret();
        values.set(parameter, value);
    }
    Ok(())
}

/// Decodes `%XX`; unlike in web forms, `+` stands for itself.
fn decode(text: &str, part: UriPart) -> Result<Vec<u8>, SettingsError> {
    let fault = || SettingsError::PercentEncoding { part };
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(fault);
        let value = u8::try_from(digit()? * 16 + digit()?).expect("two hexadecimal digits fit a byte");
        if value == 0 {
            return Err(SettingsError::Nul);
        }
        decoded.push(value);
    }
    Ok(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(uri: &str) -> String {
        let values = parse(uri).unwrap_or_else(|error| panic!("{uri}: {error}"));
        ["user", "password", "host", "port", "dbname", "hostaddr", "sslmode", "options"]
            .iter()
            .filter_map(|name| {
                let (_, value) = values.text(name).unwrap()?;
                Some(format!("{name}={value}"))
            })
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn every_form_that_libpq_documents_is_understood() {
        for (uri, expected) in [
            ("postgresql://", ""),
            ("postgres://", ""),
            ("postgres:///", ""),
            ("postgres:///db", "dbname=db"),
            ("postgresql://host", "host=host"),
            ("postgresql://host/", "host=host"),
            ("postgresql://host?", "host=host"),
            ("postgresql://host:12345", "host=host port=12345"),
            ("postgresql://host:12345/", "host=host port=12345"),
            ("postgresql://host:/db", "host=host dbname=db"),
            ("postgresql://:12345/db", "port=12345 dbname=db"),
            ("postgresql://@host", "host=host"),
            ("postgresql://us@", "user=us"),
            ("postgresql://us@/db", "user=us dbname=db"),
            ("postgresql://us:pw@host:12345/db", "user=us password=pw host=host port=12345 dbname=db"),
            ("postgresql://us:p:w@host", "user=us password=p:w host=host"),
            ("postgresql://us:p?w@host", "user=us password=p?w host=host"),
            ("postgresql://us:%2F%40%3a%25@host", "user=us password=/@:% host=host"),
            ("postgresql://us:p+w@host", "user=us password=p+w host=host"),
            ("postgresql://%68ost/%64b", "host=host dbname=db"),
            ("postgresql://[::1]:12345/db", "host=::1 port=12345 dbname=db"),
            ("postgresql://[2001:db8::1234]", "host=2001:db8::1234"),
            ("postgresql://[::1],[::2]:2/", "host=::1,::2 port=,2"),
            ("postgresql://a:1,b:2,c/db", "host=a,b,c port=1,2, dbname=db"),
            ("postgresql://a,b/db", "host=a,b port=, dbname=db"),
            ("postgresql://%2Fvar%2Frun%2Fpostgresql/db", "host=/var/run/postgresql dbname=db"),
            ("postgresql:///db?host=/tmp&port=1", "host=/tmp port=1 dbname=db"),
            ("postgresql://a/b?host=c&dbname=d", "host=c dbname=d"),
            ("postgresql://host/db?u%73er=us", "user=us host=host dbname=db"),
            ("postgresql://h/db?user=me@realm", "user=me@realm host=h dbname=db"),
            ("postgresql://?hostaddr=127.0.0.1", "hostaddr=127.0.0.1"),
            ("postgresql://h?options=-c%20geqo%3Doff&", "host=h options=-c geqo=off"),
            ("postgresql://h?ssl=true", "host=h sslmode=require"),
            ("postgresql://h/a/b", "host=h dbname=a/b"),
        ] {
            assert_eq!(parsed(uri), expected, "{uri}");
        }
    }

    #[test]
    fn malformed_uris_are_refused() {
        for (uri, message) in [
            ("postgres://[::1", "brackets"),
            ("postgres://[]", "brackets"),
            ("postgres://[::1]z", "brackets"),
            ("postgresql://host?zzz", "1st parameter"),
            ("postgresql://host?user=a&value2", "2nd parameter"),
            ("postgresql://host?user=a&&port=1", "2nd parameter"),
            ("postgresql://host?options=a=b", "1st parameter"),
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
            let error = parse(uri).err().unwrap_or_else(|| panic!("{uri} was accepted")).to_string();
            assert!(error.contains(message), "{uri}: {error}");
        }
    }

    #[test]
    fn a_password_that_was_not_encoded_is_not_named_as_a_parameter() {
        for uri in [
            "postgresql://h?password=ab&SECRET=1",
            "postgresql://h?SECRET=1&user=a@b",
            "postgresql://h/?SECRET=1&user=a@b",
            "postgresql://h?password=SECRET@b",
            "postgresql://u:12/x?SECRET=1@h/db",
            "postgresql://u:SECRET/x@h/db",
            "postgresql://u:x@SECRET@h/db",
            "postgresql://h?password=SECRET=1",
            "postgresql://h?password=a&SECRET",
        ] {
            let error = parse(uri).err().unwrap_or_else(|| panic!("{uri} was accepted"));
            assert!(!format!("{error} {error:?}").contains("SECRET"), "{uri}: {error}");
        }
    }
}
