//! As much of PostgreSQL's lexical structure as finding the ends of statements needs.
//!
//! Follows chapter 4.1 of PostgreSQL's manual, with `standard_conforming_strings` on, its default since 9.1.

/// What a stretch of SQL is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A key word or an identifier without quotes.
    Word,
    /// A string constant of any spelling, or an identifier in quotes.
    Quoted,
    Semicolon,
    OpenParenthesis,
    CloseParenthesis,
    Comma,
    /// A number, a parameter or one character of an operator.
    Other,
}

/// A stretch of SQL and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Bytes before it.
    pub(super) start: usize,
}

impl Token<'_> {
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }
}

/// A constant, quoted identifier or comment whose end is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what `{opening}` opens on line {line} is never closed")]
pub struct Unterminated {
    /// The line, counted from 1, that it begins on.
    pub line: usize,
    /// How it begins.
    pub opening: &'static str,
}

/// Walks through the tokens of a script; white space and comments are passed over.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    script: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(script: &'a str) -> Self {
        Self { script, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.script[self.at..]
    }

    fn unterminated(&self, start: usize, opening: &'static str) -> Unterminated {
        Unterminated { line: line_of(self.script, start), opening }
    }

    fn skip_space_and_comments(&mut self) -> Result<(), Unterminated> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches(is_space);
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("--") {
                self.at += trimmed.find(['\n', '\r']).unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                self.skip_block_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Comments of this kind nest, unlike those of C.
    fn skip_block_comment(&mut self) -> Result<(), Unterminated> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            let rest = self.rest();
            let marker = ["/*", "*/"].iter().filter_map(|marker| rest.find(marker)).min();
            let Some(marker) = marker else { return Err(self.unterminated(start, "/*")) };
            self.at += marker + 2;
            if rest[marker..].starts_with("/*") {
                depth += 1;
            } else {
                depth -= 1;
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Passes over a quoted stretch that begins here; a doubled quote is part of it, read as two stretches in a row.
    fn skip_quoted(&mut self, quote: char, opening: &'static str) -> Result<(), Unterminated> {
        let start = self.at;
        loop {
            match self.script[self.at + 1..].find(quote) {
                None => return Err(self.unterminated(start, opening)),
                Some(found) => self.at += found + 2,
            }
            if !self.rest().starts_with(quote) {
                return Ok(());
            }
        }
    }

    /// Passes over a string with backslash escapes that begins here, continued on further lines or not.
    fn skip_escape_string(&mut self) -> Result<(), Unterminated> {
        let start = self.at;
        loop {
            let mut characters = self.script[self.at + 1..].char_indices();
            let end = loop {
                match characters.next() {
                    None => return Err(self.unterminated(start, "E'")),
                    Some((_, '\\')) => {
                        characters.next();
                    }
                    Some((index, '\'')) => break index,
                    Some(_) => {}
                }
            };
            self.at += end + 2;
            let rest = self.rest();
            let next = rest.trim_start_matches(is_space);
            let gap = &rest[..rest.len() - next.len()];
            // A string that follows on another line belongs to this one, escapes included.
            if !next.starts_with('\'') || !(gap.is_empty() || gap.contains(['\n', '\r'])) {
                return Ok(());
            }
            self.at += gap.len();
        }
    }

    fn skip_dollar_quoted(&mut self, delimiter: &str) -> Result<(), Unterminated> {
        let body = self.at + delimiter.len();
        match self.script[body..].find(delimiter) {
            None => Err(self.unterminated(self.at, "$")),
            Some(length) => {
                self.at = body + length + delimiter.len();
                Ok(())
            }
        }
    }

    fn skip_token(&mut self, first: char) -> Result<Kind, Unterminated> {
        let rest = self.rest();
        match first {
            '\'' => self.skip_quoted('\'', "'").map(|()| Kind::Quoted),
            '"' => self.skip_quoted('"', "\"").map(|()| Kind::Quoted),
            '$' => match dollar_delimiter(rest) {
                Some(delimiter) => self.skip_dollar_quoted(delimiter).map(|()| Kind::Quoted),
                None => Ok(self.skip_character(first, Kind::Other)),
            },
            'e' | 'E' if rest[1..].starts_with('\'') => {
                self.at += 1;
                self.skip_escape_string().map(|()| Kind::Quoted)
            }
            first if continues_word(first) => {
                self.at += rest.find(|character| !continues_word(character)).unwrap_or(rest.len());
                Ok(if first.is_ascii_digit() { Kind::Other } else { Kind::Word })
            }
            ';' => Ok(self.skip_character(first, Kind::Semicolon)),
            '(' => Ok(self.skip_character(first, Kind::OpenParenthesis)),
            ')' => Ok(self.skip_character(first, Kind::CloseParenthesis)),
            ',' => Ok(self.skip_character(first, Kind::Comma)),
            _ => Ok(self.skip_character(first, Kind::Other)),
        }
    }

    fn skip_character(&mut self, character: char, kind: Kind) -> Kind {
        self.at += character.len_utf8();
        kind
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Result<Token<'a>, Unterminated>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(unterminated) = self.skip_space_and_comments() {
            self.at = self.script.len();
            return Some(Err(unterminated));
        }
        let first = self.rest().chars().next()?;
        let start = self.at;
        Some(match self.skip_token(first) {
            Ok(kind) => Ok(Token { kind, text: &self.script[start..self.at], start }),
            Err(unterminated) => {
                self.at = self.script.len();
                Err(unterminated)
            }
        })
    }
}

