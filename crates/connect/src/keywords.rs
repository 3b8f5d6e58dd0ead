//! Connection strings in the form of keywords and values: `host=/run/postgresql dbname=mailroom`.
//!
//! Section 34.1.1.1 of PostgreSQL's documentation defines the form: values with spaces stand in
//! single quotes, `\` takes away the meaning of the character after it, and there may be spaces
//! around the equal sign.

use std::iter::Peekable;
use std::str::Chars;

use super::SettingsError;
use super::parameters::{Parameter, Values};

/// Takes a keyword string apart.
pub(crate) fn parse(text: &str) -> Result<Values, SettingsError> {
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
            let fault = "a keyword has no \"=\" after it; write name=value, and put values with \
                         spaces in single quotes";
            return Err(SettingsError::new(fault));
        }
        skip_space(&mut characters);
        let value = value(&mut characters)?;
        // After a password this may be the rest of it, if its spaces were not quoted.
        let parameter = Parameter::named(&name)
            .ok_or_else(|| SettingsError::unknown_parameter(&name, after_secret))?;
        after_secret |= parameter.is_secret();
        values.set(parameter.name, value);
    }
}

/// The text up to the closing quote or, if it does not begin with a quote, to the next space.
fn value(characters: &mut Peekable<Chars<'_>>) -> Result<String, SettingsError> {
    let is_quoted = characters.next_if_eq(&'\'').is_some();
    let mut value = String::new();
    loop {
        match characters.next_if(|&next| is_quoted || !is_space(next)) {
            None if is_quoted => {
                let fault =
                    "a single quote is never closed; a quote inside a quoted value is written \\'";
                return Err(SettingsError::new(fault));
            }
            None => return Ok(value),
            Some('\'') if is_quoted => return Ok(value),
            Some('\\') => value.extend(characters.next()),
            Some(character) => value.push(character),
        }
    }
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
        values.shown(&["user", "password", "host", "dbname"])
    }

    #[test]
    fn every_form_that_libpq_documents_is_understood() {
        for (text, expected) in [
            ("", ""),
            ("  dbname=mailroom \n", "dbname=<mailroom>"),
            ("dbname = mailroom host\t=\n/tmp", "host=</tmp> dbname=<mailroom>"),
            ("dbname=mail\u{b}host=h", "host=<h> dbname=<mail>"),
            ("dbname=''", "dbname=<>"),
            ("dbname= host=h", "dbname=<host=h>"),
            ("dbname='two words'", "dbname=<two words>"),
            (r"dbname='it\'s'", "dbname=<it's>"),
            (r"dbname='a\\b'", r"dbname=<a\b>"),
            (r"dbname=two\ words", "dbname=<two words>"),
            (r"dbname=end\", "dbname=<end>"),
            ("dbname=it's", "dbname=<it's>"),
            ("dbname='a'host=h", "host=<h> dbname=<a>"),
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
            ("dbname mailroom", "\"=\""),
            ("=mailroom", "unknown parameter;"),
            ("dbname=mailroom host", "\"=\""),
            ("dbname='mailroom", "quote"),
            (r"dbname='mailroom\'", "quote"),
            ("databse=x", "\"databse\""),
            ("DBNAME=x", "\"DBNAME\""),
            ("dbname='a'b", "\"=\""),
        ] {
            let error =
                parse(text).err().unwrap_or_else(|| panic!("{text} was accepted")).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
