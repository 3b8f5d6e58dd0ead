//! A broker between `mailroom collect` and senders on other machines.
//!
//! `mailroom relay` is a sender of the collector's protocol: it publishes each mail, and answers
//! when the broker has stored it (`publish`).
//!
//! `mailroom send --from` takes the mails from the broker (`consume`), and plays the collector
//! towards the sender of the same process, whose answers it reads (`answers`). `decision` says what
//! becomes of a mail then, and `message` has what is stored at the broker.
//!
//! `mailroom collect --verdicts-from` takes those back into the database (`verdicts`).
//!
//! `broker` says what a broker has to do; each is a file of its own: `nats`.

mod access;
mod answers;
mod broker;
mod consume;
mod counts;
mod decision;
mod message;
mod nats;
mod publish;
mod verdicts;

use std::io::{BufReader, PipeReader, PipeWriter};

pub use access::{Relay, Source, VerdictsFrom};
pub use message::{Kind, Verdict};
use nats::Nats;
pub use verdicts::{Ledger, Origin, Taken};

/// Why the program cannot work, in a sentence without secrets.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument cannot be used.
    #[error("{0}")]
    Usage(String),
    /// It failed.
    #[error("{0}")]
    Failure(String),
}

/// Publishes the mails of the batches on standard input, and answers on standard output, until the
/// input ends.
///
/// # Errors
/// Arguments that cannot be used, standard streams that are broken.
pub async fn relay(arguments: &Relay) -> Result<(), Error> {
    let broker = Nats::connect(&arguments.broker, "mailroom relay").await?;
    publish::run(broker).await
}

/// Takes mails from the broker until SIGTERM or SIGINT, and gives them to `send`, a sender that
/// reads batches and writes answers until its input ends.
///
/// # Errors
/// Arguments that cannot be used, and whatever the sender ends with.
pub async fn send_from<E: Send + 'static>(
    arguments: &Source,
    send: impl FnOnce(BufReader<PipeReader>, PipeWriter) -> Result<(), E> + Send + 'static,
) -> Result<Result<(), E>, Error> {
    let Some(broker) = arguments.broker() else {
        return Err(Error::Usage("--from is missing".to_owned()));
    };
    let broker = Nats::connect(&broker, "mailroom send").await?;
    consume::run(broker, arguments.in_flight.into(), send).await
}

/// A broker whose senders' verdicts are taken.
pub struct Verdicts(Nats);

impl Verdicts {
    /// Begins to connect, for ever.
    ///
    /// # Errors
    /// Arguments that cannot be used.
    pub async fn connect(from: &VerdictsFrom) -> Result<Self, Error> {
        Ok(Self(Nats::connect(&from.broker, "mailroom collect").await?))
    }

    /// Takes verdicts for ever, and brings them into a ledger.
    pub async fn follow(self, ledger: impl Ledger) {
        verdicts::run(self.0, ledger).await;
    }
}
