//! Reads a configuration in TOML, and says in which line what is wrong, and in which table a
//! setting belongs. What is said repeats no value, which could be a secret in the wrong place.

use std::fmt::Write as _;
use std::ops::Range;

use serde::de::value::Error as ValueError;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;

/// The longest name that an error repeats: a longer one may be a secret.
const MAX_NAME: usize = 24;

/// The least similarity of a name that is proposed.
const SIMILARITY: f64 = 0.8;

/// A table of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// As in `[name]`; empty for what stands before the first table.
    pub name: &'static str,
    /// The settings that it can have.
    pub settings: &'static [&'static str],
}

impl Table {
    /// The table `name`, which is read into a `T`.
    pub fn of<T: DeserializeOwned>(name: &'static str) -> Self {
        let mut settings: &'static [&'static str] = &[];
        // It reads nothing, and so fails.
        T::deserialize(Fields(&mut settings)).err();
        Self { name, settings }
    }
}

/// Reads a configuration that has these tables,
/// the first of which is what stands before the others.
///
/// # Errors
/// What is wrong with it, in a sentence.
pub fn parse<T: DeserializeOwned>(text: &str, tables: &[Table]) -> Result<T, String> {
    toml::from_str(text).map_err(|error| explain(text, error.message(), error.span(), tables))
}

fn explain(text: &str, message: &str, span: Option<Range<usize>>, tables: &[Table]) -> String {
    let start = span.map_or(0, |span| span.start.min(text.len()));
    let before = text.get(..start).unwrap_or_default();
    let line = 1 + before.matches('\n').count();
    let own = text.lines().nth(line - 1).unwrap_or_default();
    let table = text.lines().take(line).filter_map(header).last().unwrap_or_default();
    let of_table = if table.is_empty() { String::new() } else { format!(" in [{table}]") };
    if let Some(name) = named(message, "missing field `") {
        let is_of_first =
            |tables: &[Table]| tables.first().is_some_and(|first| first.settings.contains(&name));
        return match table {
            // A file that begins with a table.
            _ if start == 0 && is_of_first(tables) => {
                format!("missing field `{name}`; write it before the first table")
            }
            "" => format!("missing field `{name}`; write it before the first table"),
            _ => format!("line {line}: missing field `{name}`{of_table}"),
        };
    }
    if let Some(name) = named(message, "unknown field `") {
        return match header(own) {
            Some(own) if own == name => format!(
                "line {line}: unknown field `{name}`: there is no such table{}",
                near_table(name, tables)
            ),
            _ => {
                format!(
                    "line {line}: unknown field `{name}`{of_table}{}",
                    advice(text, name, table, tables)
                )
            }
        };
    }
    let key = own.split_once('=').map(|(key, _)| key.trim()).filter(|key| is_name(key));
    let key = key.map(|key| format!(", `{key}`{of_table}")).unwrap_or_default();
    format!("line {line}{key}: {}", without_values(message))
}

/// The name of the table that a line begins.
fn header(line: &str) -> Option<&str> {
    line.trim_start()
        .strip_prefix('[')?
        .trim_start_matches('[')
        .split_once(']')
        .map(|(name, _)| name.trim())
}

/// The name after these words.
fn named<'a>(message: &'a str, words: &str) -> Option<&'a str> {
    message.split_once(words)?.1.split_once('`').map(|(name, _)| name).filter(|name| is_name(name))
}

fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_of_name)
}

/// Where a setting belongs that its table does not have, or which one was meant.
fn advice(text: &str, name: &str, table: &str, tables: &[Table]) -> String {
    let mut owners: Vec<_> = tables.iter().filter(|table| table.settings.contains(&name)).collect();
    // Those that this configuration has, if any.
    if owners.iter().any(|owner| is_used(text, owner)) {
        owners.retain(|owner| is_used(text, owner));
    }
    if !owners.is_empty() {
        let places = owners.iter().map(|owner| match owner.name {
            "" => "before the first table".to_owned(),
            name => format!("in [{name}]"),
        });
        return format!("; it belongs {}", places.collect::<Vec<_>>().join(" or "));
    }
    let own = tables.iter().find(|own| own.name == table).map_or(&[][..], |own| own.settings);
    if let Some(nearest) = nearest(name, own.iter().copied()) {
        return format!("; did you mean `{nearest}`?");
    }
    let elsewhere = tables
        .iter()
        .flat_map(|table| table.settings.iter().map(move |setting| (*setting, table.name)));
    let meant = nearest(name, elsewhere.clone().map(|(setting, _)| setting));
    match meant.and_then(|meant| elsewhere.clone().find(|(setting, _)| *setting == meant)) {
        Some((setting, "")) => format!("; did you mean `{setting}`, before the first table?"),
        Some((setting, table)) => format!("; did you mean `{setting}` in [{table}]?"),
        None => String::new(),
    }
}

