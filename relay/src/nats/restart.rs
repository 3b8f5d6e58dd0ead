//! What a killed server leaves behind: `nats-server` writes what its consumers have given out, and
//! what was deleted, up to a tenth of a second late. After a kill it
//!
//! - has mails again that were done with, links and all, and may never give them out;
//! - can have forgotten the numbers of mails that were done with. It gives them to new mails, which
//!   its consumers believe to have given out, and never do.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{Config, DeliverPolicy, Info};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, RawMessage, State, Stream};
use futures_util::TryStreamExt as _;

use super::streams::Streams;
use super::{LONGEST_REST, Nats, VERSION, answered, version};
use crate::broker::{Broker as _, Fault};
use crate::decision::CLOCKS_DIFFER;
use crate::message::{Class, Head, now};

/// How many mails that are left behind are seen to at a time.
const MAX_SWEPT: usize = 1_000;

/// How old a mail is that no sender can have any more since it was given out first: above the time
/// that one takes for a mail at most.
const MAX_WORK: Duration = LONGEST_REST;

/// How long ago a verdict came at most that has the number of one which a killed server has
/// forgotten: the first program that comes back looks for it.
const RENUMBERED: Duration = Duration::from_secs(600);

/// The mails that a consumer may never give out.
struct Suspects {
    sequences: Vec<u64>,
    /// Up to this number nobody has any.
    idle_through: u64,
}

impl Nats {
    /// Makes consumers anew that believe to have given out messages which there are none of. Once
    /// for each connection, before the first message is published on it.
    pub(super) async fn look_after_restart(&self) -> Result<(), Fault> {
        let connections = self.inner.connections.load(Ordering::Relaxed);
        let came_at = Instant::now();
        let mut seen = self.inner.seen.lock().await;
        if seen.connection == connections {
            return Ok(());
        }
        if let Some((since, fault)) = &seen.failed
            && *since >= came_at
        {
            return Err(Fault::Away(fault.clone()));
        }
        let looked = self.look_at_consumers().await;
        seen.failed = looked.as_ref().err().map(|fault| (Instant::now(), fault.to_string()));
        if looked.is_ok() {
            seen.connection = connections;
        }
        looked
    }

    async fn look_at_consumers(&self) -> Result<(), Fault> {
        self.forget().await;
        let Streams { mails, verdicts } = self.streams().await?;
        for name in Class::ALL.map(|class| self.consumer_name(class)) {
            if let Some(info) = ahead(&mails, &name).await? {
                // What is done with is deleted, so that nothing comes twice.
                renew(&mails, &name, info.config).await?;
            }
        }
        let names = answered(verdicts.consumer_names().try_collect::<Vec<_>>()).await?;
        for name in names.map_err(|error| not_swept(&error))? {
            if !name.starts_with(&self.collectors_name()) {
                continue;
            }
            if let Some(info) = ahead(&verdicts, &name).await? {
                let deliver_policy = first_unread(&verdicts, &info).await?;
                renew(&verdicts, &name, Config { deliver_policy, ..info.config }).await?;
            }
        }
        Ok(())
    }

    /// What the consumers have given out, or will not, and which is not done with. A server that
    /// was killed can count mails as given out for ever, so its counts alone prove nothing.
    async fn suspects(&self) -> Result<Suspects, Fault> {
        let mails = self.streams().await?.mails;
        // Before the consumers are asked: what comes meanwhile is above it.
        let state = state(&mails).await?;
        let (mut idle_through, mut given_out) = (state.last_sequence, 0);
        for class in Class::ALL {
            self.consumer(class).await?;
            let info = answered(mails.consumer_info(&self.consumer_name(class))).await?;
            let info = info.map_err(|error| not_swept(&error))?;
            if info.num_pending > 0 || info.num_ack_pending > 0 {
                idle_through = idle_through.min(info.ack_floor.stream_sequence);
            }
            given_out = given_out.max(info.delivered.stream_sequence);
        }
        let through = idle_through.max(given_out.min(state.last_sequence));
        if state.messages == 0 || state.first_sequence > through {
            return Ok(Suspects { sequences: Vec::new(), idle_through });
        }
        // Its search by subject does not find them: their numbers are those that are not deleted.
        let details = mails.info_builder().with_deleted(true).fetch();
        let state = answered(details).await?.map_err(|error| not_swept(&error))?.info.state;
        let deleted: HashSet<u64> = state.deleted.unwrap_or_default().into_iter().collect();
        // After those of the last time, so that each has its turn.
        let after = self.inner.swept_through.load(Ordering::Relaxed);
        let sequences: Vec<_> = (state.first_sequence.max(after + 1)..=through)
            .filter(|sequence| !deleted.contains(sequence))
            .take(MAX_SWEPT)
            .collect();
        let last = sequences.last().copied().filter(|_| sequences.len() == MAX_SWEPT);
        self.inner.swept_through.store(last.unwrap_or(0), Ordering::Relaxed);
        Ok(Suspects { sequences, idle_through })
    }

