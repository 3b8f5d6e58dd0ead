//! The commands that change a database.

use tokio_postgres::Client;

use super::advisory_lock::AdvisoryLock;
use super::error::Error;
use super::ledger::{Ledger, RecordTable};
use super::migration::{Direction, Migration};
use super::prerequisites;
use super::progress::Report;
use super::statements::split;
use super::transaction::Step;

/// What is to be applied or taken back, and where that is recorded.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The migrations, sorted by version as [`super::MIGRATIONS`] is.
    pub migrations: &'a [Migration],
    /// The table that says which are applied.
    pub table: RecordTable,
}

impl<'a> From<&'a [Migration]> for Plan<'a> {
    fn from(migrations: &'a [Migration]) -> Self {
        Self { migrations, table: RecordTable::default() }
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
///
/// If the database records a version that is unknown or dirty, has tables that nothing records, or if a migration
/// fails; those before the failed one stay applied.
pub async fn up<'a>(
    client: &mut Client,
    plan: impl Into<Plan<'a>>,
    report: Report<'_>,
) -> Result<usize, Error> {
    let Plan { migrations, table } = plan.into();
    let ledger = Ledger::of_session(client, &table).await?;
    let lock = AdvisoryLock::acquire(client, &ledger, report).await?;
    let outcome = apply_missing(client, &ledger, migrations, report).await;
    let released = lock.release(client).await;
    let applied = outcome?;
    released?;
    Ok(applied)
}

/// Takes back the newest applied migration and returns it, or nothing if none is applied.
///
/// # Errors
///
/// As [`up`]; and if tables would be dropped and that is [`DataLoss::Refused`].
pub async fn down<'a>(
    client: &mut Client,
    plan: impl Into<Plan<'a>>,
    data_loss: DataLoss,
    report: Report<'_>,
) -> Result<Option<&'a Migration>, Error> {
    let Plan { migrations, table } = plan.into();
    let ledger = Ledger::of_session(client, &table).await?;
    let lock = AdvisoryLock::acquire(client, &ledger, report).await?;
    let outcome = take_back_newest(client, &ledger, migrations, data_loss, report).await;
    let released = lock.release(client).await;
    let taken_back = outcome?;
    released?;
    Ok(taken_back)
}

/// Records that a schema which was loaded by hand has all migrations up to `version`, and executes none.
///
/// Returns whether that was new; a database that records this version or a later one is left alone, so that the same
/// command can be run again.
///
/// # Errors
///
/// If `version` is unknown, an earlier version is recorded, the schema has not the tables of Mailroom, or it bears
/// the traces of fewer or of more migrations.
pub async fn baseline<'a>(
    client: &mut Client,
    plan: impl Into<Plan<'a>>,
    version: u64,
    report: Report<'_>,
) -> Result<bool, Error> {
    let Plan { migrations, table } = plan.into();
    let newest = newest_version(migrations);
    if !migrations.iter().any(|migration| migration.version == version) {
        return Err(Error::UnknownBaseline { version, newest });
    }
    let ledger = Ledger::of_session(client, &table).await?;
    let lock = AdvisoryLock::acquire(client, &ledger, report).await?;
    let outcome = record_baseline(client, &ledger, migrations, version).await;
    let released = lock.release(client).await;
    let is_new = outcome?;
    released?;
    Ok(is_new)
}

async fn apply_missing(
    client: &mut Client,
    ledger: &Ledger,
    migrations: &[Migration],
    report: Report<'_>,
) -> Result<usize, Error> {
    let applied = count_applied(client, ledger, migrations).await?;
    if applied < migrations.len() {
        prerequisites::check(client, ledger, applied).await?;
    }
    for migration in &migrations[applied..] {
        let step = Step { migration, direction: Direction::Up, target: Some(migration.version) };
        step.take(client, ledger, report).await?;
    }
    Ok(migrations.len() - applied)
}

