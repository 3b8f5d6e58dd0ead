//! A throwaway server with waiting tokens.

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Cluster, Database};
use tokio_postgres::Client;

/// The tokens and the cursor, on the base schema: what an existing collector would drain.
pub(crate) struct Queue {
    client: Client,
    database: Database,
    version: String,
    // Dropped last: it ends with the server.
    _cluster: Cluster,
}

impl Queue {
    /// Starts a server that writes as safely as one in service, and makes accounts with a waiting activation token each.
    pub(crate) async fn start(tokens: usize) -> Result<Self> {
        let cluster = Cluster::builder().setting("fsync", "on").setting("full_page_writes", "on").start()?;
        let database = Database::create_on(&cluster.url("postgres"))?.load_base_schema()?;
        let client = database.connect().await?;
        let version = client.query_one("SHOW server_version", &[]).await?.get(0);
        let count = i64::try_from(tokens)?;
        // Without the triggers, which would make the tokens one by one. They outlive the longest run.
        client.batch_execute("SET session_replication_role = replica").await?;
        client
            .execute(
                "INSERT INTO accounts (email, login)
                    SELECT 'user' || n || '@example.test', 'user' || n FROM generate_series(1, $1::bigint) AS n",
                &[&count],
            )
            .await?;
        client
            .execute(
                "INSERT INTO tokens (action, account, expires_at)
                    SELECT 'activation', n, extract(epoch FROM now() + interval '1 day') FROM generate_series(1, $1::bigint) AS n",
                &[&count],
            )
            .await?;
        client.batch_execute("VACUUM ANALYZE accounts, tokens").await?;
        Ok(Self { client, database, version, _cluster: cluster })
    }

    /// The server's version.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The database's URL.
    pub(crate) fn url(&self) -> &str {
        self.database.url()
    }

    /// The secrets of all tokens in the order of their ids.
    pub(crate) async fn secrets(&self) -> Result<Vec<[u8; 32]>> {
        let rows = self.client.query("SELECT secret FROM tokens ORDER BY id", &[]).await?;
        let secret =
            |row: &tokio_postgres::Row| row.get::<_, &[u8]>(0).try_into().context("a secret has 32 bytes");
        rows.iter().map(secret).collect()
    }

    /// Lets all tokens wait again, with nothing left for the server to write.
    pub(crate) async fn set_back(&self) -> Result<()> {
        for statement in ["UPDATE jobs SET last_seq = 0", "VACUUM jobs", "CHECKPOINT"] {
            self.client.batch_execute(statement).await?;
        }
        Ok(())
    }

    /// Whether the cursor stands at the last token.
    pub(crate) async fn is_drained(&self) -> Result<bool> {
        let query = "SELECT last_seq = (SELECT max(id) FROM tokens) FROM jobs";
        Ok(self.client.query_one(query, &[]).await?.get(0))
    }
}
