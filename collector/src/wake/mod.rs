//! Waking an idle collector: `LISTEN`, and the lock by which writers know that a collector is idle.

pub mod idle_lock;
pub mod listener;

use std::time::Duration;

use mailroom_connect::explain;
use tokio::time::timeout;
use tokio_postgres::Error;

/// How long the listening session waits for the response to any of its statements.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

async fn response<T>(statement: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match timeout(RESPONSE_TIMEOUT, statement).await {
        Ok(response) => response.map_err(|error| explain(&error)),
        Err(_) => Err(format!("no answer within {} s", RESPONSE_TIMEOUT.as_secs())),
    }
}
