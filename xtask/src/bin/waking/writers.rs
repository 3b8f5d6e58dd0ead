//! Registrations, one a transaction, by several connections.

use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::server::Server;

const REGISTER: &str =
    "INSERT INTO accounts (email, login) VALUES ('user' || $1::bigint || '@example.test', 'user' || $1)";

/// What was registered.
pub(crate) struct Registered {
    pub(crate) accounts: usize,
    pub(crate) per_second: f64,
}

/// Registers one account after the other on `connections` connections for `duration`.
pub(crate) async fn register(server: &Server, connections: u32, duration: Duration) -> Result<Registered> {
    let mut writers = Vec::new();
    for number in 0..connections {
        writers.push((number, server.connect().await?));
    }
    let start = Instant::now();
    let mut running = JoinSet::new();
    for (number, client) in writers {
        running.spawn(write(client, number, connections, start + duration));
    }
    let mut accounts = 0;
    while let Some(written) = running.join_next().await {
        accounts += written??;
    }
    let per_second = f64::from(u32::try_from(accounts)?) / start.elapsed().as_secs_f64();
    Ok(Registered { accounts, per_second })
}

async fn write(client: Client, number: u32, step: u32, end: Instant) -> Result<usize> {
    let statement = client.prepare(REGISTER).await?;
    let mut written = 0;
    for id in (i64::from(number)..).step_by(step as usize) {
        client.execute(&statement, &[&id]).await?;
        written += 1;
        if Instant::now() >= end {
            break;
        }
    }
    Ok(written)
}

/// Registers one account, and returns when that was committed at the latest.
pub(crate) async fn register_one(client: &Client, id: i64) -> Result<Instant> {
    client.execute(REGISTER, &[&id]).await?;
    Ok(Instant::now())
}
