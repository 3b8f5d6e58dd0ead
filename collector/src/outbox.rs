//! Lines on their way to the reader, and the batches that the reader has and the queue was not told of.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::mem;
use std::pin::pin;
use std::time::{Duration, Instant};

use crate::alarm::reached;
use crate::line::Line;
use crate::prefetch::Prefetch;
use crate::queue::{BatchId, Exception, Settlement};
use crate::shutdown::{Stop, stopped};
use crate::signer::Unfit;
use crate::sink::{Parcel, Readiness, Sink, SinkError};

/// The shortest time between two settlements, each of which is a commit.
pub const SETTLE_PAUSE: Duration = Duration::from_millis(20);

/// A line that could not be begun for this long is taken back, so that its tokens are judged again.
pub const STALE: Duration = Duration::from_secs(1);

/// A sink with what is known of its reader.
#[derive(Debug)]
pub struct Outbox<S> {
    sink: S,
    prefetch: Prefetch,
    /// Of batches on their way, the tokens that their lines do not carry.
    left_out: HashMap<BatchId, Vec<(i64, Exception)>>,
    unsettled: Vec<Settlement>,
    settled_at: Option<Instant>,
    /// Batches that the reader will never read, of which the queue was not told.
    returned: Vec<BatchId>,
    stop_noticed: Option<Instant>,
}

/// What there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How many batches.
    pub batches: usize,
    /// The most tokens of each.
    pub limit: usize,
    /// Whether they are to show that the reader works, which does not wait until a batch is full.
    pub is_trial: bool,
}

/// What came first.
#[derive(Debug)]
pub enum Attended<T> {
    /// The work is done.
    Done(T),
    /// The collector is to stop.
    Stopped,
}

impl<S: Sink> Outbox<S> {
    /// Nothing sent yet.
    pub fn new(sink: S, prefetch: Prefetch) -> Self {
        Self {
            sink,
            prefetch,
            left_out: HashMap::new(),
            unsettled: Vec::new(),
            settled_at: None,
            returned: Vec::new(),
            stop_noticed: None,
        }
    }

    /// What there is room for now, in batches of at most `limit` tokens.
    pub fn room(&self, limit: usize) -> Option<Room> {
        let in_flight = self.sink.in_flight();
        let room = match self.sink.readiness() {
            Readiness::Away => return None,
            Readiness::OnTrial => Room { batches: usize::from(in_flight == 0), limit: 1, is_trial: true },
            Readiness::HalfOpen => Room { batches: usize::from(in_flight == 0), limit, is_trial: true },
            Readiness::Ready => Room { batches: self.prefetch.wanted(in_flight), limit, is_trial: false },
        };
        (room.batches > 0).then_some(room)
    }

    /// Whether the reader takes anything at all.
    pub fn is_away(&self) -> bool {
        self.sink.readiness() == Readiness::Away
    }

    /// How many lines are on their way.
    pub fn in_flight(&self) -> usize {
        self.sink.in_flight()
    }

    /// Sends the line of a batch. One without tokens has nothing to wait for.
    pub fn send(&mut self, batch: BatchId, name: u128, line: Line) {
        let dead = |(id, unfit): (i64, Unfit)| (id, Exception::Dead { reason: unfit.to_string() });
        let left_out: Vec<_> = line.passed.into_iter().map(dead).collect();
        if line.ids.is_empty() {
            self.unsettled.push(Settlement { batch, exceptions: left_out });
            return;
        }
        if !left_out.is_empty() {
            self.left_out.insert(batch, left_out);
        }
        self.sink.send(Parcel { batch, name, ids: line.ids, line: line.bytes });
    }

    /// Waits until something happens to the lines; answers whether the reader took any. Can be dropped at any point.
    ///
    /// # Errors
    /// Nothing more will be taken.
    pub async fn changed(&mut self) -> Result<bool, SinkError> {
        let changed = self.sink.changed().await;
        let is_taken = self.note_taken();
        self.note_returned();
        changed.map(|()| is_taken)
    }

    /// Waits for `work` on the queue while the sink is served, unless the collector is to stop first.
    ///
    /// # Errors
    /// Nothing more will be taken; the work is broken off.
    pub async fn attend<T>(
        &mut self,
        stop: Option<&mut Stop>,
        work: impl Future<Output = T>,
    ) -> Result<Attended<T>, SinkError> {
        self.attend_to_the_end(stop, Duration::ZERO, work).await
    }

