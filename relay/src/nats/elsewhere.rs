//! A server that its cluster has lost: it answers the client's signs of life and is of no use,
//! since the others lead the streams. The client would stay there for ever.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::Client;
use async_nats::connection::State;

use crate::broker::Fault;

/// How long nothing succeeds until another server is tried: longer than the others need to agree on
/// a leader.
const LONGEST_SILENCE: Duration = Duration::from_secs(15);

/// Since when nothing has succeeded.
pub(super) struct Silence {
    /// Nothing where there is no other server.
    client: Option<Client>,
    since: Mutex<Option<Instant>>,
}

impl Silence {
    pub(super) fn new(client: Option<Client>) -> Self {
        Self { client, since: Mutex::new(None) }
    }

    /// Notes how something ended that needs the streams, and tries another server if nothing has
    /// succeeded for too long. Which one is chance: it may take several times.
    pub(super) async fn after<T>(&self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        if let Some(client) = &self.client {
            let is_useless = matches!(outcome, Err(Fault::Away(_)));
            if self.is_over(is_useless, Instant::now())
                && client.connection_state() == State::Connected
            {
                client.force_reconnect().await.ok();
            }
        }
        outcome
    }

    fn is_over(&self, is_useless: bool, now: Instant) -> bool {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_useless {
            *since = None;
            return false;
        }
        let is_over = now.duration_since(*since.get_or_insert(now)) >= LONGEST_SILENCE;
        if is_over {
            *since = None;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_server_is_tried_when_nothing_has_succeeded_for_long_and_then_anew() {
        let silence = Silence::new(None);
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        for (seconds, is_useless, expected) in [
            (0, true, false),
            (14, true, false),
            (14, false, false),
            (20, true, false),
            (34, true, false),
            (35, true, true),
            (36, true, false),
            (50, true, false),
            (51, true, true),
        ] {
            assert_eq!(silence.is_over(is_useless, at(seconds)), expected, "{seconds}");
        }
    }
}
