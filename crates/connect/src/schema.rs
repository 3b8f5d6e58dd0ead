//! The schema of Mailroom's objects, and statements for a database
//! in which it has another name than `mailroom`.

use std::borrow::Cow;
use std::fmt;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

const DEFAULT: &str = "mailroom";

/// In a statement, the default name is the schema's before a dot and behind one
/// of these, and nowhere else.
const BEFORE: [&str; 3] = ["SCHEMA ", "IF NOT EXISTS ", "nspname = '"];

/// The longest name that PostgreSQL does not cut.
const MAX_BYTES: usize = 63;

/// Names that others have: PostgreSQL, `plpgsql` for its settings, and the tables of accounts.
const TAKEN: [&str; 6] = ["accounts", "information_schema", "jobs", "plpgsql", "public", "tokens"];

/// The words that PostgreSQL 14 to 18 quote as names: all but the unreserved ones of
/// `pg_get_keywords()`.
const RESERVED: &str = "
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit
    boolean both case cast char character check coalesce collate collation column concurrently
    constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user dec decimal default deferrable desc distinct do else end except
    exists extract false fetch float for foreign freeze from full grant greatest group grouping
    having ilike in initially inner inout int integer intersect interval into is isnull join json
    json_array json_arrayagg json_exists json_object json_objectagg json_query json_scalar
    json_serialize json_table json_value lateral leading least left like limit localtime
    localtimestamp merge_action national natural nchar none normalize not notnull null nullif
    numeric offset on only or order out outer overlaps overlay placing position precision primary
    real references returning right row select session_user setof similar smallint some substring
    symmetric system_user table tablesample then time timestamp to trailing treat trim true union
    unique user using values varchar variadic verbose when where window with xmlattributes
    xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize
    xmltable";

/// The name of the schema with everything but the base schema's objects. It never needs quotes, and
/// is nobody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema(Cow<'static, str>);

