//! Roles without a login for each part that works with the schema, each with the rights that
//! docs/operate/rights.md gives it and no others.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use mailroom_connect::{Schema, SchemaClient};

use super::MigrateError;
use crate::rights::{self, Set};

/// Which functions and roles there are, and where accounts lie, if there are any.
const FOUND: &str = include_str!("roles.sql");

/// The longest beginning of names, which PostgreSQL does not cut.
const MAX_PREFIX: usize = 48;

/// What all names of roles begin with. Servers share their roles among all databases.
#[derive(Clone, Debug)]
pub(crate) struct Prefix {
    text: String,
    /// Whether somebody has named it, who may mean roles that other databases have.
    is_chosen: bool,
}

impl Prefix {
    pub(crate) const ALLOWED: &str =
        "1 to 48 small letters, digits and underscores, no digit first, and not `pg_…`";

    /// `None` if it is not [`ALLOWED`](Self::ALLOWED).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_name = (1..=MAX_PREFIX).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
            && !text.starts_with(|first: char| first.is_ascii_digit())
            && !text.starts_with("pg_");
        is_name.then(|| Self { text: text.to_owned(), is_chosen: true })
    }

    /// The schema's name, so that installations of several names have roles of their own.
    pub(crate) fn of(schema: &Schema) -> Self {
        let name = schema.to_string();
        let text = format!("{}_", &name[..name.len().min(MAX_PREFIX - 1)]);
        Self { text, is_chosen: false }
    }
}

/// What the database says before.
struct Found {
    functions: BTreeSet<String>,
    roles: BTreeSet<String>,
    powerful: Vec<String>,
    elsewhere: Vec<String>,
    accounts: Option<String>,
    /// The tables of accounts and their sequences, as `REVOKE` and `GRANT` name them.
    tables: Vec<String>,
}

/// The statements that make the roles, or give those that exist exactly their rights: one
/// transaction. No role of them logs in, so that none has a password.
///
/// # Errors
/// The schema is not there, a role of such a name has all rights anyway, or one that nobody has
/// named has rights in another database.
pub(crate) async fn statements(
    client: &SchemaClient,
    Prefix { text: prefix, is_chosen }: &Prefix,
) -> Result<String, MigrateError> {
    let sets: Vec<_> = rights::sets().into_iter().filter(|(_, set)| !set.is_by_hand).collect();
    let names = sets.iter().map(|(name, _)| format!("{prefix}{name}")).collect();
    let found = found(client, names).await?;
    if found.functions.is_empty() {
        let fault = "the schema is not there yet; run `mailroom migrate up` first";
        return Err(MigrateError::Refused(fault.to_owned()));
    }
    if let Some(role) = found.powerful.first() {
        let fault = format!(
            "the role {role} exists and may log in, replicate, bypass row security or make roles \
             or databases; give --prefix another beginning of the names"
        );
        return Err(MigrateError::Refused(fault));
    }
    if let Some(role) = found.elsewhere.first().filter(|_| !is_chosen) {
        let fault = format!(
            "the role {role} has rights in another database of this server, and whoever logs in \
             with it there would have these rights here: name roles of this database by --prefix, \
             such as shop_, or share them by --prefix {prefix}"
        );
        return Err(MigrateError::Refused(fault));
    }
    let schema = &client.schema;
    let mut sql = "BEGIN;\n".to_owned();
    for (name, Set { functions, views, uses_accounts, .. }) in &sets {
        let role = format!("{prefix}{name}");
        if !found.roles.contains(&role) {
            writeln!(sql, "CREATE ROLE {role} NOLOGIN;").ok();
        }
        for objects in ["ROUTINES", "TABLES", "SEQUENCES"] {
            writeln!(sql, "REVOKE ALL ON ALL {objects} IN SCHEMA {schema} FROM {role};").ok();
        }
        writeln!(sql, "REVOKE CREATE ON SCHEMA {schema} FROM {role};").ok();
        for table in &found.tables {
            writeln!(sql, "REVOKE ALL ON {table} FROM {role};").ok();
        }
        let qualified = |names: &mut dyn Iterator<Item = &String>| {
            names.map(|name| format!("{schema}.{name}")).collect::<Vec<_>>().join(", ")
        };
        // Without accounts some do not exist.
        let mut existing = functions.iter().filter(|name| found.functions.contains(*name));
        let functions = qualified(&mut existing);
        writeln!(sql, "GRANT EXECUTE ON FUNCTION {functions} TO {role};").ok();
        if !views.is_empty() {
            writeln!(sql, "GRANT SELECT ON {} TO {role};", qualified(&mut views.iter())).ok();
        }
        if let Some(home) = found.accounts.as_ref().filter(|_| *uses_accounts) {
            let columns = "(email, login, status)";
            writeln!(
                sql,
                "GRANT USAGE ON SCHEMA {home} TO {role};\n\
                 GRANT SELECT, DELETE, INSERT {columns}, UPDATE {columns} ON {home}.accounts \
                 TO {role};\n\
                 GRANT USAGE ON SEQUENCE {home}.accounts_id_seq TO {role};"
            )
            .ok();
        }
    }
    sql.push_str("COMMIT;");
    Ok(sql)
}

async fn found(client: &SchemaClient, names: Vec<String>) -> Result<Found, MigrateError> {
    let sql = client.schema.sql(FOUND);
    let row = client.raw.query_one(&*sql, &[&names]).await?;
    let list = |index| row.get::<_, Vec<String>>(index);
    Ok(Found {
        functions: list(0).into_iter().collect(),
        roles: list(1).into_iter().collect(),
        powerful: list(2),
        elsewhere: list(3),
        accounts: row.get(4),
        tables: list(5),
    })
}
