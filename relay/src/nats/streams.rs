//! The streams and consumers of a queue, and what they need so that no mail and no verdict is lost,
//! also where somebody else has made them.

use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{self, AckPolicy, PullConsumer, pull};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream};

use super::{Inner, Nats, answered};
use crate::broker::Fault;

/// How long the broker knows the key of a mail that it has stored, when the queue is made.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(600);

/// How long verdicts are kept, when the queue is made.
pub(super) const VERDICTS_KEPT: Duration = Duration::from_secs(8 * 86_400);

/// How long the configuration of a stream is taken to be what it was. Somebody may set a limit that
/// drops mails.
const LOOKED_AT: Duration = Duration::from_secs(30);

/// Made if there are none.
#[derive(Clone)]
pub(super) struct Streams {
    pub(super) mails: Stream,
    pub(super) verdicts: Stream,
}

impl Nats {
    /// The streams, which are made if there are none.
    pub(super) async fn streams(&self) -> Result<Streams, Fault> {
        let came_at = Instant::now();
        let mut found = self.inner.found.lock().await;
        if let Some((since, streams)) = &found.streams
            && since.elapsed() < LOOKED_AT
        {
            return Ok(streams.clone());
        }
        if let Some((since, fault)) = &found.failed
            && *since >= came_at
        {
            return Err(fault.clone());
        }
        let looked = Box::pin(self.find_streams()).await;
        found.failed = looked.as_ref().err().map(|fault| (Instant::now(), fault.clone()));
        let streams = looked?;
        found.streams = Some((Instant::now(), streams.clone()));
        Ok(streams)
    }

    async fn find_streams(&self) -> Result<Streams, Fault> {
        let Inner { queue, replicas, .. } = &*self.inner;
        let mails = Config {
            name: queue.clone(),
            subjects: vec![self.subject("mail.>")],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            discard: DiscardPolicy::New,
            num_replicas: *replicas,
            duplicate_window: DUPLICATE_WINDOW,
            ..Config::default()
        };
        let verdicts = Config {
            name: format!("{queue}-verdicts"),
            subjects: vec![self.subject("verdict.>"), self.subject("dead.>")],
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            discard: DiscardPolicy::Old,
            max_age: VERDICTS_KEPT,
            num_replicas: *replicas,
            duplicate_window: DUPLICATE_WINDOW,
            ..Config::default()
        };
        let mails = self.find_stream(mails).await?;
        if let Some(fault) = fault_of(&mails.cached_info().config) {
            return Err(Fault::Away(format!("the stream {queue} {fault}")));
        }
        let verdicts = self.find_stream(verdicts).await?;
        if let Some(fault) = fault_of_verdicts(&verdicts.cached_info().config) {
            return Err(Fault::Away(format!("the stream {queue}-verdicts {fault}")));
        }
        Ok(Streams { mails, verdicts })
    }

    async fn find_stream(&self, config: Config) -> Result<Stream, Fault> {
        let name = config.name.clone();
        let stream = self.inner.context.get_or_create_stream(config);
        answered(stream).await?.map_err(|error| {
            Fault::Away(format!("the stream {name} can be neither found nor made: {error}"))
        })
    }
}

/// Why a stream that somebody else made could lose a mail.
fn fault_of(config: &Config) -> Option<&'static str> {
    // By interest it confirms a mail that no consumer has asked for yet, and drops it. By limits
    // one that is done with stays, link and all.
    if config.retention != RetentionPolicy::WorkQueue {
        return Some("drops or keeps mails whoever has had them; it needs `retention: workqueue`");
    }
    if config.discard != DiscardPolicy::New {
        return Some("drops old mails when it is full; it needs `discard: new`");
    }
    if !config.max_age.is_zero() {
        return Some("drops mails by their age; it needs `max_age: 0`");
    }
    if config.storage != StorageType::File {
        return Some("loses its mails at a restart; it needs `storage: file`");
    }
    if config.no_ack {
        return Some("does not say that it has stored a mail; it needs `no_ack: false`");
    }
    // nats-server 2.9.10 compares less than it stores, and deletes the oldest mail after it has
    // confirmed the last one.
    if config.max_bytes > 0 {
        return Some("drops the oldest mail at its limit of bytes; it needs `max_bytes: -1`");
    }
    // A mail that it refuses for ever would look like a broker that is away, and stop the others.
    if config.max_message_size > 0 {
        return Some("refuses mails by their size; it needs `max_msg_size: -1`");
    }
    // Also a mail that is done with would stay, link and all.
    if config.deny_delete {
        return Some("keeps what is deleted; it needs `deny_delete: false`");
    }
    // Each action is a subject.
    if config.max_messages_per_subject > 0 {
        return Some("drops or refuses mails of one action; it needs `max_msgs_per_subject: -1`");
    }
    None
}

