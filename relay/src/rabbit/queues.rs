//! The queues and exchanges, and what they need so that no mail and no verdict is lost.
//!
//! All are declared by each connection. What is there with other arguments is refused by the
//! broker, so that nothing is published to a queue that somebody else has made otherwise.

use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Connection, ErrorKind, ExchangeKind};

use super::link::answered;
use crate::broker::Fault;
use crate::message::{Class, word};

/// For how many seconds what comes again can wait. Longer pauses are put together of these.
const PAUSES: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// How long verdicts and dead letters are kept.
pub(super) const KEPT: Duration = Duration::from_secs(8 * 86_400);

/// The names of a queue and of all that belongs to it.
#[derive(Clone, Debug)]
pub(super) struct Queues {
    name: String,
}

impl Queues {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned() }
    }

    /// Where all is published.
    pub(super) fn exchange(&self) -> ShortString {
        self.name.as_str().into()
    }

    /// Where what comes again is published.
    pub(super) fn later(&self) -> ShortString {
        self.named("later")
    }

    pub(super) fn mails(&self, class: Class) -> ShortString {
        self.named(class.word())
    }

    /// What the broker has taken out of a queue: what is expired, and what it has given out too
    /// often.
    pub(super) fn lapsed(&self) -> ShortString {
        self.named("lapsed")
    }

    pub(super) fn verdicts(&self) -> ShortString {
        self.named("verdicts")
    }

    fn named(&self, rest: &str) -> ShortString {
        format!("{}.{rest}", self.name).into()
    }

    /// Makes all that is not there, and finds out whether the rest is as it must be.
    pub(super) async fn declare(&self, connection: &Connection) -> Result<(), Fault> {
        // A refusal ends the channel.
        let channel = answered(connection.create_channel()).await?;
        self.declare_all(&channel).await.map_err(|fault| Fault::Away(fault.to_string()))
    }

    async fn declare_all(&self, channel: &Channel) -> Result<(), Fault> {
        for exchange in [self.exchange(), self.later()] {
            self.declare_exchange(channel, exchange, FieldTable::default()).await?;
        }
        for class in Class::ALL {
            let word = class.word();
            let keys = [format!("mail.{word}.*"), format!("*.mail.{word}.*")];
            self.declare_queue(channel, self.mails(class), self.lapsing(None)).await?;
            self.bind(channel, self.mails(class), self.exchange(), &keys).await?;
        }
        let keys = [VERDICT.to_owned(), format!("*.{VERDICT}")];
        self.declare_queue(channel, self.verdicts(), self.lapsing(Some(KEPT))).await?;
        self.bind(channel, self.verdicts(), self.exchange(), &keys).await?;
        self.declare_queue(channel, self.lapsed(), quorum()).await?;
        self.bind(channel, self.lapsed(), self.exchange(), &[LAPSED.to_owned()]).await?;
        let mut dead = quorum();
        dead.insert("x-message-ttl".into(), milliseconds(KEPT));
        self.declare_queue(channel, self.named(DEAD), dead).await?;
        self.bind(channel, self.named(DEAD), self.exchange(), &[DEAD.to_owned()]).await?;
        for pause in PAUSES {
            let queue = self.named(&format!("later.{pause}"));
            let mut arguments = self.leading_back();
            let ttl = milliseconds(Duration::from_secs(pause));
            arguments.insert("x-message-ttl".into(), ttl);
            self.declare_queue(channel, queue.clone(), arguments).await?;
            self.bind(channel, queue, self.later(), &[format!("{pause}.#")]).await?;
        }
        Ok(())
    }

    /// Claims the verdicts for a ledger, by an exchange that names it and that nobody publishes to.
    pub(super) async fn claim(&self, connection: &Connection, ledger: &str) -> Result<(), Fault> {
        let mut arguments = FieldTable::default();
        let named = AMQPValue::LongString(format!("{}.{ledger}", self.name).into());
        arguments.insert("alternate-exchange".into(), named);
        let exchange = self.named("ledger");
        let channel = answered(connection.create_channel()).await?;
        let claimed = self.declare_exchange(&channel, exchange.clone(), arguments).await;
        claimed.map_err(|fault| match fault {
            Fault::Message(_) => Fault::Away(format!(
                "the verdicts at {} are those of another database: name another --queue for each \
                 database, or delete the exchange {exchange} if this one has taken its place",
                self.name
            )),
            other @ (Fault::Away(_) | Fault::SetAside(_)) => other,
        })
    }

    async fn declare_exchange(
        &self,
        channel: &Channel,
        exchange: ShortString,
        arguments: FieldTable,
    ) -> Result<(), Fault> {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let name = exchange.clone();
        let declared =
            channel.exchange_declare(exchange, ExchangeKind::Topic, options, arguments).await;
        declared.map_err(|error| refused("exchange", &name, &error))
    }

    async fn declare_queue(
        &self,
        channel: &Channel,
        queue: ShortString,
        arguments: FieldTable,
    ) -> Result<(), Fault> {
        let name = queue.clone();
        let declared =
            channel.queue_declare(queue, QueueDeclareOptions::durable(), arguments).await;
        declared.map(drop).map_err(|error| refused("queue", &name, &error))
    }

    async fn bind(
        &self,
        channel: &Channel,
        queue: ShortString,
        exchange: ShortString,
        keys: &[String],
    ) -> Result<(), Fault> {
        for key in keys {
            let (options, none) = (QueueBindOptions::default(), FieldTable::default());
            let (queue, exchange) = (queue.clone(), exchange.clone());
            answered(channel.queue_bind(queue, exchange, key.as_str().into(), options, none))
                .await?;
        }
        Ok(())
    }

    /// Of a queue whose messages are never dropped: they lapse by their age, or by a limit of how
    /// often they are given out, and go where senders see them.
    fn lapsing(&self, after: Option<Duration>) -> FieldTable {
        let mut arguments = self.leading_back();
        let key = AMQPValue::LongString(LAPSED.into());
        arguments.insert("x-dead-letter-routing-key".into(), key);
        if let Some(after) = after {
            arguments.insert("x-message-ttl".into(), milliseconds(after));
        }
        arguments
    }

    /// Of a queue which a message leaves when it is stored elsewhere.
    fn leading_back(&self) -> FieldTable {
        let mut arguments = quorum();
        for (name, value) in [
            ("x-dead-letter-exchange", self.name.as_str()),
            ("x-dead-letter-strategy", "at-least-once"),
            ("x-overflow", "reject-publish"),
        ] {
            arguments.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        arguments
    }
}

