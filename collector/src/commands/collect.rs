//! `mailroom collect`: signs the tokens of a queue and hands them to the reader of standard output.

use std::env;
use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args as _;
use mailroom_verifier_core::{Signer, Version};
use tokio::sync::watch;

use crate::collector::{CollectError, Collector};
use crate::config::{
    CollectFlags, CollectSettings, DATABASE_URL, QueueKind, SettingError, Span, Wake, process_variables,
    set_variable, unknown_variables,
};
use crate::keys::{KeyError, KeySource, Use};
use crate::listener::Listener;
use crate::migrate::MIGRATIONS;
use crate::postgres::{ConnectionSettings, ProcessEnvironment, SettingsError};
use crate::queue::{CursorQueue, DeliveriesQueue, EitherQueue, Intervals};
use crate::retention::Pruner;
use crate::shutdown;
use crate::sink::{Sender, SenderCommand, StartError, Stdout};
use crate::sleeper::{self, Sleeper};
use crate::telemetry;

/// Arguments of `mailroom collect`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    flags: CollectFlags,
}

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is missing or invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The database's URL or keyword string is invalid.
    #[error("MAILROOM_DATABASE_URL cannot be used: {0}")]
    Database(#[from] SettingsError),
    /// The key is missing or invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The operating system refuses signals.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    /// Lines cannot go to standard output.
    #[error(transparent)]
    Output(#[from] StartError),
    /// A task that must last as long as the collector ended before it.
    #[error("{0} ended by a fault of this program; start it again and report what the log says before")]
    TaskEnded(&'static str),
    /// Collecting ended before it was told to.
    #[error(transparent)]
    Collect(#[from] CollectError),
}

impl Error {
    /// 2 for settings, otherwise 1.
    pub fn exit_code(&self) -> ExitCode {
        if self.is_setting() { ExitCode::from(2) } else { ExitCode::FAILURE }
    }

    /// Whether it concerns the caller, not the log: lines are logged only once the settings are known to be sound.
    pub fn is_setting(&self) -> bool {
        matches!(
            self,
            Self::Setting(_) | Self::Database(_) | Self::Key(_) | Self::Output(StartError::Discards)
        )
    }
}

/// Collects until SIGTERM or SIGINT.
pub async fn run(arguments: &Arguments) -> Result<(), Error> {
    let flags = &arguments.flags;
    let settings = CollectSettings::read(flags, &process_variables)?;
    telemetry::start(settings.log_format, settings.log_level);
    let connection = connection_settings()?;
    let format = settings.token_format;
    let source = KeySource::find(flags.key_file.as_ref(), Use::Signing(format), &process_variables)?;
    let key_file = match &source {
        KeySource::File(path) => Some(path.display().to_string()),
        KeySource::Environment { .. } => None,
    };
    let keys = source.load(&process_variables)?;
    let (signer_sender, signer) = watch::channel(Arc::new(keys.signer(format)?));

    let mut signals = shutdown::on_signals()?;
    let mut hangups = shutdown::on_hangup(move || reload(&source, format, &signer_sender))?;
    let destination = match &settings.sender {
        Some(command) => Destination::Sender(Box::new(Sender::new(command.clone(), settings.sender_timeout))),
        None => Destination::Stdout(Stdout::start()?),
    };
    introduce(&settings, &connection, key_file.as_deref(), keys.count());
    let queue = match settings.queue_kind {
        QueueKind::Cursor => {
            let intervals = Intervals { poll: settings.poll_interval, reread: settings.healthcheck_interval };
            let queue = CursorQueue::new(connection.clone(), &settings.queue_name, intervals);
            EitherQueue::Cursor(Box::new(queue))
        }
        QueueKind::Deliveries => {
            let queue = DeliveriesQueue::new(connection.clone(), settings.deliveries, settings.lease);
            EitherQueue::Deliveries(Box::new(queue.map_err(io::Error::from)?))
        }
    };
    // On the base schema everything is announced, whoever sleeps.
    let (sleeper, attendant) = match settings.queue_kind {
        QueueKind::Deliveries if settings.wake == Wake::Hint => {
            let (sleeper, attendant) = sleeper::pair();
            (sleeper, Some(attendant))
        }
        _ => (Sleeper::without_lock(), None),
    };
    let _pruner = match (settings.queue_kind, settings.retention) {
        (QueueKind::Deliveries, Some(age)) => Some(Pruner::start(connection.clone(), age)),
        _ => None,
    };
    let mut listener = (settings.wake == Wake::Hint)
        .then(|| Listener::start(connection, &settings.channel, settings.healthcheck_interval, attendant));
    let hints = listener.as_ref().map_or_else(nothing_heard, Listener::hints);
    let stop = signals.stop();
    let collecting: Collecting = match destination {
        Destination::Stdout(sink) => {
            Box::pin(Collector::new(queue, sink, &settings, signer, hints, sleeper, stop).run())
        }
        Destination::Sender(sink) => {
            Box::pin(Collector::new(queue, *sink, &settings, signer, hints, sleeper, stop).run())
        }
    };
    let stop = signals.stopper();
    let task_ended = async {
        tokio::select! {
            () = ended(listener.as_mut()) => "the task that listens to the database",
            () = signals.ended() => "the task that hears SIGTERM and SIGINT",
            _ = &mut hangups => "the task that hears SIGHUP",
        }
    };
    alongside(task_ended, || _ = stop.send_replace(true), collecting).await?;
    tracing::info!(event = "ended", "ended");
    Ok(())
}

type Collecting = Pin<Box<dyn Future<Output = Result<(), CollectError>>>>;

enum Destination {
    Stdout(Stdout),
    Sender(Box<Sender>),
}

/// What somebody who reads a log wants to know first: the versions, and every setting that is no secret, by the name of its
/// variable.
fn introduce(
    settings: &CollectSettings,
    connection: &ConnectionSettings,
    key_file: Option<&str>,
    keys: usize,
) {
    for (name, nearest) in unknown_variables(&names_of_flags(), env::vars_os().map(|(name, _)| name)) {
        tracing::warn!(
            event = "unknown_variable",
            name,
            nearest,
            "a variable of the environment is no setting"
        );
    }
    let CollectSettings { deliveries, .. } = settings;
    tracing::info!(
        event = "started",
        version = env!("CARGO_PKG_VERSION"),
        schema = MIGRATIONS.last().map(|migration| migration.version),
        database = %connection,
        keys,
        key_file,
        token_format = %settings.token_format,
        queue_kind = settings.queue_kind.name(),
        queue_name = settings.queue_name,
        channel_name = settings.channel,
        batch_limit = settings.batch_limit,
        batch_timeout = %Span(settings.batch_timeout),
        poll_interval = %Span(settings.poll_interval),
        wake = settings.wake.name(),
        missing_schema = settings.missing_schema.name(),
        healthcheck_interval = %Span(settings.healthcheck_interval),
        prefetch = %settings.prefetch,
        line_format = settings.line_format.name(),
        sender = settings.sender.as_ref().map(SenderCommand::name),
        sender_timeout = %Span(settings.sender_timeout),
        lease = %Span(settings.lease),
        max_attempts = deliveries.max_attempts,
        max_refusals = deliveries.bounds_refusals.then_some(deliveries.max_attempts),
        backoff = %Span(deliveries.backoff),
        min_lifetime = %Span(deliveries.min_lifetime),
        retention = %settings.retention.map_or_else(|| "off".to_owned(), |age| Span(age).to_string()),
        log_format = settings.log_format.name(),
        log_level = settings.log_level.name(),
        "the collector starts"
    );
}

/// Of all flags of the command.
fn names_of_flags() -> Vec<String> {
    let command = Arguments::augment_args(clap::Command::new("collect"));
    command.get_arguments().filter_map(|flag| flag.get_long().map(str::to_owned)).collect()
}

/// The hints of nobody, who ends before he has given any.
fn nothing_heard() -> watch::Receiver<u64> {
    watch::channel(0).1
}

async fn ended(listener: Option<&mut Listener>) {
    match listener {
        Some(listener) => listener.ended().await,
        None => pending().await,
    }
}

/// Runs the collector. When a task that it relies on ends before it, it is asked to end in order, and that is an error:
/// without that task it would go on deaf.
async fn alongside(
    task_ended: impl Future<Output = &'static str>,
    end_the_collector: impl FnOnce(),
    mut collector: impl Future<Output = Result<(), CollectError>> + Unpin,
) -> Result<(), Error> {
    let task = tokio::select! {
        outcome = &mut collector => return Ok(outcome?),
        task = task_ended => task,
    };
    end_the_collector();
    collector.await?;
    Err(Error::TaskEnded(task))
}

fn connection_settings() -> Result<ConnectionSettings, Error> {
    let text = set_variable(&process_variables, DATABASE_URL).ok_or(SettingError::Missing {
        name: DATABASE_URL,
        wanted: "set it to a URL (postgresql://user@host/database) or a keyword string (host=… dbname=…)",
    })?;
    let text = text
        .into_string()
        .map_err(|_| SettingError::NotUtf8 { origin: crate::config::Origin::Variable(DATABASE_URL) })?;
    Ok(ConnectionSettings::resolve(&text, &ProcessEnvironment)?)
}

/// A file that cannot be used changes nothing: the keys in use are better than none.
fn reload(source: &KeySource, format: Version, signer: &watch::Sender<Arc<Signer>>) {
    let load = || {
        let keys = source.load(&process_variables)?;
        Ok::<_, KeyError>((keys.signer(format)?, keys.count()))
    };
    match source {
        KeySource::Environment { .. } => {
            tracing::warn!(
                event = "keys_kept",
                "SIGHUP: nothing to read again, the key came from the environment of this process"
            );
        }
        KeySource::File(path) => match load() {
            Ok((new, count)) => {
                signer.send_replace(Arc::new(new));
                tracing::info!(
                    event = "keys_read",
                    count,
                    key_file = %path.display(),
                    "SIGHUP: the keys were read, and the first one signs from now on"
                );
            }
            Err(error) => {
                tracing::error!(event = "keys_kept", reason = %error, "SIGHUP: the keys in use stay");
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::ready;

    #[tokio::test]
    async fn a_task_that_ends_too_early_ends_the_collector_in_order_and_is_an_error() {
        let (stop, mut stopped) = watch::channel(false);
        let collector = async {
            shutdown::stopped(&mut stopped).await;
            Ok(())
        };
        let end = || _ = stop.send_replace(true);
        let error = alongside(ready("the task"), end, Box::pin(collector)).await.unwrap_err();
        assert!(error.to_string().starts_with("the task ended by a fault of this program"), "{error}");
        assert_eq!(error.exit_code(), ExitCode::FAILURE);
        assert!(!error.is_setting());
    }

    #[tokio::test]
    async fn a_collector_whose_tasks_last_ends_as_it_was_told() {
        alongside(pending(), || panic!("nothing ended"), Box::pin(ready(Ok(())))).await.unwrap();
    }

    #[tokio::test]
    async fn the_end_of_the_task_that_hears_signals_is_noticed_and_is_no_stop() {
        let mut signals = shutdown::on_signals().unwrap();
        signals.abort();
        signals.ended().await;
        assert!(!*signals.stop().borrow());
    }
}
