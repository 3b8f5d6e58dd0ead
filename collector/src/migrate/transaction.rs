//! One migration, in one transaction together with its record.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use tokio_postgres::{Client, IsolationLevel};

use super::error::{Error, FailedStatement, Place};
use super::ledger::Ledger;
use super::migration::{Direction, Migration};
use super::progress::{Progress, Report};
use super::statements::{Role, Statement, split};

/// How long a statement waits for a lock, and others for it, unless `lock_timeout` is set already.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a migration is tried that does not get its locks. The pause in between doubles from one second.
pub const LOCK_ATTEMPTS: u32 = 4;

const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A migration to take in one direction.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) migration: &'a Migration,
    pub(super) direction: Direction,
    /// The version to record afterwards, if any migration is applied then.
    pub(super) target: Option<u64>,
}

impl Step<'_> {
    /// Executes the script and records the version, or does neither.
    pub(super) async fn take(
        self,
        client: &mut Client,
        ledger: &Ledger,
        report: Report<'_>,
    ) -> Result<(), Error> {
        let Self { migration, direction, .. } = self;
        let work = self.work()?;
        report(Progress::Started { migration, direction });
        let mut pause = FIRST_PAUSE;
        for attempts in 1.. {
            let began = Instant::now();
            let Err((place, cause)) = self.attempt(client, ledger, &work).await else {
                report(Progress::Finished { migration, direction, took: began.elapsed() });
                break;
            };
            let mut failed = FailedStatement {
                migration: *migration,
                direction,
                place,
                cause,
                attempts,
                oldest_transaction: None,
            };
            if !failed.is_about_locks() {
                return Err(Error::Failed(Box::new(failed)));
            }
            if attempts == LOCK_ATTEMPTS {
                failed.oldest_transaction = oldest_transaction(client).await?;
                return Err(Error::Failed(Box::new(failed)));
            }
            report(Progress::Postponed { migration, direction, pause });
            sleep(pause).await;
            pause *= 2;
        }
        Ok(())
    }

    /// The statements of the script without the transaction around them.
    fn work(self) -> Result<Vec<Statement<'static>>, Error> {
        let Self { migration, direction, .. } = self;
        let script = migration.script(direction);
        let statements = split(script).map_err(|unterminated| Error::Unterminated {
            migration: *migration,
            direction,
            unterminated,
        })?;
        let mut work = Vec::new();
        for statement in statements {
            match statement.role() {
                Role::Work => work.push(statement),
                Role::TransactionBracket => {}
                Role::TransactionControl => {
                    return Err(Error::TransactionControl {
                        migration: *migration,
                        direction,
                        line: statement.line,
                        excerpt: statement.excerpt(),
                    });
                }
            }
        }
        Ok(work)
    }

    /// Rolls back by leaving early: a transaction that is dropped never commits.
    async fn attempt(
        self,
        client: &mut Client,
        ledger: &Ledger,
        work: &[Statement<'_>],
    ) -> Result<(), (Place, tokio_postgres::Error)> {
        let timeout = format!("{}ms", LOCK_TIMEOUT.as_millis());
        let begin =
            client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).read_only(false);
        let transaction = begin.start().await.map_err(|error| (Place::Settings, error))?;
        let settings = include_str!("transaction_settings.sql");
        transaction.query(settings, &[&timeout]).await.map_err(|error| (Place::Settings, error))?;
        for statement in work {
            let executed = transaction.batch_execute(statement.text).await;
            executed.map_err(|error| (Place::of(statement, &error), error))?;
        }
        ledger.write(&transaction, self.target).await.map_err(|error| (Place::Record, error))?;
        transaction.commit().await.map_err(|error| (Place::Commit, error))
    }
}

async fn oldest_transaction(client: &Client) -> Result<Option<String>, Error> {
    let oldest = client.query_opt(include_str!("oldest_transaction.sql"), &[]).await?;
    Ok(oldest.map(|row| row.get(0)))
}
