//! The program `mailroom send`: a sender for `mailroom collect --sender`.
//!
//! It reads tokens as docs/reference/sender-protocol.md describes, writes a mail for each, hands it
//! to one provider, and answers when the provider has accepted it. It has neither the signing keys
//! nor the database.
//!
//! A mail goes `protocol` → `writer` (`link`, `templates`, `mail`) → `journal` → `provider` →
//! `protocol`. `serve`, `dispatcher` and the threads of `pool` move it, and share what `shared`
//! has; a `lane` is the `queue` of a provider, with its `rate` and its `breaker`. An `attempt`
//! records what may have been accepted, and `doubt` says what becomes of that. No module uses one
//! that uses it.
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `http` | yes | any HTTP API that the configuration describes |
//! | `keyed` | yes | providers whose HTTP APIs want a key in a header, such as Resend |
//! | `ses` | yes | Amazon SES, by its HTTP API |
//! | `smtp` | yes | mail servers |

#[cfg(not(any(feature = "api", feature = "smtp")))]
compile_error!("a sender needs a provider: enable the feature http, keyed, ses or smtp");

mod attempt;
mod breaker;
mod check;
mod clock;
mod config;
mod dispatcher;
mod doubt;
mod encoding;
mod event;
mod guard;
mod journal;
mod key;
mod knows;
mod lane;
mod letter;
mod link;
mod mail;
mod message;
mod metrics;
mod placeholders;
mod pool;
mod preview;
pub mod protocol;
mod provider;
mod queue;
mod rate;
mod registered;
mod serve;
mod shared;
mod standard_error;
mod templates;
mod writer;

use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::SystemTime;

pub use check::{actions_without_mail, check, lost_placeholders};
pub use letter::{Letter, letter};
pub use mailroom_mail::Error;
pub use placeholders::Shown;
pub use preview::preview;
pub use templates::write_shipped;

use config::Config;
use journal::Journal;
use provider::Provider;
use provider::folder::Folder;
use shared::Shared;
use writer::Writer;

/// Sends the mails of the tokens that come on standard input, and answers on standard output, until
/// the input ends.
///
/// With a folder, mails become files there, and the journal is one of that folder. At `metrics`
/// what it does is served for Prometheus.
///
/// # Errors
/// A configuration that cannot be used, a journal that cannot be opened,
/// standard streams that are broken.
pub fn send(
    config: &Path,
    dry_run: Option<&Path>,
    metrics: Option<SocketAddr>,
) -> Result<(), Error> {
    send_between(config, dry_run, metrics, io::BufReader::new(io::stdin()), io::stdout())
}

/// What writes the mails of a configuration: from a token to the bytes that a mail server would
/// get. It sends nothing.
///
/// # Errors
/// A configuration that cannot be used. What is returned says why there can be no mail for a token.
pub fn writer(config: &Path) -> Result<impl Fn(&protocol::Item) -> Result<String, String>, Error> {
    let writer = Writer::new(&Config::read(config)?)?;
    Ok(move |item: &protocol::Item| Ok(message::encode(&writer.write(item, SystemTime::now())?)))
}

/// Does what [`send`] does, between other streams.
///
/// # Errors
/// Those of [`send`].
pub fn send_between(
    config: &Path,
    dry_run: Option<&Path>,
    metrics: Option<SocketAddr>,
    input: impl BufRead + Send + 'static,
    output: impl Write,
) -> Result<(), Error> {
    let mut config = Config::read(config)?;
    let providers: Vec<Box<dyn Provider>> = match dry_run {
        Some(folder) => {
            config.journal = folder.join("journal");
            vec![Box::new(Folder::new(folder)?)]
        }
        None => config.providers()?,
    };
    let writer = Writer::new(&config)?;
    let journal = Journal::open(&config.journal, clock::seconds(SystemTime::now()))?;
    let shared = Shared::new(providers, config.domains()?, journal);
    if let Some(address) = metrics {
        shared.serve_metrics(address);
    }
    serve::serve(input, output, &writer, &shared)
}
