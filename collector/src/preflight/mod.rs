//! Checks of a database before it is used: missing objects and rights, and what would silently keep
//! tokens from being sent.

pub(crate) mod development;

use mailroom_connect::SchemaClient;
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};

use crate::rights::RIGHTS;

const MISSING: &str = include_str!("missing.sql");
/// The oldest version of PostgreSQL.
const OLDEST: i32 = 14;

const WARNINGS: &str = include_str!("warnings.sql");

/// As the function that settles finds it out.
const MAY_SUPPRESS: &str = "SELECT coalesce(has_function_privilege(session_user, \
                            to_regprocedure('mailroom.suppress(text, text, text, text)'), \
                            'EXECUTE'), false), session_user::text";

pub(crate) const OF_COLLECTORS: Requirements<'_> = Requirements {
    functions: &[
        "mailroom.settle",
        "mailroom.release",
        "mailroom.claim",
        "mailroom.heartbeat",
        "mailroom.sweep",
        "mailroom.peek",
        "mailroom.list_actions",
    ],
    optional: &[],
    tables: &[],
    alternative: ", or set MAILROOM_QUEUE_KIND to `cursor` for the base schema",
};

pub(crate) const OF_CURSORS: Requirements<'_> = Requirements {
    functions: &[],
    optional: &[],
    tables: &["accounts", "jobs", "tokens"],
    alternative: "",
};

/// What a command needs of the database: functions or tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requirements<'a> {
    /// Functions to execute, with their schema.
    pub(crate) functions: &'a [&'a str],
    /// Functions to execute where there are such.
    pub(crate) optional: &'a [&'a str],
    pub(crate) tables: &'a [&'a str],
    /// What else helps if they are in no schema.
    pub(crate) alternative: &'a str,
}

/// What a session does not find or may not use, and what helps, in a sentence; `None` if nothing is
/// missing.
pub(crate) async fn missing(
    client: &SchemaClient,
    requirements: Requirements<'_>,
) -> Result<Option<String>, Error> {
    let functions = requirements.functions.iter().chain(requirements.optional);
    let functions: Vec<_> = functions.map(|name| client.schema.sql(name)).collect();
    let parameters =
        [(&functions as _, Type::TEXT_ARRAY), (&requirements.tables as _, Type::TEXT_ARRAY)];
    let mut rows = client.query_typed(MISSING, &parameters).await?;
    let optional: Vec<_> =
        requirements.optional.iter().map(|name| client.schema.sql(name)).collect();
    let is_there = |row: &Row| row.get::<_, Option<String>>(3).is_some();
    rows.retain(|row| {
        is_there(row) || !optional.iter().any(|name| **name == *row.get::<_, &str>(2))
    });
    let Some(first) = rows.first() else { return Ok(None) };
    let version = client
        .query_typed_one("SELECT current_setting('server_version_num')::integer", &[])
        .await?;
    if let Some(fault) = too_old(version.try_get(0)?) {
        return Ok(Some(fault));
    }
    let role: &str = first.get(0);
    let path: &str = first.get(1);
    Ok(fault(&rows, requirements, role)
        .map(|fault| format!("for the role \"{role}\" with search_path = {path}, {fault}")))
}

/// What is wrong with a server of a version such as 130014, if anything is.
fn too_old(version: i32) -> Option<String> {
    let major = version / 10_000;
    (major < OLDEST)
        .then(|| format!("the server is PostgreSQL {major}, but Mailroom needs {OLDEST} or newer"))
}

/// Conditions under which tokens are silently not made or not sent, and rights that are missing or
/// that no document gives, each with what helps, in a sentence.
pub(crate) async fn warnings(client: &SchemaClient) -> Result<Vec<String>, Error> {
    client
        .query_typed(WARNINGS, &[(&RIGHTS, Type::TEXT)])
        .await?
        .iter()
        .map(|row| row.try_get(0))
        .collect()
}

