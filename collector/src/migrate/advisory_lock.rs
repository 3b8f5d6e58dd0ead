//! The lock that keeps migrations apart, shared with golang-migrate.

use std::time::Duration;

use tokio::time::sleep;
use tokio_postgres::Client;

use super::error::Error;
use super::ledger::Ledger;
use super::progress::{Progress, Report};

/// `advisoryLockIDSalt` of golang-migrate, database/util.go.
const SALT: u32 = 1_486_364_155;

/// How often the lock is asked for while somebody else has it.
const PAUSE: Duration = Duration::from_millis(200);

/// The ids of the advisory locks under which golang-migrate changes a schema.
///
/// As computed by `GenerateAdvisoryLockId` in golang-migrate's database/util.go from schema, table and database, each
/// but the last followed by a zero byte. There are two, because its drivers take the path of a URL for the name of the
/// database, slash included (`Open` in database/postgres/postgres.go), and only programs that hand it an open
/// connection lock the name as it is (`WithInstance`).
pub fn lock_ids(database: &str, schema: &str, table: &str) -> [i64; 2] {
    [format!("/{database}"), database.to_owned()].map(|database| {
        let names = [schema, table, &database].join("\0");
        i64::from(crc32(names.as_bytes()).wrapping_mul(SALT))
    })
}

/// Proof that both locks are held by the session.
pub(super) struct AdvisoryLock {
    ids: [i64; 2],
}

impl AdvisoryLock {
    /// Waits until nobody else migrates what is recorded in this table.
    pub(super) async fn acquire(client: &Client, ledger: &Ledger, report: Report<'_>) -> Result<Self, Error> {
        let row = client.query_one("SELECT current_database()::text", &[]).await?;
        let lock = Self { ids: lock_ids(row.get(0), &ledger.table_schema, &ledger.table) };
        for id in lock.ids {
            wait_for(client, id, report).await?;
        }
        Ok(lock)
    }

    /// Gives the locks back; a connection that is gone has given them back already.
    pub(super) async fn release(self, client: &Client) -> Result<(), Error> {
        for id in self.ids {
            client.execute("SELECT pg_advisory_unlock($1)", &[&id]).await?;
        }
        Ok(())
    }
}

/// Asks again and again instead of waiting in one statement, which a `statement_timeout` could end.
async fn wait_for(client: &Client, id: i64, report: Report<'_>) -> Result<(), Error> {
    let mut said = false;
    while !client.query_one("SELECT pg_try_advisory_lock($1)", &[&id]).await?.get::<_, bool>(0) {
        if !said {
            let holder = client.query_opt(include_str!("advisory_lock_holder.sql"), &[&id]).await?;
            report(Progress::Waiting { process: holder.map(|row| row.get(0)) });
            said = true;
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

/// CRC-32 of IEEE 802.3, which Go calls `crc32.ChecksumIEEE`.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| {
                if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 }
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_catalogue_of_crcs() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    /// Computed by Python: `zlib.crc32(b"public\0schema_migrations\0/mailroom") * 1486364155 & 0xffffffff`.
    #[test]
    fn the_ids_are_those_of_golang_migrate() {
        assert_eq!(lock_ids("mailroom", "public", "schema_migrations"), [11_723_333, 1_922_301_032]);
    }
}
