//! Taking over a schema that was loaded by hand.

use tokio_postgres::Client;

use super::error::MigrateError;
use super::lock::with_lock;
use super::{Plan, Report};

/// Records that a schema which was loaded by hand has all migrations up to `version`, and executes
/// none.
///
/// Returns whether that was new. A database that records this version or a later one is left alone,
/// so that the same command can be run again.
///
/// # Errors
/// An earlier version is recorded, or the schema is not what the migrations up to `version` make.
pub async fn baseline<'a>(
    client: &mut Client,
    plan: impl Into<Plan<'a>>,
    version: i64,
    report: Report<'_>,
) -> Result<bool, MigrateError> {
    let Plan { migrations, table, schema, .. } = plan.into();
    with_lock(client, &table, schema, report, async |client, history, _| {
        let schema = &history.schema;
        let refused = |reason| Err(MigrateError::Refused(reason));
        if let Some(applied) = history.recorded(client, migrations).await? {
            let recorded = migrations[applied.count - 1].version;
            if recorded >= version {
                return Ok(false);
            }
            return refused(format!(
                "the database already records version {recorded}, so --baseline {version} would \
                 have migrations left out; run `mailroom migrate up` without --baseline"
            ));
        }
        if history.tables(client).await?.is_none() {
            return refused(format!(
                "schema {schema} has no tables of Mailroom's that a baseline could describe; run \
                 `mailroom migrate up` without --baseline"
            ));
        }
        if let Some(row) = history.misfit(client).await? {
            let [column, expected] = [0, 1].map(|index| row.get::<_, &str>(index));
            let found = row.get::<_, Option<&str>>(2).unwrap_or("missing");
            return refused(format!(
                "{column} is {found} instead of {expected}, so these are no tables that Mailroom \
                 can take over; change them, or give Mailroom a schema of its own"
            ));
        }
        let found: i64 = history.traces(client).await?.get("version");
        if version != found {
            return refused(format!(
                "the schema has what the migrations up to {found} make, and not what those up to \
                 {version} make; run `mailroom migrate up --baseline {found}`"
            ));
        }
        history.record(client, Some(version), false).await?;
        Ok(true)
    })
    .await
}
