//! What a statement costs the database, as its plan tells.

use anyhow::{Context, Result};
use tokio_postgres::{Client, SimpleQueryMessage};

/// Executes a statement and tells the blocks that it touches, in the functions that it calls too.
pub async fn blocks(client: &Client, statement: &str) -> Result<i64> {
    let answer = client
        .simple_query(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"))
        .await?;
    let plan = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: serde_json::Value = serde_json::from_str(plan.context("a plan")?)?;
    let count = |name: &str| plan[0]["Plan"][name].as_i64().context("a count of blocks");
    Ok(count("Shared Hit Blocks")? + count("Shared Read Blocks")?)
}
