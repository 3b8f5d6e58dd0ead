//! The loop of `mailroom collect` in simulated time: its own decisions, a queue and a sender that
//! are a few lines.
//!
//! The sender takes one line at a time. Every statement takes the same time, nothing fails, and no
//! line is cancelled.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use mailroom_pace::{Adaptive, Batcher, Prefetch};

use super::day;

/// A round trip to the database.
const STATEMENT: Duration = Duration::from_millis(3);

/// The default of `MAILROOM_POLL_INTERVAL`.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The settings that are compared.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) limit: usize,
    pub(super) timeout: Duration,
    pub(super) is_adaptive: bool,
}

/// A call of the sender, times being those of the day.
pub(super) struct Call {
    pub(super) answered: Duration,
    /// When its mails were due.
    pub(super) due: Vec<Duration>,
}

impl Call {
    /// How long each of its mails took from being due to being sent.
    pub(super) fn times(&self) -> impl Iterator<Item = Duration> {
        self.due.iter().map(|due| self.answered.saturating_sub(*due))
    }
}

struct Simulation {
    midnight: Instant,
    now: Instant,
    settings: Settings,
    batcher: Batcher,
    prefetch: Prefetch,
    adaptive: Adaptive,
    to_come: Peekable<IntoIter<Duration>>,
    queue: VecDeque<Duration>,
    /// When each was sent; the sender begins the next when it has answered the one before.
    in_flight: VecDeque<(Instant, Call)>,
    answered: Vec<Call>,
    /// As in the collector's loop: whether to claim again at once, when all was read last, and
    /// whether writers notify.
    more: bool,
    rescanned: Instant,
    is_idle: bool,
}

/// All calls of the sender for these mails.
pub(super) fn run(settings: Settings, traffic: Vec<Duration>) -> Vec<Call> {
    let Settings { limit, timeout, is_adaptive } = settings;
    let midnight = Instant::now();
    let mut simulation = Simulation {
        midnight,
        now: midnight,
        settings,
        batcher: Batcher::new(limit, timeout, true),
        prefetch: Prefetch::new(None, limit),
        adaptive: Adaptive::new(is_adaptive, limit, timeout),
        to_come: traffic.into_iter().peekable(),
        queue: VecDeque::new(),
        in_flight: VecDeque::new(),
        answered: Vec::new(),
        more: false,
        rescanned: midnight,
        is_idle: false,
    };
    while simulation.step() {}
    simulation.answered
}

impl Simulation {
    /// Does what comes next; false if nothing does.
    fn step(&mut self) -> bool {
        self.batcher.adapt(&self.adaptive, self.in_flight.len());
        let was_idle = self.is_idle;
        self.is_idle = self.wanted() > 0 && !self.more && self.batcher.is_idle();
        if self.is_idle && !was_idle {
            self.advance(self.now + STATEMENT, false);
            let due = self.queue.len().min(self.settings.limit);
            self.batcher.peeked(due, None, self.now);
            return true;
        }
        let arrival = self.to_come.peek().map(|due| self.midnight + *due);
        let answer = self.in_flight.front().map(|(_, call)| self.midnight + call.answered);
        if arrival.is_none() && answer.is_none() && self.queue.is_empty() {
            return false;
        }
        let poll = self.poll_at();
        let next = [arrival, answer, poll].into_iter().flatten().min().unwrap_or(self.now);
        self.advance(next, self.is_idle);
        if answer.is_some_and(|answer| answer <= self.now)
            && let Some((sent, call)) = self.in_flight.pop_front()
        {
            let after = self.now - sent;
            self.prefetch.acked(after);
            self.adaptive.acked(after);
            self.answered.push(call);
        } else if poll.is_some_and(|poll| poll <= self.now) {
            self.poll();
        }
        true
    }

    /// Goes on to `time`; what becomes due until then is in the queue,
    /// and notifies if writers are to.
    fn advance(&mut self, time: Instant, notifies: bool) {
        self.now = self.now.max(time);
        while let Some(due) = self.to_come.next_if(|due| self.midnight + *due <= self.now) {
            self.queue.push_back(due);
            if notifies {
                self.batcher.woken(1, self.now);
            }
        }
    }

    fn wanted(&self) -> usize {
        self.prefetch.wanted(self.in_flight.len())
    }

    fn poll_at(&self) -> Option<Instant> {
        let rescan = self.rescanned + POLL_INTERVAL;
        let poll = if self.more {
            self.now
        } else {
            self.batcher.next_poll().map_or(rescan, |poll| poll.min(rescan))
        };
        (self.wanted() > 0).then_some(poll)
    }

    fn poll(&mut self) {
        let (wanted, limit) = (self.wanted(), self.settings.limit);
        let is_partial = self.batcher.is_due(self.now);
        if self.now >= self.rescanned + POLL_INTERVAL {
            self.rescanned = self.now;
        }
        let mut batches: Vec<Vec<Duration>> = Vec::new();
        while batches.len() < wanted
            && (self.queue.len() >= limit || is_partial && !self.queue.is_empty())
        {
            batches.push(self.queue.drain(..self.queue.len().min(limit)).collect());
        }
        let waiting = self.queue.len();
        self.is_idle = false;
        self.advance(self.now + STATEMENT, false);
        self.more = batches.len() == wanted;
        self.batcher.polled(waiting, batches.len(), 0, self.now);
        self.adaptive.polled(batches.iter().map(Vec::len).sum(), self.now);
        for due in batches {
            let now = self.now - self.midnight;
            let began = self.in_flight.back().map_or(now, |(_, call)| call.answered.max(now));
            let answered = began + day::call(began, due.len());
            self.in_flight.push_back((self.now, Call { answered, due }));
        }
    }
}
