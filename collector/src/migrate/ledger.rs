//! The table that says which version a schema has, in golang-migrate's shape.

use std::str::FromStr;

use tokio_postgres::{Client, GenericClient, Transaction};

use super::error::Error;

/// Where it is recorded which migrations are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordTable {
    /// The schema; that of Mailroom's tables if it is not given.
    schema: Option<String>,
    name: String,
}

/// golang-migrate's `DefaultMigrationsTable`.
impl Default for RecordTable {
    fn default() -> Self {
        Self { schema: None, name: "schema_migrations".to_owned() }
    }
}

impl FromStr for RecordTable {
    type Err = &'static str;

    /// Reads `table` or `schema.table`, of names that need no quotes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (schema, name) = text.split_once('.').map_or((None, text), |(schema, name)| (Some(schema), name));
        let is_name = |name: &str| {
            (1..=63).contains(&name.len())
                && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
                && !name.starts_with(|first: char| first.is_ascii_digit())
        };
        if !schema.into_iter().chain([name]).all(is_name) {
            return Err(
                "it must be the name of a table, or schema.table, of small letters, digits and underscores",
            );
        }
        Ok(Self { schema: schema.map(str::to_owned), name: name.to_owned() })
    }
}

/// Tables that tell a schema of Mailroom which nobody has recorded.
pub(super) const OWN_TABLES: [&str; 3] = ["accounts", "jobs", "tokens"];

/// The one row of `schema_migrations`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The newest migration that was applied; golang-migrate writes -1 when it fails below the oldest.
    pub version: i64,
    /// Set by golang-migrate while a migration runs, and left behind by one that failed.
    pub dirty: bool,
}

/// The bookkeeping of one schema.
pub(super) struct Ledger {
    /// The schema of Mailroom's tables.
    pub(super) schema: String,
    pub(super) table_schema: String,
    pub(super) table: String,
    /// Schema and table, quoted.
    quoted: String,
}

impl Ledger {
    /// The bookkeeping of the schema in which a session creates tables.
    pub(super) async fn of_session(client: &Client, table: &RecordTable) -> Result<Self, Error> {
        let query = "SELECT home::text, table_home, format('%I.%I', coalesce(table_home, ''), $2::text)
            FROM current_schema() AS home, coalesce($1::text, home::text) AS table_home";
        let row = client.query_one(query, &[&table.schema, &table.name]).await?;
        let schema = row.get::<_, Option<String>>(0).ok_or(Error::NoSchema)?;
        let (table_schema, quoted) = (row.get(1), row.get(2));
        Ok(Self { schema, table_schema, table: table.name.clone(), quoted })
    }

    /// What is recorded, if anything is.
    pub(super) async fn read(&self, client: &Client) -> Result<Option<Recorded>, Error> {
        let names = [&self.table_schema, &self.table];
        let row = client.query_one(include_str!("ledger_columns.sql"), &[names[0], names[1]]).await?;
        let [schema, table] = names.map(String::clone);
        match (row.get("is_there"), row.get("is_ours")) {
            (false, _) => return Ok(None),
            (true, false) => return Err(Error::ForeignLedger { schema, table }),
            (true, true) => {}
        }
        let rows = client.query(&format!("SELECT version, dirty FROM {} LIMIT 2", self.quoted), &[]).await?;
        let recorded = match &rows[..] {
            [] => return Ok(None),
            [row] => Recorded { version: row.get(0), dirty: row.get(1) },
            _ => return Err(Error::AmbiguousLedger { schema, table }),
        };
        if self.fits(client, recorded).await? {
            return Ok(Some(recorded));
        }
        Err(Error::ForeignRecord { schema, table, version: recorded.version, home: self.schema.clone() })
    }

    /// Whether the schema looks like what is recorded. Programs of all sorts record their own migrations in a table of this name.
    async fn fits(&self, client: &Client, recorded: Recorded) -> Result<bool, Error> {
        let misfit = client.query_opt(include_str!("base_columns.sql"), &[&self.schema]).await?;
        if recorded.dirty && recorded.version <= 0 {
            // The base schema itself may have failed.
            return Ok(true);
        }
        if misfit.is_some() || recorded.dirty {
            return Ok(misfit.is_none());
        }
        let row = client.query_one(include_str!("traces.sql"), &[&self.schema]).await?;
        // Either is enough: an object of somebody else's can look like a trace, and a trace can have been changed.
        let expected = recorded.version.min(row.get("known"));
        Ok([row.get::<_, i64>("version"), row.get("newest")].contains(&expected))
    }

    /// Records a version, or that no migration is applied any more.
    pub(super) async fn write(
        &self,
        transaction: &Transaction<'_>,
        version: Option<u64>,
    ) -> Result<(), tokio_postgres::Error> {
        let table = &self.quoted;
        transaction
            .batch_execute(&format!(
                "CREATE TABLE IF NOT EXISTS {table} (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);
                DELETE FROM {table}"
            ))
            .await?;
        if let Some(version) = version {
            let version = i64::try_from(version).expect("versions are small numbers");
            let insert = format!("INSERT INTO {table} (version, dirty) VALUES ($1, false)");
            transaction.execute(&insert, &[&version]).await?;
        }
        Ok(())
    }

    /// Which of Mailroom's first tables are in the schema, recorded or not.
    pub(super) async fn own_tables(&self, client: &impl GenericClient) -> Result<Vec<String>, Error> {
        let tables = &&OWN_TABLES[..];
        let rows = client.query(include_str!("tables_of_schema.sql"), &[&self.schema, tables]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}
