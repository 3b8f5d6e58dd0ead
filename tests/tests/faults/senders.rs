//! Senders that die, freeze, answer too late and talk nonsense.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::fleet::Member;
use mailroom_tests::history::Watch;
use mailroom_tests::mailer::{Mailer, Manner};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::wait_for;
use mailroom_tests::standstill::wait_until_stopped;
use mailroom_tests::trial::{NEAR, PAST_NEAR, PATIENCE, Trial, faults, tokens};
use rustix::process::Signal;
use tokio::time::sleep;
use tokio_postgres::Client;

async fn start() -> Result<(Trial, Mailer)> {
    let trial = Trial::start(Database::migrated()?).await?;
    let mailer = Mailer::start(Path::new(env!("CARGO_BIN_EXE_relay")), &trial.recorder)?;
    Ok((trial, mailer))
}

fn collector(trial: &Trial, mailer: &Mailer, name: &str) -> Result<Member> {
    trial.sending_collector(name, trial.database.url(), mailer)
}

/// Each is killed a few times only, because the pause before it is started again doubles.
#[tokio::test]
async fn senders_killed_at_random_moments_lose_nothing() -> Result<()> {
    const SENDERS: usize = 5;
    const TOKENS: usize = 800;
    let kills = faults(5 * SENDERS).next_multiple_of(SENDERS);
    let (mut trial, mailer) = start().await?;
    mailer.answer(Manner::Sent(Duration::from_millis(5)));
    let names: Vec<String> = (0..SENDERS).map(|number| format!("number-{number}")).collect();
    let mut collectors = Vec::new();
    for name in &names {
        collectors.push(collector(&trial, &mailer, name)?);
    }
    for kill in 0..kills {
        trial.register(TOKENS).await?;
        trial.moment(kill, Duration::from_millis(500)).await?;
        let name = &names[kill % SENDERS];
        // Stopped first: it gets nothing after it was looked up what it may have.
        while mailer.signal(name, Signal::STOP) == 0 {
            sleep(Duration::from_millis(10)).await;
        }
        trial.history.note_at_risk("kills of a sender", &trial.client).await?;
        mailer.signal(name, Signal::KILL);
    }
    let tally = trial.end(collectors).await?;
    assert_eq!((tally.tokens, tally.arrived), (kills * TOKENS, kills * TOKENS));
    Ok(())
}

