//! Mails into the inbox: what a sender is for installations.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mailroom_inbox::{Contents, Inbox, Token};
use mailroom_sender::protocol::{self, Item};

use crate::line::Line;
use crate::queue::{BatchId, Nack, Receipt};
use crate::sink::{Ack, Sink, SinkError};

/// Writes mails and shows them.
pub(crate) struct InboxSink {
    inbox: Arc<Inbox>,
    /// The configuration of the sender, which is read again for each mail.
    config: PathBuf,
    /// Where links lead, if not to where the configuration says.
    base: Option<String>,
    acks: Vec<Ack>,
}

impl InboxSink {
    pub(crate) fn new(inbox: Arc<Inbox>, config: PathBuf, base: Option<String>) -> Self {
        Self { inbox, config, base, acks: Vec::new() }
    }

    /// Shows a mail, or why there is none: in both cases it counts as sent, because whoever builds
    /// a template writes it again in the inbox.
    fn show(&self, item: Item) -> Receipt {
        let token = Token {
            action: item.action.clone(),
            to: item.email.clone(),
            code: item.code.clone(),
            expires_at: Some(item.expires_at),
            language: item.language.clone(),
            payload: item.payload.clone(),
        };
        let (config, base) = (self.config.clone(), self.base.clone());
        let id = self.inbox.deliver(token, move || {
            let letter = mailroom_sender::letter(&config, base.as_deref(), &item)?;
            Ok(Contents {
                from: letter.from,
                subject: letter.subject,
                link: letter.link,
                text: letter.text,
                html: letter.html,
                source: letter.source,
            })
        });
        Receipt {
            provider: "dev".to_owned(),
            message_id: Some(id.to_string()),
            answer: "shown in the inbox of mailroom dev".to_owned(),
        }
    }
}

impl Sink for InboxSink {
    fn send(&mut self, line: Line) {
        let began = Instant::now();
        let (items, unreadable) = match protocol::parse_line(&line.bytes) {
            Ok(batch) => (batch.items, batch.unreadable),
            Err(_) => (Vec::new(), Vec::new()),
        };
        let dead = |id: i64, reason: &str| (id, Nack::Dead { reason: reason.to_owned() });
        let mut nacks: Vec<_> =
            unreadable.iter().filter_map(|item| Some(dead(item.id?, &item.reason))).collect();
        let mut receipts = Vec::new();
        for item in items {
            receipts.push((item.id, self.show(item)));
        }
        let is_known = |id: &i64| {
            nacks.iter().any(|(other, _)| other == id)
                || receipts.iter().any(|(other, _)| other == id)
        };
        let lost: Vec<_> = line.ids.iter().copied().filter(|id| !is_known(id)).collect();
        nacks.extend(lost.into_iter().map(|id| dead(id, "its line cannot be read")));
        self.acks.push(Ack {
            batch: line.batch,
            nacks,
            receipts,
            traces: line.traces,
            after: began.elapsed(),
        });
    }

    async fn changed(&mut self) -> Result<(), SinkError> {
        if self.acks.is_empty() { std::future::pending().await } else { Ok(()) }
    }

    fn ended(&mut self) -> (Vec<Ack>, Vec<BatchId>) {
        (mem::take(&mut self.acks), Vec::new())
    }

    fn in_flight(&self) -> usize {
        0
    }

    fn waiting_since(&self) -> Option<Instant> {
        None
    }

    fn cancel_unsent(&mut self) {}

    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    fn abandon(&mut self) {}
}
