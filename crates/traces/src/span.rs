//! What a program did, from when until when.

use std::time::SystemTime;

use crate::Traceparent;

/// How many traces a span links to at most. OpenTelemetry's own limit.
const MAX_LINKS: usize = 128;

/// Where spans hang that belong together, such as those of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
}

/// What a span is to others, as OpenTelemetry has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Takes mails that somebody has enqueued.
    Consumer,
    /// Gives mails to somebody.
    Producer,
    /// Asks a server.
    Client,
    /// Answers somebody.
    Server,
    /// Does something alone.
    Internal,
}

/// What was done. Neither a token nor an address nor a key can be said of it: texts are names in
/// the source, and ids of batches.
#[derive(Clone, Debug)]
pub struct Span {
    /// What was done, such as `claim`.
    pub name: &'static str,
    /// What it is to others.
    pub kind: Kind,
    /// When it began.
    pub began: SystemTime,
    /// When it ended.
    pub ended: SystemTime,
    /// Numbers, by their names.
    pub numbers: Vec<(&'static str, i64)>,
    /// The id of a batch.
    pub batch: Option<String>,
    /// What came of it, of a list in the source.
    pub outcome: Option<&'static str>,
    /// Why it failed, in words of the source.
    pub failure: Option<&'static str>,
    /// Traces of other mails that it was done for: by id of the token where it has one.
    pub links: Vec<(i64, Traceparent)>,
}

impl Span {
    /// One that ends now.
    pub fn until_now(name: &'static str, kind: Kind, began: SystemTime) -> Self {
        Self {
            name,
            kind,
            began,
            ended: SystemTime::now(),
            numbers: Vec::new(),
            batch: None,
            outcome: None,
            failure: None,
            links: Vec::new(),
        }
    }

    /// Says a number of it.
    #[must_use]
    pub fn with(mut self, name: &'static str, number: usize) -> Self {
        self.numbers.push((name, i64::try_from(number).unwrap_or(i64::MAX)));
        self
    }

    /// Says which batch it is about.
    #[must_use]
    pub fn of_batch(self, batch: String) -> Self {
        Self { batch: Some(batch), ..self }
    }

    /// Links to the traces of these tokens, of many to the first ones.
    #[must_use]
    pub fn linked(mut self, traces: &[(i64, Traceparent)]) -> Self {
        self.links = traces.iter().take(MAX_LINKS).copied().collect();
        self
    }
}