/// Why addresses that do not exist are not suppressed though the collector is to do so, and what
/// helps; `None` if they are.
pub(crate) async fn cannot_suppress(client: &SchemaClient) -> Result<Option<String>, Error> {
    let row = client.query_typed_one(MAY_SUPPRESS, &[]).await?;
    let is_allowed: bool = row.try_get(0)?;
    let role: &str = row.try_get(1)?;
    let function = client.schema.sql("mailroom.suppress");
    Ok((!is_allowed).then(|| {
        format!(
            "MAILROOM_SUPPRESS_UNKNOWN is on, but the role \"{role}\" lacks the right EXECUTE on \
             the function {function}; GRANT EXECUTE ON FUNCTION {function} TO \"{role}\", as its \
             owner"
        )
    }))
}

/// The rows are those of `missing.sql`.
fn fault(rows: &[Row], requirements: Requirements<'_>, role: &str) -> Option<String> {
    let Requirements { functions, tables, alternative, .. } = requirements;
    let kind = if tables.is_empty() { "function" } else { "table" };
    let name = |row: &Row| row.get::<_, String>(2);
    let schema = |row: &Row| row.get::<_, Option<String>>(3);
    let names = |rows: &[&Row]| rows.iter().map(|row| name(row)).collect::<Vec<_>>().join(", ");
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    // The first is on the path if any is.
    let Some((object, home)) = rows.iter().find_map(|row| Some((row, schema(row)?))) else {
        let s = plural(rows.len());
        let names = names(&rows.iter().collect::<Vec<_>>());
        let schema_advice =
            if tables.is_empty() { " and the right schema in MAILROOM_SCHEMA" } else { "" };
        return Some(format!(
            "no schema of the database has the {kind}{s} {names}; run `mailroom migrate up`, or \
             name the right database in MAILROOM_DATABASE_URL{schema_advice}{alternative}"
        ));
    };
    let place = format!("the {kind} {} is in the schema {home}", name(object));
    let is_on_path: bool = object.get(4);
    let may_use_schema: bool = object.get(5);
    if !may_use_schema {
        let on_path = if kind == "table" { ", and name that schema in search_path" } else { "" };
        return Some(format!(
            "{place}, on which the right USAGE is missing; \
             GRANT USAGE ON SCHEMA {home} TO \"{role}\"{on_path}"
        ));
    }
    if !is_on_path {
        return Some(format!(
            "{place}, which is not on the search path; \
             ALTER ROLE \"{role}\" SET search_path = {home}, \
             or name it in MAILROOM_DATABASE_URL (options=-csearch_path={home})"
        ));
    }
    let mut here: Vec<_> = rows.iter().filter(|row| schema(row).as_ref() == Some(&home)).collect();
    if here.len() < functions.len() + tables.len() {
        let s = plural(here.len());
        let has = names(&here);
        return Some(format!(
            "the schema {home} has of what is needed only the {kind}{s} {has}; run `mailroom \
             migrate up`{alternative}"
        ));
    }
    here.retain(|row| !row.get::<_, bool>(6));
    match (names(&here).as_str(), kind) {
        ("", _) => None,
        (names, "function") => Some(format!(
            "the right EXECUTE is missing on {names}; \
             GRANT EXECUTE ON FUNCTION {names} TO \"{role}\", as their owner"
        )),
        (names, _) => {
            let is_moved = here.iter().any(|row| name(row) == "jobs");
            let (right, moves) = if is_moved {
                (", or UPDATE on jobs,", format!("; GRANT UPDATE ON jobs TO \"{role}\""))
            } else {
                ("", String::new())
            };
            Some(format!(
                "the right SELECT{right} is missing on {names}; \
                 GRANT SELECT ON {names} TO \"{role}\"{moves}, as their owner"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_named() {
        assert_eq!(too_old(140_000), None);
        let said = too_old(130_014).unwrap();
        assert_eq!(said, "the server is PostgreSQL 13, but Mailroom needs 14 or newer");
    }
}
