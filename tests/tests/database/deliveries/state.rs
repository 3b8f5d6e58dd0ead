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
    /// How many of its attempts ended in doubt, by the table that has it.
    pub(super) doubts: usize,
    /// The row, if it is still there.
    pub(super) row: Option<Row>,
}

/// A token's row and its subject's eligibility.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) is_void: bool,
    pub(super) expires_at: i64,
    pub(super) is_eligible: bool,
}

impl Standing {
    /// Whether the last entry of the log says so.
    pub(super) fn ended(&self) -> Option<&Entry> {
        self.log
            .last()
            .filter(|entry| ["sent", "expired", "cancelled"].contains(&entry.outcome.as_str()))
    }

    /// Whether it was given up and cannot be used any more, so that its dead letter may be pruned.
    pub(super) fn is_over_and_dead(&self, now: i64) -> bool {
        let is_dead = self.log.last().is_some_and(|entry| entry.outcome == "dead");
        is_dead && self.row.as_ref().is_none_or(|row| row.is_void || row.expires_at <= now)
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
                    is_void: row.get("is_void"),
                    expires_at: row.get("moment"),
                    is_eligible: row.get("is_eligible"),
                });
            }
            place => {
                standing.places.push(place.to_owned());
                standing.doubts = usize::try_from(row.get::<_, i64>("nth"))?;
            }
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
