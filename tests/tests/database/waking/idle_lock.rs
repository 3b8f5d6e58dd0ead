//! The idle lock, seen from both sides.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mailroom::wake::idle_lock::{self, IdleLock, IdleReply};
use mailroom::wake::listener::Listener;
use mailroom_connect::{ConnectionSettings, Environment};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::wait_for;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;

const SOON: Duration = Duration::from_secs(60);

/// A listening session and its collector's side of the idle lock.
struct Participant {
    idle_lock: IdleLock,
    wakeups: watch::Receiver<u64>,
    _listener: Listener,
}

impl Participant {
    async fn start(database: &Database) -> Result<Self> {
        let connection = ConnectionSettings::resolve(database.url(), &Environment::of_process())?;
        let (idle_lock, holder) = idle_lock::pair(true);
        let listener =
            Listener::start(connection, "token_insert", Duration::from_secs(3_600), holder);
        let mut wakeups = listener.wakeups.clone();
        // That it listens.
        timeout(SOON, wakeups.wait_for(|count| *count > 0)).await??;
        Ok(Self { idle_lock, wakeups, _listener: listener })
    }

    async fn reply(&mut self) -> Result<IdleReply> {
        timeout(SOON, self.idle_lock.reply()).await.context("no reply to the request")
    }

    /// The reply to a new request.
    async fn request(&mut self) -> Result<IdleReply> {
        self.idle_lock.set_idle(false);
        self.idle_lock.set_idle(true);
        self.reply().await
    }

    async fn become_idle(&mut self) -> Result<()> {
        // A writer of the test may have the lock for a moment longer than its answer takes.
        let begin = Instant::now();
        while self.request().await? != IdleReply::Granted {
            anyhow::ensure!(begin.elapsed() < SOON, "every request was refused");
        }
        self.wakeups.mark_unchanged();
        Ok(())
    }

    async fn expect_wakeup(&mut self) -> Result<()> {
        timeout(SOON, self.wakeups.changed()).await.context("no wake-up comes")??;
        Ok(())
    }
}

/// What an idle collector holds, and writers try to share.
const LOCK: &str = "SELECT pg_advisory_lock(1835100524, 'mailroom.queue'::regclass::oid::integer)";

/// Makes something due, and with it the announcement if it is necessary.
const WRITE: &str = "INSERT INTO mailroom.queue (token, due_at, priority, secret)
    SELECT coalesce(max(token), 0) + 1, now(), 1, 'x' FROM mailroom.queue";

const IS_LOCK_FREE: &str =
    "SELECT pg_try_advisory_xact_lock_shared(1835100524, 'mailroom.queue'::regclass::oid::integer)";

/// Whether a session has the lock alone. To look for that disturbs nobody who tries it.
const IS_HELD: &str = "SELECT EXISTS (SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 1835100524 AND mode = 'ExclusiveLock' AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))";

async fn is_lock_free(client: &Client) -> Result<bool> {
    Ok(client.query_one(IS_LOCK_FREE, &[]).await?.get(0))
}

/// Writes; returns whether the trigger had to notify.
async fn write(client: &Client) -> Result<bool> {
    let is_free = is_lock_free(client).await?;
    client.batch_execute(WRITE).await?;
    Ok(!is_free)
}

#[tokio::test]
async fn writers_notify_an_idle_collector_once_and_no_busy_one() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut participant = Participant::start(&database).await?;
    assert!(!write(&client).await?);
    for _ in 0..5 {
        participant.become_idle().await?;
        assert!(write(&client).await?);
        participant.expect_wakeup().await?;
        // The notification released the lock, though the request goes on.
        timeout(SOON, wait_for(&client, IS_LOCK_FREE, true)).await??;
        participant.become_idle().await?;
        participant.idle_lock.set_idle(false);
        timeout(SOON, wait_for(&client, IS_LOCK_FREE, true)).await??;
    }
    Ok(())
}

