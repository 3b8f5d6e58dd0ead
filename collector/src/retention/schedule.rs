//! Pruning beside the collecting: on a connection of its own, now and then, and by one collector at a time.

use std::convert::Infallible;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{prune, take_turn};
use crate::config::Span;
use crate::postgres::{self, ConnectionSettings, SessionOptions, explain};

/// The first time soon after the start, so that collectors that never live long prune too.
const FIRST: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_secs(3_600);

/// No step takes as long.
const ANSWER: Duration = Duration::from_secs(60);

/// After a step so many times as long is left to others.
const RESPITE: u32 = 4;

/// The task that prunes, ended when this is dropped.
#[derive(Debug)]
pub struct Pruner(JoinHandle<Infallible>);

impl Pruner {
    /// Deletes from now on, once an hour, what is older than `age`.
    pub fn start(connection: ConnectionSettings, age: Duration) -> Self {
        Self(tokio::spawn(async move {
            sleep(jittered(FIRST)).await;
            loop {
                if let Err(cause) = run(&connection, age).await {
                    tracing::warn!(
                        event = "prune_failed",
                        reason = %cause,
                        older_than = %Span(age),
                        "the log of hand-overs is not pruned, trying again in an hour"
                    );
                }
                sleep(jittered(INTERVAL)).await;
            }
        }))
    }
}

impl Drop for Pruner {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(connection: &ConnectionSettings, age: Duration) -> Result<(), String> {
    let options = SessionOptions {
        application_name: "mailroom collect (pruning)",
        statement_timeout: Some(ANSWER),
        needs_session: false,
    };
    let session =
        Box::pin(postgres::connect(connection, &options)).await.map_err(|error| error.to_string())?;
    let (client, keeps_state, driver) = (session.client, session.keeps_state, session.connection.run());
    let work = async {
        if keeps_state && !take_turn(&client).await? {
            return Ok(None);
        }
        prune(&client, age, async |_, took| sleep(took * RESPITE).await).await.map(Some)
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        Err(error) = driver => Err(error),
    };
    match outcome {
        Ok(Some(progress)) if progress.handovers + progress.dead > 0 => {
            tracing::info!(
                event = "pruned",
                handovers = progress.handovers,
                dead = progress.dead,
                older_than = %Span(age),
                "the log of hand-overs is pruned"
            );
        }
        Ok(_) => {}
        Err(error) => return Err(explain(&error)),
    }
    Ok(())
}

/// Between half and all of it, so that many collectors do not come at once.
fn jittered(longest: Duration) -> Duration {
    let random = getrandom::u32().unwrap_or(u32::MAX);
    longest / 2 + (longest / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}
