//! People who register at a steady rate, and when each of them did.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use mailroom_tests::postgres::Database;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_postgres::Client;

/// How many connections register people.
const WRITERS: u32 = 16;

/// What the application does when somebody registers.
const REGISTER: &str = "SELECT mailroom.enqueue('activate', 'p' || $1::bigint || '@example.test',
    subject_id => 'p' || $1::bigint)";

/// The tokens whose mails are not sent yet, with the time of their commit in seconds since 1970.
type Waiting = Arc<Mutex<HashMap<i64, f64>>>;

pub(super) struct Load {
    writers: JoinSet<Result<u32>>,
    waiting: Waiting,
    registered: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    pub(super) async fn start(database: &Database, rate: u32) -> Result<Self> {
        let mut load = Self {
            writers: JoinSet::new(),
            waiting: Waiting::default(),
            registered: Arc::default(),
            is_over: Arc::default(),
        };
        let pause = Duration::from_secs(1) * WRITERS / rate;
        for number in 0..WRITERS {
            let client = database.connect().await?;
            let (waiting, registered) = (Arc::clone(&load.waiting), Arc::clone(&load.registered));
            let is_over = Arc::clone(&load.is_over);
            load.writers.spawn(async move {
                write(&client, number, pause, &waiting, &registered, &is_over).await
            });
        }
        Ok(load)
    }

    /// How many have registered since the last call.
    pub(super) fn take_registered(&self) -> u32 {
        self.registered.swap(0, Ordering::Relaxed)
    }

    /// How many mails are not sent yet.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.waiting).len()
    }

    /// How long the mail of a token took until then. Nothing if it was known to be sent, or was
    /// sent before its writer heard of the commit.
    pub(super) fn sent(&self, token: i64, at: f64) -> Option<f64> {
        Some((at - lock(&self.waiting).remove(&token)?).max(0.0))
    }

    /// Lets nobody register any more; returns how many did.
    pub(super) async fn stop(&mut self) -> Result<u32> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut registered = 0;
        while let Some(writer) = self.writers.join_next().await {
            registered += writer??;
        }
        Ok(registered)
    }
}

async fn write(
    client: &Client,
    number: u32,
    pause: Duration,
    waiting: &Waiting,
    registered: &AtomicU32,
    is_over: &AtomicBool,
) -> Result<u32> {
    let register = client.prepare(REGISTER).await?;
    let mut next = Instant::now() + pause * number / WRITERS;
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        // Whoever is late does not wait: the rate is that of the people, not of the database.
        sleep_until(next).await;
        next += pause;
        let person = i64::from(count) * i64::from(WRITERS) + i64::from(number);
        let row = client.query_one(&register, &[&person]).await?;
        lock(waiting).insert(row.get(0), now());
        registered.fetch_add(1, Ordering::Relaxed);
        count += 1;
    }
    Ok(count)
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn lock(waiting: &Waiting) -> MutexGuard<'_, HashMap<i64, f64>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