#[tokio::test]
async fn requests_are_refused_while_a_writer_has_not_committed() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut participants =
        [Participant::start(&database).await?, Participant::start(&database).await?];
    client.batch_execute("BEGIN").await?;
    client.batch_execute(WRITE).await?;
    for participant in &mut participants {
        let start = Instant::now();
        assert_eq!(participant.request().await?, IdleReply::Refused);
        assert!(start.elapsed() > Duration::from_millis(10));
    }
    client.batch_execute("COMMIT").await?;
    for participant in &mut participants {
        participant.become_idle().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_follower_takes_over() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut first = Participant::start(&database).await?;
    let mut second = Participant::start(&database).await?;
    first.become_idle().await?;
    second.become_idle().await?;
    first.idle_lock.set_idle(false);
    assert_eq!(second.reply().await?, IdleReply::Granted);
    timeout(SOON, wait_for(&client, IS_HELD, true)).await??;
    assert!(write(&client).await?);
    second.expect_wakeup().await?;
    first.expect_wakeup().await?;
    // Of a process that is gone, too. The second must have released the lock,
    // or the first would follow it.
    timeout(SOON, wait_for(&client, IS_LOCK_FREE, true)).await??;
    first.become_idle().await?;
    second.become_idle().await?;
    drop(first);
    assert_eq!(second.reply().await?, IdleReply::Granted);
    timeout(SOON, wait_for(&client, IS_HELD, true)).await??;
    assert!(write(&client).await?);
    second.expect_wakeup().await?;
    Ok(())
}

#[tokio::test]
async fn a_follower_is_refused_when_a_writer_was_quicker() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    // A collector that has the lock, and a writer that shares it when that is over.
    client.batch_execute(LOCK).await?;
    let mut second = Participant::start(&database).await?;
    second.become_idle().await?;
    client.batch_execute(&format!("BEGIN; {WRITE}; SELECT pg_advisory_unlock_all()")).await?;
    let begin = Instant::now();
    // On a busy machine it may have been granted again, as to a follower.
    while second.reply().await? != IdleReply::Refused {
        assert!(begin.elapsed() < SOON, "it is not refused");
    }
    client.batch_execute("COMMIT").await?;
    Ok(())
}

#[tokio::test]
async fn a_follower_peeks_again_in_case_the_holder_froze() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.batch_execute(LOCK).await?;
    let mut second = Participant::start(&database).await?;
    let start = Instant::now();
    second.become_idle().await?;
    assert_eq!(second.reply().await?, IdleReply::Granted);
    assert!(start.elapsed() > Duration::from_secs(1), "{:?}", start.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_request_is_refused_when_the_session_ends_and_granted_on_the_next() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut participant = Participant::start(&database).await?;
    for _ in 0..3 {
        participant.become_idle().await?;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name = 'mailroom collect (listener)'
                AND datname = current_database()";
        client.execute(end, &[]).await?;
        assert_eq!(participant.reply().await?, IdleReply::Refused);
        participant.expect_wakeup().await?;
    }
    participant.become_idle().await?;
    Ok(())
}

#[tokio::test]
async fn an_idle_session_holds_no_snapshot_and_no_statement() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut participants = Vec::new();
    for _ in 0..3 {
        participants.push(Participant::start(&database).await?);
        participants.last_mut().context("one was added")?.become_idle().await?;
    }
    let query = "SELECT count(*), count(backend_xmin), count(*) FILTER (WHERE state <> 'idle')
        FROM pg_stat_activity
        WHERE application_name = 'mailroom collect (listener)' AND datname = current_database()";
    let begin = Instant::now();
    // A statement that is over soon may be seen, and on a busy machine for longer than it takes.
    let mut busy = 100;
    while busy > 10 {
        assert!(begin.elapsed() < SOON, "busy at {busy} of 100 times");
        busy = 0;
        for _ in 0..100 {
            let row = client.query_one(query, &[]).await?;
            assert_eq!(row.get::<_, i64>(0), 3);
            busy += i64::from(row.get::<_, i64>(1) + row.get::<_, i64>(2) > 0);
            sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(())
}
