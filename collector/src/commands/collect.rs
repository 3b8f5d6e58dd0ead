//! `mailroom collect`: signs the tokens of a queue and hands them to the reader of standard output.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::sync::watch;

use crate::collector::{CollectError, Collector};
use crate::config::{
    CollectFlags, CollectSettings, DATABASE_URL, QueueKind, SettingError, process_variables, set_variable,
};
use crate::keys::{KeyError, KeySource, Keys};
use crate::listener::Listener;
use crate::postgres::{ConnectionSettings, ProcessEnvironment, SettingsError};
use crate::queue::CursorQueue;
use crate::shutdown;
use crate::sink::Stdout;
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
    /// The operating system refuses signals or standard output.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
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
        matches!(self, Self::Setting(_) | Self::Database(_) | Self::Key(_))
    }
}

/// Collects until SIGTERM or SIGINT.
pub async fn run(arguments: &Arguments) -> Result<(), Error> {
    let flags = &arguments.flags;
    let settings = CollectSettings::read(flags, &process_variables)?;
    telemetry::start(settings.log_format, settings.log_level);
    let connection = connection_settings()?;
    let source = KeySource::find(flags.key_file.as_ref(), &process_variables)?;
    let (keys_sender, keys) = watch::channel(Arc::new(source.load(&process_variables)?));

    let stop = shutdown::on_signals()?;
    shutdown::on_hangup(move || reload(&source, &keys_sender))?;
    let sink = Stdout::start()?;
    let queue = match settings.queue_kind {
        QueueKind::Cursor => {
            CursorQueue::new(connection.clone(), &settings.queue_name, settings.healthcheck_interval)
        }
    };
    let listener = Listener::start(connection, &settings.channel, settings.healthcheck_interval);
    let collector = Collector::new(queue, sink, &settings, keys, listener.hints(), stop);
    Box::pin(collector.run()).await?;
    tracing::info!("ended");
    Ok(())
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
fn reload(source: &KeySource, keys: &watch::Sender<Arc<Keys>>) {
    match source {
        KeySource::Environment => {
            tracing::warn!(
                "SIGHUP: nothing to read again, the key came from the environment of this process"
            );
        }
        KeySource::File(path) => match source.load(&process_variables) {
            Ok(new) => {
                let count = new.ring().keys().len();
                keys.send_replace(Arc::new(new));
                tracing::info!(
                    "SIGHUP: read {count} keys from {}; the first one signs from now on",
                    path.display()
                );
            }
            Err(error) => tracing::error!("SIGHUP: {error}; the keys in use stay"),
        },
    }
}
