//! Rows that tests write and read.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::time::Instant;

use anyhow::{Result, ensure};
use tokio::time::sleep;
use tokio_postgres::Client;
use tokio_postgres::types::FromSqlOwned;

use crate::collector::{PATIENCE, pause_after};
use crate::fixtures::{Fixtures, numbered};

/// How many tokens have no verdict yet, but for the one of `bob` that stays deferred.
pub const WITHOUT_VERDICT: &str = "SELECT count(*) FROM mailroom.deliveries JOIN tokens
    ON tokens.id = token
    JOIN accounts ON accounts.id = account
    WHERE state::text NOT IN ('sent', 'dead', 'cancelled') AND NOT (login = 'bob'
        AND state::text = 'deferred')";

/// Waits until a query of one value answers what is wanted. As long as the value changes, something
/// goes on, however slowly; one that stands still is given up.
pub async fn wait_for<T: FromSqlOwned + PartialEq + Debug>(
    client: &Client,
    query: &str,
    wanted: T,
) -> Result<()> {
    let (mut last, mut since) = (None, Instant::now());
    loop {
        let found: T = client.query_one(query, &[]).await?.get(0);
        if found == wanted {
            return Ok(());
        }
        if last.as_ref() != Some(&found) {
            since = Instant::now();
        }
        let still = since.elapsed();
        ensure!(still < PATIENCE, "{found:?} instead of {wanted:?} for {PATIENCE:?}: {query}");
        last = Some(found);
        sleep(pause_after(still)).await;
    }
}

/// Registers the accounts `user1`, `user2`, … in one transaction;
/// the database makes a token for each.
pub async fn register(client: &Client, numbers: RangeInclusive<i32>) -> Result<()> {
    client.accounts(numbered("user", numbers)).insert().await?;
    Ok(())
}

/// Where the cursor of the only queue stands.
pub const CURSOR: &str = "SELECT last_seq FROM jobs";

/// What [`CURSOR`] answers.
pub async fn cursor(client: &Client) -> Result<i64> {
    Ok(client.query_one(CURSOR, &[]).await?.get(0))
}

/// The ids of all tokens whose account's login is one of these, in order.
pub async fn token_ids(client: &Client, logins: &[String]) -> Result<Vec<i64>> {
    let query = "SELECT tokens.id FROM tokens JOIN accounts ON accounts.id = account \
                 WHERE login = ANY ($1) ORDER BY 1";
    Ok(client.query(query, &[&logins]).await?.iter().map(|row| row.get(0)).collect())
}

/// The logins `user1`, `user2`, … that [`register`] gives.
pub fn logins(numbers: RangeInclusive<i32>) -> Vec<String> {
    numbered("user", numbers).collect()
}
