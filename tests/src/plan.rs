//! What a statement costs the database, as its plan tells.

use anyhow::{Context, Result};
use tokio_postgres::{Client, SimpleQueryMessage};

/// What executing a statement took, in the functions that it calls too.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Blocks that were touched, wherever they were.
    pub blocks: i64,
    /// How long the execution took.
    pub milliseconds: f64,
}

/// Executes a statement and tells what that took.
pub async fn cost(client: &Client, statement: &str) -> Result<Cost> {
    let answer = client
        .simple_query(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"))
        .await?;
    let plan = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: serde_json::Value = serde_json::from_str(plan.context("a plan")?)?;
    let count = |name: &str| plan[0]["Plan"][name].as_i64().context("a count of blocks");
    Ok(Cost {
        blocks: count("Shared Hit Blocks")? + count("Shared Read Blocks")?,
        milliseconds: plan[0]["Execution Time"].as_f64().context("a time")?,
    })
}

/// Executes a statement and tells the blocks of tables and indexes that it touches, in the
/// functions that it calls too, but none of catalogues: a session forgets them as a whole whenever
/// the sessions of its server have changed many of them, also in other databases, and reads a
/// thousand blocks of them again.
pub async fn blocks(client: &Client, statement: &str) -> Result<i64> {
    let fetched = "SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0)::bigint \
                   FROM pg_class WHERE oid >= 16384";
    // Statements that are sent together are one transaction, for which the server counts.
    let answer = client
        .simple_query(&format!("{fetched}; EXPLAIN (ANALYZE) {statement}; {fetched}"))
        .await?;
    let rows: Vec<_> = answer
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    let count = |row: Option<&&str>| anyhow::Ok(row.context("a count of blocks")?.parse::<i64>()?);
    Ok(count(rows.last())? - count(rows.first())?)
}

/// Rows that the open transaction has read of all tables so far, by indexes too.
pub async fn rows_read(client: &Client) -> Result<i64> {
    let read = "SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM \
                pg_stat_xact_user_tables";
    Ok(client.query_one(read, &[]).await?.get(0))
}
