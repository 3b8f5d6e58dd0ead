//! A migration's file, statement by statement.

use super::lexer::{Kind, Lexer, Token, Unterminated, line_of};

/// One statement of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statement<'a> {
    /// Counted from 1, transaction statements included.
    pub(super) number: usize,
    /// The line of the script, counted from 1, that it begins on.
    pub(super) line: usize,
    /// From its first word to its last, without the semicolon.
    pub(super) text: &'a str,
}

/// What a statement is to somebody who runs a script in a transaction of his own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// To be executed.
    Work,
    /// Begins or ends the script's own transaction: to be left out.
    TransactionBracket,
    /// Would end the transaction around it, or asks for one of another sort.
    TransactionControl,
}

/// Splits a script at the semicolons that end statements.
///
/// # Errors
///
/// If a constant, a quoted identifier or a comment is never closed.
pub(super) fn split(script: &str) -> Result<Vec<Statement<'_>>, Unterminated> {
    let mut statements = Vec::new();
    let mut open: Option<Open> = None;
    let mut add = |open: Open| {
        let text = &script[open.start..open.end];
        let number = statements.len() + 1;
        statements.push(Statement { number, line: line_of(script, open.start), text });
    };
    for token in Lexer::new(script) {
        let token = token?;
        let ends = token.kind == Kind::Semicolon && open.as_ref().is_none_or(Open::is_balanced);
        match (&mut open, ends) {
            (_, true) => open.take().into_iter().for_each(&mut add),
            (Some(open), false) => open.push(token),
            (None, false) => open = Some(Open::with(token)),
        }
    }
    open.into_iter().for_each(add);
    Ok(statements)
}

impl<'a> Statement<'a> {
    pub(super) fn role(&self) -> Role {
        let words: Vec<String> = self.tokens().map(|token| token.text.to_ascii_uppercase()).collect();
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["BEGIN" | "COMMIT" | "END"]
            | ["BEGIN" | "COMMIT" | "END", "WORK" | "TRANSACTION"]
            | ["START", "TRANSACTION"] => Role::TransactionBracket,
            ["ROLLBACK", "TO", ..] | ["ROLLBACK", "WORK" | "TRANSACTION", "TO", ..] => Role::Work,
            ["BEGIN" | "COMMIT" | "END" | "ROLLBACK" | "ABORT", ..]
            | ["START" | "PREPARE", "TRANSACTION", ..] => Role::TransactionControl,
            _ => Role::Work,
        }
    }

    /// The tables that a `DROP TABLE` names, as written.
    pub(super) fn dropped_tables(&self) -> Vec<&'a str> {
        let tokens: Vec<Token<'a>> = self.tokens().collect();
        let [drop, table, names @ ..] = &tokens[..] else { return Vec::new() };
        if !(drop.is_word("DROP") && table.is_word("TABLE")) {
            return Vec::new();
        }
        let names = match names {
            [first, second, names @ ..] if first.is_word("IF") && second.is_word("EXISTS") => names,
            names => names,
        };
        let names = match names {
            [names @ .., last] if last.is_word("CASCADE") || last.is_word("RESTRICT") => names,
            names => names,
        };
        let lists = names.split(|token| token.kind == Kind::Comma);
        lists.filter_map(|name| Some(&self.text[name.first()?.start..name.last()?.end()])).collect()
    }

    /// The first words, on one line, to recognise the statement by.
    pub(super) fn excerpt(&self) -> String {
        let words: Vec<&str> = self.text.split_whitespace().take(6).collect();
        let mut excerpt: String = words.join(" ").chars().take(60).collect();
        if excerpt.len() < self.text.len() {
            excerpt.push('…');
        }
        excerpt
    }

    /// The line of the script on which the character of the statement with this number, counted from 1, lies.
    pub(super) fn line_of_character(&self, number: usize) -> usize {
        let before = self.text.chars().take(number.saturating_sub(1));
        self.line + before.filter(|character| *character == '\n').count()
    }

    fn tokens(&self) -> impl Iterator<Item = Token<'a>> + use<'a> {
        Lexer::new(self.text).map(|token| token.expect("a statement is made of whole tokens"))
    }
}

/// A statement whose end is not reached.
struct Open {
    start: usize,
    end: usize,
    parentheses: usize,
    prefix: Prefix,
    /// How many `BEGIN ATOMIC` and `CASE` wait for their `END`.
    blocks: usize,
}

/// How much of `CREATE [OR REPLACE] {FUNCTION | PROCEDURE}` was seen.
#[derive(PartialEq, Eq)]
enum Prefix {
    Create,
    Or,
    Replace,
    Routine,
    Different,
}

impl Open {
    fn with(token: Token<'_>) -> Self {
        let prefix = if token.is_word("CREATE") { Prefix::Create } else { Prefix::Different };
        let mut open = Self { start: token.start, end: token.end(), parentheses: 0, prefix, blocks: 0 };
        open.nest(token);
        open
    }

    fn push(&mut self, token: Token<'_>) {
        self.end = token.end();
        if self.prefix == Prefix::Routine {
            self.nest_blocks(token);
        } else {
            self.prefix = self.prefix.next(token);
        }
        self.nest(token);
    }

    /// Rules hold statements in parentheses.
    fn nest(&mut self, token: Token<'_>) {
        match token.kind {
            Kind::OpenParenthesis => self.parentheses += 1,
            Kind::CloseParenthesis => self.parentheses = self.parentheses.saturating_sub(1),
            _ => {}
        }
    }

    /// Routines hold statements in `BEGIN ATOMIC … END`; psql counts the same words.
    fn nest_blocks(&mut self, token: Token<'_>) {
        if self.parentheses > 0 {
            return;
        }
        if token.is_word("BEGIN") || (self.blocks > 0 && token.is_word("CASE")) {
            self.blocks += 1;
        } else if token.is_word("END") {
            self.blocks = self.blocks.saturating_sub(1);
        }
    }

