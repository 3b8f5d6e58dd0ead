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
//! `broker` says what a broker has to do; each is a file of its own: `nats` and `rabbit`, of
//! which `choice` takes the one that a URL names.

mod access;
mod answers;
mod broker;
mod choice;
mod consume;
mod counts;
mod decision;
mod message;
mod nats;
mod publish;
#[cfg(feature = "rabbitmq")]
mod rabbit;
mod verdicts;

use std::io::{BufReader, PipeReader, PipeWriter};

pub use access::{Relay, Source};
use choice::Connected;
pub use choice::VerdictsFrom;
pub use message::{Kind, Verdict};
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
    match Connected::to(&arguments.broker, "mailroom relay").await? {
        Connected::Nats(broker) => publish::run(broker).await,
        #[cfg(feature = "rabbitmq")]
        Connected::Rabbit(broker) => publish::run(broker).await,
    }
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
    let most = arguments.in_flight;
    match Connected::to(&broker, "mailroom send").await? {
        Connected::Nats(broker) => consume::run(broker, most.into(), send).await,
        #[cfg(feature = "rabbitmq")]
        Connected::Rabbit(broker) => {
            consume::run(broker.with_prefetch(most), most.into(), send).await
        }
    }
}

/// A broker whose senders' verdicts are taken.
pub struct Verdicts(Connected);

impl Verdicts {
    /// Begins to connect, for ever.
    ///
    /// # Errors
    /// Arguments that cannot be used.
    pub async fn connect(from: &VerdictsFrom) -> Result<Self, Error> {
        Ok(Self(Connected::to(&from.broker, "mailroom collect").await?))
    }

    /// Takes verdicts for ever, and brings them into a ledger.
    pub async fn follow(self, ledger: impl Ledger) {
        match self.0 {
            Connected::Nats(broker) => verdicts::run(broker, ledger).await,
            #[cfg(feature = "rabbitmq")]
            Connected::Rabbit(broker) => verdicts::run(broker, ledger).await,
        }
    }
}
