//! The schema's history: the table that records which version a schema has, in golang-migrate's
//! shape.

use std::fmt;

use mailroom_connect::Schema;
use tokio_postgres::{Client, GenericClient, Row};

use super::error::MigrateError;
use super::migration::{CREATES_SCHEMA, Migration, WITH_DROP_SECRETS};

/// The table that records which migrations are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryTable {
    /// The schema; that of Mailroom's tables if it is not given.
    schema: Option<String>,
    name: String,
}

/// golang-migrate's `DefaultMigrationsTable`.
impl Default for HistoryTable {
    fn default() -> Self {
        Self { schema: None, name: "schema_migrations".to_owned() }
    }
}

impl HistoryTable {
    /// The history table of an installation without accounts, the only one in which that can be
    /// recorded.
    pub fn without_accounts(schema: &Schema) -> Self {
        Self { schema: Some(schema.to_string()), name: "migrations".to_owned() }
    }

    /// Reads `table` or `schema.table`, of names that need no quotes.
    pub fn parse(text: &str) -> Option<Self> {
        let (schema, name) =
            text.split_once('.').map_or((None, text), |(schema, name)| (Some(schema), name));
        let is_name = |name: &str| {
            (1..=63).contains(&name.len())
                && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
                && !name.starts_with(|first: char| first.is_ascii_digit())
        };
        let is_valid = schema.into_iter().chain([name]).all(is_name);
        is_valid.then(|| Self { schema: schema.map(str::to_owned), name: name.to_owned() })
    }
}

/// As statements name it: no name needs quotes.
impl fmt::Display for HistoryTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = &self.schema {
            write!(formatter, "{schema}.")?;
        }
        formatter.write_str(&self.name)
    }
}

/// Tables of Mailroom's in every version, by which a schema without a history is recognised.
pub(super) const OWN_TABLES: [&str; 3] = ["accounts", "jobs", "tokens"];

/// What to do about a database that was migrated before the migrations had their present numbers.
const EARLIER: &str = "If a checkout of Mailroom from before its release made it, go down with \
                       that one to version 0, or without accounts until nothing is left, and up \
                       with this one";

/// What to do beside another program's record.
const ADVICE: &str = "give Mailroom a table of its own by --migrations-table or \
                      MAILROOM_MIGRATIONS_TABLE, such as mailroom_migrations";

/// The one row of the history's table.
#[derive(Clone, Copy)]
pub(super) struct RecordedVersion {
    /// The newest migration that was applied; golang-migrate writes -1 when it fails below the
    /// oldest.
    pub(super) version: i64,
    /// Set while golang-migrate executes a migration, or Mailroom one outside a transaction, and
    /// left if that fails.
    pub(super) dirty: bool,
}

/// How many migrations a schema has.
#[derive(Clone, Copy)]
pub(super) struct Applied {
    pub(super) count: usize,
    /// Whether the last of them was interrupted on its way up or down and is to be executed again.
    pub(super) is_unfinished: bool,
}

/// The history of one schema.
pub(super) struct History {
    /// The schema of Mailroom's tables.
    pub(super) schema: String,
    pub(super) table_schema: String,
    pub(super) table: String,
    /// Schema and table, quoted.
    quoted: String,
    /// The schema that the migrations call `mailroom`.
    pub(super) mailroom: Schema,
    /// Whether the installation has no accounts, and no other schema than `mailroom`.
    pub(super) is_standalone: bool,
    /// Whether `mailroom` was made already.
    pub(super) has_schema: bool,
}

