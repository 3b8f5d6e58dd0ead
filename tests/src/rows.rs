//! Rows that tests write and read.

use std::ops::RangeInclusive;

use anyhow::Result;
use tokio_postgres::Client;

/// Registers the accounts `user1`, `user2`, … in one transaction; the database makes a token for each.
pub async fn register(client: &Client, numbers: RangeInclusive<i32>) -> Result<()> {
    let statement = "INSERT INTO accounts (email, login)
        SELECT 'user' || number || '@example.test', 'user' || number FROM generate_series($1::int, $2::int) AS number";
    client.execute(statement, &[numbers.start(), numbers.end()]).await?;
    Ok(())
}

/// Where the cursor of the only queue stands.
pub async fn cursor(client: &Client) -> Result<i64> {
    Ok(client.query_one("SELECT last_seq FROM jobs", &[]).await?.get(0))
}

/// The ids of all tokens whose account's login is one of these, in order.
pub async fn token_ids(client: &Client, logins: &[String]) -> Result<Vec<i64>> {
    let query = "SELECT tokens.id FROM tokens JOIN accounts ON accounts.id = account WHERE login = ANY ($1) ORDER BY 1";
    Ok(client.query(query, &[&logins]).await?.iter().map(|row| row.get(0)).collect())
}

/// The logins `user1`, `user2`, … that [`register`] gives.
pub fn logins(numbers: RangeInclusive<i32>) -> Vec<String> {
    numbers.map(|number| format!("user{number}")).collect()
}
