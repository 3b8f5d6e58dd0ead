//! What a database lacks for a command, found out before it is asked for: objects, rights, and circumstances in which tokens
//! would silently not be sent.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row};

const LACKING: &str = include_str!("lacking.sql");
const WARNINGS: &str = include_str!("warnings.sql");

/// Functions that a collector calls.
pub const OF_COLLECTORS: Wanted<'_> = Wanted {
    functions: &["mailroom_exchange", "mailroom_prospect", "mailroom_tend", "mailroom_tidy"],
    tables: &[],
    otherwise: ", or set MAILROOM_QUEUE_KIND to `cursor` for a schema from before migration 15",
};

/// Tables that a collector of the queue `cursor` reads.
pub const OF_CURSORS: Wanted<'_> =
    Wanted { functions: &[], tables: &["accounts", "jobs", "tokens"], otherwise: "" };

/// What a command needs of the database: functions or tables.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Functions to execute.
    pub functions: &'a [&'a str],
    /// Tables to read.
    pub tables: &'a [&'a str],
    /// What else can be done if they are nowhere.
    pub otherwise: &'a str,
}

/// Says which of it a session does not find or may not use, and what would help; nothing if it has all.
///
/// # Errors
/// The database does not do what it is asked.
pub async fn lacking(client: &Client, wanted: Wanted<'_>) -> Result<Option<String>, Error> {
    let parameters = [(&wanted.functions as _, Type::TEXT_ARRAY), (&wanted.tables as _, Type::TEXT_ARRAY)];
    let rows = client.query_typed(LACKING, &parameters).await?;
    let places = rows.iter().map(Place::read).collect::<Result<Vec<_>, _>>()?;
    let Some(first) = rows.first() else { return Ok(None) };
    let (role, path): (String, String) = (first.try_get(0)?, first.try_get(1)?);
    Ok(fault(&places, wanted, &role)
        .map(|fault| format!("for the role \"{role}\" with search_path = {path}, {fault}")))
}

/// Circumstances in which tokens are silently not made or not sent, each as a sentence that says what helps.
///
/// # Errors
/// The database does not do what it is asked.
pub async fn warnings(client: &Client) -> Result<Vec<String>, Error> {
    client.query_typed(WARNINGS, &[]).await?.iter().map(|row| row.try_get(0)).collect()
}

/// Where an object is.
#[derive(Debug)]
struct Place {
    name: String,
    /// Quoted; none if it is nowhere.
    schema: Option<String>,
    is_on_path: bool,
    may_use_schema: bool,
    is_allowed: bool,
}

impl Place {
    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self {
            name: row.try_get(2)?,
            schema: row.try_get(3)?,
            is_on_path: row.try_get(4)?,
            may_use_schema: row.try_get(5)?,
            is_allowed: row.try_get(6)?,
        })
    }
}

fn fault(places: &[Place], wanted: Wanted<'_>, role: &str) -> Option<String> {
    let Wanted { functions, tables, otherwise } = wanted;
    let kind = if tables.is_empty() { "function" } else { "table" };
    let names = |chosen: &mut dyn Iterator<Item = &Place>| {
        chosen.map(|place| place.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    // The first is on the path if any is.
    let home = places.iter().find_map(|place| place.schema.as_ref().map(|schema| (schema, place)));
    let Some((schema, place)) = home else {
        let (s, names) = (plural(places.len()), names(&mut places.iter()));
        return Some(format!(
            "no schema of the database has the {kind}{s} {names}; run `mailroom migrate up`, or name the right database in \
             MAILROOM_DATABASE_URL{otherwise}"
        ));
    };
    let here: Vec<_> = places.iter().filter(|place| place.schema.as_ref() == Some(schema)).collect();
    if !place.may_use_schema {
        return Some(format!(
            "the {kind} {} is in the schema {schema}, on which the right USAGE is missing; GRANT USAGE ON SCHEMA {schema} TO \
             \"{role}\", and name that schema in search_path",
            place.name
        ));
    }
    if !place.is_on_path {
        return Some(format!(
            "the {kind} {} is in the schema {schema}, which is not on the search path; ALTER ROLE \"{role}\" SET search_path = \
             {schema}, or name it in MAILROOM_DATABASE_URL (options=-csearch_path={schema})",
            place.name
        ));
    }
    if here.len() < functions.len() + tables.len() {
        let (s, has) = (plural(here.len()), names(&mut here.iter().copied()));
        return Some(format!(
            "the schema {schema} has of what is needed only the {kind}{s} {has}; run `mailroom migrate up`{otherwise}"
        ));
    }
    let forbidden = names(&mut here.iter().copied().filter(|place| !place.is_allowed));
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
