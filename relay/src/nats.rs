//! NATS `JetStream`: a stream of mails that are deleted when they are done with, and one of
//! verdicts.
//!
//! | subject | message |
//! |---|---|
//! | `QUEUE.mail.first.ACTION`, `QUEUE.mail.other.ACTION` | a mail |
//! | `QUEUE.verdict.KEY` | what became of the mail with this key |
//! | `QUEUE.dead.KEY` | the same of those that never can be sent, and what was no mail |
//!
//! `address` has what is connected to, `publishing` what is stored, `handle` by what a message is
//! ended, `streams` what the streams need, `restart` what a killed server leaves behind,
//! `elsewhere` what is done about one that its cluster has lost, and `verdicts` how collectors get
//! them.
//!
//! A full stream refuses a mail and drops none, and no mail is dropped by its age, since the
//! database gives them out once.

mod address;
mod elsewhere;
mod handle;
mod publishing;
mod restart;
mod streams;
mod verdicts;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_nats::Event;
use async_nats::header::HeaderMap;
use async_nats::jetstream::consumer::{PullConsumer, pull};
use async_nats::jetstream::context::{Context, ContextBuilder};
use async_nats::jetstream::message::AckKind;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use futures_util::StreamExt as _;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

use self::address::options;
pub(crate) use self::address::servers;
use self::elsewhere::Silence;
use self::handle::Handle;
use self::streams::{Streams, durable};
use crate::Error;
use crate::access::BrokerArguments;
use crate::broker::{Announced, Broker, Fault, Received, Stored};
use crate::decision::Place;
use crate::message::{Class, Head, Mail, VERSION, Verdict, now, word};
use crate::verdicts::{Read, read};

/// How long an answer of the broker is waited for: less than a collector waits for its sender.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long one request for mails waits for some.
const PULL: Duration = Duration::from_secs(3);

/// How long it is waited at most until a broker that is away is tried again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How many messages are looked at that are before one in the place of a verdict which is none.
const MAX_HIDDEN: usize = 100;

/// The longest time of [`AGAIN_HEADER`].
const LONGEST_REST: Duration = Duration::from_secs(720);

const VERSION_HEADER: &str = "Mailroom-Version";

/// Of a mail that was left behind and is published anew: for how many seconds a sender may still
/// have the former one.
const AGAIN_HEADER: &str = "Mailroom-Again";

/// A connection, which comes back by itself.
#[derive(Clone)]
pub(crate) struct Nats {
    inner: Arc<Inner>,
}

struct Inner {
    context: Context,
    /// For how long a server that is connected has been of no use.
    silence: Silence,
    queue: String,
    replicas: usize,
    redeliver_after: Duration,
    /// The same as the broker has it for each class, in milliseconds. Whoever makes a consumer sets
    /// it, and it may be made anew.
    ack_waits: [AtomicU64; Class::ALL.len()],
    /// When the connection was made last, in seconds since 1970.
    connected_at: Arc<AtomicI64>,
    /// How often it was made, and what is known since.
    connections: Arc<AtomicU64>,
    seen: Mutex<Seen>,
    /// The last mail that the last sweep has looked at, if there are more.
    swept_through: AtomicU64,
    found: Mutex<Found>,
}

/// What the look at a new connection has found.
#[derive(Default)]
struct Seen {
    /// On which connection the consumers are sound.
    connection: u64,
    /// When it failed, and why: who waited for it meanwhile need not wait as long again.
    failed: Option<(Instant, String)>,
}

/// What the broker has, as far as it was looked for. Somebody may delete or change it, or put an
/// empty broker in its place: after a fault, on a new connection and every now and then it is
/// looked for anew.
#[derive(Default)]
struct Found {
    streams: Option<(Instant, Streams)>,
    /// When the last look at the streams failed, and why: who waited for it meanwhile need not wait
    /// as long again.
    failed: Option<(Instant, Fault)>,
    consumers: [Option<PullConsumer>; Class::ALL.len()],
}