    /// [`attend`](Self::attend) to work that still gets some time if the collector is to stop.
    ///
    /// # Errors
    /// Nothing more will be taken; the work is broken off.
    pub async fn attend_to_the_end<T>(
        &mut self,
        stop: Option<&mut Stop>,
        time: Duration,
        work: impl Future<Output = T>,
    ) -> Result<Attended<T>, SinkError> {
        let (mut work, mut stop) = (pin!(work), pin!(stopped_if_asked(stop)));
        let mut end = None;
        loop {
            tokio::select! {
                biased;
                // Before the stop: work that was never begun knows nothing of the settlements that it was given.
                done = &mut work => return Ok(Attended::Done(done)),
                () = &mut stop, if end.is_none() => {
                    let now = *self.stop_noticed.get_or_insert_with(Instant::now);
                    end = Some(now + time);
                }
                () = reached(end) => return Ok(Attended::Stopped),
                changed = self.changed() => {
                    changed?;
                }
            }
        }
    }

    /// When work was first found to be in the way of a stop.
    pub fn stop_noticed(&self) -> Option<Instant> {
        self.stop_noticed
    }

    /// When to tell the queue what the reader has, if there is something to tell.
    pub fn settle_at(&self, now: Instant) -> Option<Instant> {
        let next = self.settled_at.map_or(now, |settled| settled + SETTLE_PAUSE);
        (!self.unsettled.is_empty()).then_some(next)
    }

    /// What became of batches since the last time, in the order of taking, for the queue to be told at `now`.
    pub fn take_settlements(&mut self, now: Instant) -> Vec<Settlement> {
        self.settled_at = Some(now);
        mem::take(&mut self.unsettled)
    }

    /// When lines wait too long to be begun, if any wait.
    pub fn stale_at(&self) -> Option<Instant> {
        self.sink.waiting_since().map(|since| since + STALE)
    }

    /// Takes back what was not begun, and tells what came back by itself.
    pub fn recall(&mut self) -> Vec<BatchId> {
        self.note_returned();
        self.returned.extend(self.sink.recall());
        self.take_returned()
    }

    /// Batches that came back because the reader will never read them.
    pub fn take_returned(&mut self) -> Vec<BatchId> {
        let batches = mem::take(&mut self.returned);
        for batch in &batches {
            self.left_out.remove(batch);
        }
        batches
    }

    /// Somebody else sends these batches now.
    pub fn forget(&mut self, batches: &[BatchId]) {
        self.sink.forget(batches);
        for batch in batches {
            self.left_out.remove(batch);
        }
    }

    /// How long the queue gets at the end to record what the reader took last.
    pub fn time_to_record(&self) -> Duration {
        self.sink.time_to_record()
    }

    /// Nothing more is sent; returns until when the reader may take what is on its way.
    pub fn close(&mut self, now: Instant) -> Instant {
        let by = now + self.sink.grace();
        self.sink.close(by);
        by
    }

    /// Gives up what is still on its way; answers how many lines that is.
    pub fn abandon(&mut self) -> usize {
        let left = self.sink.in_flight();
        self.sink.abandon();
        self.note_taken();
        self.note_returned();
        left
    }

    /// Whether nothing is left to wait for after [`close`](Self::close).
    pub fn is_closed(&self) -> bool {
        self.sink.is_closed()
    }

    /// [`Outbox::recall`] because the reader is slow: less is sent from now on, or until it goes on.
    pub fn recall_from_slow_reader(&mut self) -> Vec<BatchId> {
        let batches = self.recall();
        self.prefetch.recalled(self.sink.in_flight());
        batches
    }

    fn note_returned(&mut self) {
        self.returned.extend(self.sink.returned());
    }

    /// Notes what the reader took since the last time; answers whether it took anything.
    pub fn note_taken(&mut self) -> bool {
        let before = self.unsettled.len();
        for taken in self.sink.taken() {
            self.prefetch.taken(taken.after);
            let mut exceptions = taken.exceptions;
            exceptions.extend(self.left_out.remove(&taken.batch).unwrap_or_default());
            self.unsettled.push(Settlement { batch: taken.batch, exceptions });
        }
        self.unsettled.len() > before
    }
}

async fn stopped_if_asked(stop: Option<&mut Stop>) {
    match stop {
        Some(stop) => stopped(stop).await,
        None => pending().await,
    }
}
