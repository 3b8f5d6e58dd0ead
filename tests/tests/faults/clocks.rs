//! Hosts whose clocks are wrong.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use mailroom_tests::clock::WrongClock;
use mailroom_tests::fleet::Member;
use mailroom_tests::postgres::Database;
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{NDJSON, NEAR, Trial, tokens};

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

fn start(trial: &Trial, clock: &WrongClock, name: &str, shift: i64) -> Result<Member> {
    let mut command = trial.command(trial.database.url())?;
    command.args(NDJSON);
    let pace = Pace { pause: Duration::from_millis(2), ..Pace::default() };
    Member::run(name, clock.shift(&mut command, shift), &trial.recorder, pace)
}

/// How far the clock of whoever wrote this log is ahead.
fn shift_in(log: &str) -> Result<i64> {
    // 2026-01-31T23:59:59.999999Z
    let time =
        log.split_once('T').and_then(|(_, rest)| rest.get(..8)).context("no time in the log")?;
    let parts: Vec<i64> = time.split(':').map(str::parse).collect::<Result<_, _>>()?;
    let seconds = parts.iter().fold(0, |sum, part| 60 * sum + part);
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let ahead = (seconds - now).rem_euclid(DAY);
    Ok(if ahead > DAY / 2 { ahead - DAY } else { ahead })
}

/// Tokens live for a quarter of an hour, so a collector that asked its own clock would find all of
/// them expired, or none ever.
#[tokio::test]
async fn collectors_whose_clocks_are_an_hour_off_lose_and_repeat_nothing() -> Result<()> {
    let mut trial = Trial::start(Database::migrated()?).await?;
    trial.deadlines = NEAR;
    let clock = WrongClock::build()?;
    let ahead = start(&trial, &clock, "ahead", HOUR)?;
    let behind = start(&trial, &clock, "behind", -HOUR)?;
    trial.register(tokens() / 2).await?;
    trial.moment(0, Duration::ZERO).await?;
    // The lease of the one is taken over by the other.
    let log = behind.kill()?;
    trial.history.note_at_risk("kills", &trial.client).await?;
    ensure!((shift_in(&log)? + HOUR).abs() < 300, "the clock was not behind:\n{log}");
    let behind = start(&trial, &clock, "behind again", -HOUR)?;
    trial.register(tokens() / 4).await?;
    trial.moment(0, Duration::ZERO).await?;
    let log = ahead.kill()?;
    trial.history.note_at_risk("kills", &trial.client).await?;
    ensure!((shift_in(&log)? - HOUR).abs() < 300, "the clock was not ahead:\n{log}");
    trial.register(tokens() / 4).await?;
    let tally = trial.end(vec![behind]).await?;
    assert_eq!((tally.tokens, tally.arrived), (tokens(), tokens()));
    // Nothing is recorded by the clock of a collector.
    let odd = "SELECT count(*) FROM mailroom.delivery_attempts \
               WHERE abs(extract(epoch FROM clock_timestamp() - happened_at)) > 300";
    assert_eq!(trial.client.query_one(odd, &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}
