//! Spans: what was done with each batch, for the traces that its tokens belong to.
//!
//! A batch has spans if a trace of one of its tokens is sampled. Nothing here waits, and nothing
//! depends on it.

use std::collections::HashMap;
use std::time::SystemTime;

use mailroom_traces::{Context, Kind, Recorder, Span};

use crate::line::Line;
use crate::queue::{Batch, BatchId};
use crate::sink::Ack;

/// How many tokens a batch has.
const TOKENS: &str = "messaging.batch.message_count";
/// How many of them were not sent.
const UNSENT: &str = "mailroom.unsent";

pub(super) struct Spans {
    recorder: Recorder,
    /// The batches that were claimed and are not answered.
    in_flight: HashMap<BatchId, Traced>,
    /// Those that are answered and not recorded by the database.
    answered: Vec<Traced>,
}

/// A batch that has spans.
#[derive(Clone, Copy)]
struct Traced {
    batch: BatchId,
    context: Context,
    tokens: usize,
    /// When its line was given to the sink.
    sent_at: SystemTime,
}

/// A call that settles.
pub(super) struct Settling {
    batches: Vec<Traced>,
    began: SystemTime,
}

impl Spans {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, in_flight: HashMap::new(), answered: Vec::new() }
    }

    /// A call that began then has claimed these batches.
    pub(super) fn claimed(&mut self, batches: &[Batch], began: SystemTime) {
        if !self.recorder.is_on() {
            return;
        }
        for batch in batches {
            let linked = batch.traces();
            let span = Span::until_now("claim", Kind::Consumer, began)
                .of_batch(batch.id.to_string())
                .with(TOKENS, batch.tokens.len())
                .linked(&linked);
            if let Some(context) = self.recorder.begin(&linked, span) {
                let tokens = batch.tokens.len();
                let traced = Traced { batch: batch.id, context, tokens, sent_at: began };
                self.in_flight.insert(batch.id, traced);
            }
        }
    }

    /// A line was signed from then on, and goes to the sink.
    pub(super) fn signed(&mut self, line: &Line, began: SystemTime) {
        let Some(traced) = self.in_flight.get_mut(&line.batch) else { return };
        let span = Span::until_now("sign", Kind::Internal, began).with(TOKENS, traced.tokens);
        traced.sent_at = span.ended;
        self.recorder.record(traced.context, span);
        if line.ids.is_empty() {
            // There is nothing to send, and no answer comes.
            self.answered.extend(self.in_flight.remove(&line.batch));
        }
    }

    /// The sink has answered for a batch.
    pub(super) fn answered(&mut self, ack: &Ack) {
        let Some(traced) = self.in_flight.remove(&ack.batch) else { return };
        let span = Span::until_now("send", Kind::Producer, traced.sent_at)
            .of_batch(traced.batch.to_string())
            .with(TOKENS, traced.tokens)
            .with(UNSENT, ack.nacks.len());
        self.recorder.record(traced.context, span);
        self.answered.push(traced);
    }

    /// These batches were given back, or are another collector's now.
    pub(super) fn ended(&mut self, batches: &[BatchId]) {
        if !self.in_flight.is_empty() {
            self.in_flight.retain(|batch, _| !batches.contains(batch));
        }
    }

    /// All that is answered is about to be settled.
    pub(super) fn begin_settling(&mut self) -> Settling {
        Settling { batches: std::mem::take(&mut self.answered), began: SystemTime::now() }
    }

    /// The call has ended, and the database has recorded it or did not say so.
    pub(super) fn settled(&self, Settling { batches, began }: Settling, is_recorded: bool) {
        for traced in batches {
            let mut span = Span::until_now("settle", Kind::Client, began)
                .of_batch(traced.batch.to_string())
                .with(TOKENS, traced.tokens);
            if !is_recorded {
                span.failure = Some("the database has not said that it has recorded it");
            }
            self.recorder.record(traced.context, span);
        }
    }
}