fn is_used(text: &str, table: &Table) -> bool {
    table.name.is_empty() || text.lines().filter_map(header).any(|name| name == table.name)
}

fn near_table(name: &str, tables: &[Table]) -> String {
    nearest(name, tables.iter().map(|table| table.name))
        .map_or_else(String::new, |name| format!("; did you mean [{name}]?"))
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known
        .map(|known| (strsim::jaro(name, known), known))
        .filter(|(similarity, _)| *similarity >= SIMILARITY);
    near.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, known)| known)
}

/// A sentence of the parser, which quotes values in some of its words, on one line. Names of
/// settings are quoted, too, and are wanted: what follows "expected".
fn without_values(message: &str) -> String {
    let (found, expected) = message.split_once("expected").unwrap_or((message, ""));
    let mut kept = String::new();
    for (index, part) in found.split(['"', '`']).enumerate() {
        kept.push_str(if index % 2 == 0 { part } else { "`…`" });
    }
    if !expected.is_empty() {
        write!(kept, "expected{expected}").expect("memory takes all that is written");
    }
    kept.trim().replace('\n', ", ")
}

/// Notes the fields of a struct that would be read.
struct Fields<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Fields<'_> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ValueError> {
        Err(ValueError::custom("nothing is read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors are looked at")]
    struct Whole {
        from: String,
        smtp: Option<Smtp>,
        ses: Option<Ses>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors are looked at")]
    struct Smtp {
        server: String,
        port: Option<u16>,
        ca_file: Option<String>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors are looked at")]
    struct Ses {
        region: String,
        ca_file: Option<String>,
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line_and_the_table_where_a_setting_belongs() {
        let tables = [Table::of::<Whole>(""), Table::of::<Smtp>("smtp"), Table::of::<Ses>("ses")];
        for (text, said) in [
            (
                "ca_file = \"/x\"\nfrom = \"a\"\n[smtp]\nserver = \"b\"\n",
                "line 1: unknown field `ca_file`; it belongs in [smtp]",
            ),
            (
                "from = \"a\"\n\nca_file = \"/x\"\n",
                "line 3: unknown field `ca_file`; it belongs in [smtp] or in [ses]",
            ),
            (
                "[smtp]\nserver = \"b\"\nfrom = \"a\"\n",
                "line 3: unknown field `from` in [smtp]; it belongs before the first table",
            ),
            (
                "from = \"a\"\n[smtp]\nsever = \"b\"\n",
                "line 3: unknown field `sever` in [smtp]; did you mean `server`?",
            ),
            (
                "from = \"a\"\nregoin = \"b\"\n",
                "line 2: unknown field `regoin`; did you mean `region` in [ses]?",
            ),
            (
                "from = \"a\"\n[smpt]\nserver = \"b\"\n",
                "line 2: unknown field `smpt`: there is no such table; did you mean [smtp]?",
            ),
            ("from = \"a\"\nxyz = 1\n", "line 2: unknown field `xyz`"),
            ("[smtp]\nserver = \"b\"\n", "missing field `from`; write it before the first table"),
            ("from = \"a\"\n\n[smtp]\nport = 25\n", "line 3: missing field `server` in [smtp]"),
            (
                "from = \"a\"\n[smtp]\nserver = \"b\"\nport = \"hunter2\"\n",
                "line 4, `port` in [smtp]: invalid type: string `…`, expected u16",
            ),
            (
                "from = \"a\"\n[smtp]\nserver = \"b\"\nport = 99999\n",
                "line 4, `port` in [smtp]: invalid value: integer `…`, expected u16",
            ),
        ] {
            assert_eq!(parse::<Whole>(text, &tables).unwrap_err(), said, "{text}");
        }
        for (text, line) in [
            ("from = \"a\"\nfrom = \"hunter2\"\n", "line 2"),
            ("from = \"a\"\n\n\nhunter2 hunter2\n", "line 4"),
            ("from = 'hunter2", "line 1"),
            ("from = hunter2\n", "line 1"),
            ("from = \"a\"\nhunter2hunter2hunter2hunter2 = 1\n", "line 2"),
        ] {
            let said = parse::<Whole>(text, &tables).unwrap_err();
            assert!(
                said.starts_with(line) && !said.contains("hunter2") && !said.contains('\n'),
                "{said}"
            );
        }
    }
}
