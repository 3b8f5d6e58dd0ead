//! What is published: a mail, once as far as its key is known, and a verdict on one.

use std::time::Duration;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::LastRawMessageErrorKind;

use super::{AGAIN_HEADER, Nats, VERSION_HEADER, answered};
use crate::broker::{Fault, Stored};
use crate::message::{Kind, Mail, VERSION, Verdict};

/// How often a mail whose key is known, and which is gone, is published under a new id.
const MOST_IDS: usize = 20;

impl Nats {
    /// A key that the broker knows was stored before. The mail is still there, or is sent, or it
    /// was dead and somebody has put it back: then it gets a new id.
    pub(super) async fn publish_once(&self, mail: &Mail) -> Result<Stored, Fault> {
        self.look_after_restart().await?;
        let streams = self.streams().await?;
        let head = &mail.head;
        let subject = self.subject_of(head);
        let mut id = head.key.clone();
        for _ in 0..MOST_IDS {
            let ack = self.store(subject.clone(), &id, mail.item.clone(), None).await?;
            if !ack.is_duplicate {
                return Ok(Stored::Now);
            }
            let found = match answered(streams.mails.get_raw_message(ack.sequence)).await? {
                Ok(message) => Some(message),
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => None,
                Err(error) => return Err(Fault::Away(format!("a mail is not found: {error}"))),
            };
            let last = match self.last_verdict(&head.key).await {
                // It is in the hands of those who know what became of it.
                Err(Fault::Message(_)) => return Ok(Stored::Before),
                known => known?,
            };
            if last.as_ref().is_some_and(|last| last.kind == Kind::Sent) {
                return Ok(Stored::Before);
            }
            if let Some(message) = found {
                let published_at = message.time.unix_timestamp();
                if !last.is_some_and(|last| last.settles(ack.sequence, published_at)) {
                    return Ok(Stored::Before);
                }
                // Its sender was killed before it could say that it is done with the message. The
                // next one would take the mail that was put back for that one.
                self.delete_mail(ack.sequence).await?;
            }
            id = format!("{}.{}", head.key, ack.sequence);
        }
        Err(Fault::Message("the mail was put back too often within ten minutes".to_owned()))
    }

    /// Deletes a message of the mails, as an acknowledgement does, and not safely: `nats-server`
    /// 2.9.10 overwrites what is deleted safely at once, and its index knows of it later. After a
    /// kill between the two it looks for messages that are no more, and has lost others. One that
    /// is gone meanwhile is not missed.
    pub(super) async fn delete_mail(&self, sequence: u64) -> Result<(), Fault> {
        self.delete(&self.inner.queue, sequence).await.map(drop)
    }

    /// Takes out of the way what is in the place of a verdict and is none. That it was there is
    /// recorded before, and nothing of what it holds.
    pub(super) async fn set_aside(&self, sequence: u64) -> Result<(), Fault> {
        let text =
            format!(r#"{{"v":{VERSION},"sequence":{sequence},"reason":"it is no verdict"}}"#);
        let id = format!("foreign.verdict.{sequence}");
        self.store(self.subject("dead.foreign"), &id, text, None).await?;
        if self.delete(&format!("{}-verdicts", self.inner.queue), sequence).await? {
            return Ok(());
        }
        Err(Fault::Message("what is in the place of its verdict is none, and is kept".to_owned()))
    }

    /// Says whether the broker has deleted it.
    async fn delete(&self, stream: &str, sequence: u64) -> Result<bool, Fault> {
        let subject = format!("STREAM.MSG.DELETE.{stream}");
        let request = serde_json::json!({"seq": sequence, "no_erase": true});
        let deleted = self.inner.context.request::<_, _, serde_json::Value>(subject, &request);
        let said = answered(deleted)
            .await?
            .map_err(|error| Fault::Away(format!("a message is not deleted: {error}")))?;
        Ok(said.get("error").is_none())
    }

    pub(super) async fn record_verdict(
        &self,
        verdict: &Verdict,
        sequence: u64,
    ) -> Result<(), Fault> {
        // A reader may have forgotten which numbers it has had.
        self.look_after_restart().await?;
        let verdict = &Verdict { sequence, ..verdict.clone() };
        let text =
            serde_json::to_string(verdict).map_err(|error| Fault::Message(error.to_string()))?;
        // With the key, since a stream that is made anew counts from one.
        let Verdict { key, kind, doubts, .. } = verdict;
        let id = format!("{key}.{sequence}.{kind:?}.{doubts}");
        if verdict.kind == Kind::Dead {
            let subject = self.subject(&format!("dead.{key}"));
            self.store(subject, &format!("dead.{id}"), text.clone(), None).await?;
        }
        self.store(self.subject(&format!("verdict.{key}")), &id, text, None).await?;
        Ok(())
    }

    pub(super) async fn store(
        &self,
        subject: String,
        id: &str,
        payload: String,
        rest: Option<Duration>,
    ) -> Result<Ack, Fault> {
        let mut message = PublishMessage::build()
            .message_id(id)
            .header(VERSION_HEADER, VERSION.to_string().as_str())
            .payload(payload.into());
        if let Some(rest) = rest {
            message = message.header(AGAIN_HEADER, rest.as_secs().to_string().as_str());
        }
        let stored = async {
            let ack = self.inner.context.send_publish(subject, message).await?;
            ack.await
        };
        let ack = answered(stored).await?.map_err(|error| fault(&error))?;
        Ok(Ack { sequence: ack.sequence, is_duplicate: ack.duplicate })
    }
}

pub(super) struct Ack {
    pub(super) sequence: u64,
    pub(super) is_duplicate: bool,
}

fn fault(error: &PublishError) -> Fault {
    let text = format!("the broker does not store the message: {error}");
    match error.kind() {
        // It says so to its log alone.
        PublishErrorKind::TimedOut => Fault::Away(
            "the broker does not confirm a message: if its log has errors, its disk may be full, \
             and it needs a restart"
                .to_owned(),
        ),
        PublishErrorKind::MaxPayloadExceeded => Fault::Message(text),
        _ => Fault::Away(text),
    }
}
