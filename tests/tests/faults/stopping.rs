//! Collectors that are asked to end while they work.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use mailroom_tests::history::claimed;
use mailroom_tests::mailer::{Mailer, Manner};
use mailroom_tests::postgres::Database;
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{Trial, faults, tokens};
use tokio::time::sleep;

/// A sender that has answered ends at once, so that its timeout is never waited for.
const WITHIN: Duration = Duration::from_secs(240);

#[tokio::test]
async fn collectors_asked_to_end_under_load_end_in_order_and_leave_nothing_claimed() -> Result<()> {
    const TOKENS: usize = 1_000;
    let stops = faults(20);
    let mut trial = Trial::start(Database::migrated()?).await?;
    let mailer = Mailer::start(Path::new(env!("CARGO_BIN_EXE_relay")), &trial.recorder)?;
    mailer.answer(Manner::Sent(Duration::from_millis(20)));
    for stop in 0..stops {
        trial.register(TOKENS).await?;
        let pace = Pace { pause: Duration::from_millis(1), ..Pace::default() };
        let by_pipe = trial.collector("by-pipe", pace)?;
        let by_sender = trial.sending_collector("by-sender", trial.database.url(), &mailer)?;
        trial.moment(stop, Duration::from_millis(400)).await?;
        trial.history.note_and_look("stops by SIGTERM", &trial.client).await?;
        // One after the other, so that the one ends while the other goes on claiming.
        by_pipe.stop(WITHIN)?;
        sleep(trial.up_to(Duration::from_millis(100))).await;
        by_sender.stop(WITHIN)?;
        trial.history.nothing_is_claimed(&trial.client).await?;
    }
    let last = trial.collector("last", Pace::default())?;
    let tally = trial.end(vec![last]).await?;
    assert_eq!(
        (tally.tokens, tally.arrived, tally.duplicated),
        (stops * TOKENS, stops * TOKENS, 0)
    );
    Ok(())
}

/// The settlement of what is on its way takes as long as somebody else has the log locked.
#[tokio::test]
async fn collectors_asked_to_end_while_the_database_is_slow_settle_what_was_sent() -> Result<()> {
    const STOPS: usize = 4;
    const SLOW: Duration = Duration::from_secs(2);
    let mut trial = Trial::start(Database::migrated()?).await?;
    let mailer = Mailer::start(Path::new(env!("CARGO_BIN_EXE_relay")), &trial.recorder)?;
    // Slow enough that something is on its way when the end comes.
    mailer.answer(Manner::Sent(Duration::from_millis(200)));
    for stop in 0..STOPS {
        trial.register(tokens() / STOPS).await?;
        let pace = Pace { pause: Duration::from_millis(10), ..Pace::default() };
        let collector = if stop % 2 == 0 {
            trial.collector("by-pipe", pace)?
        } else {
            trial.sending_collector("by-sender", trial.database.url(), &mailer)?
        };
        while claimed(&trial.client).await?.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        sleep(trial.up_to(Duration::from_millis(400))).await;
        let slow = trial.database.connect().await?;
        slow.batch_execute("BEGIN; LOCK TABLE mailroom.delivery_log IN ACCESS EXCLUSIVE MODE")
            .await?;
        // What was sent meets the lock, whenever that is; the end comes while it waits.
        let waits = "SELECT FROM pg_locks
            WHERE relation = 'mailroom.delivery_log'::regclass::oid AND NOT granted";
        while trial.client.query(waits, &[]).await?.is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        let started = Instant::now();
        let over = tokio::spawn(async move {
            sleep(SLOW).await;
            slow.batch_execute("COMMIT").await
        });
        // Waited for elsewhere, because the lock has to end meanwhile.
        tokio::task::spawn_blocking(move || collector.stop(WITHIN)).await??;
        assert!(started.elapsed() >= SLOW, "it ended before it could settle");
        over.await??;
        trial.history.note("stops by SIGTERM while the database is slow");
        trial.history.nothing_is_claimed(&trial.client).await?;
    }
    let last = trial.collector("last", Pace::default())?;
    let tally = trial.end(vec![last]).await?;
    assert_eq!((tally.tokens, tally.arrived, tally.duplicated), (tokens(), tokens(), 0));
    Ok(())
}
