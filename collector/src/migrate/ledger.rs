//! The table that says which version a schema has, in golang-migrate's shape.

use tokio_postgres::{Client, GenericClient, Transaction};

use super::error::Error;

/// golang-migrate's `DefaultMigrationsTable`.
pub(super) const TABLE: &str = "schema_migrations";

/// Tables that tell a schema of Mailroom which nobody has recorded.
const OWN_TABLES: [&str; 3] = ["accounts", "jobs", "tokens"];

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
    pub(super) schema: String,
    /// Schema and table, quoted.
    table: String,
}

impl Ledger {
    /// The bookkeeping of the schema in which a session creates tables.
    pub(super) async fn of_session(client: &Client) -> Result<Self, Error> {
        let row =
            client.query_one("SELECT current_schema()::text, quote_ident(current_schema())", &[]).await?;
        let schema: Option<String> = row.get(0);
        let schema = schema.ok_or(Error::NoSchema)?;
        let quoted: String = row.get(1);
        Ok(Self { schema, table: format!("{quoted}.{TABLE}") })
    }

    /// What is recorded, if anything is.
    pub(super) async fn read(&self, client: &Client) -> Result<Option<Recorded>, Error> {
        let row = client.query_one(include_str!("ledger_columns.sql"), &[&self.schema, &TABLE]).await?;
        match (row.get("is_there"), row.get("is_ours")) {
            (false, _) => return Ok(None),
            (true, false) => return Err(Error::ForeignLedger { schema: self.schema.clone() }),
            (true, true) => {}
        }
        let rows = client.query(&format!("SELECT version, dirty FROM {} LIMIT 2", self.table), &[]).await?;
        match &rows[..] {
            [] => Ok(None),
            [row] => Ok(Some(Recorded { version: row.get(0), dirty: row.get(1) })),
            _ => Err(Error::AmbiguousLedger { schema: self.schema.clone() }),
        }
    }

    /// Records a version, or that no migration is applied any more.
    pub(super) async fn write(
        &self,
        transaction: &Transaction<'_>,
        version: Option<u64>,
    ) -> Result<(), tokio_postgres::Error> {
        let table = &self.table;
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