impl Default for Schema {
    fn default() -> Self {
        Self(Cow::Borrowed(DEFAULT))
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Schema {
    /// What a name must be, for messages.
    pub const ALLOWED: &str = "a schema of Mailroom's own: 1 to 63 small letters, digits and \
                               underscores, no digit first, no reserved word of SQL, and neither a \
                               name of PostgreSQL's (`public`, `pg_…`) nor `accounts`, \
                               `tokens` or `jobs`";

    /// Reads a name; `None` if it is not [`ALLOWED`](Self::ALLOWED).
    pub fn parse(text: &str) -> Option<Self> {
        let is_name = (1..=MAX_BYTES).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
            && !text.starts_with(|first: char| first.is_ascii_digit());
        let is_taken = TAKEN.contains(&text)
            || text.starts_with("pg_")
            || RESERVED.split_whitespace().any(|word| word == text);
        (is_name && !is_taken).then(|| Self(Cow::Owned(text.to_owned())))
    }

    /// The SQL, which is written for the schema `mailroom`, for the schema of this name.
    ///
    /// The word `mailroom` is replaced before a dot and behind `SCHEMA `, `IF NOT EXISTS ` and
    /// `nspname = '`, and nowhere else.
    pub fn sql<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.0 == DEFAULT {
            return Cow::Borrowed(text);
        }
        let is_of_word = |character: char| character.is_alphanumeric() || character == '_';
        let mut sql = String::with_capacity(text.len());
        let mut copied = 0;
        for (start, _) in text.match_indices(DEFAULT) {
            let end = start + DEFAULT.len();
            let before = &text[..start];
            let after = &text[end..];
            let is_word = !before.ends_with(is_of_word) && !after.starts_with(is_of_word);
            if is_word
                && (after.starts_with('.') || BEFORE.iter().any(|words| before.ends_with(words)))
            {
                sql.push_str(&text[copied..start]);
                sql.push_str(&self.0);
                copied = end;
            }
        }
        Cow::Owned(sql + &text[copied..])
    }
}

/// A session's client for statements that are written for the schema `mailroom`.
#[derive(Debug)]
pub struct SchemaClient {
    /// For statements that do not name it.
    pub raw: Client,
    /// What it is called in this database.
    pub schema: Schema,
}

impl SchemaClient {
    /// [`Client::query_typed`] with the schema's name.
    ///
    /// # Errors
    /// As there.
    pub async fn query_typed(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Error> {
        self.raw.query_typed(&self.schema.sql(statement), parameters).await
    }

    /// [`Client::query_typed_one`] with the schema's name.
    ///
    /// # Errors
    /// As there.
    pub async fn query_typed_one(
        &self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Row, Error> {
        self.raw.query_typed_one(&self.schema.sql(statement), parameters).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> String {
        Schema::parse("mail_2").unwrap().sql(text).into_owned()
    }

    #[test]
    fn the_default_name_leaves_statements_as_they_are_and_copies_nothing() {
        for schema in [Schema::default(), Schema::parse("mailroom").unwrap()] {
            let statement = "SELECT mailroom.clock()";
            assert!(matches!(schema.sql(statement), Cow::Borrowed(same) if same == statement));
            assert_eq!(schema, Schema::default());
        }
    }

    #[test]
    fn the_schema_is_named_wherever_it_is_meant() {
        for (written, sent) in [
            ("mailroom.clock()", "mail_2.clock()"),
            ("(mailroom.queue,mailroom.leases)", "(mail_2.queue,mail_2.leases)"),
            ("'mailroom.queue'::regclass", "'mail_2.queue'::regclass"),
            (
                "format('GRANT … mailroom.%s', mailroom.%I)",
                "format('GRANT … mail_2.%s', mail_2.%I)",
            ),
            ("CREATE SCHEMA IF NOT EXISTS mailroom;", "CREATE SCHEMA IF NOT EXISTS mail_2;"),
            ("COMMENT ON SCHEMA mailroom IS 'x'", "COMMENT ON SCHEMA mail_2 IS 'x'"),
            ("DROP SCHEMA mailroom", "DROP SCHEMA mail_2"),
            ("WHERE home.nspname = 'mailroom' AND", "WHERE home.nspname = 'mail_2' AND"),
            ("SET LOCAL mailroom.binding", "SET LOCAL mail_2.binding"),
            ("é mailroom.mailroom.mailroom é", "é mail_2.mail_2.mailroom é"),
        ] {
            assert_eq!(named(written), sent);
        }
    }

    #[test]
    fn nothing_else_of_the_same_name_is_touched() {
        for text in [
            "",
            "mailroom",
            "CREATE TYPE job_type AS ENUM ('mailroom')",
            "VALUES ('mailroom', 0)",
            "sha256('mailroom/consumed\\000'::bytea)",
            "format('mailroom queue %s in %s', 1, 2)",
            "run `mailroom migrate bind`",
            "pg_logical_emit_message(true, 'mailroom', '')",
            "my_mailroom.queue, mailroommailroom.queue, émailroom.queue, Xmailroom.queue, \
             mailroom_2.queue, SCHEMA mailrooms, nspname = 'mailroom_2'",
            "WITH mailroom AS (SELECT) TABLE mailroom",
        ] {
            assert_eq!(named(text), text);
        }
    }

    #[test]
    fn a_name_within_the_default_name_is_replaced_once() {
        for name in ["mail", "mailroom_mailroom", "room"] {
            let schema = Schema::parse(name).unwrap();
            assert_eq!(schema.sql("mailroom.x mailroom.y"), format!("{name}.x {name}.y"));
        }
    }

    #[test]
    fn a_name_that_would_need_quotes_or_is_anothers_is_refused() {
        let longest = "m".repeat(MAX_BYTES);
        for name in ["mailroom", "m", "_", "mail_2", "mailer", "pgmail", "post", &longest] {
            assert_eq!(Schema::parse(name).map(|schema| schema.to_string()).as_deref(), Some(name));
        }
        let too_long = "m".repeat(MAX_BYTES + 1);
        let huge = "m".repeat(1_000_000);
        for name in [
            "",
            " ",
            "Mail",
            "2mail",
            "mail room",
            "mail.room",
            "mail-room",
            "mäil",
            "\"mail\"",
            "mail'",
            "mail;",
            "m\0",
            "m\n",
            "public",
            "information_schema",
            "pg_",
            "pg_mail",
            "pg_catalog",
            "plpgsql",
            "accounts",
            "tokens",
            "jobs",
            "user",
            "table",
            "json",
            "values",
            "left",
            &too_long,
            &huge,
        ] {
            assert_eq!(Schema::parse(name), None, "{name}");
        }
    }
}
