//! Connection strings in the form of keywords and values: `host=/run/postgresql dbname=mailroom`.
//!
//! Section 34.1.1.1 of PostgreSQL's documentation defines the form: values with spaces stand in single
//! quotes, `\` takes away the meaning of the character after it, and there may be spaces around the equal
//! sign.

use std::iter::Peekable;
use std::str::Chars;

use super::SettingsError;
use super::parameter::{Parameter, Values};

/// Takes a keyword string apart.
pub(super) fn parse(text: &str) -> Result<Values, SettingsError> {
    let mut values = Values::default();
    let mut characters = text.chars().peekable();
    let mut after_secret = false;
    loop {
        skip_space(&mut characters);
        if characters.peek().is_none() {
            return Ok(values);
        }
        let mut name = String::new();
        while let Some(character) = characters.next_if(|&next| next != '=' && !is_space(next)) {
            name.push(character);
        }
        skip_space(&mut characters);
        if characters.next() != Some('=') {
            return Err(SettingsError::MissingEqualSign);
        }
        skip_space(&mut characters);
        let value = match characters.next_if_eq(&'\'') {
            Some(_) => quoted(&mut characters)?,
            None => unquoted(&mut characters),
        };
        // After a password this may be the rest of it, of which spaces were not quoted.
        let parameter = Parameter::named(&name)
            .ok_or_else(|| SettingsError::unknown_parameter((!after_secret).then_some(name.as_str())))?;
        after_secret |= parameter.is_secret();
        values.set(parameter, value);
    }
}

fn quoted(characters: &mut Peekable<Chars<'_>>) -> Result<String, SettingsError> {
    let mut value = String::new();
    loop {
        match characters.next().ok_or(SettingsError::UnterminatedQuote)? {
            '\'' => return Ok(value),
            '\\' => value.push(characters.next().ok_or(SettingsError::UnterminatedQuote)?),
            character => value.push(character),
        }
    }
}

fn unquoted(characters: &mut Peekable<Chars<'_>>) -> String {
    let mut value = String::new();
    while let Some(character) = characters.next_if(|&next| !is_space(next)) {
        match character {
            '\\' => value.extend(characters.next()),
            character => value.push(character),
        }
    }
    value
}

fn skip_space(characters: &mut Peekable<Chars<'_>>) {
    while characters.next_if(|&next| is_space(next)).is_some() {}
}

/// C's `isspace`; Rust's counterpart leaves out the vertical tab.
fn is_space(character: char) -> bool {
    character.is_ascii_whitespace() || character == '\u{b}'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        let values = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        ["user", "password", "host", "dbname"]
            .iter()
            .filter_map(|name| {
                let (_, value) = values.text(name).unwrap()?;
                Some(format!("{name}=<{value}>"))
            })
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn every_form_that_libpq_documents_is_understood() {
        for (text, expected) in [
            ("", ""),
            (" \t\r\n", ""),
            ("dbname=mailroom", "dbname=<mailroom>"),
            ("  dbname=mailroom \n", "dbname=<mailroom>"),
            ("dbname = mailroom host\t=\n/tmp", "host=</tmp> dbname=<mailroom>"),
            ("dbname=mail\u{b}host=h", "host=<h> dbname=<mail>"),
            ("dbname=''", "dbname=<>"),
            ("dbname= host=h", "dbname=<host=h>"),
            ("dbname=", "dbname=<>"),
            ("dbname='two words'", "dbname=<two words>"),
            (r"dbname='it\'s'", "dbname=<it's>"),
            (r"dbname='a\\b'", r"dbname=<a\b>"),
            (r"dbname=two\ words", "dbname=<two words>"),
            (r"dbname=it\'s", "dbname=<it's>"),
            (r"dbname=end\", "dbname=<end>"),
            ("dbname=it's", "dbname=<it's>"),
            ("dbname='a'host=h", "host=<h> dbname=<a>"),
            ("dbname=a=b", "dbname=<a=b>"),
            ("dbname=a dbname=b", "dbname=<b>"),
            ("password='ä ö' user=ü", "user=<ü> password=<ä ö>"),
        ] {
            assert_eq!(parsed(text), expected, "{text:?}");
        }
    }

    #[test]
    fn malformed_keyword_strings_are_refused() {
        for (text, message) in [
            ("mailroom", "\"=\""),
            ("dbname", "\"=\""),
            ("dbname mailroom", "\"=\""),
            ("=mailroom", "parameter's name"),
            ("dbname=mailroom host", "\"=\""),
            ("dbname='mailroom", "quote"),
            (r"dbname='mailroom\'", "quote"),
            (r"dbname='mailroom\", "quote"),
            ("dbname='", "quote"),
            ("databse=x", "\"databse\""),
            ("DBNAME=x", "\"DBNAME\""),
            ("dbname='a'b", "\"=\""),
        ] {
            let error = parse(text).err().unwrap_or_else(|| panic!("{text} was accepted")).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_that_was_not_quoted_is_not_named_as_a_parameter() {
        for text in [
            "password=ab SECRET=1",
            "password=ab SECRET",
            "password=ab SECRET host=h",
            "password='ab'SECRET=1",
            "password='SECRET",
        ] {
            let error = parse(text).err().unwrap_or_else(|| panic!("{text} was accepted"));
            assert!(!format!("{error} {error:?}").contains("SECRET"), "{text}: {error}");
        }
    }
}
