//! Senders that die, freeze, answer too late and talk nonsense.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::fleet::Member;
use mailroom_tests::history::Watch;
use mailroom_tests::mailer::{Mailer, Manner};
use mailroom_tests::postgres::Database;
use mailroom_tests::trial::Trial;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::TOKENS;

/// Longer than a sender's timeout and a lease together.
const FROZEN: Duration = Duration::from_secs(10);

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
    const KILLS: usize = 5;
    let (mut trial, mailer) = start().await?;
    mailer.answer(Manner::Sent(Duration::from_millis(5)));
    let names: Vec<String> = (0..SENDERS).map(|number| format!("number-{number}")).collect();
    let mut collectors = Vec::new();
    for name in &names {
        collectors.push(collector(&trial, &mailer, name)?);
    }
    for kill in 0..SENDERS * KILLS {
        trial.register(TOKENS / SENDERS / KILLS).await?;
        sleep(trial.up_to(Duration::from_millis(500))).await;
        let name = &names[kill % SENDERS];
        // Stopped first: it gets nothing after it was looked up what it may have.
        while mailer.signal(name, Signal::STOP) == 0 {
            sleep(Duration::from_millis(10)).await;
        }
        trial.history.note_at_risk("kills of a sender", &trial.client).await?;
        mailer.signal(name, Signal::KILL);
    }
    let tally = trial.end(collectors).await?;
    assert_eq!((tally.tokens, tally.arrived), (TOKENS, TOKENS));
    Ok(())
}

#[tokio::test]
async fn a_sender_frozen_past_its_lease_loses_nothing() -> Result<()> {
    let (mut trial, mailer) = start().await?;
    mailer.answer(Manner::Sent(Duration::from_millis(10)));
    let frozen = collector(&trial, &mailer, "frozen")?;
    let other = collector(&trial, &mailer, "other")?;
    trial.register(TOKENS / 2).await?;
    sleep(Duration::from_millis(500)).await;
    let watch = Watch::start(&trial.database);
    let processes = mailer.signal("frozen", Signal::STOP);
    assert_eq!(processes, 1);
    trial.history.note("frozen senders");
    trial.register(TOKENS / 2).await?;
    sleep(FROZEN).await;
    mailer.signal("frozen", Signal::CONT);
    sleep(Duration::from_millis(500)).await;
    trial.history.put_at_risk(watch.end().await?);
    let tally = trial.end(vec![frozen, other]).await?;
    assert_eq!((tally.tokens, tally.arrived), (TOKENS, TOKENS));
    Ok(())
}

#[tokio::test]
async fn an_answer_that_comes_after_another_collector_took_over_changes_nothing() -> Result<()> {
    let (mut trial, mailer) = start().await?;
    mailer.answer(Manner::Sent(Duration::from_millis(100)));
    let mut late = collector(&trial, &mailer, "late")?;
    trial.register(TOKENS / 2).await?;
    sleep(Duration::from_millis(500)).await;
    // Its sender goes on and answers, and it does not hear it before its leases are over.
    late.collector().signal(Signal::STOP)?;
    trial.history.note_at_risk("frozen collectors", &trial.client).await?;
    let taking_over = collector(&trial, &mailer, "taking over")?;
    trial.register(TOKENS / 2).await?;
    sleep(FROZEN).await;
    late.collector().signal(Signal::CONT)?;
    let tally = trial.end(vec![late, taking_over]).await?;
    assert_eq!((tally.tokens, tally.arrived), (TOKENS, TOKENS));
    let lapsed = "SELECT count(*) FROM handovers WHERE outcome = 'lapsed'";
    assert!(trial.client.query_one(lapsed, &[]).await?.get::<_, i64>(0) > 0, "nothing was taken over");
    Ok(())
}

#[tokio::test]
async fn a_sender_that_answers_oddly_loses_nothing() -> Result<()> {
    let (mut trial, mailer) = start().await?;
    mailer.answer(Manner::Odd(trial.random.u64(..)));
    let collectors = vec![collector(&trial, &mailer, "one")?, collector(&trial, &mailer, "two")?];
    let watch = Watch::start(&trial.database);
    trial.history.note("odd senders");
    for _ in 0..10 {
        trial.register(TOKENS / 10).await?;
        sleep(trial.up_to(Duration::from_millis(400))).await;
    }
    sleep(Duration::from_secs(5)).await;
    mailer.answer(Manner::Sent(Duration::ZERO));
    sleep(Duration::from_secs(3)).await;
    trial.history.put_at_risk(watch.end().await?);
    let tally = trial.end(collectors).await?;
    assert_eq!((tally.tokens, tally.arrived), (TOKENS, TOKENS));
    Ok(())
}