/// Takes back what default privileges gave others of what this transaction has made, as on hosted
/// servers: by the body of `mailroom.revoke_default_privileges()`, also where that function is not
/// there yet, in the schemas of tables and record.
fn revocation(schemas: [&str; 2]) -> String {
    const CREATED: &str = include_str!("../../../migrations/schema/01_schema.sql");
    let body = CREATED
        .split_once("FUNCTION mailroom.revoke_default_privileges() RETURNS void")
        .and_then(|(_, rest)| rest.split_once("AS $$"))
        .and_then(|(_, rest)| rest.split_once("$$;"))
        .map(|(body, _)| body)
        .expect("the file has the function");
    let [tables, record] = schemas.map(|schema| schema.replace('\'', "''"));
    let body =
        body.replace("nspname = 'mailroom'", &format!("nspname IN ('{tables}', '{record}')"));
    format!("DO $revocation$ {body} $revocation$")
}

impl History {
    /// The history of the schema in which the session creates tables, or of `mailroom`; refuses the
    /// other installation.
    pub(super) async fn of_session(
        client: &Client,
        table: &HistoryTable,
        mailroom: Schema,
    ) -> Result<Self, MigrateError> {
        let is_standalone = *table == HistoryTable::without_accounts(&mailroom);
        client.query_one(&*mailroom.sql(include_str!("search_path.sql")), &[]).await?;
        let home = is_standalone.then(|| mailroom.to_string());
        let query = mailroom.sql(include_str!("home.sql"));
        let row = client.query_one(&*query, &[&table.schema, &table.name, &home]).await?;
        let refused = |reason: &str| Err(MigrateError::Refused(reason.to_owned()));
        let Some(schema) = row.get::<_, Option<String>>(0) else {
            return refused(
                "no schema of the search path exists; create one or set search_path for the role \
                 or the database, for instance to public",
            );
        };
        let current: Option<&str> = row.get(3);
        let has_standalone = row.get(4);
        let has_schema: bool = row.get(5);
        if let Some(other) = row.get::<_, Option<&str>>(6).filter(|_| !has_schema) {
            return refused(&format!(
                "the database has Mailroom in the schema {other} and not in {mailroom}; name that \
                 schema by --schema or MAILROOM_SCHEMA"
            ));
        }
        if has_standalone && !is_standalone {
            return refused(
                "the database has Mailroom without accounts; run `mailroom migrate up \
                 --without-accounts`, or `mailroom migrate down` until nothing of it is left",
            );
        }
        if is_standalone && !has_standalone {
            let misfit = misfit(client, &mailroom, current).await?;
            if has_schema || misfit.is_none() {
                return refused(
                    "the database has Mailroom with accounts; run `mailroom migrate up` without \
                     --without-accounts, or `mailroom migrate down` until nothing of it is left, \
                     which drops the accounts",
                );
            }
        }
        Ok(Self {
            schema,
            table_schema: row.get(1),
            table: table.name.clone(),
            quoted: row.get(2),
            mailroom,
            is_standalone,
            has_schema,
        })
    }

    /// Whether a migration creates an installation without accounts.
    pub(super) fn is_created_by(&self, migration: &Migration) -> bool {
        self.is_standalone && migration.version == CREATES_SCHEMA
    }

    /// The first column that is missing or has another type than every version of Mailroom has;
    /// with both types.
    pub(super) async fn misfit(
        &self,
        client: &Client,
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        misfit(client, &self.mailroom, Some(&self.schema)).await
    }

    /// What the migrations have left in the schema.
    pub(super) async fn traces(&self, client: &Client) -> Result<Row, tokio_postgres::Error> {
        let query = self.mailroom.sql(include_str!("traces.sql"));
        client.query_one(&*query, &[&self.is_standalone]).await
    }

