//! Messages on their way from the broker, each of which is somebody's until it is done with.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::stream::{SelectAll, select_all};
use futures_util::{FutureExt as _, StreamExt as _};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicGetOptions, BasicNackOptions,
    BasicQosOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{Acker, Channel, Consumer};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep, timeout_at};

use super::letter::Letter;
use super::link::{Link, answered, fault};
use super::publishing::Publishing;
use crate::broker::Fault;

/// How long it is waited for messages at most until that is said.
const PULL: Duration = Duration::from_secs(3);

/// How often it is asked for a single message.
const PAUSE_OF_ONE: Duration = Duration::from_millis(200);

/// How many messages that lapsed are taken at a time.
const LAPSED: u16 = 8;

/// How often a message is given back that the broker did not take.
const PAUSE_OF_HELD: Duration = Duration::from_secs(1);

/// For how long it is held at most: with the time that a sender takes less than the half hour after
/// which the broker ends a channel of which it hears nothing.
const LONGEST_HELD: Duration = Duration::from_secs(600);

/// A message that came.
pub(crate) struct Handle {
    acker: Acker,
    pub(super) letter: Letter,
    publishing: Arc<Publishing>,
    /// Without it the broker would give out the message again.
    channel: Channel,
    /// With what it was to be given back first. The broker may not have taken that.
    again: OnceLock<Again>,
}

/// When a message comes again, and what it is to know then.
#[derive(Clone, Copy)]
struct Again {
    at: Instant,
    doubts: Option<u32>,
}

impl Handle {
    /// It is done with. The broker says nothing to that: what it did not hear comes again, as does
    /// all of a connection that is lost.
    pub(super) async fn done(&self) {
        self.acker.ack(BasicAckOptions::default()).await.ok();
    }

    /// It is to come again after a time. It is stored anew first: a kill between the two makes two
    /// of it, and none is lost.
    pub(super) async fn give_back(
        &self,
        after: Duration,
        doubts: Option<u32>,
    ) -> Result<(), Fault> {
        // Of a connection that is lost: the broker gives it out again by itself.
        if !self.acker.usable() {
            return Ok(());
        }
        if after.is_zero() && doubts.is_none() {
            return_at_once(&self.acker).await;
            return Ok(());
        }
        // Not later because it is said again.
        let now = Instant::now();
        let first = || Again { at: now.checked_add(after).unwrap_or(now), doubts };
        let Again { at, doubts } = *self.again.get_or_init(first);
        let rest = at.saturating_duration_since(now);
        let letter = self.letter.again(Some(rest), doubts);
        self.move_to(self.publishing.link.queues.later(), &letter).await
    }

    async fn move_to(&self, exchange: ShortString, letter: &Letter) -> Result<(), Fault> {
        self.publishing.store(exchange, letter).await?;
        self.done().await;
        Ok(())
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The rest has a link.
        formatter.debug_struct("Handle").finish_non_exhaustive()
    }
}

impl Drop for Handle {
    /// What nobody has said anything of goes to others, or it would take a place for ever. What the
    /// broker did not take back, as during an alarm, is held until its time has come: it would come
    /// here again at once, and its mail be tried without a pause.
    fn drop(&mut self) {
        if !self.acker.usable() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (acker, channel) = (self.acker.clone(), self.channel.clone());
            let held = self.again.get().map(|again| Held {
                acker: acker.clone(),
                letter: self.letter.clone(),
                publishing: Arc::clone(&self.publishing),
                again: *again,
            });
            runtime.spawn(async move {
                let is_gone = match held {
                    Some(held) => held.give_back().await,
                    None => false,
                };
                if !is_gone {
                    return_at_once(&acker).await;
                }
                drop(channel);
            });
        }
    }
}

/// A message that the broker did not take back.
struct Held {
    acker: Acker,
    letter: Letter,
    publishing: Arc<Publishing>,
    again: Again,
}

impl Held {
    /// Gives it back until its time has come. Says whether the broker has it.
    async fn give_back(self) -> bool {
        let Self { acker, letter, publishing, again: Again { at, doubts } } = self;
        let until = at.min(Instant::now() + LONGEST_HELD);
        while acker.usable() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            sleep(left.min(PAUSE_OF_HELD)).await;
            let rest = at.saturating_duration_since(Instant::now());
            let again = letter.again(Some(rest), doubts);
            if publishing.store(publishing.link.queues.later(), &again).await.is_ok() {
                acker.ack(BasicAckOptions::default()).await.ok();
                return true;
            }
        }
        // The broker gives it out again by itself.
        true
    }
}

async fn return_at_once(acker: &Acker) {
    let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
    acker.nack(options).await.ok();
}

/// The messages of a queue, and of the one of those that lapsed.
pub(super) struct Consuming {
    link: Arc<Link>,
    publishing: Arc<Publishing>,
    queue: ShortString,
    takes_lapsed: bool,
    open: Mutex<Option<Open>>,
}

struct Open {
    channel: Channel,
    consumers: SelectAll<Consumer>,
    /// How many there were in the beginning.
    count: usize,
}

