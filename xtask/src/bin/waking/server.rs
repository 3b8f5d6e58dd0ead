//! A throwaway server with the schema that a collector collects from.

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Cluster, Database};
use tokio_postgres::Client;

pub(crate) struct Server {
    database: Database,
    version: String,
    // Dropped last: it ends with the server.
    _cluster: Cluster,
}

impl Server {
    /// Starts a server that writes as safely as one in service.
    pub(crate) async fn start() -> Result<Self> {
        eprintln!("starting a throwaway PostgreSQL ...");
        let cluster = Cluster::builder().durable().start()?;
        let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
        let version = database.connect().await?.query_one("SHOW server_version", &[]).await?.get(0);
        Ok(Self { database, version, _cluster: cluster })
    }

    /// The server's version.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The database's URL.
    pub(crate) fn url(&self) -> &str {
        self.database.url()
    }

    pub(crate) async fn connect(&self) -> Result<Client> {
        self.database.connect().await
    }

    /// Empties all tables, with nothing left for the server to write.
    pub(crate) async fn empty(&self) -> Result<()> {
        let client = self.connect().await?;
        client
            .batch_execute("TRUNCATE accounts, tokens, pending, parked, leases, dead, handovers CASCADE")
            .await
            .context("the tables cannot be emptied")?;
        client.batch_execute("CHECKPOINT").await?;
        Ok(())
    }
}
