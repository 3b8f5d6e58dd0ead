//! The lock by which writers know that a collector sleeps, seen from both sides.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mailroom::listener::Listener;
use mailroom::postgres::{ConnectionSettings, ProcessEnvironment};
use mailroom::sleeper::{self, Outcome, Sleeper};
use mailroom_tests::postgres::Database;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

const SOON: Duration = Duration::from_secs(60);

/// Longer than whoever sleeps in company takes to notice that the company is gone.
const MOMENT: Duration = Duration::from_millis(600);

/// A listening session with its sleeper.
struct Participant {
    sleeper: Sleeper,
    hints: watch::Receiver<u64>,
    _listener: Listener,
}

impl Participant {
    async fn start(database: &Database) -> Result<Self> {
        let connection = ConnectionSettings::resolve(database.url(), &ProcessEnvironment)?;
        let (sleeper, attendant) = sleeper::pair();
        let listener =
            Listener::start(connection, "token_insert", Duration::from_secs(3_600), Some(attendant));
        let mut hints = listener.hints();
        // That it listens.
        timeout(SOON, hints.wait_for(|count| *count > 0)).await??;
        Ok(Self { sleeper, hints, _listener: listener })
    }

    async fn news(&mut self) -> Result<Outcome> {
        timeout(SOON, self.sleeper.news()).await.context("nothing is said about the wish to sleep")
    }

    /// A new wish, and what becomes of it.
    async fn lie_down(&mut self) -> Result<Outcome> {
        self.sleeper.wish(false);
        self.sleeper.wish(true);
        self.news().await
    }

    async fn fall_asleep(&mut self) -> Result<()> {
        // A writer of the test may have the lock for a moment longer than its answer takes.
        for _ in 0..20 {
            if self.lie_down().await? == Outcome::Asleep {
                self.hints.mark_unchanged();
                return Ok(());
            }
        }
        anyhow::bail!("it does not fall asleep")
    }

    async fn expect_hint(&mut self) -> Result<()> {
        timeout(SOON, self.hints.changed()).await.context("no hint comes")??;
        Ok(())
    }
}

/// What a collector that sleeps has, and writers try to share.
const LOCK: &str = "SELECT pg_advisory_lock(1835100524, 'pending'::regclass::oid::integer)";

/// Makes something due, and with it the announcement if it is necessary.
const WRITE: &str = "INSERT INTO pending (token, due_at, priority)
    SELECT coalesce(max(token), 0) + 1, now(), 1 FROM pending";

/// Writes; answers whether it had to announce that.
async fn write(client: &Client) -> Result<bool> {
    let query = "SELECT pg_try_advisory_xact_lock_shared(1835100524, 'pending'::regclass::oid::integer)";
    let is_awake: bool = client.query_one(query, &[]).await?.get(0);
    client.batch_execute(WRITE).await?;
    Ok(!is_awake)
}

async fn wait_until_nobody_sleeps(client: &Client) -> Result<()> {
    let start = Instant::now();
    while write(client).await? {
        ensure!(start.elapsed() < SOON, "somebody still sleeps");
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

#[tokio::test]
async fn writers_announce_to_a_sleeper_once_and_to_nobody_who_is_awake() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut participant = Participant::start(&database).await?;
    assert!(!write(&client).await?);
    for _ in 0..5 {
        participant.fall_asleep().await?;
        assert!(write(&client).await?);
        participant.expect_hint().await?;
        // The hint ended the sleep, though nobody has taken the wish back.
        wait_until_nobody_sleeps(&client).await?;
        participant.fall_asleep().await?;
        participant.sleeper.wish(false);
        wait_until_nobody_sleeps(&client).await?;
    }
    Ok(())
}

#[tokio::test]
async fn nobody_sleeps_while_a_writer_has_not_committed() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut participants = [Participant::start(&database).await?, Participant::start(&database).await?];
    client.batch_execute("BEGIN").await?;
    client.batch_execute(WRITE).await?;
    for participant in &mut participants {
        let start = Instant::now();
        assert_eq!(participant.lie_down().await?, Outcome::Refused);
        assert!(start.elapsed() > Duration::from_millis(10));
    }
    client.batch_execute("COMMIT").await?;
    for participant in &mut participants {
        participant.fall_asleep().await?;
    }
    Ok(())
}

#[tokio::test]
async fn whoever_sleeps_in_company_takes_over() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut first = Participant::start(&database).await?;
    let mut second = Participant::start(&database).await?;
    first.fall_asleep().await?;
    second.fall_asleep().await?;
    first.sleeper.wish(false);
    assert_eq!(second.news().await?, Outcome::Asleep);
    assert!(write(&client).await?);
    second.expect_hint().await?;
    first.expect_hint().await?;
    // Of a process that is gone, too.
    first.fall_asleep().await?;
    second.fall_asleep().await?;
    drop(first);
    assert_eq!(second.news().await?, Outcome::Asleep);
    assert!(write(&client).await?);
    second.expect_hint().await?;
    Ok(())
}

#[tokio::test]
async fn whoever_sleeps_in_company_is_told_when_a_writer_was_quicker() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    // A collector that has the lock, and then a writer at the same moment.
    client.batch_execute(LOCK).await?;
    let mut second = Participant::start(&database).await?;
    second.fall_asleep().await?;
    let change = format!("SELECT pg_advisory_unlock_all(); {WRITE}; SELECT pg_sleep(1)");
    client.batch_execute(&change).await?;
    assert_eq!(second.news().await?, Outcome::Refused);
    Ok(())
}

#[tokio::test]
async fn a_sleeper_in_company_asks_again_in_case_the_holder_froze() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.batch_execute(LOCK).await?;
    let mut second = Participant::start(&database).await?;
    second.fall_asleep().await?;
    let start = Instant::now();
    assert_eq!(second.news().await?, Outcome::Asleep);
    assert!(start.elapsed() > Duration::from_secs(1), "{:?}", start.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_sleeper_whose_session_ends_is_told_and_hears_again() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut participant = Participant::start(&database).await?;
    for _ in 0..3 {
        participant.fall_asleep().await?;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'mailroom collect (listener)' AND datname = current_database()";
        client.execute(end, &[]).await?;
        assert_eq!(participant.news().await?, Outcome::Refused);
        participant.expect_hint().await?;
    }
    participant.fall_asleep().await?;
    Ok(())
}

#[tokio::test]
async fn sleeping_holds_no_snapshot_and_no_statement() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut participants = Vec::new();
    for _ in 0..3 {
        participants.push(Participant::start(&database).await?);
        participants.last_mut().context("one was added")?.fall_asleep().await?;
    }
    let query =
        "SELECT count(*), count(backend_xmin), count(*) FILTER (WHERE state <> 'idle') FROM pg_stat_activity
        WHERE application_name = 'mailroom collect (listener)' AND datname = current_database()";
    let end = Instant::now() + MOMENT;
    let (mut looks, mut busy) = (0, 0);
    while Instant::now() < end {
        let row = client.query_one(query, &[]).await?;
        assert_eq!(row.get::<_, i64>(0), 3);
        looks += 1;
        busy += i64::from(row.get::<_, i64>(1) + row.get::<_, i64>(2) > 0);
        sleep(Duration::from_millis(5)).await;
    }
    assert!(busy * 10 < looks, "{busy} of {looks}");
    Ok(())
}