    /// Deletes mails that have their verdict: it is recorded before a mail is done with. Mails
    /// without one that nobody can have are published anew. Returns how many there were of both.
    pub(super) async fn sweep_mails(&self) -> Result<usize, Fault> {
        self.look_after_restart().await?;
        let mails = self.streams().await?.mails;
        let Suspects { sequences, idle_through } = self.suspects().await?;
        let mut count = 0;
        for sequence in sequences {
            let message = match answered(mails.get_raw_message(sequence)).await? {
                Ok(message) => message,
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => continue,
                Err(error) => {
                    if self.is_for_no_reader(sequence).await? {
                        self.record_foreign(sequence).await?;
                        self.delete_mail(sequence).await?;
                        count += 1;
                        continue;
                    }
                    return Err(not_swept(&error));
                }
            };
            if version(Some(&message.headers)).is_some_and(|version| version != VERSION) {
                continue;
            }
            let published_at = message.time.unix_timestamp();
            let age = Duration::from_secs(u64::try_from(now() - published_at).unwrap_or(0));
            let is_idle = sequence <= idle_through;
            let text = String::from_utf8_lossy(&message.payload).into_owned();
            let head = Head::read(&text);
            let is_odd = !is_idle
                && age >= if head.is_some() { MAX_WORK } else { self.patience() }
                && self.is_for_no_reader(sequence).await?;
            // Its sender is about to end it.
            if !is_idle && !is_odd && (age < self.patience() || head.is_none()) {
                continue;
            }
            if head.is_none() && is_odd {
                self.record_foreign(sequence).await?;
            }
            if let Some(head) = head {
                let last = match self.verdict_on(&head.key).await {
                    Ok(last) => last,
                    // Its sender knows what to do; the others are looked at.
                    Err(Fault::Message(_) | Fault::SetAside(_)) => continue,
                    Err(fault) => return Err(fault),
                };
                if !last.is_some_and(|last| last.settles(sequence, published_at)) {
                    let connected_at = self.inner.connected_at.load(Ordering::Relaxed);
                    let rest = if is_idle || is_odd {
                        self.patience()
                    } else if is_left_behind(published_at, connected_at, now()) {
                        MAX_WORK
                    } else {
                        continue;
                    };
                    let id = format!("{}.{sequence}", head.key);
                    // A subject that is none of them would be given out to nobody.
                    self.store(self.subject_of(&head), &id, text, Some(rest.min(MAX_WORK))).await?;
                }
            }
            self.delete_mail(sequence).await?;
            count += 1;
        }
        Ok(count)
    }

    /// Whether no sender can be given a message, because of its headers: the client takes it for a
    /// word of the broker, or cannot read it and loses its connection. Nobody would end it, and the
    /// broker would give it out for ever. Only a stranger writes one.
    async fn is_for_no_reader(&self, sequence: u64) -> Result<bool, Fault> {
        let subject = format!("STREAM.MSG.GET.{}", self.inner.queue);
        let request = serde_json::json!({"seq": sequence});
        let found = self.inner.context.request::<_, _, serde_json::Value>(subject, &request);
        let found = answered(found).await?.map_err(|error| not_swept(&error))?;
        let Ok(raw) = serde_json::from_value::<RawMessage>(found["message"].clone()) else {
            return Ok(false);
        };
        let has_status = raw.headers.as_deref().is_some_and(has_status);
        // Not by an error of the request: that of a mail would look the same.
        Ok(has_status || StreamMessage::try_from(raw).is_err())
    }
}

/// Whether headers, in base64, have more in their first line than `NATS/1.0`, as the words of the
/// broker have.
fn has_status(headers: &str) -> bool {
    // With a carriage return after it, and with a space before that.
    !["TkFUUy8xLjAN", "TkFUUy8xLjAgDQ"].iter().any(|usual| headers.starts_with(usual))
}

