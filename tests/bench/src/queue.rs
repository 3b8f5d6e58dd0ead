//! A database with waiting tokens.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::{Cluster, Database};
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::check::check;

/// How long a queue may not get shorter.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Which queue of Mailroom the tokens wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Deliveries,
    /// On the base schema, as an existing collector would drain it.
    Cursor,
}

impl Kind {
    /// The value of `--queue-kind`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Deliveries => "deliveries",
            Self::Cursor => "cursor",
        }
    }
}

pub(crate) struct Queue {
    pub(crate) kind: Kind,
    client: Client,
    database: Database,
    /// In the order of the tokens' ids.
    secrets: Vec<[u8; 32]>,
}

impl Queue {
    /// Makes a database with so many tokens.
    pub(crate) async fn create(server: &Cluster, kind: Kind, tokens: u32) -> Result<Self> {
        let database = Database::create_on(&server.url("postgres"))?;
        let database = match kind {
            Kind::Deliveries => database.migrate()?,
            Kind::Cursor => database.load_base_schema()?,
        };
        let client = database.connect().await?;
        // Without the triggers, which would make the tokens one by one.
        // They outlive the longest run.
        client
            .batch_execute(&format!(
                "SET session_replication_role = replica;
                INSERT INTO accounts (email, login)
                    SELECT 'user' || n || '@example.test', 'user' || n
                        FROM generate_series(1, {tokens}) AS n;
                INSERT INTO tokens (action, account, expires_at)
                    SELECT 'activation', n, extract(epoch FROM now() + interval '1 day')
                    FROM generate_series(1, {tokens}) AS n"
            ))
            .await?;
        if kind == Kind::Deliveries {
            let known = "INSERT INTO mailroom.issued_tokens
                    (id, action, subject_id, recipient_email, recipient_name, consumed_id,
                        created_at, expires_at)
                SELECT tokens.id, 1, account::text, email, login, mailroom.consumed_id(secret),
                    tokens.created_at, expires_at
                FROM tokens JOIN accounts ON accounts.id = account";
            client.execute(known, &[]).await?;
            client.batch_execute("VACUUM ANALYZE mailroom.issued_tokens").await?;
        }
        client.batch_execute("VACUUM ANALYZE accounts, tokens").await?;
        let rows = client.query("SELECT secret FROM tokens ORDER BY id", &[]).await?;
        let secrets = rows
            .iter()
            .map(|row| row.get::<_, &[u8]>(0).try_into().context("a secret has 32 bytes"));
        Ok(Self { kind, secrets: secrets.collect::<Result<_>>()?, client, database })
    }

    pub(crate) fn url(&self) -> &str {
        self.database.url()
    }

    /// The URL of one who reaches the server by a port of TCP.
    pub(crate) fn url_by(&self, port: u16) -> String {
        let (_, name) = self.database.url().rsplit_once('/').unwrap_or_default();
        format!("postgresql://postgres@127.0.0.1:{port}/{name}?sslmode=disable")
    }

    /// Lets all tokens wait again, with nothing left for the server to write.
    pub(crate) async fn refill(&self) -> Result<()> {
        let statements: &[&str] = match self.kind {
            Kind::Cursor => &["UPDATE jobs SET last_seq = 0", "VACUUM jobs"],
            Kind::Deliveries => &[
                "TRUNCATE mailroom.queue, mailroom.leases, mailroom.dead_letters, \
                 mailroom.handed_over, mailroom.delivery_log",
                "INSERT INTO mailroom.queue (token, due_at, priority, secret)
                    SELECT id, clock_timestamp(), 1, secret FROM tokens ORDER BY id",
                "VACUUM ANALYZE mailroom.queue, mailroom.leases, mailroom.delivery_log",
            ],
        };
        for statement in statements.iter().chain(&["CHECKPOINT"]) {
            self.client.batch_execute(statement).await?;
        }
        Ok(())
    }

    /// Checks that every token was printed once and is recorded as sent.
    pub(crate) async fn check(&self, output: &[u8]) -> Result<()> {
        check(output, &self.secrets, self.kind == Kind::Cursor)?;
        self.check_drained().await
    }

    /// Checks that every token is recorded as sent.
    pub(crate) async fn check_drained(&self) -> Result<()> {
        let query = match self.kind {
            Kind::Cursor => "SELECT last_seq = (SELECT max(id) FROM tokens) FROM jobs",
            Kind::Deliveries => {
                "SELECT NOT EXISTS (SELECT FROM mailroom.queue) AND NOT EXISTS (SELECT
                    FROM mailroom.leases)
                    AND (SELECT count(*) FROM mailroom.delivery_attempts
                        WHERE outcome::text = 'sent') = (SELECT count(*) FROM tokens)"
            }
        };
        let is_drained: bool = self.client.query_one(query, &[]).await?.get(0);
        ensure!(is_drained, "something is left in the queue, or not recorded");
        Ok(())
    }

    /// Waits until all of so many tokens are sent; returns when that was seen. `look` is told how
    /// many are left whenever they were counted; `log` says what happened if nothing is sent any
    /// more.
    pub(crate) async fn wait_until_drained(
        &self,
        tokens: u32,
        mut look: impl FnMut(u32),
        log: impl Fn() -> String,
    ) -> Result<Instant> {
        let (mut left, mut shortened) = (tokens, Instant::now());
        while left > 0 {
            let asked = Instant::now();
            let now_left = self.left().await?;
            // Counting a long queue costs the database time that the contestant needs.
            let pause =
                (10 * asked.elapsed()).clamp(Duration::from_millis(20), Duration::from_secs(2));
            if now_left < left {
                (left, shortened) = (now_left, Instant::now());
            }
            look(left);
            ensure!(shortened.elapsed() < TIMEOUT, "{left} are left for {TIMEOUT:?}:\n{}", log());
            sleep(pause).await;
        }
        Ok(shortened)
    }

    /// How many tokens are not known to be sent, by the queue, the leases, and what a broker has.
    async fn left(&self) -> Result<u32> {
        let query = "SELECT (SELECT count(*) FROM mailroom.queue)
            + (SELECT count(*) FROM mailroom.leases) + (SELECT count(*) FROM mailroom.handed_over)";
        Ok(u32::try_from(self.client.query_one(query, &[]).await?.get::<_, i64>(0))?)
    }

    /// Holds a snapshot open, as a backup or a report does,
    /// until the connection that is returned is dropped.
    pub(crate) async fn hold_snapshot(&self) -> Result<Client> {
        let client = self.database.connect().await?;
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await?;
        client.query_one("SELECT count(*) FROM mailroom.queue", &[]).await?;
        Ok(client)
    }
}