/// Why a stream of verdicts that somebody else made could lose one, or hide one from some reader.
fn fault_of_verdicts(config: &Config) -> Option<&'static str> {
    if config.retention != RetentionPolicy::Limits {
        return Some("deletes verdicts that one reader is done with; it needs `retention: limits`");
    }
    if config.storage != StorageType::File {
        return Some("loses its verdicts at a restart; it needs `storage: file`");
    }
    if config.no_ack {
        return Some("does not say that it has stored a verdict; it needs `no_ack: false`");
    }
    // A mail whose verdict it refuses would be sent again by each machine.
    if config.discard != DiscardPolicy::Old || config.max_message_size > 0 {
        return Some("can refuse verdicts; it needs `discard: old` and `max_msg_size: -1`");
    }
    None
}

/// A consumer of this name, which is made if there is none. What is not done with comes again: a
/// mail is given up by its expiry, and a verdict by the stream's limits.
pub(super) async fn durable(
    stream: &Stream,
    name: &str,
    own: pull::Config,
) -> Result<PullConsumer, Fault> {
    let filter = own.filter_subject.clone();
    let config = pull::Config {
        durable_name: Some(name.to_owned()),
        ack_policy: AckPolicy::Explicit,
        max_deliver: -1,
        max_ack_pending: -1,
        ..own
    };
    let consumer =
        answered(stream.get_or_create_consumer(name, config)).await?.map_err(|error| {
            Fault::Away(format!("the consumer {name} can be neither found nor made: {error}"))
        })?;
    match fault_of_consumer(&consumer.cached_info().config, &filter) {
        Some(fault) => Err(Fault::Away(format!("the consumer {name} {fault}"))),
        None => Ok(consumer),
    }
}

/// Why a consumer that somebody else made could hide a message, or show one without its text.
fn fault_of_consumer(config: &consumer::Config, filter: &str) -> Option<&'static str> {
    // What it has given out so often would lie there for ever.
    if config.max_deliver > 0 {
        return Some("gives up what comes again; it needs `max_deliver: -1`");
    }
    // Each mail would be taken for none.
    if config.headers_only {
        return Some("leaves out the texts of messages; it needs `headers_only: false`");
    }
    if config.filter_subject != filter {
        return Some("gives out other messages than it is for: delete it, and it is made anew");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_could_lose_a_mail_is_refused() {
        let good = Config {
            retention: RetentionPolicy::WorkQueue,
            discard: DiscardPolicy::New,
            storage: StorageType::File,
            ..Config::default()
        };
        assert_eq!(fault_of(&good), None);
        for bad in [
            Config { retention: RetentionPolicy::Interest, ..good.clone() },
            Config { retention: RetentionPolicy::Limits, ..good.clone() },
            Config { discard: DiscardPolicy::Old, ..good.clone() },
            Config { max_age: Duration::from_secs(60), ..good.clone() },
            Config { storage: StorageType::Memory, ..good.clone() },
            Config { no_ack: true, ..good.clone() },
            Config { max_bytes: 1 << 30, ..good.clone() },
            Config { max_message_size: 2_048, ..good.clone() },
            Config { deny_delete: true, ..good.clone() },
            Config { max_messages_per_subject: 1, ..good.clone() },
        ] {
            assert!(fault_of(&bad).is_some());
        }
    }

    #[test]
    fn a_consumer_that_hides_a_message_is_refused() {
        const FILTER: &str = "mailroom.mail.first.>";
        let good = consumer::Config { filter_subject: FILTER.to_owned(), ..Default::default() };
        assert_eq!(fault_of_consumer(&good, FILTER), None);
        for bad in [
            consumer::Config { max_deliver: 5, ..good.clone() },
            consumer::Config { headers_only: true, ..good.clone() },
            consumer::Config { filter_subject: String::new(), ..good.clone() },
        ] {
            assert!(fault_of_consumer(&bad, FILTER).is_some());
        }
    }

    #[test]
    fn a_stream_of_verdicts_that_could_lose_one_is_refused() {
        let good = Config { storage: StorageType::File, ..Config::default() };
        assert_eq!(fault_of_verdicts(&good), None);
        for bad in [
            Config { retention: RetentionPolicy::WorkQueue, ..good.clone() },
            Config { retention: RetentionPolicy::Interest, ..good.clone() },
            Config { storage: StorageType::Memory, ..good.clone() },
            Config { no_ack: true, ..good.clone() },
            Config { discard: DiscardPolicy::New, ..good.clone() },
            Config { max_message_size: 2_048, ..good.clone() },
        ] {
            assert!(fault_of_verdicts(&bad).is_some());
        }
    }
}
