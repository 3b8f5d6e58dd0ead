//! Messages on their way to the broker: each is stored when it says so, and not before.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, ErrorKind};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::letter::Letter;
use super::link::{Link, PATIENCE, answered, fault};
use crate::broker::Fault;

/// A channel to publish by, of a connection of its own: an alarm of the broker stops all of it.
pub(super) struct Publishing {
    pub(super) link: Arc<Link>,
    channel: Mutex<Option<Channel>>,
}

impl Publishing {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self { link, channel: Mutex::default() }
    }

    /// Stores a message. After a fault it may be stored nevertheless.
    pub(super) async fn store(&self, exchange: ShortString, letter: &Letter) -> Result<(), Fault> {
        // What is published meanwhile would be stored after the alarm, and again by who asks again.
        if self.link.is_blocked().await {
            return Err(blocked());
        }
        let channel = self.channel().await?;
        // By a new connection more may be taken.
        let length = letter.text.len();
        if length > self.link.longest.load(Ordering::Relaxed) {
            return Err(too_long());
        }
        // Or the broker would drop what no queue takes, and confirm it.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let stored = async {
            let key = letter.key.as_str().into();
            let properties = letter.properties.clone();
            channel.basic_publish(exchange, key, options, &letter.text, properties).await?.await
        };
        match timeout(PATIENCE, stored).await {
            Ok(Ok(Confirmation::Ack(None))) => return Ok(()),
            Ok(Ok(Confirmation::Nack(_))) => {
                return Err(refused());
            }
            Ok(Ok(Confirmation::Ack(Some(_)))) => {
                // Somebody has deleted it. The next connection makes it.
                self.link.forget().await;
            }
            Ok(Ok(Confirmation::NotRequested)) => {}
            Ok(Err(error)) => {
                self.close(&channel).await;
                // It ends the channel over one message, with the confirmations of all others. Each
                // that comes again would do so again.
                if let Some(most) = most_bytes(&error) {
                    self.link.longest.fetch_min(most, Ordering::Relaxed);
                    if length > most {
                        return Err(too_long());
                    }
                }
                return Err(fault(&error));
            }
            Err(_) => {
                self.close(&channel).await;
                let is_blocked = self.link.is_blocked().await;
                let silent = || Fault::Away("the broker does not confirm a message".to_owned());
                return Err(if is_blocked { blocked() } else { silent() });
            }
        }
        self.close(&channel).await;
        Err(Fault::Away("the broker has no queue for a message: it was deleted".to_owned()))
    }

    async fn channel(&self) -> Result<Channel, Fault> {
        let mut known = self.channel.lock().await;
        if let Some(channel) = known.as_ref().filter(|channel| channel.status().connected()) {
            return Ok(channel.clone());
        }
        let channel = self.link.channel().await?;
        answered(channel.confirm_select(ConfirmSelectOptions::default())).await?;
        *known = Some(channel.clone());
        Ok(channel)
    }

    /// Does without a channel from now on, unless there is another one already.
    async fn close(&self, channel: &Channel) {
        let mut known = self.channel.lock().await;
        if known.as_ref().is_some_and(|known| known == channel) {
            *known = None;
        }
    }
}

fn too_long() -> Fault {
    Fault::Message("the mail is longer than the broker takes".to_owned())
}

/// How long a message may be at most, where the broker ends the channel because one is longer: the
/// last number of its sentence.
fn most_bytes(error: &lapin::Error) -> Option<usize> {
    let ErrorKind::ProtocolError(error) = error.kind() else { return None };
    let is_refused = *error.kind() == AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED);
    most_in(error.get_message().as_str()).filter(|_| is_refused)
}

fn most_in(sentence: &str) -> Option<usize> {
    let (_, most) = sentence.rsplit_once(' ').filter(|_| sentence.contains("message size"))?;
    most.parse().ok()
}

/// The broker does not say which of the two it is.
fn refused() -> Fault {
    let sentence = "the broker refuses mails: a policy limits the queue's length, or its disk was \
                    full and it has to be restarted";
    Fault::Away(sentence.to_owned())
}

fn blocked() -> Fault {
    let sentence = "the broker takes no messages: it has an alarm of its memory or disk";
    Fault::Away(sentence.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_broker_says_how_long_a_message_may_be() {
        for (sentence, most) in [
            (
                "PRECONDITION_FAILED - message size 100301 is larger than configured max size \
                 65536",
                Some(65_536),
            ),
            ("PRECONDITION_FAILED - message size 5 is larger than max size", None),
            ("PRECONDITION_FAILED - unknown delivery tag 5", None),
            ("", None),
        ] {
            assert_eq!(most_in(sentence), most, "{sentence}");
        }
    }
}
