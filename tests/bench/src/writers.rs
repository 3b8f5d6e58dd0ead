//! Several connections that write at once, in rounds.

use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::postgres::Database;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::report::per_second;

/// How often and how long each of several ways is measured.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Rounds {
    /// How many rounds each way gets; they take turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// How long a round writes
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

impl Rounds {
    pub(crate) fn duration(self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }
}

/// Lets so many connections write at once. `write` gets each and its number, and returns how often
/// it has written. Returns how often all have, and how often per second.
pub(crate) async fn at_once<W>(
    database: &Database,
    connections: u32,
    write: impl Fn(Client, u32) -> W,
) -> Result<(u32, u32)>
where
    W: Future<Output = Result<u32>> + Send + 'static,
{
    let mut clients = Vec::new();
    for number in 0..connections {
        clients.push((number, database.connect().await?));
    }
    let start = Instant::now();
    let mut running = JoinSet::new();
    for (number, client) in clients {
        running.spawn(write(client, number));
    }
    let mut count = 0;
    while let Some(written) = running.join_next().await {
        count += written??;
    }
    Ok((count, per_second(count, start.elapsed())))
}
