//! A database with waiting tokens.

use anyhow::{Context, Result};
use mailroom_tests::postgres::{Cluster, Database};
use tokio_postgres::Client;

use crate::contestant::Kind;

/// Accounts with a token each, and where they wait: for a cursor on the base schema, which is what an existing collector would
/// drain, or in the queue of deliveries.
pub(crate) struct Queue {
    kind: Kind,
    client: Client,
    database: Database,
}

impl Queue {
    /// Makes a database with so many tokens.
    pub(crate) async fn create(cluster: &Cluster, kind: Kind, tokens: usize) -> Result<Self> {
        let database = Database::create_on(&cluster.url("postgres"))?;
        let database = match kind {
            Kind::Deliveries => database.migrate()?,
            Kind::Cursor => database.load_base_schema()?,
        };
        let client = database.connect().await?;
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
        Ok(Self { kind, client, database })
    }

    /// Which queue it is.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The server's version.
    pub(crate) async fn server_version(&self) -> Result<String> {
        Ok(self.client.query_one("SHOW server_version", &[]).await?.get(0))
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
        let statements: &[&str] = match self.kind {
            Kind::Cursor => &["UPDATE jobs SET last_seq = 0", "VACUUM jobs"],
            Kind::Deliveries => &[
                "TRUNCATE pending, parked, leases, dead, handovers",
                "INSERT INTO pending (token, due_at, priority)
                    SELECT id, clock_timestamp(), delivery_priority(action) FROM tokens ORDER BY id",
                "VACUUM ANALYZE pending, leases, handovers",
            ],
        };
        for statement in statements.iter().chain(&["CHECKPOINT"]) {
            self.client.batch_execute(statement).await?;
        }
        Ok(())
    }

    /// Whether nothing waits any more and all is recorded.
    pub(crate) async fn is_drained(&self) -> Result<bool> {
        let query = match self.kind {
            Kind::Cursor => "SELECT last_seq = (SELECT max(id) FROM tokens) FROM jobs",
            Kind::Deliveries => {
                "SELECT NOT EXISTS (SELECT FROM pending) AND NOT EXISTS (SELECT FROM leases)
                    AND (SELECT count(*) FROM handovers WHERE outcome::text = 'sent') = (SELECT count(*) FROM tokens)"
            }
        };
        Ok(self.client.query_one(query, &[]).await?.get(0))
    }

    /// Holds a snapshot open, as a backup or a report does, until the connection that is returned is dropped.
    pub(crate) async fn pin(&self) -> Result<Client> {
        let client = self.database.connect().await?;
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        client.query_one("SELECT count(*) FROM pending", &[]).await?;
        Ok(client)
    }
}
