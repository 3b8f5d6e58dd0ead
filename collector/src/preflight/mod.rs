//! Checks of a database before it is used: missing objects and rights, and conditions under which tokens would silently not
//! be sent.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row};

const MISSING: &str = include_str!("missing.sql");
const WARNINGS: &str = include_str!("warnings.sql");

/// Functions that a collector calls.
pub const OF_COLLECTORS: Requirements<'_> = Requirements {
    functions: &["mailroom_exchange", "mailroom_prospect", "mailroom_tend", "mailroom_tidy"],
    tables: &[],
    alternative: ", or set MAILROOM_QUEUE_KIND to `cursor` for a schema from before migration 15",
};

/// Tables that a collector of the queue `cursor` reads.
pub const OF_CURSORS: Requirements<'_> =
    Requirements { functions: &[], tables: &["accounts", "jobs", "tokens"], alternative: "" };

/// What a command needs of the database: functions or tables.
#[derive(Clone, Copy, Debug)]
pub struct Requirements<'a> {
    /// Functions to execute.
    pub functions: &'a [&'a str],
    /// Tables to read.
    pub tables: &'a [&'a str],
    /// What else helps if they are in no schema.
    pub alternative: &'a str,
}

/// What a session does not find or may not use, and what helps, in a sentence; `None` if nothing is missing.
pub async fn missing(client: &Client, requirements: Requirements<'_>) -> Result<Option<String>, Error> {
    let parameters =
        [(&requirements.functions as _, Type::TEXT_ARRAY), (&requirements.tables as _, Type::TEXT_ARRAY)];
    let rows = client.query_typed(MISSING, &parameters).await?;
    let object = |row: &Row| {
        Ok(FoundObject {
            name: row.try_get(2)?,
            schema: row.try_get(3)?,
            is_on_path: row.try_get(4)?,
            may_use_schema: row.try_get(5)?,
            is_allowed: row.try_get(6)?,
        })
    };
    let objects = rows.iter().map(object).collect::<Result<Vec<_>, Error>>()?;
    let Some(first) = rows.first() else { return Ok(None) };
    let (role, path): (String, String) = (first.try_get(0)?, first.try_get(1)?);
    Ok(fault(&objects, requirements, &role)
        .map(|fault| format!("for the role \"{role}\" with search_path = {path}, {fault}")))
}

/// Conditions under which tokens are silently not made or not sent, each with what helps, in a sentence.
pub async fn warnings(client: &Client) -> Result<Vec<String>, Error> {
    client.query_typed(WARNINGS, &[]).await?.iter().map(|row| row.try_get(0)).collect()
}

/// Where an object is.
#[derive(Debug)]
struct FoundObject {
    name: String,
    /// Quoted; `None` if no schema has it.
    schema: Option<String>,
    is_on_path: bool,
    may_use_schema: bool,
    is_allowed: bool,
}

fn fault(objects: &[FoundObject], requirements: Requirements<'_>, role: &str) -> Option<String> {
    let Requirements { functions, tables, alternative } = requirements;
    let kind = if tables.is_empty() { "function" } else { "table" };
    let names = |chosen: &mut dyn Iterator<Item = &FoundObject>| {
        chosen.map(|object| object.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    // The first is on the path if any is.
    let home = objects.iter().find_map(|object| object.schema.as_ref().map(|schema| (schema, object)));
    let Some((schema, object)) = home else {
        let (s, names) = (plural(objects.len()), names(&mut objects.iter()));
        return Some(format!(
            "no schema of the database has the {kind}{s} {names}; run `mailroom migrate up`, or name the right database in \
             MAILROOM_DATABASE_URL{alternative}"
        ));
    };
    let here: Vec<_> = objects.iter().filter(|object| object.schema.as_ref() == Some(schema)).collect();
    if !object.may_use_schema {
        return Some(format!(
            "the {kind} {} is in the schema {schema}, on which the right USAGE is missing; GRANT USAGE ON SCHEMA {schema} TO \
             \"{role}\", and name that schema in search_path",
            object.name
        ));
    }
    if !object.is_on_path {
        return Some(format!(
            "the {kind} {} is in the schema {schema}, which is not on the search path; ALTER ROLE \"{role}\" SET search_path = \
             {schema}, or name it in MAILROOM_DATABASE_URL (options=-csearch_path={schema})",
            object.name
        ));
    }
    if here.len() < functions.len() + tables.len() {
        let (s, has) = (plural(here.len()), names(&mut here.iter().copied()));
        return Some(format!(
            "the schema {schema} has of what is needed only the {kind}{s} {has}; run `mailroom migrate up`{alternative}"
        ));
    }
    let forbidden = names(&mut here.iter().copied().filter(|object| !object.is_allowed));
    match (forbidden.as_str(), kind) {
        ("", _) => None,
        (names, "function") => Some(format!(
            "a right is missing; GRANT EXECUTE ON FUNCTION {names} TO \"{role}\", as their owner"
        )),
        (names, _) => {
            let moves = if names.contains("jobs") { " and GRANT UPDATE ON jobs" } else { "" };
            Some(format!("a right is missing; GRANT SELECT ON {names}{moves} TO \"{role}\", as their owner"))
        }
    }
}
