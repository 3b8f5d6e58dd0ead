//! Verdicts on their way to collectors: one durable consumer for those of each database, from the
//! first verdict that is kept, so that none is missed while no collector runs.

use std::time::Duration;

use async_nats::jetstream::consumer::{PullConsumer, pull};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::handle::Handle;
use super::streams::{VERDICTS_KEPT, durable};
use super::{Nats, PULL, answered};
use crate::broker::{Announced, Fault};

/// After how long a verdict goes to another collector, when the queue is made: a database that is
/// busy takes some seconds.
const REDELIVER_AFTER: Duration = Duration::from_secs(30);

impl Nats {
    /// With what the names of consumers begin; the rest tells databases apart.
    pub(super) fn collectors_name(&self) -> String {
        format!("{}-collectors-", self.inner.queue)
    }

    /// Not kept: a program that was killed while it made the consumer anew has left none.
    async fn verdicts_consumer(&self, reader: &str) -> Result<PullConsumer, Fault> {
        let name = self.collectors_name() + reader;
        let config = pull::Config {
            ack_wait: REDELIVER_AFTER,
            filter_subject: self.subject("verdict.>"),
            // Of a database that is gone: the stream keeps nothing longer.
            inactive_threshold: VERDICTS_KEPT,
            ..pull::Config::default()
        };
        durable(&self.streams().await?.verdicts, &name, config).await
    }

    pub(super) async fn pass_on_verdicts(
        &self,
        reader: &str,
        most: usize,
        into: &mpsc::Sender<Announced<Handle>>,
    ) -> Result<(), Fault> {
        self.look_after_restart().await?;
        let consumer = self.verdicts_consumer(reader).await?;
        let messages = consumer.batch().max_messages(most).expires(PULL).messages();
        let mut messages = answered(messages).await?.map_err(|error| none(&error))?;
        // Without an answer the broker is away, or was: it has forgotten the request then.
        while let Ok(Some(message)) = timeout(PULL + Duration::from_secs(1), messages.next()).await
        {
            let message = message.map_err(|error| none(&*error))?;
            let details = message.info().map_err(|error| none(&*error))?;
            let (sequence, published) = (details.stream_sequence, details.published);
            let delivered = details.delivered;
            let (message, acker) = message.split();
            let handle = Handle::of_verdict(acker, sequence, published.unix_timestamp_nanos());
            let announced = Announced {
                handle,
                text: message.payload.to_vec(),
                delivered: u64::try_from(delivered).unwrap_or(1),
            };
            if into.send(announced).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn none(error: &dyn std::fmt::Display) -> Fault {
    Fault::Away(format!("the broker gives out no verdicts: {error}"))
}
