//! By what a message is done with or given back.
//!
//! The broker knows an acknowledgement by the names of stream and consumer and by a number. A
//! stream that was made anew has the same names and counts from one, and a killed server can give a
//! number a second time: what is said of a former message would end another one, unsent, or let a
//! second sender have it.

use async_nats::jetstream::message::{AckKind, Acker};
use async_nats::jetstream::stream::LastRawMessageErrorKind;

use super::{Nats, answered};
use crate::broker::Fault;

/// A message of one of the streams.
pub(crate) struct Handle {
    acker: Acker,
    is_verdict: bool,
    sequence: u64,
    /// In nanoseconds since 1970.
    published_at: i128,
}

impl Handle {
    pub(super) fn of_mail(acker: Acker, sequence: u64, published_at: i128) -> Self {
        Self { acker, is_verdict: false, sequence, published_at }
    }

    pub(super) fn of_verdict(acker: Acker, sequence: u64, published_at: i128) -> Self {
        Self { acker, is_verdict: true, sequence, published_at }
    }

    pub(super) async fn tell(&self, word: AckKind) -> Result<(), Fault> {
        heard(answered(self.acker.ack_with(word)).await?)
    }

    async fn tell_and_wait(&self, word: AckKind) -> Result<(), Fault> {
        heard(answered(self.acker.double_ack_with(word)).await?)
    }
}

impl Nats {
    /// Says what becomes of a message, unless it is gone and another one may have its number.
    pub(super) async fn say(&self, handle: &Handle, word: AckKind) -> Result<(), Fault> {
        let streams = self.streams().await?;
        let stream = if handle.is_verdict { streams.verdicts } else { streams.mails };
        match answered(stream.get_raw_message(handle.sequence)).await? {
            Ok(message) if message.time.unix_timestamp_nanos() == handle.published_at => {
                handle.tell_and_wait(word).await
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(()),
            Err(error) => Err(Fault::Away(format!("a message is not found: {error}"))),
        }
    }
}

fn heard(outcome: Result<(), async_nats::Error>) -> Result<(), Fault> {
    outcome.map_err(|error| Fault::Away(format!("the broker does not hear a verdict: {error}")))
}
