//! All that the tables of the queue hold, read by one statement.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use mailroom::queue::BatchId;
use tokio_postgres::Client;

const READ: &str = include_str!("state.sql");

/// A row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) attempt: i32,
    pub(super) outcome: String,
    /// By the queue's clock, in seconds since the Unix epoch.
    pub(super) at: i64,
}

/// Where one token stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// The tables that have it; a token that is done is in none.
    pub(super) places: Vec<String>,
    pub(super) log: Vec<Entry>,
    /// The row, if it is still there.
    pub(super) row: Option<Row>,
}

/// A token's row and its account's status.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) consumed: bool,
    pub(super) expires_at: i64,
    pub(super) has_right_status: bool,
}

impl Standing {
    /// Whether the last entry of the log says so.
    pub(super) fn ended(&self) -> Option<&Entry> {
        self.log.last().filter(|entry| ["sent", "expired", "cancelled"].contains(&entry.outcome.as_str()))
    }
}

/// Reads it all.
pub(super) async fn read(client: &Client) -> Result<BTreeMap<i64, Standing>> {
    let mut all: BTreeMap<i64, Standing> = BTreeMap::new();
    for row in client.query(READ, &[]).await? {
        let standing = all.entry(row.get("token")).or_default();
        match row.get("kind") {
            "log" => standing.log.push(Entry {
                attempt: row.get("attempt"),
                outcome: row.get("outcome"),
                at: row.get("moment"),
            }),
            "row" => {
                standing.row = Some(Row {
                    consumed: row.get("consumed"),
                    expires_at: row.get("moment"),
                    has_right_status: row.get("has_right_status"),
                });
            }
            place => standing.places.push(place.to_owned()),
        }
    }
    Ok(all)
}

/// The ids of all leases there are.
pub(super) async fn leases(client: &Client) -> Result<BTreeSet<BatchId>> {
    ids(client, "").await
}

/// The ids of all leases that have not lapsed.
pub(super) async fn live_leases(client: &Client) -> Result<BTreeSet<BatchId>> {
    ids(client, "WHERE ends_at > mailroom.clock()").await
}

async fn ids(client: &Client, which: &str) -> Result<BTreeSet<BatchId>> {
    let query = format!("SELECT batch FROM mailroom.leases {which}");
    let rows = client.query(&query, &[]).await?;
    Ok(rows.iter().map(|row| BatchId(row.get(0))).collect())
}
