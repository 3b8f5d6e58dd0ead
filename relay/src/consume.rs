//! `mailroom send --from`: mails from the broker to a sender of this process, and what becomes of
//! them back to the broker.
//!
//! The order of every end is: the mail is sent, its verdict is recorded, the message is done with.
//! A kill between two of them delivers the message again: the sender's journal knows its key, and
//! another sender finds the verdict. So what is doubled is at most a mail whose sender was killed
//! before the verdict was recorded, and which then comes to a sender with another journal.

mod ending;
mod own_sender;
mod pulling;

use std::collections::HashMap;
use std::io::{BufReader, PipeReader, PipeWriter};
use std::sync::{Arc, Mutex, mpsc as threads};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Error;
use crate::answers::{Answer, Said};
use crate::broker::{Broker, Fault, Received};
use crate::counts::Counts;
use crate::decision::{
    Arrival, End, Place, of_answer, of_foreign_verdict, of_mail, of_no_verdict, of_version,
    unusable_mail,
};
use crate::message::{Class, Head, is_answered, line, now};
use ending::{Word, say};
use own_sender::start;
use pulling::{Shared, pull, sweep};

/// How long a fault of the broker is waited out.
const PAUSE: Duration = Duration::from_secs(1);

/// For how long the sender of this process may have a mail: as long as one of a collector that says
/// that it is at work.
const LONGEST_WORK: Duration = Duration::from_secs(660);

/// How long what is done is said to the broker after the sender has ended.
const ENDING: Duration = Duration::from_secs(10);

/// Takes mails until SIGTERM or SIGINT, or until the sender ends; returns what that ended with.
///
/// # Errors
/// No pipes, no signals.
pub(crate) async fn run<B: Broker, E: Send + 'static>(
    broker: B,
    most: usize,
    send: impl FnOnce(BufReader<PipeReader>, PipeWriter) -> Result<(), E> + Send + 'static,
) -> Result<Result<(), E>, Error> {
    let (lines, mut answers, ended) = start(send).map_err(|error| unusable(&error))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| unusable(&error))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| unusable(&error))?;
    let (found, mut incoming) = mpsc::channel(1);
    let mut desk = Desk::new(broker, most, lines);
    let mut pulls = JoinSet::new();
    for class in Class::ALL {
        pulls.spawn(pull(desk.shared.clone(), class, most, found.clone()));
    }
    drop(found);
    let mut sweeps = JoinSet::new();
    sweeps.spawn(sweep(desk.shared.clone()));
    let mut last_beat = Instant::now();
    let mut has_failed = false;
    loop {
        tokio::select! {
            Some(ended) = pulls.join_next() => {
                // Whoever started the program starts it again.
                if ended.is_err() {
                    has_failed = true;
                    desk.stop();
                }
            }
            Some((class, received)) = incoming.recv() => desk.take(class, received),
            Some(Ok(arrived)) = desk.arrivals.join_next() => desk.decide(arrived),
            Some(_) = desk.endings.join_next() => {}
            answer = answers.recv() => match answer {
                Some(answer) => desk.hear(answer),
                None => break,
            },
            () = sleep((desk.shared.broker.patience() / 3).saturating_sub(last_beat.elapsed())) => {
                desk.beat();
                last_beat = Instant::now();
            }
            _ = terminate.recv() => desk.stop(),
            _ = interrupt.recv() => desk.stop(),
        }
    }
    desk.stop();
    drop(sweeps);
    timeout(ENDING, desk.give_back(&mut incoming)).await.ok();
    desk.shared.counts.say();
    if has_failed {
        return Err(Error::Failure("what takes mails from the broker has failed".to_owned()));
    }
    ended.await.map_err(|_| Error::Failure("the sender has failed".to_owned()))
}

fn unusable(error: &std::io::Error) -> Error {
    Error::Failure(format!("the operating system refuses what the program needs: {error}"))
}

/// A mail that the sender has.
struct Mail<H> {
    class: Class,
    head: Head,
    doubts: u32,
    delivered: u64,
    sequence: u64,
    handle: Arc<H>,
    since: Instant,
}