/// Its collector lives and keeps its leases, so nobody takes anything over.
#[tokio::test]
async fn a_sender_frozen_for_longer_than_a_lease_is_replaced_and_loses_nothing() -> Result<()> {
    let (mut trial, mailer) = start().await?;
    trial.deadlines = NEAR;
    mailer.answer(Manner::Sent(Duration::from_millis(10)));
    let mut frozen = collector(&trial, &mailer, "frozen")?;
    let other = collector(&trial, &mailer, "other")?;
    trial.register(tokens() / 2).await?;
    trial.moment(0, Duration::ZERO).await?;
    let watch = Watch::start(&trial.database);
    // On a busy machine its sender may not have begun yet.
    let mut processes = 0;
    while processes == 0 {
        sleep(Duration::from_millis(10)).await;
        processes = mailer.signal("frozen", Signal::STOP);
    }
    assert_eq!(processes, 1);
    trial.history.note_and_look("frozen senders", &trial.client).await?;
    trial.register(tokens() / 2).await?;
    sleep(PAST_NEAR).await;
    let ended = format!("is ended: it has answered nothing for {}", NEAR.sender_timeout);
    frozen.collector().wait_for_log(&ended, 1)?;
    mailer.signal("frozen", Signal::CONT);
    sleep(Duration::from_millis(500)).await;
    trial.history.put_at_risk(watch.end().await?);
    let tally = trial.end(vec![frozen, other]).await?;
    assert_eq!((tally.tokens, tally.arrived), (tokens(), tokens()));
    let lapsed = "SELECT count(*) FROM mailroom.delivery_attempts WHERE outcome = 'lapsed'";
    assert_eq!(trial.client.query_one(lapsed, &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}

/// What somebody has claimed.
struct Claimed {
    token: i64,
    attempt: i32,
    holder: i64,
}

/// How many statements of others the server executes.
const BUSY: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active'
        AND backend_type = 'client backend'";

async fn all_claimed(client: &Client) -> Result<Vec<Claimed>> {
    let query = "SELECT unnest(tokens), unnest(attempts), collector_id FROM mailroom.leases";
    let rows = client.query(query, &[]).await?;
    Ok(rows
        .iter()
        .map(|row| Claimed { token: row.get(0), attempt: row.get(1), holder: row.get(2) })
        .collect())
}

/// Stops a collector with something in its hands, and its sender too if that is wanted, until
/// another collector has taken all of it over and handed it on. Then it goes on, with leases that
/// are no longer there.
async fn thaw_after_the_lease(with_sender: bool) -> Result<()> {
    let (mut trial, mailer) = start().await?;
    trial.deadlines = NEAR;
    mailer.answer(Manner::Sent(Duration::from_millis(100)));
    let mut frozen = collector(&trial, &mailer, "frozen")?;
    trial.register(tokens() / 2).await?;
    let mut held = Vec::new();
    while held.is_empty() {
        sleep(Duration::from_millis(500)).await;
        frozen.collector().signal(Signal::STOP)?;
        wait_until_stopped(frozen.collector().process())?;
        // What it has asked for last is done then, however late the server begins with it.
        sleep(Duration::from_secs(1)).await;
        wait_for(&trial.client, BUSY, 0_i64).await?;
        held = all_claimed(&trial.client).await?;
        if held.is_empty() {
            frozen.collector().signal(Signal::CONT)?;
        }
    }
    if with_sender {
        assert_eq!(mailer.signal("frozen", Signal::STOP), 1);
    }
    trial.history.note_at_risk("frozen collectors", &trial.client).await?;
    let other = collector(&trial, &mailer, "other")?;
    trial.register(tokens() / 2).await?;
    trial.history.drained(&trial.client, PATIENCE).await?;
    mailer.signal("frozen", Signal::CONT);
    frozen.collector().signal(Signal::CONT)?;
    // It hears what its sender says of them, and settles.
    sleep(Duration::from_secs(1)).await;
    let tally = trial.end(vec![frozen, other]).await?;
    assert_eq!((tally.tokens, tally.arrived), (tokens(), tokens()));

    for claimed in held {
        let query = "SELECT attempt, outcome::text, collector_id FROM mailroom.delivery_attempts \
                     WHERE token = $1 ORDER BY attempt";
        let rows = trial.client.query(query, &[&claimed.token]).await?;
        let log: Vec<(i32, String, i64)> =
            rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        let [(lapsed_at, lapsed, first), (sent_at, sent, second)] = log.as_slice() else {
            panic!("token {} has the log {log:?}", claimed.token);
        };
        assert_eq!(
            (lapsed.as_str(), *lapsed_at, *first),
            ("lapsed", claimed.attempt, claimed.holder)
        );
        assert_eq!((sent.as_str(), *sent_at), ("sent", claimed.attempt + 1));
        assert_ne!(*second, claimed.holder, "who was frozen has settled what it had lost");
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_that_comes_after_another_collector_took_over_changes_nothing() -> Result<()> {
    thaw_after_the_lease(false).await
}

#[tokio::test]
async fn a_collector_and_its_sender_frozen_past_their_lease_settle_nothing_when_they_thaw()
-> Result<()> {
    thaw_after_the_lease(true).await
}

#[tokio::test]
async fn a_sender_that_answers_oddly_loses_nothing() -> Result<()> {
    let (mut trial, mailer) = start().await?;
    trial.deadlines = NEAR;
    mailer.answer(Manner::Odd(trial.random.u64(..)));
    let collectors = vec![collector(&trial, &mailer, "one")?, collector(&trial, &mailer, "two")?];
    let watch = Watch::start(&trial.database);
    trial.history.note("odd senders");
    for _ in 0..10 {
        trial.register(tokens() / 10).await?;
        sleep(trial.up_to(Duration::from_millis(400))).await;
    }
    sleep(Duration::from_secs(5)).await;
    mailer.answer(Manner::Sent(Duration::ZERO));
    sleep(Duration::from_secs(3)).await;
    trial.history.put_at_risk(watch.end().await?);
    let tally = trial.end(collectors).await?;
    assert_eq!((tally.tokens, tally.arrived), (tokens(), tokens()));
    Ok(())
}
