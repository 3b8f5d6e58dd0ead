//! What a broker has to do.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::decision::Place;
use crate::message::{Class, Mail, Verdict};

/// How a mail was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// Now.
    Now,
    /// Earlier: the broker knows its key, and has it or what became of it.
    Before,
}

/// Why a broker did not do something.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// It is away, or says no to everything.
    #[error("{0}")]
    Away(String),
    /// It does not take this one message.
    #[error("{0}")]
    Message(String),
    /// What it found is nothing of ours, and was taken out of the way: who asks again is answered.
    #[error("{0}")]
    SetAside(String),
}

/// A message that came from the broker, until it is done with or given back.
#[derive(Debug)]
pub(crate) struct Received<H> {
    /// By this it is done with or given back.
    pub(crate) handle: H,
    /// The version of the message, if it has one.
    pub(crate) version: Option<u32>,
    /// The item, or what is none.
    pub(crate) text: String,
    pub(crate) place: Place,
    /// How often it has been delivered, from 1, as far as the broker knows.
    pub(crate) delivered: u64,
    /// How many earlier attempts ended in doubt, as far as the message knows.
    pub(crate) doubts: u32,
    /// Of one that was left behind, is published anew and comes for the first time: for how long a
    /// sender may still have the former one.
    pub(crate) rest: Option<Duration>,
}

/// A verdict that came from the broker, until it is done with or given back.
#[derive(Debug)]
pub(crate) struct Announced<H> {
    /// By this it is done with or given back.
    pub(crate) handle: H,
    /// The verdict, or what is none.
    pub(crate) text: Vec<u8>,
    /// How often it has been delivered, from 1, as far as the broker knows.
    pub(crate) delivered: u64,
}

/// A broker that stores a message before it says that it did, and delivers it until somebody says
/// that it is done.
pub(crate) trait Broker: Clone + Send + Sync + 'static {
    /// By this a message is done with or given back.
    type Handle: Send + Sync + 'static;

    /// Stores a mail, once for its key if the broker knows keys.
    fn publish(&self, mail: &Mail) -> impl Future<Output = Result<Stored, Fault>> + Send;

    /// Records what became of a mail. Says nothing new if it is said twice of the same message.
    fn record(
        &self,
        verdict: &Verdict,
        sequence: u64,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Records a message that is no mail, and nothing of what it holds.
    fn record_foreign(&self, sequence: u64) -> impl Future<Output = Result<(), Fault>> + Send;

    /// The last verdict on a key, as far as the broker can be asked for it.
    fn verdict_on(&self, key: &str) -> impl Future<Output = Result<Option<Verdict>, Fault>> + Send;

    /// Takes up to so many mails, and passes them on as they come. Returns after some seconds, or
    /// when all have come, and says how many came.
    fn receive(
        &self,
        class: Class,
        most: usize,
        into: &mpsc::Sender<(Class, Received<Self::Handle>)>,
    ) -> impl Future<Output = (usize, Result<(), Fault>)> + Send;

    /// Takes up to so many verdicts, and passes them on as they come. Returns after some seconds,
    /// or when all have come. Each reader gets all verdicts, whichever of its processes asks.
    fn receive_verdicts(
        &self,
        reader: &str,
        most: usize,
        into: &mpsc::Sender<Announced<Self::Handle>>,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// A message is done with.
    fn done(&self, handle: &Self::Handle) -> impl Future<Output = Result<(), Fault>> + Send;

    /// No mails of a class are taken for some time: those that came and were not passed on go to
    /// others.
    fn let_go(&self, class: Class) -> impl Future<Output = ()> + Send;

    /// A message is to come again after a time, and to know of these doubts if there are new ones.
    fn give_back(
        &self,
        handle: &Self::Handle,
        after: Duration,
        doubts: Option<u32>,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// A message is being worked on.
    fn working(&self, handle: &Self::Handle) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Finds mails that the broker has and gives out no more. Those that are settled are deleted,
    /// and others published anew. Returns how many there were.
    fn sweep(&self) -> impl Future<Output = Result<usize, Fault>> + Send;

    /// How long it may be that nothing is said of a message.
    fn patience(&self) -> Duration;

    /// What receipts name it.
    fn name(&self) -> &'static str;
}
