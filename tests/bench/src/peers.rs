//! Other queues in PostgreSQL that do nothing with their jobs, each in a database of its own.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::tools::workspace;
use serde_json::Value;

use crate::textbook;

/// The Node.js that those from npm run on; `cargo xtask bench` sets it.
pub(crate) const NODE: &str = "MAILROOM_BENCH_NODE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// As many write it themselves: claim one, complete one.
    Textbook,
    /// In its default settings, but for how many jobs run at once.
    GraphileWorker,
    /// With its local queue and batched completion.
    GraphileWorkerBatched,
    /// In the settings that it offers for speed.
    PgBoss,
}

impl Peer {
    pub(crate) const ALL: [Self; 4] =
        [Self::Textbook, Self::GraphileWorker, Self::GraphileWorkerBatched, Self::PgBoss];

    /// As JSON and `tests/bench/peers` have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Textbook => "textbook",
            Self::GraphileWorker => "graphile_worker",
            Self::GraphileWorkerBatched => "graphile_worker_batched",
            Self::PgBoss => "pg_boss",
        }
    }

    /// How many jobs it gets where the others get so many: the slow ones fewer,
    /// for a bearable run time.
    pub(crate) fn jobs(self, tokens: u32) -> u32 {
        match self {
            Self::Textbook | Self::GraphileWorker => tokens / 5,
            Self::GraphileWorkerBatched | Self::PgBoss => tokens,
        }
    }
}

pub(crate) struct Peers {
    node: PathBuf,
    databases: Vec<(Peer, Database)>,
}

impl Peers {
    /// Makes their databases. The server must take TCP connections.
    pub(crate) fn create(server: &Cluster) -> Result<Self> {
        let node = env::var_os(NODE)
            .with_context(|| format!("{NODE} is not set: run `cargo xtask bench drain`"))?;
        let url = format!("postgresql://postgres@127.0.0.1:{}/postgres", server.port());
        let databases = Peer::ALL.map(|peer| Ok((peer, Database::create_on(&url)?)));
        Ok(Self { node: node.into(), databases: databases.into_iter().collect::<Result<_>>()? })
    }

    /// Lets one of them drain `jobs` jobs. Each job must run once.
    pub(crate) async fn drain(&self, peer: Peer, jobs: u32) -> Result<Duration> {
        let database = self.databases.iter().find(|(other, _)| *other == peer);
        let (_, database) = database.context("every peer has a database")?;
        if peer == Peer::Textbook {
            return textbook::drain(database, jobs).await;
        }
        let mut command = Command::new(&self.node);
        command.arg(workspace().join("tests/bench/peers/peers.mjs")).stdin(Stdio::null());
        command
            .args(["--peer", peer.name(), "--jobs", &jobs.to_string()])
            .env("DATABASE_URL", database.url());
        let output = command.output().context("cannot run Node.js")?;
        let [printed, errors] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        ensure!(output.status.success(), "{}: {printed}{errors}", peer.name());
        // {"peer":"pg_boss","jobs":1000,"milliseconds":123.4}
        let measured: Value = serde_json::from_str(&printed)?;
        let milliseconds = measured["milliseconds"].as_f64().context("the peer reports no time")?;
        Ok(Duration::from_secs_f64(milliseconds / 1_000.0))
    }
}