    /// What is recorded, if anything is.
    pub(super) async fn read(
        &self,
        client: &Client,
    ) -> Result<Option<RecordedVersion>, MigrateError> {
        const ONE_ROW: &str = "delete all but that of the newest applied migration";
        let Self { schema: home, table_schema: schema, table, .. } = self;
        let refused = |reason: String| {
            Err(MigrateError::Refused(format!("the table {table} in schema {schema} {reason}")))
        };
        let row = client.query_one(include_str!("history_columns.sql"), &[schema, table]).await?;
        match row.get(0) {
            None => return Ok(None),
            Some(true) => {}
            Some(false) => {
                let columns = "`version bigint` and `dirty boolean`";
                let choice = self.choice(client).await?;
                return refused(format!(
                    "is another tool's, without the columns {columns}; {ADVICE}{choice}"
                ));
            }
        }
        let rows = client
            .query(&format!("SELECT version, dirty FROM {} LIMIT 2", self.quoted), &[])
            .await?;
        let recorded = match &rows[..] {
            [] => return Ok(None),
            [row] => RecordedVersion { version: row.get(0), dirty: row.get(1) },
            _ => return refused(format!("has several rows instead of one; {ONE_ROW}")),
        };
        if self.fits(client, recorded).await? {
            return Ok(Some(recorded));
        }
        let choice = self.choice(client).await?;
        refused(format!(
            "records version {}, but schema {home} does not have what Mailroom's migrations up to \
             that one make; most likely it is another program's: {ADVICE} (together with \
             --baseline, if its schema was loaded by hand){choice}. {EARLIER}",
            recorded.version
        ))
    }

    /// Whether the table is there, with rows or without.
    pub(super) async fn has_table(&self, client: &Client) -> Result<bool, tokio_postgres::Error> {
        let columns = include_str!("history_columns.sql");
        let row = client.query_one(columns, &[&self.table_schema, &self.table]).await?;
        Ok(row.get::<_, Option<bool>>(0).is_some())
    }

