//! One step after the other.

use std::time::Duration;

use anyhow::Result;
use mailroom::queue::{ClaimRequest, Queue};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::super::{clock, queue};
use super::Model;
use super::steps::Step;

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
            Step::InsertLate { account, recovery } => {
                if self.late_tokens.is_none() {
                    self.late.batch_execute("BEGIN").await?;
                }
                let expires_at = clock::now(&self.client).await? + 100_000;
                let id = Self::insert(&self.late, *account, *recovery, expires_at).await?;
                self.late_tokens.get_or_insert_default().push(id);
            }
            Step::EndLate { commits } => {
                // The commit needs the account's key, which the other open transaction does not change.
                if let Some(ids) = self.late_tokens.take() {
                    self.late.batch_execute(if *commits { "COMMIT" } else { "ROLLBACK" }).await?;
                    self.known.extend(ids.into_iter().filter(|_| *commits));
                }
            }
            Step::SetStatus { account, status } if self.locked != Some(*account) => {
                set_status(&self.client, *account, status).await?;
            }
            Step::SetStatusLate { account, status } if self.locked.is_none() => {
                self.status.batch_execute("BEGIN").await?;
                set_status(&self.status, *account, status).await?;
                self.locked = Some(*account);
            }
            Step::EndStatus { commits } => {
                if self.locked.take().is_some() {
                    self.status.batch_execute(if *commits { "COMMIT" } else { "ROLLBACK" }).await?;
                }
            }
            Step::Consume { nth } => {
                let update = "UPDATE tokens SET consumed_at = 1 WHERE id = $1 AND account <> $2 AND consumed_at IS NULL";
                if let Some(id) = self.nth_token(*nth) {
                    self.client.execute(update, &[&id, &self.locked.unwrap_or(0)]).await?;
                }
            }
            Step::Delete { nth } => {
                if let Some(id) = self.nth_token(*nth) {
                    self.client.execute("DELETE FROM tokens WHERE id = $1", &[&id]).await?;
                }
            }
            Step::Claim { collector, want } => self.claim(*collector, *want).await?,
            Step::DropClaim { collector, limit, after } => {
                let want = ClaimRequest { batches: 2, limit: *limit, partial: true, rescan: false };
                let claim = self.collectors[*collector].settle_and_claim(Vec::new(), Some(want));
                if let Ok(Ok(claim)) = timeout(Duration::from_micros(*after), claim).await {
                    self.give(*collector, claim.batches);
                }
                // Whatever it did is done when the connection answers again.
                self.heartbeat(*collector).await?;
                self.settle_and_claim(*collector, Vec::new(), None).await?;
            }
            Step::Settle { collector, nth, outcomes } => self.settle(*collector, *nth, outcomes).await?,
            Step::Release { collector, nth } => {
                if let Some(batch) = self.pick(*collector, *nth) {
                    self.collectors[*collector].release(&[batch.id]);
                    self.forgive(&batch);
                    self.settle_and_claim(*collector, Vec::new(), None).await?;
                }
            }
            Step::Tend { collector } => self.heartbeat(*collector).await?,
            Step::Prospect { collector } => {
                if self.collectors[*collector].peek(10).await.is_err() {
                    self.collectors[*collector].open().await?;
                }
            }
            Step::Disconnect { collector } => {
                // All but this test's own, so also those of the others; each has to cope.
                let _ = collector;
                let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name = 'mailroom collect'";
                self.client.execute(end, &[]).await?;
                for queue in &mut self.collectors {
                    queue.open().await?;
                }
            }
            Step::Crash { collector } => {
                for batch in std::mem::take(&mut self.held[*collector]) {
                    self.expected_entries.extend(batch.tokens.iter().map(|token| (token.id, token.attempt)));
                }
                self.collectors[*collector] = queue(self.database).await?;
            }
            Step::Retry => {
                self.client.execute("SELECT mailroom.retry_all()", &[]).await?;
            }
            Step::Turn { seconds } => clock::turn(&self.client, seconds * 1_000).await?,
            Step::Together { first, second, beside } => {
                // Two queues at once are more than a future should hold in itself.
                Box::pin(self.together(first, second, beside)).await?;
            }
            Step::SetStatus { .. } | Step::SetStatusLate { .. } => {}
        }
        Ok(())
    }

    pub(super) fn nth_token(&self, nth: usize) -> Option<i64> {
        self.known.iter().nth(nth.checked_rem(self.known.len())?).copied()
    }
}

async fn set_status(client: &Client, account: i64, status: &str) -> Result<()> {
    let update = "UPDATE accounts SET status = $2::text::account_status WHERE id = $1";
    client.execute(update, &[&account, &status]).await?;
    Ok(())
}
