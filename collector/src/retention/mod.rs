//! Prunes the log of delivery attempts, dead letters and tokens that have expired, in small steps.
//! A step is a transaction of its own. So vacuum can follow, and an interrupted run keeps what it
//! did.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mailroom_connect::sqlstate::is_in;
use mailroom_connect::{ConnectionSettings, SchemaClient, SessionOptions, explain};
use tokio::time::sleep;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::log::display::HumanDuration;
use crate::metrics::{Metrics, Rows};
use mailroom_pace::{Backoff, jittered};

/// The size of a step: some 12,000 rows of the log, and about as many dead letters or tokens.
const BLOCKS: i32 = 128;
const ROWS: i32 = 10_000;

/// When a collector prunes. The first time is soon after the start,
/// for collectors that never run long.
const FIRST: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_secs(3_600);

/// How long pruning may be refused because another process prunes, until the log says so.
const LONG_REFUSED: Duration = Duration::from_secs(24 * 3_600);
const LOCKED: &str = "another session has had the table prune_lock whenever it was tried for more \
                      than a day; pg_locks says which";

const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// How many times as long as a step a collector pauses after it.
const PAUSE_FACTOR: u32 = 4;

// Each answers with how many rows went and where the next step begins, if there is one.
const PRUNE_ATTEMPTS: &str = include_str!("prune_attempts.sql");
const PRUNE_DEAD_LETTERS: &str = include_str!("prune_dead_letters.sql");
const PRUNE_TOKENS: &str = include_str!("prune_tokens.sql");
/// This runs only where Mailroom has accounts, whose tokens are rows of another table, too. It
/// deletes both rows, so that each token is counted once.
const PRUNE_ACCOUNT_TOKENS: &str = include_str!("prune_account_tokens.sql");
const HAS_ACCOUNTS: &str = "SELECT to_regprocedure('mailroom.prune_account_tokens(timestamptz, \
                            bigint, integer)') IS NOT NULL";