    /// What else helps beside another tool's record where Mailroom has nothing yet.
    async fn choice(&self, client: &Client) -> Result<&'static str, MigrateError> {
        let is_new = !self.has_schema && self.tables(client).await?.is_none();
        Ok(if is_new {
            ", or, if the product has a table of users of its own, run `mailroom migrate up \
             --without-accounts`, which does not use this table"
        } else {
            ""
        })
    }

    /// Whether the schema looks like what is recorded. Programs of all sorts record their own
    /// migrations in a table of this name.
    async fn fits(&self, client: &Client, recorded: RecordedVersion) -> Result<bool, MigrateError> {
        if recorded.dirty && recorded.version <= 0 {
            // The base schema itself may have failed.
            return Ok(true);
        }
        let is_misfit = self.misfit(client).await?.is_some() && !self.is_standalone;
        if is_misfit || recorded.dirty {
            return Ok(!is_misfit);
        }
        let row = self.traces(client).await?;
        // Either is enough: an object that is not Mailroom's can look like a trace, and a trace can
        // have been changed.
        let known: i64 = row.get("known");
        // What comes after the migration that drops secrets says nothing about whether that was
        // asked for.
        let optional = WITH_DROP_SECRETS.last().map(|migration| migration.version);
        let is_optional = Some(recorded.version) == optional;
        let expected = if is_optional { recorded.version } else { recorded.version.min(known) };
        Ok([row.get::<_, i64>("version"), row.get("newest")].contains(&expected))
    }

    /// How many of the migrations are applied according to the table, if it records anything.
    pub(super) async fn recorded(
        &self,
        client: &Client,
        migrations: &[Migration],
    ) -> Result<Option<Applied>, MigrateError> {
        let Some(RecordedVersion { version, dirty }) = self.read(client).await? else {
            return Ok(None);
        };
        if let Some(index) = migrations.iter().position(|migration| migration.version == version)
            && (!dirty || self.resumes(client, &migrations[index]).await?)
        {
            return Ok(Some(Applied { count: index + 1, is_unfinished: dirty }));
        }
        let table = &self.table;
        let has_nothing = !self.has_schema && self.tables(client).await?.is_none();
        Err(MigrateError::Refused(if dirty && has_nothing {
            format!(
                "the table {table} in schema {} records version {version} as dirty, and Mailroom \
                 has nothing in schema {}. Either golang-migrate failed to make Mailroom's base \
                 schema: DELETE FROM {}, and run `mailroom migrate up`. Or the table is another \
                 product's: {ADVICE}{}",
                self.table_schema,
                self.schema,
                self.quoted,
                self.choice(client).await?
            )
        } else if dirty {
            format!(
                "golang-migrate or a newer mailroom left version {version} marked as dirty, \
                 because that migration failed or was stopped; find out by `mailroom migrate \
                 status` and the files which version the schema really has, and record it: \
                 UPDATE {table} SET version = …, dirty = false"
            )
        } else {
            let newest = migrations.last().map_or(0, |migration| migration.version);
            format!(
                "the database is at version {version}, which this mailroom does not know; its \
                 newest is {newest}. Either a newer mailroom migrated it: use that one. Or the \
                 table {table} is another product's: give Mailroom a schema of its own, \
                 first on the search path. {EARLIER}"
            )
        }))
    }

    /// Whether a migration that is recorded as dirty can be executed again.
    pub(super) async fn resumes(
        &self,
        client: &Client,
        migration: &Migration,
    ) -> Result<bool, MigrateError> {
        // golang-migrate records this version, too, when it fails to take back the next one.
        Ok(!migration.is_transactional()
            && self.traces(client).await?.get::<_, i64>("newest") <= migration.version)
    }

    /// How many of the migrations are applied. Tables that nothing records are refused.
    pub(super) async fn applied(
        &self,
        client: &Client,
        migrations: &[Migration],
    ) -> Result<Applied, MigrateError> {
        if let Some(applied) = self.recorded(client, migrations).await? {
            return Ok(applied);
        }
        match self.tables(client).await? {
            None => Ok(Applied { count: 0, is_unfinished: false }),
            Some(tables) => Err(MigrateError::Refused(format!(
                "schema {} already has {tables}, but nothing records which migrations made them; \
                 if an installation was loaded by hand, run `mailroom migrate up --baseline 0`, \
                 otherwise give Mailroom a schema of its own",
                self.schema
            ))),
        }
    }

    /// Records a version, or that no migration is applied; without accounts, the latter drops the
    /// table.
    pub(super) async fn record(
        &self,
        client: &impl GenericClient,
        version: Option<i64>,
        dirty: bool,
    ) -> Result<(), tokio_postgres::Error> {
        let table = &self.quoted;
        if self.is_standalone && version.is_none() {
            // What an application has put into the schema stays, and so does the schema then.
            let drop = "DO $$ BEGIN DROP SCHEMA mailroom; \
                        EXCEPTION WHEN dependent_objects_still_exist THEN END $$";
            return client
                .batch_execute(&format!("DROP TABLE {table}; {}", self.mailroom.sql(drop)))
                .await;
        }
        let insert =
            version.map(|version| format!("INSERT INTO {table} VALUES ({version}, {dirty})"));
        // Statements that are sent together are one transaction.
        let statements = format!(
            "CREATE TABLE IF NOT EXISTS {table} (version bigint NOT NULL PRIMARY KEY, dirty
            boolean NOT NULL);
            {};
            DELETE FROM {table}; {}",
            revocation([&self.schema, &self.table_schema]),
            insert.unwrap_or_default()
        );
        client.batch_execute(&statements).await
    }

    /// Which of Mailroom's tables are in the schema, recorded or not.
    pub(super) async fn tables(&self, client: &Client) -> Result<Option<String>, MigrateError> {
        let tables = &&OWN_TABLES[..];
        Ok(client.query_one(include_str!("own_tables.sql"), &[&self.schema, tables]).await?.get(0))
    }
}

async fn misfit(
    client: &Client,
    mailroom: &Schema,
    schema: Option<&str>,
) -> Result<Option<Row>, tokio_postgres::Error> {
    client.query_opt(&*mailroom.sql(include_str!("base_columns.sql")), &[&schema]).await
}