/// A message of which it is known what is done with it.
struct Arrived<H> {
    class: Class,
    received: Received<H>,
    /// The mail; nothing if it is none.
    head: Option<Head>,
    arrival: Arrival,
}

/// What is being worked on.
struct Desk<B: Broker> {
    shared: Arc<Shared<B>>,
    lines: Option<threads::Sender<String>>,
    mails: HashMap<String, Mail<B::Handle>>,
    arrivals: JoinSet<Arrived<B::Handle>>,
    endings: JoinSet<()>,
    next: u64,
}

impl<B: Broker> Desk<B> {
    fn new(broker: B, most: usize, lines: threads::Sender<String>) -> Self {
        let places = [(); Class::ALL.len()].map(|()| Arc::new(Semaphore::new(most)));
        let shared = Shared {
            broker,
            counts: Counts::new("mailroom send"),
            places,
            outage: Mutex::new(None),
            is_stopping: watch::Sender::new(false),
        };
        Self {
            shared: Arc::new(shared),
            lines: Some(lines),
            mails: HashMap::new(),
            arrivals: JoinSet::new(),
            endings: JoinSet::new(),
            next: 0,
        }
    }

    /// Finds out what is to be done with a message.
    fn take(&mut self, class: Class, received: Received<B::Handle>) {
        let shared = Arc::clone(&self.shared);
        self.arrivals.spawn(async move {
            if received.delivered > 1 {
                shared.counts.add("delivered again");
            }
            let (head, arrival) = judge(&shared.broker, &received).await;
            Arrived { class, received, head, arrival }
        });
    }

    /// Does what is to be done with a message.
    fn decide(&mut self, arrived: Arrived<B::Handle>) {
        let Arrived { class, received, head, arrival } = arrived;
        let Received { handle, text, place: Place { sequence, .. }, delivered, .. } = received;
        let handle = Arc::new(handle);
        let Some(head) = head else {
            let word = if let Arrival::GiveBack(after, why) = arrival {
                self.shared.counts.add(why);
                Word::Again(None, after)
            } else {
                self.shared.counts.add("no mail");
                Word::Foreign
            };
            return self.say(class, handle, sequence, word);
        };
        match (arrival, &self.lines) {
            (Arrival::Send(doubts), Some(lines)) => {
                let batch = format!("{sequence}-{}", self.next);
                self.next += 1;
                let line = line(&batch, &text, doubts).filter(|line| is_answered(line));
                let Some(line) = line else {
                    // It would keep its place for ever.
                    self.shared.counts.add("dead");
                    let word = Word::Done(Some(unusable_mail(&head)));
                    return self.say(class, handle, sequence, word);
                };
                if lines.send(line).is_err() {
                    return self.say(class, handle, sequence, Word::Again(None, PAUSE));
                }
                let since = Instant::now();
                let mail = Mail { class, head, doubts, delivered, sequence, handle, since };
                self.mails.insert(batch, mail);
            }
            // It is ending.
            (Arrival::Send(_), None) => {
                self.say(class, handle, sequence, Word::Again(None, Duration::ZERO));
            }
            (Arrival::GiveBack(after, why), _) => {
                self.shared.counts.add(why);
                self.say(class, handle, sequence, Word::Again(None, after));
            }
            (Arrival::Done(verdict, why), _) => {
                self.shared.counts.add(why);
                self.say(class, handle, sequence, Word::Done(verdict));
            }
        }
    }

    /// Takes an answer of the sender.
    fn hear(&mut self, answer: Answer) {
        match answer {
            // The sender is a part of this process: it works as long as this does.
            Answer::Nothing | Answer::Working(_) => {}
            Answer::Verdict { batch, said } => {
                let Some(mail) = self.mails.remove(&batch) else { return };
                self.note(&said);
                let Mail { class, head, doubts, delivered, sequence, handle, .. } = mail;
                let word = match of_answer(&head, doubts, delivered, &said, now()) {
                    End::Done(verdict) => Word::Done(Some(verdict)),
                    End::Again(verdict, after) => Word::Again(verdict, after),
                };
                self.say(class, handle, sequence, word);
            }
        }
    }

