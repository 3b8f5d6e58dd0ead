//! `mailroom send`: the sender that comes with the program.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{CommandError, Outcome, print, report, warn};
use crate::sender_command::ACTIONS;

#[derive(clap::Args)]
pub(crate) struct SendArguments {
    /// The configuration, a file in TOML
    #[arg(long, value_name = "FILE", required_unless_present = "init")]
    config: Option<PathBuf>,

    /// Send nothing: write a mail of every template, connect and authenticate,
    /// and say what is wrong
    #[arg(long, requires = "config")]
    check: bool,

    /// Send nothing: write the mail of every template to this folder, as .eml, .html and .txt, and
    /// index.html to look at them
    #[arg(long, value_name = "FOLDER", requires = "config", conflicts_with = "check")]
    preview: Option<PathBuf>,

    /// Write the mails of all tokens to this folder instead of sending them,
    /// and answer that they were sent
    #[arg(long, value_name = "FOLDER", requires = "config")]
    #[arg(conflicts_with_all = ["check", "preview"])]
    dry_run: Option<PathBuf>,

    /// Serve metrics for Prometheus at this address, or at this port of 127.0.0.1: another one than
    /// the collector's
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = address)]
    #[arg(conflicts_with_all = ["check", "preview"])]
    metrics_address: Option<SocketAddr>,

    /// Write the shipped templates to this folder, which must be empty or new
    #[arg(long, value_name = "FOLDER")]
    #[arg(conflicts_with_all = ["config", "check", "preview", "dry_run", "metrics_address"])]
    init: Option<PathBuf>,

    #[cfg(feature = "relay")]
    #[command(flatten)]
    broker: mailroom_relay::Source,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    mailroom_http::address(text).ok_or("an address with a port, or a port alone, of 127.0.0.1")
}

/// Sends until standard input ends, or does what the arguments ask for instead.
#[cfg_attr(not(feature = "relay"), expect(clippy::unused_async, reason = "a broker is waited for"))]
pub(crate) async fn run(arguments: &SendArguments) -> Outcome {
    let SendArguments { config, check, preview, dry_run, metrics_address, init, .. } = arguments;
    if let Some(folder) = init {
        mailroom_sender::write_shipped(folder)?;
        report(format_args!(
            "{folder} has the shipped templates, to be changed; next: name the folder in the \
             configuration (`templates = …`), and look at the mails by `mailroom send --config \
             FILE --preview FOLDER`",
            folder = folder.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let config =
        config.as_deref().ok_or_else(|| CommandError::Usage("--config is missing".to_owned()))?;
    if *check {
        for line in mailroom_sender::check(config, &[])? {
            print(line)?;
        }
    } else if let Some(folder) = preview {
        let count = mailroom_sender::preview(config, folder)?;
        print(format_args!("{count} mails to look at: {}", folder.join("index.html").display()))?;
    } else {
        #[cfg(feature = "relay")]
        if arguments.broker.is_given() {
            return send_from_broker(arguments, config).await;
        }
        warn_of_missing_mails(config)?;
        mailroom_sender::send(config, dry_run.as_deref(), *metrics_address)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Names the actions of the collector's database that have no template: their mails become dead
/// letters, which nobody notices before the first one.
fn warn_of_missing_mails(config: &Path) -> Result<(), CommandError> {
    let names = std::env::var(ACTIONS).unwrap_or_default();
    let names: Vec<_> =
        names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let missing = mailroom_sender::actions_without_mail(config, &names)?;
    if !missing.is_empty() {
        warn(missing_templates(&missing));
    }
    Ok(())
}

/// What is said of actions of the database that have no template.
pub(super) fn missing_templates(actions: &[String]) -> String {
    format!(
        "{} of the database have no template, so that their mails are not sent; add one for each \
         to the folder of templates",
        actions.join(", ")
    )
}

/// Sends the mails that the broker has, until SIGTERM or SIGINT.
#[cfg(feature = "relay")]
async fn send_from_broker(arguments: &SendArguments, config: &Path) -> Outcome {
    let (config, dry_run) = (config.to_owned(), arguments.dry_run.clone());
    let metrics_address = arguments.metrics_address;
    let sender = move |input, output| {
        mailroom_sender::send_between(&config, dry_run.as_deref(), metrics_address, input, output)
    };
    mailroom_relay::send_from(&arguments.broker, sender).await??;
    Ok(ExitCode::SUCCESS)
}

#[cfg(feature = "relay")]
impl From<mailroom_relay::Error> for CommandError {
    fn from(error: mailroom_relay::Error) -> Self {
        match error {
            mailroom_relay::Error::Usage(sentence) => Self::Usage(sentence),
            mailroom_relay::Error::Failure(sentence) => Self::Failure(sentence),
        }
    }
}

impl From<mailroom_sender::Error> for CommandError {
    fn from(error: mailroom_sender::Error) -> Self {
        let sentence = error.to_string();
        if error.is_of_configuration() { Self::Usage(sentence) } else { Self::Failure(sentence) }
    }
}