/// The line, counted from 1, on which the byte at `offset` lies.
pub(super) fn line_of(script: &str, offset: usize) -> usize {
    1 + script[..offset].bytes().filter(|byte| *byte == b'\n').count()
}

fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// Letters, digits, `_`, `$` and everything beyond ASCII, which PostgreSQL takes for letters.
fn continues_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$') || !character.is_ascii()
}

/// `$$` or `$tag$`, if `rest` begins with one. A parameter, `$1`, is none.
fn dollar_delimiter(rest: &str) -> Option<&str> {
    let tag = &rest[1..];
    let length = tag.find('$')?;
    let tag = &tag[..length];
    let is_tag = tag.chars().all(continues_word) && !tag.starts_with(|first: char| first.is_ascii_digit());
    is_tag.then(|| &rest[..length + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<&str> {
        Lexer::new(script).map(|token| token.unwrap().text).collect()
    }

    fn failure(script: &str) -> Unterminated {
        Lexer::new(script).find_map(Result::err).unwrap()
    }

    #[test]
    fn comments_and_white_space_are_no_tokens() {
        assert_eq!(texts("a -- ; b\n c/* ; /* nested ; */ ; */d\r\n"), ["a", "c", "d"]);
        assert_eq!(texts("a --"), ["a"]);
        assert_eq!(texts("a - -b"), ["a", "-", "-", "b"]);
    }

    #[test]
    fn quotes_are_doubled_within_quotes() {
        assert_eq!(texts("'it''s; ' x"), ["'it''s; '", "x"]);
        assert_eq!(texts(r#""a""b;" x"#), [r#""a""b;""#, "x"]);
        assert_eq!(texts("''';' x"), ["''';'", "x"]);
    }

    #[test]
    fn a_backslash_escapes_in_an_escape_string_alone() {
        assert_eq!(texts(r"'a\' ; b"), [r"'a\'", ";", "b"]);
        assert_eq!(texts(r"E'a\' ;' b"), [r"E'a\' ;'", "b"]);
        assert_eq!(texts(r"e'\\' ;"), [r"e'\\'", ";"]);
        assert_eq!(texts(r"E'a''\';' b"), [r"E'a''\';'", "b"]);
        assert_eq!(texts(r"typE'a\' ;"), ["typE", r"'a\'", ";"]);
        assert_eq!(texts("E'a'\n  '\\';' b"), ["E'a'\n  '\\';'", "b"]);
        assert_eq!(texts(r"E'a' '\' b"), ["E'a'", r"'\'", "b"]);
    }

    #[test]
    fn a_dollar_quote_ends_at_its_own_tag() {
        assert_eq!(texts("$$ ; ' $a$ $$ b"), ["$$ ; ' $a$ $$", "b"]);
        assert_eq!(texts("$a$ $$ ; $b$ $a$ c"), ["$a$ $$ ; $b$ $a$", "c"]);
        assert_eq!(texts("$é$;$é$"), ["$é$;$é$"]);
    }

    #[test]
    fn parameters_and_dollars_in_words_open_nothing() {
        assert_eq!(texts("$1 + $2;"), ["$", "1", "+", "$", "2", ";"]);
        assert_eq!(texts("a$b$c ; d$b$"), ["a$b$c", ";", "d$b$"]);
    }

    #[test]
    fn what_never_ends_is_named_with_its_line() {
        assert_eq!(failure("a;\n 'b"), Unterminated { line: 2, opening: "'" });
        assert_eq!(failure("\n\n\"b"), Unterminated { line: 3, opening: "\"" });
        assert_eq!(failure("/* /* */"), Unterminated { line: 1, opening: "/*" });
        assert_eq!(failure("a\nE'b\\'"), Unterminated { line: 2, opening: "E'" });
        assert_eq!(failure("E'b\\"), Unterminated { line: 1, opening: "E'" });
        assert_eq!(failure("a $x$ b $y$"), Unterminated { line: 1, opening: "$" });
    }
}