    /// Counts an answer, and notes whether the sender is unavailable.
    fn note(&self, said: &Said) {
        let mut outage = self.shared.outage();
        let what = match said {
            Said::Sent { .. } => "sent",
            Said::Dead { .. } => "dead",
            Said::InDoubt { .. } => "in doubt",
            Said::Retry { .. } => "refused for now",
            Said::Untried { .. } => "untried",
            Said::Unavailable { after, reason } => {
                self.shared.counts.fault(&format!("the sender is unavailable: {reason}"));
                let until = Instant::now() + after.unwrap_or(PAUSE).min(Duration::from_secs(60));
                *outage = Some(outage.map_or(until, |earlier| earlier.max(until)));
                "given back by an unavailable sender"
            }
        };
        if matches!(said, Said::Sent { .. } | Said::Dead { .. } | Said::Retry { .. }) {
            *outage = None;
        }
        drop(outage);
        self.shared.counts.add(what);
    }

    /// Tells the broker what becomes of a message, until it has heard it.
    fn say(&mut self, class: Class, handle: Arc<B::Handle>, sequence: u64, word: Word) {
        let shared = Arc::clone(&self.shared);
        self.endings.spawn(async move {
            say(&shared, &handle, sequence, word).await;
            shared.places(class).add_permits(1);
        });
    }

    /// Tells the broker which mails the sender has, so that no other one gets them, however long a
    /// mail server takes for them.
    fn beat(&mut self) {
        for mail in self.mails.values() {
            if mail.since.elapsed() < LONGEST_WORK {
                let (shared, handle) = (Arc::clone(&self.shared), Arc::clone(&mail.handle));
                self.endings.spawn(async move {
                    shared.broker.working(&handle).await.ok();
                });
            }
        }
        self.shared.counts.say_sometimes();
    }

    /// Asks for nothing more. The sender ends when it has answered what it has.
    fn stop(&mut self) {
        self.shared.is_stopping.send_replace(true);
        self.lines = None;
    }

    /// Gives back what the broker still answers to the last requests: whatever nobody takes from it
    /// would come to others only after its patience.
    async fn give_back(&mut self, incoming: &mut mpsc::Receiver<(Class, Received<B::Handle>)>) {
        loop {
            tokio::select! {
                Some((class, received)) = incoming.recv() => self.take(class, received),
                Some(Ok(arrived)) = self.arrivals.join_next() => self.decide(arrived),
                Some(_) = self.endings.join_next() => {}
                else => return,
            }
        }
    }
}

/// Finds out what is to be done with a message, and reads its mail.
async fn judge<B: Broker>(broker: &B, received: &Received<B::Handle>) -> (Option<Head>, Arrival) {
    if let Some(arrival) = of_version(received.version, received.delivered) {
        return (None, arrival);
    }
    let Some(mut head) = Head::read(&received.text) else {
        return (None, Arrival::Done(None, "no mail"));
    };
    head.doubts = head.doubts.max(received.doubts);
    if let Some(rest) = received.rest {
        return (Some(head), Arrival::GiveBack(rest, "left behind by the broker"));
    }
    // Also the first time: a database that has forgotten what it had published, such as a restored
    // one, publishes it anew.
    let last = match broker.verdict_on(&head.key).await {
        Ok(last) => last,
        Err(Fault::Away(_)) => return (Some(head), Arrival::GiveBack(PAUSE, "broker away")),
        // It may say that the mail was sent.
        Err(Fault::Message(_)) => {
            let arrival = of_foreign_verdict(&head, received.delivered, now());
            return (Some(head), arrival);
        }
        Err(Fault::SetAside(_)) => return (Some(head), of_no_verdict(received.delivered)),
    };
    let arrival = of_mail(&head, received.place, last.as_ref(), now());
    (Some(head), arrival)
}
