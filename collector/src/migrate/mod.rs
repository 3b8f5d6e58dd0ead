//! Brings a database to the schema that this version of Mailroom works with.
//!
//! The migrations are the files of `migrations/`, embedded in the program. They are applied in the
//! schema that comes first on the connection's search path, and recorded in golang-migrate's table
//! `schema_migrations (version, dirty)`, or in another one that is named, under golang-migrate's
//! advisory lock: the two can take turns and never run at once.

mod apply;
mod baseline;
mod error;
mod history;
mod kind;
mod lock;
mod migration;
mod prerequisites;
mod roles;
mod script;
mod status;

use mailroom_connect::Schema;
use tokio_postgres::Client;

pub use apply::LOCK_ATTEMPTS;
pub use baseline::baseline;
pub use error::{FailedMigration, MigrateError};
pub use history::HistoryTable;
pub use lock::lock_ids;
pub use migration::{MIGRATIONS, Migration};
pub(crate) use roles::{Prefix, statements as roles};
pub use script::{Script, missing, scripts};
pub use status::{Status, look, status};

use apply::MigrationStep;
use history::Applied;
use lock::with_lock;

/// Takes lines about what happens, for people who wait.
type Report<'a> = &'a mut (dyn FnMut(&str) + Send);

/// What is to be applied or taken back, and where that is recorded.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The migrations, sorted by version as [`MIGRATIONS`] is.
    pub migrations: &'a [Migration],
    /// The table that records which are applied.
    pub table: HistoryTable,
    /// The schema for which they write `mailroom`.
    pub schema: Schema,
    /// Whether accounts are made beside tables of others, without asking for the kind of the
    /// installation.
    pub is_kind_known: bool,
    /// Whether somebody has named the table that records, so that it is Mailroom's even if it is
    /// empty and others have tables beside it.
    pub is_table_named: bool,
}

impl<'a> From<&'a [Migration]> for Plan<'a> {
    fn from(migrations: &'a [Migration]) -> Self {
        Self {
            migrations,
            table: HistoryTable::default(),
            schema: Schema::default(),
            is_kind_known: true,
            is_table_named: true,
        }
    }
}

impl Plan<'static> {
    /// The migrations of an installation without accounts, recorded in its own table.
    pub fn without_accounts(schema: Schema) -> Self {
        let table = HistoryTable::without_accounts(&schema);
        let migrations = &MIGRATIONS[migration::OF_MAILROOM];
        Self { migrations, table, schema, is_kind_known: true, is_table_named: true }
    }

    /// Those of the installation that a database has; with accounts recorded in `table`, and if it
    /// has none.
    pub async fn of_database(
        client: &Client,
        table: HistoryTable,
        schema: Schema,
    ) -> Result<Self, MigrateError> {
        let query = "SELECT to_regclass('mailroom.migrations') IS NOT NULL";
        if client.query_typed_one(&schema.sql(query), &[]).await?.get(0) {
            return Ok(Self::without_accounts(schema));
        }
        Self::with_accounts(client, table, schema).await
    }

    /// The migrations with accounts; the one that drops secrets is among them if it is applied.
    pub async fn with_accounts(
        client: &Client,
        table: HistoryTable,
        schema: Schema,
    ) -> Result<Self, MigrateError> {
        // By what the migration makes: others may be applying some just now.
        let query = "SELECT to_regprocedure('mailroom.trg_after_token_changed()') IS NOT NULL";
        let is_dropped = client.query_typed_one(&schema.sql(query), &[]).await?.get(0);
        let plan = Self::dropping_secrets(table, schema);
        Ok(if is_dropped { plan } else { Self { migrations: MIGRATIONS, ..plan } })
    }

    /// All migrations with accounts, with the one that drops secrets.
    pub fn dropping_secrets(table: HistoryTable, schema: Schema) -> Self {
        let migrations = migration::WITH_DROP_SECRETS;
        Self { migrations, table, schema, is_kind_known: true, is_table_named: true }
    }
}

/// Whether going down may drop tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataLoss {
    /// A migration whose way down drops tables is refused, with what would be lost.
    Refused,
    /// It is meant.
    Accepted,
}

/// Applies all migrations that the database lacks, oldest first, and returns their number.
///
/// # Errors
/// The recorded version is unknown or dirty, nothing records tables, the kind of the installation
/// is to be said, or a migration fails; those before it stay applied.
pub async fn up<'a>(
    client: &mut Client,
    plan: impl Into<Plan<'a>>,
    report: Report<'_>,
) -> Result<usize, MigrateError> {
    let Plan { migrations, table, schema, is_kind_known, is_table_named } = plan.into();
    with_lock(client, &table, schema, report, async |client, history, report| {
        // Under the lock: another session may be making the tables just now.
        kind::refuse_unknown(client, history, is_kind_known, is_table_named).await?;
        let Applied { count, is_unfinished } = history.applied(client, migrations).await?;
        let missing = &migrations[count - usize::from(is_unfinished)..];
        let Some(next) = missing.first() else { return Ok(0) };
        prerequisites::check(client, history, next.version).await?;
        for migration in missing {
            MigrationStep::up(migration, history).run(client, history, report).await?;
            if history.is_created_by(migration) {
                report(
                    "collectors of this installation sign v2 unless MAILROOM_TOKEN_FORMAT says \
                        otherwise",
                );
            }
        }
        Ok(missing.len())
    })
    .await
}

/// Takes back the newest applied migration and returns it, or nothing if none is applied.
///
/// # Errors
/// As [`up`]; and if tables would be dropped and that is [`DataLoss::Refused`].
pub async fn down<'a>(
    client: &mut Client,
    plan: impl Into<Plan<'a>>,
    data_loss: DataLoss,
    report: Report<'_>,
) -> Result<Option<&'a Migration>, MigrateError> {
    let Plan { migrations, table, schema, .. } = plan.into();
    with_lock(client, &table, schema, report, async |client, history, report| {
        let applied = history.applied(client, migrations).await?.count;
        let Some((migration, before)) = migrations[..applied].split_last() else { return Ok(None) };
        let step = MigrationStep::down(migration, before.last(), history, data_loss);
        step.run(client, history, report).await?;
        Ok(Some(migration))
    })
    .await
}
