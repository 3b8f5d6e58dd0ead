//! The lock that keeps migrations apart, shared with golang-migrate.

use std::time::Duration;

use mailroom_connect::Schema;
use tokio::time::sleep;
use tokio_postgres::Client;

use super::Report;
use super::error::MigrateError;
use super::history::{History, HistoryTable};

/// `advisoryLockIDSalt` of golang-migrate, database/util.go.
const SALT: u32 = 1_486_364_155;

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The ids of the advisory locks under which golang-migrate changes a schema:
/// `GenerateAdvisoryLockId` of database/util.go.
///
/// There are two, because its drivers take the path of a URL for the name of the database, slash
/// included (`Open` in database/postgres/postgres.go), and only programs that hand it an open
/// connection lock the name as it is (`WithInstance`).
pub fn lock_ids(database: &str, schema: &str, table: &str) -> [i64; 2] {
    [format!("/{database}"), database.to_owned()].map(|database| {
        let names = [schema, table, &database].join("\0");
        i64::from(crc32(names.as_bytes()).wrapping_mul(SALT))
    })
}

/// Settings of a role or database under which the files of migrations would be read in another way:
/// backslashes in literals, quoted names in texts of catalogues, warnings that are errors.
const SESSION: &str = "SET standard_conforming_strings = on; SET quote_all_identifiers = off;
    SET plpgsql.extra_errors = 'none'; SET plpgsql.extra_warnings = 'none'";

/// Runs `work` while no other session migrates what is recorded in this table.
pub(super) async fn with_lock<T>(
    client: &mut Client,
    table: &HistoryTable,
    schema: Schema,
    report: Report<'_>,
    work: impl AsyncFnOnce(&mut Client, &History, Report<'_>) -> Result<T, MigrateError>,
) -> Result<T, MigrateError> {
    client.batch_execute(SESSION).await?;
    let history = History::of_session(client, table, schema.clone()).await?;
    let row = client.query_one("SELECT current_database()::text", &[]).await?;
    let [slash, bare] = lock_ids(row.get(0), &history.table_schema, &history.table);
    // The third covers the whole database: installations with another schema or history table lock
    // other ids.
    let ids = [slash, bare, lock_ids(row.get(0), "", "")[0]];
    for id in ids {
        wait_for(client, id, report).await?;
    }
    // Whoever had them may have installed another schema.
    let outcome = match History::of_session(client, table, schema).await {
        Ok(history) => work(client, &history, report).await,
        Err(error) => Err(error),
    };
    for id in ids {
        let released = client.execute("SELECT pg_advisory_unlock($1::bigint)", &[&id]).await;
        // A connection that was lost has released them already.
        if outcome.is_ok() {
            released?;
        }
    }
    outcome
}

/// Polls instead of waiting in one statement: a `statement_timeout` could end that, and CREATE
/// INDEX CONCURRENTLY of the session that has the lock would wait for it.
async fn wait_for(client: &Client, id: i64, report: Report<'_>) -> Result<(), MigrateError> {
    let mut reported = false;
    while !client
        .query_one("SELECT pg_try_advisory_lock($1::bigint)", &[&id])
        .await?
        .get::<_, bool>(0)
    {
        if !std::mem::replace(&mut reported, true) {
            let holder = client.query_opt(include_str!("lock_holder.sql"), &[&id]).await?;
            report(&match holder.map(|row| row.get::<_, i32>(0)) {
                Some(process) => {
                    format!("waiting for the migration that server process {process} runs")
                }
                None => "waiting for another migration".to_owned(),
            });
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// CRC-32 of IEEE 802.3, which Go calls `crc32.ChecksumIEEE`.
fn crc32(bytes: &[u8]) -> u32 {
    let shifted = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shifted))
}