async fn take_back_newest<'a>(
    client: &mut Client,
    ledger: &Ledger,
    migrations: &'a [Migration],
    data_loss: DataLoss,
    report: Report<'_>,
) -> Result<Option<&'a Migration>, Error> {
    let applied = count_applied(client, ledger, migrations).await?;
    let Some((migration, before)) = migrations[..applied].split_last() else { return Ok(None) };
    if data_loss == DataLoss::Refused {
        let tables = dropped_tables(client, migration).await?;
        if !tables.is_empty() {
            return Err(Error::WouldLose { migration: *migration, tables });
        }
    }
    let target = before.last().map(|migration| migration.version);
    let step = Step { migration, direction: Direction::Down, target };
    step.take(client, ledger, report).await?;
    Ok(Some(migration))
}

async fn record_baseline(
    client: &mut Client,
    ledger: &Ledger,
    migrations: &[Migration],
    version: u64,
) -> Result<bool, Error> {
    if let Some(recorded) = recorded_version(client, ledger, migrations).await? {
        return if recorded >= version {
            Ok(false)
        } else {
            Err(Error::AlreadyRecorded { recorded, baseline: version })
        };
    }
    if ledger.own_tables(client).await?.is_empty() {
        return Err(Error::NothingToTakeOver { schema: ledger.schema.clone() });
    }
    if let Some(row) = client.query_opt(include_str!("base_columns.sql"), &[&ledger.schema]).await? {
        return Err(Error::ForeignColumn { column: row.get(0), expected: row.get(1), found: row.get(2) });
    }
    let found: i64 = client.query_one(include_str!("traces.sql"), &[&ledger.schema]).await?.get("version");
    if i64::try_from(version) != Ok(found) {
        return Err(Error::OtherBaseline { baseline: version, found });
    }
    let transaction = client.transaction().await?;
    ledger.write(&transaction, Some(version)).await?;
    transaction.commit().await?;
    Ok(true)
}

/// How many of the migrations are applied.
async fn count_applied(client: &Client, ledger: &Ledger, migrations: &[Migration]) -> Result<usize, Error> {
    if let Some(version) = recorded_version(client, ledger, migrations).await? {
        return Ok(migrations.iter().take_while(|migration| migration.version <= version).count());
    }
    let tables = ledger.own_tables(client).await?;
    if !tables.is_empty() {
        return Err(Error::Unrecorded { schema: ledger.schema.clone(), tables });
    }
    Ok(0)
}

/// The version that is recorded, which is clean and known.
async fn recorded_version(
    client: &Client,
    ledger: &Ledger,
    migrations: &[Migration],
) -> Result<Option<u64>, Error> {
    let Some(recorded) = ledger.read(client).await? else { return Ok(None) };
    if recorded.dirty {
        return Err(Error::Dirty { version: recorded.version });
    }
    let known = migrations.iter().map(|migration| migration.version);
    match known.into_iter().find(|version| i64::try_from(*version) == Ok(recorded.version)) {
        Some(version) => Ok(Some(version)),
        None => Err(Error::UnknownVersion { version: recorded.version, newest: newest_version(migrations) }),
    }
}

fn newest_version(migrations: &[Migration]) -> u64 {
    migrations.last().map_or(0, |migration| migration.version)
}

/// The tables that a migration drops on its way down and how many rows each has.
async fn dropped_tables(client: &Client, migration: &Migration) -> Result<Vec<(String, i64)>, Error> {
    let statements = split(migration.down).map_err(|unterminated| Error::Unterminated {
        migration: *migration,
        direction: Direction::Down,
        unterminated,
    })?;
    let mut tables = Vec::new();
    for name in statements.iter().flat_map(super::statements::Statement::dropped_tables) {
        let found = client.query_one("SELECT to_regclass($1)::text", &[&name]).await?;
        if let Some(table) = found.get::<_, Option<String>>(0) {
            let rows = client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?.get(0);
            tables.push((table, rows));
        }
    }
    Ok(tables)
}
