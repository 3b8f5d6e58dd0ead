//! Other queues, each in a database of its own.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::tools::workspace;

use crate::contestant::Peer;
use crate::textbook;

/// The Node.js that those from npm run on; `cargo xtask bench` sets it.
const NODE: &str = "MAILROOM_BENCH_NODE";

pub(crate) struct Peers {
    node: PathBuf,
    databases: Vec<(Peer, Database)>,
}

impl Peers {
    /// Makes their databases. The server must take TCP connections, as programs in other languages expect.
    pub(crate) fn create(cluster: &Cluster) -> Result<Self> {
        let node =
            env::var_os(NODE).with_context(|| format!("{NODE} is not set: run `cargo xtask bench drain`"))?;
        let server = format!("postgresql://postgres@127.0.0.1:{}/postgres", cluster.port());
        let databases = Peer::ALL.map(|peer| Ok((peer, Database::create_on(&server)?)));
        Ok(Self { node: node.into(), databases: databases.into_iter().collect::<Result<_>>()? })
    }

    /// Lets one of them drain `jobs` jobs, each of which must run once.
    pub(crate) async fn drain(&self, peer: Peer, jobs: usize) -> Result<Duration> {
        let database = self.databases.iter().find(|(other, _)| *other == peer);
        let (_, database) = database.context("every peer has a database")?;
        match peer {
            Peer::Textbook => textbook::drain(database, jobs).await,
            Peer::GraphileWorker | Peer::GraphileWorkerBatched | Peer::PgBoss => {
                self.run(peer, database.url(), jobs)
            }
        }
    }

    fn run(&self, peer: Peer, url: &str, jobs: usize) -> Result<Duration> {
        let mut command = Command::new(&self.node);
        command.arg(workspace().join("tests/bench/peers/peers.mjs"));
        command.args(["--peer", peer.name(), "--jobs", &jobs.to_string()]).env("DATABASE_URL", url);
        let output = command.stdin(Stdio::null()).output().context("cannot run Node.js")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success(),
            "{}: {said}{}",
            peer.name(),
            String::from_utf8_lossy(&output.stderr)
        );
        // {"peer":"pg_boss","jobs":1000,"milliseconds":123.4}
        let milliseconds =
            said.rsplit_once("\"milliseconds\":").map(|(_, rest)| rest.trim().trim_end_matches('}'));
        let milliseconds: f64 =
            milliseconds.and_then(|number| number.parse().ok()).context("it told no time")?;
        Ok(Duration::from_secs_f64(milliseconds / 1_000.0))
    }
}