/// Whether a mail that a sender may have is one that a killed broker has forgotten to have given
/// out: it was there before the connection was made, which a kill ends, and whoever had it then has
/// it no more. A mail that waits its turn for longer than that is as old, and is taken for one,
/// too: so nobody else may send it until whoever has it now is done with it.
fn is_left_behind(published_at: i64, connected_at: i64, now: i64) -> bool {
    let connected_for = Duration::from_secs(u64::try_from(now - connected_at).unwrap_or(0));
    published_at < connected_at + CLOCKS_DIFFER && connected_for >= MAX_WORK
}

/// What is known of a consumer that believes to have given out messages which there are none of.
async fn ahead(stream: &Stream, name: &str) -> Result<Option<Info>, Fault> {
    let info = match answered(stream.consumer_info(name)).await? {
        Ok(info) => info,
        Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(not_swept(&error)),
    };
    // After the consumer's, so that a message that comes meanwhile makes no difference.
    let last = state(stream).await?.last_sequence;
    Ok(Some(info).filter(|info| info.delivered.stream_sequence > last))
}

/// Makes a consumer anew. Whoever is killed between leaves none, and the next reader makes one.
async fn renew(stream: &Stream, name: &str, config: Config) -> Result<(), Fault> {
    // Another program may do the same: then it is gone, or there again.
    answered(stream.delete_consumer(name)).await?.ok();
    let made = answered(stream.create_consumer::<Config>(config)).await?;
    made.map(drop).map_err(|error| not_swept(&error))
}

/// From where verdicts have to come again: from the first one that was not done with, and from what
/// came shortly before the last one, since a number of the former ones may be a new verdict's.
async fn first_unread(stream: &Stream, info: &Info) -> Result<DeliverPolicy, Fault> {
    let state = state(stream).await?;
    if state.messages == 0 {
        return Ok(DeliverPolicy::All);
    }
    let mut start_time = state.last_timestamp - RENUMBERED;
    let unread = (info.ack_floor.stream_sequence + 1).max(state.first_sequence);
    if unread <= state.last_sequence {
        match answered(stream.get_raw_message(unread)).await? {
            Ok(message) => start_time = start_time.min(message.time),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                return Ok(DeliverPolicy::All);
            }
            Err(error) => return Err(not_swept(&error)),
        }
    }
    Ok(DeliverPolicy::ByStartTime { start_time })
}

async fn state(stream: &Stream) -> Result<State, Fault> {
    Ok(answered(stream.get_info()).await?.map_err(|error| not_swept(&error))?.state)
}

fn not_swept(error: &dyn std::fmt::Display) -> Fault {
    Fault::Away(format!("the mails that are left behind are not found: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_first_line_with_a_status_is_one_of_the_broker() {
        for (headers, expected) in [
            // "NATS/1.0\r\nMailroom-Version: 1\r\n\r\n"
            ("TkFUUy8xLjANCk1haWxyb29tLVZlcnNpb246IDENCg0K", false),
            // "NATS/1.0 \r\n\r\n"
            ("TkFUUy8xLjAgDQoNCg==", false),
            // "NATS/1.0 404\r\n\r\n"
            ("TkFUUy8xLjAgNDA0DQoNCg==", true),
            // "NATS/1.0 xyz\r\n\r\n"
            ("TkFUUy8xLjAgeHl6DQoNCg==", true),
        ] {
            assert_eq!(has_status(headers), expected, "{headers}");
        }
    }

    #[test]
    fn what_waits_its_turn_is_left_behind_by_nobody_and_what_a_killed_broker_had_is_after_a_while()
    {
        let connected_at = 1_800_000_000;
        for (published_at, seconds, expected) in [
            (connected_at - 5_000, 719, false),
            (connected_at - 5_000, 720, true),
            (connected_at + 59, 720, true),
            (connected_at + 60, 720, false),
            // A backlog of an hour, all of which came on this connection.
            (connected_at + 100, 3_700, false),
            // A clock that was set back.
            (connected_at - 5_000, -10, false),
        ] {
            let found = is_left_behind(published_at, connected_at, connected_at + seconds);
            assert_eq!(found, expected, "{published_at}, {seconds} s");
        }
    }
}