/// From which age on rows are deleted.
#[derive(Clone, Copy)]
pub(crate) struct Ages {
    /// Of delivery attempts and dead letters, since they were logged or given up.
    pub(crate) log: Duration,
    /// Of tokens, since their expiry.
    pub(crate) tokens: Duration,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Pruned {
    pub(crate) attempts: i64,
    pub(crate) dead_letters: i64,
    pub(crate) tokens: i64,
    /// Blocks of the log that were read.
    pub(crate) blocks: i64,
    pub(crate) all_blocks: i64,
}

/// Whether a step failed because another process prunes:
/// each step locks a table as long as it lasts.
pub(crate) fn is_locked(error: &Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Deletes what is older than `ages`. Awaits `report` after each step with what was deleted and how
/// long the step took. Awaits `wait` where another process prunes, which answers whether to try
/// again.
pub(crate) async fn prune(
    client: &SchemaClient,
    ages: Ages,
    mut report: impl AsyncFnMut(Pruned, Duration),
    mut wait: impl AsyncFnMut() -> bool,
) -> Result<Pruned, Error> {
    type Step = (&'static str, i32, Duration, fn(&mut Pruned) -> &mut i64);
    let steps: [Step; 4] = [
        (PRUNE_ATTEMPTS, BLOCKS, ages.log, |pruned| &mut pruned.attempts),
        // Before the tokens, which stay as long as their dead letters.
        (PRUNE_DEAD_LETTERS, ROWS, ages.log, |pruned| &mut pruned.dead_letters),
        // In this order each token is counted once: with a token of an account goes its other row.
        (PRUNE_ACCOUNT_TOKENS, ROWS, ages.tokens, |pruned| &mut pruned.tokens),
        (PRUNE_TOKENS, ROWS, ages.tokens, |pruned| &mut pruned.tokens),
    ];
    let has_accounts: bool = client.query_typed_one(HAS_ACCOUNTS, &[]).await?.try_get(0)?;
    let mut pruned = Pruned::default();
    for (statement, size, age, count) in steps {
        let seconds = age.as_secs_f64();
        let mut position = (has_accounts || statement != PRUNE_ACCOUNT_TOKENS).then_some(0_i64);
        while let Some(from) = position {
            let start = Instant::now();
            let parameters = &[
                (&seconds as _, Type::FLOAT8),
                (&from as _, Type::INT8),
                (&size as _, Type::INT4),
            ];
            let row = match client.query_typed_one(statement, parameters).await {
                Err(error) if is_locked(&error) && wait().await => continue,
                row => row?,
            };
            *count(&mut pruned) += row.try_get::<_, i64>(0)?;
            position = row.try_get(1)?;
            if statement == PRUNE_ATTEMPTS {
                pruned.all_blocks = row.try_get(2)?;
                pruned.blocks = position.unwrap_or(pruned.all_blocks);
            }
            report(pruned, start.elapsed()).await;
        }
    }
    Ok(pruned)
}

/// Prunes beside the collecting: once an hour, one collector at a time, on a connection of its own.
/// While the database is away it is tried again sooner.
pub(crate) async fn prune_hourly(
    connection: ConnectionSettings,
    ages: Ages,
    metrics: Arc<Metrics>,
) {
    let mut pauses = Backoff::up_to(INTERVAL);
    let mut refused_since = None;
    let mut pause = jittered(FIRST);
    loop {
        sleep(pause).await;
        // Nothing is so old that a database is to be woken for it.
        metrics.health.until_resting(false).await;
        pause = jittered(INTERVAL);
        let older_than = HumanDuration(ages.log);
        let token_retention = HumanDuration(ages.tokens);
        let now = Instant::now();
        let outcome = run(&connection, ages).await;
        if !matches!(outcome, Err(Failure::Locked)) {
            refused_since = None;
        }
        if !matches!(outcome, Err(Failure::Away(_))) {
            pauses.reset();
        }
        let reason = match outcome {
            Ok(Pruned { attempts, dead_letters, tokens, .. }) => {
                for (rows, count) in [
                    (Rows::Attempts, attempts),
                    (Rows::DeadLetters, dead_letters),
                    (Rows::Tokens, tokens),
                ] {
                    metrics.pruned(rows, count);
                }
                if attempts + dead_letters + tokens > 0 {
                    tracing::info!(
                        event = "pruned",
                        attempts,
                        dead_letters,
                        tokens,
                        %older_than,
                        %token_retention,
                        "delivery attempts and tokens are pruned"
                    );
                }
                continue;
            }
            Err(Failure::Locked) => {
                // Another collector prunes, which takes some minutes.
                let since = *refused_since.get_or_insert(now);
                if now.duration_since(since) < LONG_REFUSED {
                    continue;
                }
                LOCKED.to_owned()
            }
            Err(Failure::Away(reason)) => {
                pause = jittered(pauses.pause().max(FIRST));
                reason
            }
            Err(Failure::Refused(reason)) => reason,
        };
        let next = HumanDuration(Duration::from_secs(pause.as_secs()));
        tracing::warn!(
            event = "prune_failed",
            reason = %reason,
            %older_than,
            %token_retention,
            "old delivery attempts and tokens are not pruned, trying again in {next}"
        );
    }
}

/// Why nothing was pruned.
#[derive(Debug)]
enum Failure {
    /// The database cannot be reached or used now.
    Away(String),
    /// Another process prunes.
    Locked,
    /// A right is missing, or a step fails.
    Refused(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match &error {
            error if is_locked(error) => Self::Locked,
            error if is_away(error.code().map(SqlState::code)) => Self::Away(explain(error)),
            error => Self::Refused(explain(error)),
        }
    }
}

/// Whether an error, which has no SQLSTATE where the connection was lost, is of a server that has
/// ended, or is a standby now, or of a pooler that has lost it: soon there may be another one.
fn is_away(sqlstate: Option<&str>) -> bool {
    sqlstate.is_none_or(|sqlstate| is_in(&["08", "25006", "57P"], sqlstate))
}

async fn run(connection: &ConnectionSettings, ages: Ages) -> Result<Pruned, Failure> {
    let options = SessionOptions {
        application_name: "mailroom collect (pruning)",
        statement_timeout: Some(STEP_TIMEOUT),
        needs_session: false,
    };
    let session = Box::pin(mailroom_connect::connect(connection, &options)).await;
    let session = session.map_err(|error| Failure::Away(error.to_string()))?;
    let client = SchemaClient { raw: session.client, schema: connection.schema.clone() };
    let driver = session.connection.run();
    let work =
        prune(&client, ages, async |_, took| sleep(took * PAUSE_FACTOR).await, async || false);
    tokio::select! {
        outcome = work => Ok(outcome?),
        Err(error) = driver => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::is_away;

    #[test]
    fn a_failover_is_waited_for_shortly_and_a_refusal_for_an_hour() {
        // The last two: of a pooler whose server has ended, and of a leader that was demoted.
        for sqlstate in [None, Some("57P01"), Some("57P03"), Some("08P01"), Some("25006")] {
            assert!(is_away(sqlstate), "{sqlstate:?}");
        }
        // A right that is missing, a step that took too long, a table that is damaged.
        for sqlstate in ["42501", "57014", "XX001"] {
            assert!(!is_away(Some(sqlstate)), "{sqlstate}");
        }
    }
}