/// The words of routing keys.
const VERDICT: &str = "verdict";
const DEAD: &str = "dead";
pub(super) const LAPSED: &str = "lapsed";

/// Where a message is published to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key<'a> {
    Mail(Class, &'a str),
    Verdict,
    Dead,
}

impl Key<'_> {
    pub(super) fn text(self) -> String {
        match self {
            Self::Mail(class, action) => format!("mail.{}.{}", class.word(), word(action)),
            Self::Verdict => VERDICT.to_owned(),
            Self::Dead => DEAD.to_owned(),
        }
    }
}

/// The key of a message that comes again after a time, at most after this one. The rest of the time
/// it waits another time.
pub(super) fn key_of_pause(key: &str, after: Duration) -> String {
    let fits = |pause: &&u64| **pause <= after.as_secs();
    let pause = PAUSES.iter().rev().find(fits).unwrap_or(&PAUSES[0]);
    format!("{pause}.{key}")
}

/// The key that a message had before it waited.
pub(super) fn key_without_pause(key: &str) -> &str {
    match key.split_once('.') {
        Some((pause, rest)) if pause.parse::<u64>().is_ok() => rest,
        _ => key,
    }
}

fn quorum() -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments
}

fn milliseconds(duration: Duration) -> AMQPValue {
    AMQPValue::LongLongInt(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
}

/// What is said of a declaration that is refused. One that is there with other arguments is told
/// from the rest by its kind.
fn refused(what: &str, name: &ShortString, error: &lapin::Error) -> Fault {
    if let ErrorKind::ProtocolError(refusal) = error.kind()
        && *refusal.kind() == AMQPErrorKind::Soft(AMQPSoftError::PRECONDITIONFAILED)
    {
        return Fault::Message(format!(
            "the {what} {name} is there with other arguments than it needs: let it become empty \
             and delete it, or name another --queue (the broker says: {})",
            refusal.get_message()
        ));
    }
    super::link::fault(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_never_longer_than_asked_and_its_key_leads_back() {
        let key = Key::Mail(Class::First, "recover").text();
        assert_eq!(key, "mail.first.recover");
        for (seconds, expected) in [(0, 1), (1, 1), (3, 2), (60, 32), (300, 256), (90_000, 256)] {
            let paused = key_of_pause(&key, Duration::from_secs(seconds));
            assert_eq!(paused, format!("{expected}.mail.first.recover"));
            assert_eq!(key_without_pause(&paused), key);
        }
        assert_eq!(key_without_pause(&key), key);
        assert_eq!(Key::Mail(Class::Other, "a.b").text(), "mail.other.unnamed");
    }
}