impl Nats {
    /// Begins to connect, for ever. What it is asked meanwhile fails.
    ///
    /// # Errors
    /// Arguments that cannot be used.
    pub(crate) async fn connect(arguments: &BrokerArguments, name: &str) -> Result<Self, Error> {
        let options = options(arguments)?.name(name).retry_on_initial_connect();
        // The client's own pauses grow to four seconds, and links expire meanwhile.
        let options = options.reconnect_delay_callback(|attempts| {
            LONGEST_PAUSE.min(Duration::from_millis(100) * u32::try_from(attempts).unwrap_or(10))
        });
        let connected_at = Arc::new(AtomicI64::new(now()));
        let connections = Arc::new(AtomicU64::new(1));
        let (noted, counted) = (Arc::clone(&connected_at), Arc::clone(&connections));
        let options = options.event_callback(move |event| {
            if matches!(event, Event::Connected) {
                noted.store(now(), Ordering::Relaxed);
                counted.fetch_add(1, Ordering::Relaxed);
            }
            std::future::ready(())
        });
        let servers = servers(arguments)?;
        let others = servers.len() > 1;
        let client = options
            .connect(servers)
            .await
            .map_err(|error| Error::Usage(format!("the broker cannot be used: {error}")))?;
        let silence = Silence::new(others.then(|| client.clone()));
        let context = ContextBuilder::new().timeout(PATIENCE).ack_timeout(PATIENCE).build(client);
        let access = &arguments.access;
        let inner = Inner {
            context,
            silence,
            queue: access.queue.clone(),
            replicas: access.replicas.unwrap_or(1).into(),
            redeliver_after: access.redeliver_after(),
            ack_waits: Class::ALL.map(|_| AtomicU64::new(milliseconds(access.redeliver_after()))),
            connected_at,
            connections,
            seen: Mutex::default(),
            swept_through: AtomicU64::new(0),
            found: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    fn subject(&self, rest: &str) -> String {
        format!("{}.{rest}", self.inner.queue)
    }

    /// Where a mail is published to.
    fn subject_of(&self, head: &Head) -> String {
        self.subject(&format!("mail.{}.{}", Class::of(head).word(), word(&head.action)))
    }

    fn consumer_name(&self, class: Class) -> String {
        format!("{}-{}", self.inner.queue, class.word())
    }

    async fn consumer(&self, class: Class) -> Result<PullConsumer, Fault> {
        let known = self.inner.found.lock().await.consumers[class.place()].clone();
        match known {
            Some(consumer) => Ok(consumer),
            None => self.find_consumer(class).await,
        }
    }

    async fn find_consumer(&self, class: Class) -> Result<PullConsumer, Fault> {
        let config = pull::Config {
            ack_wait: self.inner.redeliver_after,
            filter_subject: self.subject(&format!("mail.{}.>", class.word())),
            ..pull::Config::default()
        };
        let mails = self.streams().await?.mails;
        let consumer = durable(&mails, &self.consumer_name(class), config).await?;
        let ack_wait = milliseconds(consumer.cached_info().config.ack_wait);
        self.inner.ack_waits[class.place()].store(ack_wait, Ordering::Relaxed);
        self.inner.found.lock().await.consumers[class.place()] = Some(consumer.clone());
        Ok(consumer)
    }

    /// What is done about an outcome that needs the streams.
    async fn after<T>(&self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        if matches!(outcome, Err(Fault::Away(_))) {
            self.forget().await;
        }
        self.inner.silence.after(outcome).await
    }

    async fn forget(&self) {
        let mut found = self.inner.found.lock().await;
        *found = Found { failed: found.failed.take(), ..Found::default() };
    }

    async fn pass_on(
        &self,
        class: Class,
        most: usize,
        into: &mpsc::Sender<(Class, Received<Handle>)>,
        came: &mut usize,
    ) -> Result<(), Fault> {
        self.look_after_restart().await?;
        let consumer = self.consumer(class).await?;
        let messages = consumer.batch().max_messages(most).expires(PULL).messages();
        let mut messages = answered(messages).await?.map_err(|error| no_mails(&error))?;
        // Without an answer the broker is away, or was: it has forgotten the request then.
        while let Ok(Some(message)) = timeout(PULL + Duration::from_secs(1), messages.next()).await
        {
            let message = message.map_err(|error| no_mails(&*error))?;
            let details = message.info().map_err(|error| no_mails(&*error))?;
            let (sequence, published) = (details.stream_sequence, details.published);
            let place = Place { sequence, published_at: published.unix_timestamp() };
            let delivered = u64::try_from(details.delivered).unwrap_or(1);
            let (message, acker) = message.split();
            let handle = Handle::of_mail(acker, sequence, published.unix_timestamp_nanos());
            let headers = message.headers.as_ref();
            let rest = headers.and_then(|headers| headers.get(AGAIN_HEADER)?.as_str().parse().ok());
            let received = Received {
                handle,
                version: version(headers),
                text: String::from_utf8_lossy(&message.payload).into_owned(),
                place,
                delivered,
                // The verdicts know them.
                doubts: 0,
                rest: rest
                    .map(|seconds| Duration::from_secs(seconds).min(LONGEST_REST))
                    .filter(|_| delivered == 1),
            };
            if into.send((class, received)).await.is_err() {
                return Ok(());
            }
            *came += 1;
        }
        Ok(())
    }

    async fn last_verdict(&self, key: &str) -> Result<Option<Verdict>, Fault> {
        let verdicts = self.streams().await?.verdicts;
        let subject = self.subject(&format!("verdict.{key}"));
        match answered(verdicts.get_last_raw_message_by_subject(&subject)).await? {
            Ok(message) => match read(&message.payload) {
                Read::Verdict(verdict) => Ok(Some(*verdict)),
                Read::OfVersion => {
                    Err(Fault::Message("its verdict is of another version".to_owned()))
                }
                // It hides the one before it, if there is one. nats-server 2.9.10 finds none before
                // one that is deleted.
                Read::Nothing => {
                    if let Some(verdict) = self.verdict_before(&subject, message.sequence).await? {
                        return Ok(Some(verdict));
                    }
                    self.set_aside(message.sequence).await?;
                    let sentence = "what the broker has in the place of a verdict is none, and is \
                                    set aside";
                    Err(Fault::SetAside(sentence.to_owned()))
                }
            },
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(Fault::Away(format!("a verdict is not found: {error}"))),
        }
    }
}

impl Nats {
    /// The last verdict of those before a message, as far as there are some.
    async fn verdict_before(&self, subject: &str, end: u64) -> Result<Option<Verdict>, Fault> {
        let verdicts = self.streams().await?.verdicts;
        let (mut last, mut next) = (None, 1);
        for _ in 0..MAX_HIDDEN {
            match answered(verdicts.get_first_raw_message_by_subject(subject, next)).await? {
                Ok(message) if message.sequence < end => {
                    match read(&message.payload) {
                        Read::Verdict(verdict) => last = Some(*verdict),
                        Read::OfVersion => {
                            return Err(Fault::Message(
                                "one of its verdicts is of another version".to_owned(),
                            ));
                        }
                        Read::Nothing => {}
                    }
                    next = message.sequence + 1;
                }
                Ok(_) => break,
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => break,
                Err(error) => {
                    return Err(Fault::Away(format!("a verdict is not found: {error}")));
                }
            }
        }
        Ok(last)
    }
}

async fn answered<T>(future: impl IntoFuture<Output = T>) -> Result<T, Fault> {
    // Above the limits of the client itself, which say more.
    let limit = PATIENCE + Duration::from_secs(3);
    timeout(limit, future).await.map_err(|_| Fault::Away("the broker does not answer".to_owned()))
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn no_mails(error: &dyn std::fmt::Display) -> Fault {
    Fault::Away(format!("the broker gives out no mails: {error}"))
}

fn version(headers: Option<&HeaderMap>) -> Option<u32> {
    headers?.get(VERSION_HEADER)?.as_str().parse().ok()
}

impl Broker for Nats {
    type Handle = Handle;

    async fn publish(&self, mail: &Mail) -> Result<Stored, Fault> {
        self.after(self.publish_once(mail).await).await
    }

    async fn record(&self, verdict: &Verdict, sequence: u64) -> Result<(), Fault> {
        self.after(self.record_verdict(verdict, sequence).await).await
    }

    async fn record_foreign(&self, sequence: u64) -> Result<(), Fault> {
        let text = format!(r#"{{"v":{VERSION},"sequence":{sequence},"reason":"it is no mail"}}"#);
        let id = format!("foreign.{sequence}");
        let recorded = async {
            self.streams().await?;
            self.store(self.subject("dead.foreign"), &id, text, None).await
        };
        self.after(recorded.await).await.map(drop)
    }

    async fn verdict_on(&self, key: &str) -> Result<Option<Verdict>, Fault> {
        self.after(self.last_verdict(key).await).await
    }

    async fn receive(
        &self,
        class: Class,
        most: usize,
        into: &mpsc::Sender<(Class, Received<Handle>)>,
    ) -> (usize, Result<(), Fault>) {
        let mut came = 0;
        let mut outcome = self.pass_on(class, most, into, &mut came).await;
        if came == 0 {
            // A program that was killed while it made the consumer anew has left none.
            let found = self.find_consumer(class).await;
            outcome = outcome.and(found.map(drop));
        }
        (came, self.after(outcome).await)
    }

    async fn receive_verdicts(
        &self,
        reader: &str,
        most: usize,
        into: &mpsc::Sender<Announced<Handle>>,
    ) -> Result<(), Fault> {
        self.after(self.pass_on_verdicts(reader, most, into).await).await
    }

    async fn done(&self, handle: &Handle) -> Result<(), Fault> {
        self.after(self.say(handle, AckKind::Ack).await).await
    }

    /// Nothing came that was not asked for.
    async fn let_go(&self, _: Class) {}

    async fn give_back(
        &self,
        handle: &Handle,
        after: Duration,
        _: Option<u32>,
    ) -> Result<(), Fault> {
        self.after(self.say(handle, AckKind::Nak(Some(after))).await).await
    }

    async fn working(&self, handle: &Handle) -> Result<(), Fault> {
        handle.tell(AckKind::Progress).await
    }

    async fn sweep(&self) -> Result<usize, Fault> {
        self.after(self.sweep_mails().await).await
    }

    fn patience(&self) -> Duration {
        let waits = self.inner.ack_waits.iter().map(|wait| wait.load(Ordering::Relaxed));
        waits.min().map_or(self.inner.redeliver_after, Duration::from_millis)
    }

    fn name(&self) -> &'static str {
        "nats"
    }
}
