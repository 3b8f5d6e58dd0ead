//! The threads that send: one for each connection,
//! and others in place of those that wait long for an answer.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::attempt::Attempt;
use crate::event::Event;
use crate::lane::Job;
use crate::provider::Verdict;
use crate::shared::Shared;
use crate::standard_error::report;

/// How often a thread without work looks at its connection.
const IDLE_PERIOD: Duration = Duration::from_secs(10);

/// The threads that send. They are not waited for where one may wait for an answer: what it would
/// record is in doubt already.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    events: Sender<Event>,
    threads: Vec<JoinHandle<()>>,
    /// Whether it was said of each provider that mails wait long for its answers.
    is_alarmed: Vec<bool>,
}

impl Pool {
    pub(crate) fn start(shared: &Arc<Shared>, events: Sender<Event>) -> Self {
        let is_alarmed = vec![false; shared.lanes.len()];
        let mut pool = Self { shared: Arc::clone(shared), events, threads: Vec::new(), is_alarmed };
        for index in 0..shared.providers.len() {
            for _ in 0..shared.providers[index].connections() {
                pool.add(index);
            }
        }
        pool
    }

    /// Puts threads in the places of those that wait for an answer for long.
    pub(crate) fn replace_waiting(&mut self, now: Instant) {
        for index in 0..self.shared.lanes.len() {
            let (waiting, new) = self.shared.lanes[index].set_aside(now);
            let is_first = waiting > 0 && !self.is_alarmed[index];
            self.is_alarmed[index] = waiting > 0;
            if is_first {
                let name = self.shared.providers[index].name();
                report(&format!(
                    "{name} took the content of {waiting} mails and has not answered for half a \
                     minute; further connections are opened meanwhile, \
                     at most four times as many as configured"
                ));
            }
            (0..new).for_each(|_| self.add(index));
        }
        self.threads.retain(|thread| !thread.is_finished());
    }

    fn add(&mut self, index: usize) {
        let shared = Arc::clone(&self.shared);
        let events = self.events.clone();
        self.threads.push(thread::spawn(move || deliver(&shared, index, &events)));
    }

    /// Waits for the threads to end. No mail may be on its way then.
    pub(crate) fn join(self) {
        for thread in self.threads {
            thread.join().ok();
        }
    }
}

fn deliver(shared: &Shared, index: usize, events: &Sender<Event>) {
    let provider = &*shared.providers[index];
    let lane = &shared.lanes[index];
    let mut connection = provider.connection();
    let _counted = shared.metrics.connection(provider.name());
    loop {
        let (event, has_place) = match lane.next(IDLE_PERIOD) {
            Job::Send(mail, ticket) => {
                let attempt = Attempt::begin(&shared.journal, provider, lane, &mail, ticket);
                let payload = mail.prepared.payload(provider.name());
                let payload = payload.expect("the mail was prepared for this provider");
                let began = Instant::now();
                let answer = connection.deliver(&mail.prepared, payload, &attempt);
                let (verdict, of_provider) = lane.weigh(ticket, &mail.prepared.to, answer);
                attempt.end(&verdict);
                shared.metrics.attempted(provider.name(), &verdict, began.elapsed());
                let finished = lane.finish(ticket, &of_provider);
                let key = Some(mail.prepared.key);
                let withdrawn = finished.withdrawn;
                (Event::Delivered { lane: index, key, verdict, withdrawn }, finished.has_place)
            }
            Job::Probe(ticket) => {
                let outcome = provider.probe();
                let withdrawn = lane.finish_probe(ticket, outcome.is_ok());
                let Err(reason) = outcome else { continue };
                let verdict = Verdict::Unavailable { after: None, reason };
                (Event::Delivered { lane: index, key: None, verdict, withdrawn }, true)
            }
            Job::Nothing => {
                connection.idle();
                continue;
            }
            Job::End => return,
        };
        if events.send(event).is_err() || !has_place {
            return;
        }
    }
}
