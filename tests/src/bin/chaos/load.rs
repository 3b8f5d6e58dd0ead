//! Applications that go on registering people whatever happens to the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::postgres::Database;
use mailroom_tests::workload::register;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_postgres::Client;

const WRITERS: u64 = 6;

/// How long some tokens live, so that they may expire in the queue.
pub(crate) const SHORTEST_LIFE: Duration = Duration::from_secs(4);

/// Writers that run until they are ended.
pub(crate) struct Load {
    stop: watch::Sender<bool>,
    writers: JoinSet<()>,
    registered: Arc<AtomicUsize>,
}

impl Load {
    /// Each writer registers some people, waits, commits or not, and pauses.
    pub(crate) fn start(database: &Arc<Database>, seed: u64) -> Self {
        let (stop, _) = watch::channel(false);
        let registered = Arc::new(AtomicUsize::new(0));
        let mut writers = JoinSet::new();
        for number in 0..WRITERS {
            let writer = Writer {
                database: Arc::clone(database),
                stopped: stop.subscribe(),
                random: fastrand::Rng::with_seed(seed.wrapping_mul(31).wrapping_add(number)),
                prefix: format!("w{seed}-{number}-"),
                registered: Arc::clone(&registered),
            };
            writers.spawn(writer.run());
        }
        Self { stop, writers, registered }
    }

    /// How many people were registered for certain.
    pub(crate) fn registered(&self) -> usize {
        self.registered.load(Ordering::Relaxed)
    }

    /// Waits until none of them writes any more.
    pub(crate) async fn end(mut self) -> Result<usize> {
        self.stop.send_replace(true);
        while let Some(writer) = self.writers.join_next().await {
            writer?;
        }
        Ok(self.registered())
    }
}

struct Writer {
    database: Arc<Database>,
    stopped: watch::Receiver<bool>,
    random: fastrand::Rng,
    prefix: String,
    registered: Arc<AtomicUsize>,
}

impl Writer {
    async fn run(mut self) {
        let mut turn = 0;
        while !*self.stopped.borrow() {
            let Ok(mut client) = self.database.connect().await else {
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            while !*self.stopped.borrow() {
                turn += 1;
                // Errors are those that the faults are meant to cause.
                match self.register(&mut client, turn).await {
                    Ok(count) => _ = self.registered.fetch_add(count, Ordering::Relaxed),
                    Err(_) => break,
                }
            }
        }
    }

    async fn register(&mut self, client: &mut Client, turn: usize) -> Result<usize> {
        let count = self.random.usize(1..60);
        let transaction = client.transaction().await?;
        register(transaction.client(), &format!("{}{turn}-", self.prefix), count).await?;
        if self.random.u8(0..20) == 0 {
            let shorten = "INSERT INTO tokens (account, action, expires_at)
                SELECT id, 'activation', extract(epoch FROM now())::bigint + $2
                    FROM accounts WHERE login LIKE $1 LIMIT 3";
            let lifetime = i64::try_from(SHORTEST_LIFE.as_secs())?;
            transaction.execute(shorten, &[&format!("{}{turn}-%", self.prefix), &lifetime]).await?;
        }
        sleep(Duration::from_millis(self.random.u64(0..100))).await;
        if self.random.u8(0..15) == 0 {
            transaction.rollback().await?;
            return Ok(0);
        }
        transaction.commit().await?;
        sleep(Duration::from_millis(self.random.u64(0..300))).await;
        Ok(count)
    }
}
