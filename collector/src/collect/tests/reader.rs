//! A sink without a pipe: its reader reads and takes lines when a test says so.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::line::Line;
use crate::queue::{BatchId, Nack};
use crate::sink::{Ack, Readiness, Sink, SinkError};
use crate::timer;

/// How long the lines in flight may take at the end.
pub(super) const GRACE: Duration = Duration::from_secs(6);

/// How long the database gets to record the last acks.
pub(super) const TIME_TO_RECORD: Duration = Duration::from_secs(3);

pub(super) struct Reader {
    state: RefCell<State>,
    changed: Notify,
}

struct State {
    /// Sent and not ended, the oldest first.
    lines: VecDeque<SentLine>,
    acks: Vec<Ack>,
    unsent: Vec<BatchId>,
    readiness: Readiness,
    /// How far each line gets at once.
    reach: Reach,
    read: BTreeSet<BatchId>,
    /// The tokens of the lines that it has taken, by any collector, in their order.
    taken: Vec<i64>,
}

/// How far a line gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// It can be cancelled.
    Unsent,
    /// The reader will never read it if the collector gives it up.
    Pipe,
    Reader,
}

struct SentLine {
    batch: BatchId,
    ids: Vec<i64>,
    sent_at: Instant,
    reach: Reach,
}

impl Reader {
    /// One that is ready, and takes no line by itself.
    pub(super) fn new() -> Rc<Self> {
        let state = State {
            lines: VecDeque::new(),
            acks: Vec::new(),
            unsent: Vec::new(),
            readiness: Readiness::Ready,
            reach: Reach::Reader,
            read: BTreeSet::new(),
            taken: Vec::new(),
        };
        Rc::new(Self { state: RefCell::new(state), changed: Notify::new() })
    }

    pub(super) fn sink(self: &Rc<Self>) -> FakeSink {
        FakeSink(Rc::clone(self))
    }

    pub(super) fn set_readiness(&self, readiness: Readiness) {
        self.state.borrow_mut().readiness = readiness;
        self.changed.notify_one();
    }

    /// How far the lines get that are sent from now on.
    pub(super) fn set_reach(&self, reach: Reach) {
        self.state.borrow_mut().reach = reach;
    }

    /// Takes up to `count` lines of those that it has read; returns how many.
    pub(super) fn take(&self, count: usize) -> usize {
        let mut state = self.state.borrow_mut();
        let count =
            state.lines.iter().take_while(|line| line.reach == Reach::Reader).count().min(count);
        let lines: Vec<_> = state.lines.drain(..count).collect();
        for line in lines {
            state.taken.extend(&line.ids);
            state.acks.push(line.ack(true));
        }
        self.changed.notify_one();
        count
    }

    pub(super) fn in_flight(&self) -> usize {
        self.state.borrow().lines.len()
    }

    pub(super) fn has_read(&self, batch: BatchId) -> bool {
        self.state.borrow().read.contains(&batch)
    }

    pub(super) fn taken(&self) -> Vec<i64> {
        self.state.borrow().taken.clone()
    }
}

impl State {
    fn cancel(&mut self, is_cancelled: impl Fn(&SentLine) -> bool) {
        let (cancelled, rest): (VecDeque<_>, VecDeque<_>) =
            mem::take(&mut self.lines).into_iter().partition(is_cancelled);
        self.lines = rest;
        self.unsent.extend(cancelled.into_iter().map(|line| line.batch));
    }
}

impl SentLine {
    fn ack(self, is_taken: bool) -> Ack {
        let ids = if is_taken { Vec::new() } else { self.ids };
        let nacks = ids.into_iter().map(|id| (id, Nack::Unanswered)).collect();
        let after = timer::now() - self.sent_at;
        Ack { batch: self.batch, nacks, receipts: Vec::new(), traces: Vec::new(), after }
    }
}

pub(super) struct FakeSink(Rc<Reader>);

impl Sink for FakeSink {
    fn send(&mut self, line: Line) {
        let mut state = self.0.state.borrow_mut();
        let reach = state.reach;
        if reach == Reach::Reader {
            state.read.insert(line.batch);
        }
        let sent_at = timer::now();
        state.lines.push_back(SentLine { batch: line.batch, ids: line.ids, sent_at, reach });
    }

    async fn changed(&mut self) -> Result<(), SinkError> {
        let has_ended = {
            let state = self.0.state.borrow();
            !state.acks.is_empty() || !state.unsent.is_empty()
        };
        if !has_ended {
            self.0.changed.notified().await;
        }
        Ok(())
    }

    fn ended(&mut self) -> (Vec<Ack>, Vec<BatchId>) {
        let mut state = self.0.state.borrow_mut();
        (mem::take(&mut state.acks), mem::take(&mut state.unsent))
    }

    fn readiness(&self) -> Readiness {
        self.0.state.borrow().readiness
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn waiting_since(&self) -> Option<Instant> {
        let state = self.0.state.borrow();
        state.lines.iter().find(|line| line.reach == Reach::Unsent).map(|line| line.sent_at)
    }

    fn cancel_unsent(&mut self) {
        self.0.state.borrow_mut().cancel(|line| line.reach == Reach::Unsent);
    }

    fn drop_lost(&mut self, batches: &[BatchId]) {
        let mut state = self.0.state.borrow_mut();
        state.lines.retain(|line| !batches.contains(&line.batch));
        state.acks.retain(|ack| !batches.contains(&ack.batch));
    }

    fn grace(&self) -> Duration {
        GRACE
    }

    fn time_to_record(&self) -> Duration {
        TIME_TO_RECORD
    }

    fn abandon(&mut self) {
        let mut state = self.0.state.borrow_mut();
        state.cancel(|line| line.reach != Reach::Reader);
        let lines = mem::take(&mut state.lines);
        state.acks.extend(lines.into_iter().map(|line| line.ack(false)));
    }
}

/// The process is gone: nobody reads the rest of its lines, or hears of those that were read.
impl Drop for FakeSink {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        state.lines.clear();
        state.acks.clear();
        state.unsent.clear();
    }
}