impl Consuming {
    pub(super) fn new(
        link: Arc<Link>,
        publishing: Arc<Publishing>,
        queue: ShortString,
        takes_lapsed: bool,
    ) -> Self {
        Self { link, publishing, queue, takes_lapsed, open: Mutex::default() }
    }

    /// Takes up to so many messages, and returns after some seconds, or when all have come. So many
    /// are held at most, at any time: the broker gives out no more of them.
    pub(super) async fn take<T>(
        &self,
        most: usize,
        held: u16,
        into: &mpsc::Sender<T>,
        received: impl Fn(Handle) -> T,
        came: &mut usize,
    ) -> Result<(), Fault> {
        let mut open = self.open.lock().await;
        if open.is_none() && most == 1 && held > 1 {
            // Of a sender that is not sure to send it. Others get the next ones.
            let Some(handle) = self.found(self.take_one().await).await? else { return Ok(()) };
            if into.send(received(handle)).await.is_ok() {
                *came += 1;
            }
            return Ok(());
        }
        if open.is_none() {
            *open = Some(self.found(self.open(held).await).await?);
        }
        let Some(running) = open.as_mut() else { return Ok(()) };
        let deadline = Instant::now() + PULL;
        while *came < most {
            let Ok(next) = timeout_at(deadline, running.consumers.next()).await else {
                // One of two may have ended without a word.
                if running.consumers.len() < running.count {
                    *open = None;
                    return self.found(Err(self.ended())).await;
                }
                break;
            };
            let delivery = match next {
                Some(Ok(delivery)) => delivery,
                Some(Err(error)) => {
                    *open = None;
                    return Err(fault(&error));
                }
                None => {
                    *open = None;
                    return self.found(Err(self.ended())).await;
                }
            };
            if let Some(handle) = self.admit(&running.channel, delivery).await? {
                if into.send(received(handle)).await.is_err() {
                    break;
                }
                *came += 1;
            }
        }
        Ok(())
    }

    /// Gives back what came and was not passed on.
    pub(super) async fn let_go(&self) {
        let Some(Open { channel, mut consumers, .. }) = self.open.lock().await.take() else {
            return;
        };
        // Or what is given back would come here again.
        for consumer in &consumers {
            let canceled = channel.basic_cancel(consumer.tag(), BasicCancelOptions::default());
            answered(canceled).await.ok();
        }
        while let Some(Some(Ok(delivery))) = consumers.next().now_or_never() {
            return_at_once(&delivery.acker).await;
        }
    }

    async fn open(&self, held: u16) -> Result<Open, Fault> {
        let channel = self.link.channel().await?;
        let mut consumers = Vec::new();
        let lapsed = self.takes_lapsed.then(|| (self.link.queues.lapsed(), LAPSED));
        for (queue, held) in std::iter::once((self.queue.clone(), held)).chain(lapsed) {
            // Each consumer has the limit that was set before it came.
            answered(channel.basic_qos(held, BasicQosOptions::default())).await?;
            let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
            let consumer = channel.basic_consume(queue, "".into(), options, none);
            consumers.push(answered(consumer).await?);
        }
        let count = consumers.len();
        Ok(Open { channel, consumers: select_all(consumers), count })
    }

    fn ended(&self) -> Fault {
        Fault::Away(format!("the broker gives out nothing more of {}: it was deleted", self.queue))
    }

    /// What is done about an outcome that needs the queues: somebody may have deleted them.
    async fn found<T>(&self, outcome: Result<T, Fault>) -> Result<T, Fault> {
        if outcome.is_err() {
            self.link.forget().await;
        }
        outcome
    }

    async fn take_one(&self) -> Result<Option<Handle>, Fault> {
        let channel = self.link.channel().await?;
        let deadline = Instant::now() + PULL;
        while Instant::now() < deadline {
            let asked = channel.basic_get(self.queue.clone(), BasicGetOptions::default());
            let Some(message) = answered(asked).await? else {
                sleep(PAUSE_OF_ONE).await;
                continue;
            };
            if let Some(handle) = self.admit(&channel, message.delivery).await? {
                return Ok(Some(handle));
            }
        }
        Ok(None)
    }

    /// What is to be worked on now. The rest goes on its way: what has to wait longer than the
    /// longest queue of pauses, and what lapsed and is not over.
    async fn admit(
        &self,
        channel: &Channel,
        mut delivery: Delivery,
    ) -> Result<Option<Handle>, Fault> {
        let has_lapsed = delivery.routing_key.as_str() == super::queues::LAPSED;
        let letter = Letter::read(&mut delivery);
        let publishing = Arc::clone(&self.publishing);
        let (acker, channel) = (delivery.acker, channel.clone());
        let handle = Handle { acker, letter, publishing, channel, again: OnceLock::new() };
        let queues = &self.link.queues;
        if has_lapsed {
            if let Some(letter) = handle.letter.revived() {
                handle.move_to(queues.exchange(), &letter).await?;
                return Ok(None);
            }
            if handle.letter.is_verdict() {
                handle.done().await;
                return Ok(None);
            }
        } else if let Some(rest) = handle.letter.rest() {
            let letter = handle.letter.waiting_on(rest);
            handle.move_to(queues.later(), &letter).await?;
            return Ok(None);
        }
        Ok(Some(handle))
    }
}
