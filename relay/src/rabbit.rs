//! RabbitMQ: quorum queues, of which each message is confirmed before it counts as stored, and
//! acknowledged when it is done with.
//!
//! | routing key at the exchange `QUEUE` | queue | message |
//! |---|---|---|
//! | `mail.first.ACTION`, `mail.other.ACTION` | `QUEUE.first`, `QUEUE.other` | a mail |
//! | `verdict` | `QUEUE.verdicts` | what became of a mail, for the collectors of one database |
//! | `dead` | `QUEUE.dead` | the same of those that never can be sent, and what was no mail |
//! | `lapsed` | `QUEUE.lapsed` | what the broker takes out of a queue: it drops nothing |
//! | `SECONDS.` before another one, at `QUEUE.later` | `QUEUE.later.SECONDS` | what comes again |
//!
//! `address` has what is connected to, `wire` and `link` the connection, `queues` what they need,
//! `letter` what is written to a message, `publishing` and `consuming` its two ways, and `memory`
//! what this process knows of mails that come twice.
//!
//! The broker knows no keys: who publishes again what was confirmed unheard makes two messages of a
//! mail. And it says nothing to what it hears of a message: after a kill it may give it out again.

mod address;
mod consuming;
mod letter;
mod link;
mod memory;
mod publishing;
mod queues;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

pub(crate) use self::address::servers;
use self::consuming::{Consuming, Handle};
use self::letter::Letter;
use self::link::Link;
use self::memory::Memory;
use self::publishing::Publishing;
use self::queues::{Key, Queues};
use self::wire::Wire;
use crate::Error;
use crate::access::BrokerArguments;
use crate::broker::{Announced, Broker, Fault, Received, Stored};
use crate::message::{Class, Kind, Mail, VERSION, Verdict};

/// How many verdicts are held at most.
const VERDICTS_HELD: u16 = 500;

/// Connections, which come back by themselves.
#[derive(Clone)]
pub(crate) struct Rabbit {
    inner: Arc<Inner>,
    /// How many mails of a class are held at most.
    prefetch: u16,
}

struct Inner {
    queues: Queues,
    publishing: Arc<Publishing>,
    /// Of what is read: an alarm does not stop it.
    reading: Arc<Link>,
    mails: [Consuming; Class::ALL.len()],
    verdicts: Consuming,
    memory: Memory,
    redeliver_after: Duration,
}

impl Rabbit {
    /// Connects when it is asked for something.
    ///
    /// # Errors
    /// Arguments that cannot be used.
    pub(crate) fn connect(arguments: &BrokerArguments, name: &str) -> Result<Self, Error> {
        let (servers, wire) = (servers(arguments)?, Wire::new(arguments)?);
        let queues = Queues::new(&arguments.access.queue);
        let link = || Arc::new(Link::new(queues.clone(), servers.clone(), wire.clone(), name));
        let (publishing, reading) = (Arc::new(Publishing::new(link())), link());
        let consuming = |queue, takes_lapsed| {
            Consuming::new(Arc::clone(&reading), Arc::clone(&publishing), queue, takes_lapsed)
        };
        let inner = Inner {
            mails: Class::ALL.map(|class| consuming(queues.mails(class), class == Class::Other)),
            verdicts: consuming(queues.verdicts(), false),
            memory: Memory::default(),
            redeliver_after: arguments.access.redeliver_after(),
            publishing,
            reading,
            queues,
        };
        Ok(Self { inner: Arc::new(inner), prefetch: 1 })
    }

    /// The same for a sender that holds so many mails of a class.
    pub(crate) fn with_prefetch(self, prefetch: u16) -> Self {
        Self { prefetch, ..self }
    }

    async fn store(&self, letter: &Letter) -> Result<(), Fault> {
        self.inner.publishing.store(self.inner.queues.exchange(), letter).await
    }
}

impl Broker for Rabbit {
    type Handle = Handle;

    async fn publish(&self, mail: &Mail) -> Result<Stored, Fault> {
        let key = Key::Mail(Class::of(&mail.head), &mail.head.action);
        self.store(&Letter::of_mail(key, mail)).await?;
        Ok(Stored::Now)
    }

    async fn record(&self, verdict: &Verdict, sequence: u64) -> Result<(), Fault> {
        let verdict = &Verdict { sequence, ..verdict.clone() };
        let text =
            serde_json::to_vec(verdict).map_err(|error| Fault::Message(error.to_string()))?;
        if verdict.kind == Kind::Dead {
            self.store(&Letter::new(Key::Dead, &verdict.key, text.clone())).await?;
        }
        self.store(&Letter::new(Key::Verdict, &verdict.key, text)).await?;
        // Not before: what this process knows to be over is done with without a verdict.
        self.inner.memory.note(verdict);
        Ok(())
    }

    async fn record_foreign(&self, _: u64) -> Result<(), Fault> {
        let text = format!(r#"{{"v":{VERSION},"reason":"it is no mail"}}"#);
        self.store(&Letter::new(Key::Dead, "foreign", text.into_bytes())).await
    }

    /// As far as this process knows it.
    async fn verdict_on(&self, key: &str) -> Result<Option<Verdict>, Fault> {
        Ok(self.inner.memory.verdict_on(key))
    }

    async fn receive(
        &self,
        class: Class,
        most: usize,
        into: &mpsc::Sender<(Class, Received<Handle>)>,
    ) -> (usize, Result<(), Fault>) {
        let mut came = 0;
        let received = |handle: Handle| {
            let letter = &handle.letter;
            let received = Received {
                version: letter.version(),
                text: String::from_utf8_lossy(&letter.text).into_owned(),
                place: letter.place(),
                delivered: letter.delivered(),
                doubts: letter.doubts(),
                rest: None,
                handle,
            };
            (class, received)
        };
        let mails = &self.inner.mails[class.place()];
        let outcome = mails.take(most, self.prefetch, into, received, &mut came).await;
        (came, outcome)
    }

    async fn receive_verdicts(
        &self,
        reader: &str,
        most: usize,
        into: &mpsc::Sender<Announced<Handle>>,
    ) -> Result<(), Fault> {
        // Nobody else's are taken.
        self.inner.reading.claim(reader).await?;
        let announced = |handle: Handle| Announced {
            text: handle.letter.text.clone(),
            delivered: handle.letter.delivered(),
            handle,
        };
        let most = most.min(VERDICTS_HELD.into());
        self.inner.verdicts.take(most, VERDICTS_HELD, into, announced, &mut 0).await
    }

    async fn done(&self, handle: &Handle) -> Result<(), Fault> {
        handle.done().await;
        Ok(())
    }

    async fn let_go(&self, class: Class) {
        self.inner.mails[class.place()].let_go().await;
    }

    async fn give_back(
        &self,
        handle: &Handle,
        after: Duration,
        doubts: Option<u32>,
    ) -> Result<(), Fault> {
        handle.give_back(after, doubts).await
    }

    /// The connection shows that somebody works.
    async fn working(&self, _: &Handle) -> Result<(), Fault> {
        Ok(())
    }

    /// The broker leaves nothing behind.
    async fn sweep(&self) -> Result<usize, Fault> {
        Ok(0)
    }

    fn patience(&self) -> Duration {
        self.inner.redeliver_after
    }

    fn name(&self) -> &'static str {
        "rabbitmq"
    }
}