    fn is_balanced(&self) -> bool {
        self.parentheses == 0 && self.blocks == 0
    }
}

impl Prefix {
    fn next(&self, token: Token<'_>) -> Self {
        match self {
            Self::Create if token.is_word("OR") => Self::Or,
            Self::Or if token.is_word("REPLACE") => Self::Replace,
            Self::Create | Self::Replace if token.is_word("FUNCTION") || token.is_word("PROCEDURE") => {
                Self::Routine
            }
            _ => Self::Different,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<&str> {
        split(script).unwrap().into_iter().map(|statement| statement.text).collect()
    }

    fn only(script: &str) -> Statement<'_> {
        let statements = split(script).unwrap();
        assert_eq!(statements.len(), 1, "{statements:?}");
        statements[0]
    }

    #[test]
    fn statements_end_at_semicolons() {
        assert_eq!(texts("SELECT 1; SELECT 2"), ["SELECT 1", "SELECT 2"]);
        assert_eq!(texts("SELECT 1;;\n ; -- nothing\n"), ["SELECT 1"]);
        assert_eq!(texts(" /* ; */ "), [] as [&str; 0]);
    }

    #[test]
    fn statements_know_their_number_and_line() {
        let statements = split("-- first\n\nBEGIN;\nSELECT\n  1;\n/* x\n */ SELECT 2;").unwrap();
        let places: Vec<_> = statements.iter().map(|statement| (statement.number, statement.line)).collect();
        assert_eq!(places, [(1, 3), (2, 4), (3, 7)]);
    }

    #[test]
    fn semicolons_within_bodies_strings_and_comments_end_nothing() {
        let body =
            "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$\nBEGIN\n  PERFORM 1;\nEND;\n$$";
        assert_eq!(texts(&format!("{body}; SELECT 1")), [body, "SELECT 1"]);
        let script = "DO $do$ BEGIN EXECUTE $$COMMIT;$$; END; $do$";
        assert_eq!(only(script).text, script);
        assert_eq!(only("SELECT ';', E'\\';', \";\" /* ; */ -- ;\n;").text, "SELECT ';', E'\\';', \";\"");
    }

    #[test]
    fn semicolons_in_parentheses_end_nothing() {
        let rule = "CREATE RULE r AS ON INSERT TO t DO (NOTIFY a; NOTIFY b)";
        assert_eq!(texts(&format!("{rule};{rule}")), [rule, rule]);
    }

    #[test]
    fn bodies_of_standard_sql_are_kept_whole() {
        let body = "CREATE OR REPLACE FUNCTION f(begin_at int) RETURNS int BEGIN ATOMIC\n\
                    SELECT CASE WHEN true THEN 1 END; SELECT 2; END";
        assert_eq!(texts(&format!("{body}; BEGIN; SELECT 3")), [body, "BEGIN", "SELECT 3"]);
        let procedure = "create procedure p() begin atomic select 1; end";
        assert_eq!(texts(&format!("{procedure}; END")), [procedure, "END"]);
        assert_eq!(texts("CREATE TABLE t (); BEGIN; COMMIT").len(), 3);
        assert_eq!(texts("SELECT 1 AS function; BEGIN; COMMIT").len(), 3);
    }

    #[test]
    fn only_whole_transaction_statements_are_brackets() {
        for text in
            ["BEGIN", "begin work", "BEGIN TRANSACTION", "START TRANSACTION", "COMMIT", "end", "END WORK"]
        {
            assert_eq!(only(text).role(), Role::TransactionBracket, "{text}");
        }
        for text in [
            "DO $$ BEGIN COMMIT; END $$",
            "SAVEPOINT a",
            "ROLLBACK TO a",
            "ROLLBACK WORK TO SAVEPOINT a",
            "RELEASE a",
            "SELECT 'BEGIN'",
            "PREPARE p AS SELECT 1",
            "\"BEGIN\"",
        ] {
            assert_eq!(only(text).role(), Role::Work, "{text}");
        }
        for text in [
            "ROLLBACK",
            "ABORT WORK",
            "COMMIT AND CHAIN",
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "START TRANSACTION READ ONLY",
            "PREPARE TRANSACTION 'x'",
            "COMMIT PREPARED 'x'",
        ] {
            assert_eq!(only(text).role(), Role::TransactionControl, "{text}");
        }
    }

    #[test]
    fn dropped_tables_are_found_as_written() {
        assert_eq!(only("DROP TABLE a, \"B c\" , s.d").dropped_tables(), ["a", "\"B c\"", "s.d"]);
        assert_eq!(only("drop table if exists a /* b, */ cascade").dropped_tables(), ["a"]);
        assert!(only("DROP INDEX a").dropped_tables().is_empty());
        assert!(only("DROP TABLESPACE a").dropped_tables().is_empty());
        assert!(only("DROP").dropped_tables().is_empty());
    }

    #[test]
    fn an_excerpt_is_short_and_on_one_line() {
        assert_eq!(only("SELECT 1").excerpt(), "SELECT 1");
        assert_eq!(
            only("ALTER TABLE tokens\n    ADD COLUMN a int, ADD b int").excerpt(),
            "ALTER TABLE tokens ADD COLUMN a…"
        );
    }

    #[test]
    fn a_position_in_characters_gives_a_line_of_the_script() {
        let statement = split("SELECT 'é';\nSELECT 'ü',\n  x").unwrap()[1];
        assert_eq!(statement.line_of_character(1), 2);
        assert_eq!(statement.line_of_character(15), 3);
    }
}
