//! One step after the other.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom::queue::{ClaimRequest, Queue};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::super::{clock, queue};
use super::Model;
use super::steps::{Step, Work};

impl Model<'_> {
    async fn insert(client: &Client, account: i64, recovery: bool, expires_at: i64) -> Result<i64> {
        let insert = "INSERT INTO tokens (account, action, expires_at)
            VALUES ($1, $2::text::token_action, $3) RETURNING id";
        let action = if recovery { "password_recovery" } else { "activation" };
        Ok(client.query_one(insert, &[&account, &action, &expires_at]).await?.get(0))
    }

    pub(super) async fn take(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Insert { account, recovery, lifetime } => {
                let expires_at = clock::now(&self.client).await? + lifetime;
                let id = Self::insert(&self.client, *account, *recovery, expires_at).await?;
                self.known.insert(id);
            }
            Step::Apply { work, late: false } => {
                let made = apply(&self.client, &self.statement(work)).await?;
                self.known.extend(made.unwrap_or_default());
            }
            Step::Apply { work, late: true } => {
                if self.late_tokens.is_none() {
                    self.late.batch_execute("BEGIN").await?;
                }
                self.late.batch_execute("SAVEPOINT before").await?;
                let made = apply(&self.late, &self.statement(work)).await?;
                let end = if made.is_some() { "RELEASE" } else { "ROLLBACK TO" };
                self.late.batch_execute(&format!("{end} SAVEPOINT before")).await?;
                self.late_tokens.get_or_insert_default().extend(made.unwrap_or_default());
            }
            Step::EndLate { commits } => {
                if let Some(ids) = self.late_tokens.take() {
                    self.late.batch_execute(if *commits { "COMMIT" } else { "ROLLBACK" }).await?;
                    self.known.extend(ids.into_iter().filter(|_| *commits));
                }
            }
            Step::SetStatus { account, status } => {
                apply(&self.client, &set_status(*account, status)).await?;
            }
            Step::SetStatusLate { account, status } if !self.is_status_open => {
                self.status.batch_execute("BEGIN").await?;
                self.is_status_open = true;
                apply(&self.status, &set_status(*account, status)).await?;
            }
            Step::EndStatus { commits } => {
                if std::mem::take(&mut self.is_status_open) {
                    self.status.batch_execute(if *commits { "COMMIT" } else { "ROLLBACK" }).await?;
                }
            }
            Step::Claim { collector, want } => self.claim(*collector, *want).await?,
            Step::DropClaim { collector, limit, after } => {
                let want = ClaimRequest {
                    batches: 2,
                    limit: *limit,
                    partial: true,
                    rescan: false,
                    spares_doubtful: false,
                };
                let claim = self.collectors[*collector].settle_and_claim(Vec::new(), Some(want));
                if let Ok(Ok(claim)) = timeout(Duration::from_micros(*after), claim).await {
                    self.give(*collector, claim.batches);
                }
                // Whatever it did is done when the connection answers again.
                self.heartbeat(*collector).await?;
                self.settle_and_claim(*collector, Vec::new(), None).await?;
            }
            Step::Settle { collector, nth, outcomes } => {
                self.settle(*collector, *nth, outcomes).await?;
            }
            Step::Release { collector, nth } => {
                if let Some(batch) = self.pick(*collector, *nth) {
                    self.collectors[*collector].release(&[batch.id]);
                    self.forgive(&batch);
                    self.settle_and_claim(*collector, Vec::new(), None).await?;
                }
            }
            Step::Heartbeat { collector } => self.heartbeat(*collector).await?,
            Step::Peek { collector } => self.peek(*collector).await?,
            Step::Disconnect { collector } => {
                // All but this test's own, so also those of the others; each has to cope.
                let _ = collector;
                let end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name = 'mailroom collect'";
                self.client.execute(end, &[]).await?;
                for queue in &mut self.collectors {
                    queue.open().await?;
                }
            }
            Step::Crash { collector } => {
                for batch in std::mem::take(&mut self.held[*collector]) {
                    self.expected_entries
                        .extend(batch.tokens.iter().map(|token| (token.id, token.attempt)));
                }
                self.collectors[*collector] = queue(self.database).await?;
            }
            Step::Turn { seconds } => {
                self.was_set_back |= *seconds < 0;
                clock::turn(&self.client, seconds * 1_000).await?;
            }
            Step::Together { first, second, beside } => {
                // Two queues at once are more than a future should hold in itself.
                Box::pin(self.together(first, second, beside)).await?;
            }
            Step::SetStatusLate { .. } => {}
        }
        Ok(())
    }

    /// As SQL; a token that it makes is answered as `made`.
    pub(super) fn statement(&self, work: &Work) -> String {
        let nth = |nth: usize| self.known.iter().nth(nth.checked_rem(self.known.len())?).copied();
        // There is no token 0.
        let nth = |number: usize| nth(number).unwrap_or(0);
        match work {
            Work::Insert { account, recovery } => format!(
                "INSERT INTO tokens (account, action, expires_at)
                VALUES ({account}, '{}', floor(extract(epoch
                    FROM mailroom.clock()))::bigint + 100000) RETURNING id AS made",
                if *recovery { "password_recovery" } else { "activation" }
            ),
            Work::Enqueue { account, action, later } => format!(
                "SELECT mailroom.enqueue('{action}', '{account}@example.test', NULL, '{account}',
                    '{{\"name\": \"a\"}}', 'de',
                    mailroom.clock() + interval '{later} s', binding =>
                        decode(repeat('0{account}', 16), 'hex')) AS made"
            ),
            Work::Consume { nth: number } => {
                format!(
                    "UPDATE tokens SET consumed_at = 1 WHERE id = {} AND consumed_at IS NULL",
                    nth(*number)
                )
            }
            Work::Redeem { nth: number } => format!(
                "SELECT verdict FROM (SELECT *, action::text = 'activation' AS is_activation
                FROM tokens) AS tokens
                CROSS JOIN mailroom.redeem(
                    secret, CASE WHEN is_activation THEN 'activate' ELSE 'recover' END, CASE WHEN
                        NOT is_activation THEN code::text END
                )
                WHERE id = {}",
                nth(*number)
            ),
            Work::Cancel { nth: number } => format!("SELECT mailroom.cancel({})", nth(*number)),
            Work::Delete { nth: number } => {
                format!("DELETE FROM tokens WHERE id = {}", nth(*number))
            }
            Work::Retry { in_doubt } => format!("SELECT mailroom.retry_all({in_doubt})"),
            Work::Prune => "SELECT mailroom.prune_tokens(before, 0, 1000),
                    mailroom.prune_account_tokens(before, 0, 1000),
                    mailroom.prune_dead_letters(before, 1000)
                FROM (SELECT mailroom.clock() - interval '1 day' AS before) AS bound"
                .to_owned(),
        }
    }
}

pub(super) fn set_status(account: i64, status: &str) -> String {
    format!("UPDATE accounts SET status = '{status}' WHERE id = {account}")
}

/// Runs a statement of an application; answers which tokens it made, or nothing if another open
/// transaction is in its way.
pub(super) async fn apply(client: &Client, statement: &str) -> Result<Option<Vec<i64>>> {
    let messages = match client.simple_query(statement).await {
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => return Ok(None),
        messages => messages.with_context(|| statement.to_owned())?,
    };
    let made = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.try_get("made").ok()?,
        _ => None,
    });
    Ok(Some(made.map(str::parse).collect::<Result<_, _>>()?))
}
