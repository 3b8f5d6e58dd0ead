//! An upgrade under load: the schema first, then one collector after the other.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::mailer::{Mailer, Manner};
use mailroom_tests::neighbours::upgrade;
use mailroom_tests::postgres::Database;
use mailroom_tests::recorder::Pace;
use mailroom_tests::trial::{PATIENCE, Trial, tokens};

/// How many times tokens are registered: before, beside and after each step.
const STEPS: usize = 5;

#[tokio::test]
async fn a_rolling_upgrade_under_load_loses_and_doubles_nothing() -> Result<()> {
    let mut trial = Trial::start(Database::migrated()?).await?;
    let mailer = Mailer::start(Path::new(env!("CARGO_BIN_EXE_relay")), &trial.recorder)?;
    mailer.answer(Manner::Sent(Duration::from_millis(20)));
    let pace = Pace { pause: Duration::from_millis(1), ..Pace::default() };
    let writers = tokens() / STEPS;

    trial.register(writers).await?;
    let old_pipe = trial.collector("old-pipe", pace)?;
    let old_sender = trial.sending_collector("old-sender", trial.database.url(), &mailer)?;
    trial.moment(0, Duration::from_millis(400)).await?;
    // The schema, while both collect.
    trial.history.note_and_look("migrations", &trial.client).await?;
    upgrade(&trial.client).await?;
    trial.register(writers).await?;
    trial.moment(0, Duration::from_millis(400)).await?;
    // Then the collectors.
    let mut new = Vec::new();
    for (number, old) in [old_pipe, old_sender].into_iter().enumerate() {
        trial.history.note_and_look("collectors that are replaced", &trial.client).await?;
        old.stop(PATIENCE)?;
        new.push(if number == 0 {
            trial.collector("new-pipe", pace)?
        } else {
            trial.sending_collector("new-sender", trial.database.url(), &mailer)?
        });
        trial.register(writers).await?;
        trial.moment(0, Duration::from_millis(400)).await?;
    }
    trial.register(tokens() - 4 * writers).await?;
    let tally = trial.end(new).await?;
    assert_eq!((tally.tokens, tally.arrived), (tokens(), tokens()));
    assert_eq!((tally.duplicated, tally.lost), (0, 0));
    Ok(())
}
