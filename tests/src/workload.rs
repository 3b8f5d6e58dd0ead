//! What applications do to a database while its tokens are collected.

use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::postgres::Database;

/// Registers accounts whose logins begin with `prefix`, in one transaction.
pub async fn register(client: &Client, prefix: &str, count: usize) -> Result<()> {
    let statement = "INSERT INTO accounts (email, login)
        SELECT $1 || n || '@example.test', $1 || n FROM generate_series(1, $2::bigint) AS n";
    client.execute(statement, &[&prefix, &i64::try_from(count)?]).await?;
    Ok(())
}

/// Writers that insert, wait for up to `delay` and then commit, all at the same time: the order of
/// the commits is not that of the ids. One transaction in ten is rolled back.
#[derive(Clone, Debug)]
pub struct LateWriters {
    /// How many connections write.
    pub writers: usize,
    /// How many transactions each makes.
    pub transactions: usize,
    /// How many accounts a transaction registers.
    pub accounts: usize,
    /// The longest time between insert and commit.
    pub delay: Duration,
    /// What the delays follow from.
    pub seed: u64,
}

impl LateWriters {
    /// Writes everything; returns how many accounts were committed.
    pub async fn write(&self, database: &Database) -> Result<usize> {
        let mut writers = JoinSet::new();
        for number in 0..self.writers {
            let client = database.connect().await?;
            let task = self.clone();
            writers.spawn(async move { task.write_alone(number, client).await });
        }
        let mut committed = 0;
        while let Some(writer) = writers.join_next().await {
            committed += writer??;
        }
        Ok(committed)
    }

    async fn write_alone(&self, number: usize, mut client: Client) -> Result<usize> {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(number as u64));
        let mut committed = 0;
        for turn in 0..self.transactions {
            let transaction = client.transaction().await?;
            register(
                transaction.client(),
                &format!("late{}-{number}-{turn}-", self.seed),
                self.accounts,
            )
            .await?;
            let longest = u64::try_from(self.delay.as_micros())?;
            sleep(Duration::from_micros(random.u64(0..=longest))).await;
            if random.u8(0..10) == 0 {
                transaction.rollback().await?;
            } else {
                transaction.commit().await?;
                committed += self.accounts;
            }
        }
        Ok(committed)
    }
}

/// What may happen to a token that is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Its account is deleted, and with it the token.
    DeleteAccount,
    /// It alone is deleted.
    DeleteToken,
    /// It is used.
    Consume,
    /// Its account is suspended.
    Suspend,
}

impl Change {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::DeleteAccount, Self::DeleteToken, Self::Consume, Self::Suspend];

    /// Does it to these tokens.
    pub async fn apply(self, client: &Client, tokens: &[i64]) -> Result<u64> {
        let statement = match self {
            Self::DeleteAccount => {
                "DELETE FROM accounts WHERE id IN (SELECT account FROM tokens WHERE id = ANY ($1))"
            }
            Self::DeleteToken => "DELETE FROM tokens WHERE id = ANY ($1)",
            Self::Consume => {
                "UPDATE tokens SET consumed_at = extract(epoch FROM now()) WHERE id = ANY ($1) \
                 AND consumed_at IS NULL"
            }
            Self::Suspend => {
                "UPDATE accounts SET status = 'suspended'
                    WHERE id IN (SELECT account FROM tokens WHERE id = ANY ($1))
                        AND status <> 'suspended'"
            }
        };
        Ok(client.execute(statement, &[&tokens]).await?)
    }
}

/// Lifts every suspension.
pub async fn unsuspend_all(client: &Client) -> Result<u64> {
    Ok(client
        .execute("UPDATE accounts SET status = 'active' WHERE status = 'suspended'", &[])
        .await?)
}
