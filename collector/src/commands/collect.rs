//! `mailroom collect`: signs the tokens of a queue and hands them to the reader of standard output.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use mailroom_connect::ConnectionSettings;
use mailroom_traces::Recorder;
use mailroom_verifier_core::Version;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{CommandError, Outcome, connection_settings};
use crate::collect::{CollectError, Collector, Inputs};
use crate::config::{
    CollectSettings, QueueKind, SchemaSetting, Wake, heading, shown, unknown_variables,
};
use crate::keys::{KeySource, KeyUse, SigningKey};
use crate::log;
use crate::metrics::{self, Metrics};
use crate::migrate::MIGRATIONS;
use crate::queue::{CursorQueue, DeliveriesQueue};
use crate::retention::{self, Ages};
use crate::service;
use crate::signals;
use crate::sink::{Sender, Sink, Stdout};
#[cfg(feature = "relay")]
use crate::verdicts;
use crate::wake::idle_lock;
use crate::wake::listener::Listener;

const NOT_STARTED: &str = "cannot start";

/// How often the program says that it is not hung.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct CollectArguments {
    /// File of keys: the first line signs, the others only verify; default: that of
    /// `MAILROOM_KEY_FILE`
    #[arg(long, value_name = "FILE")]
    #[arg(help_heading = heading::KEYS)]
    key_file: Option<PathBuf>,

    #[command(flatten)]
    schema: SchemaSetting,

    /// Collect also from a database that belongs to `mailroom dev`
    #[arg(long, help_heading = heading::DATABASE)]
    dev: bool,

    #[command(flatten)]
    pub(crate) settings: CollectSettings,
}

/// Failures that concern the settings are returned, any other is logged.
pub(crate) async fn run(arguments: CollectArguments) -> Outcome {
    log::start(arguments.settings.log_format, arguments.settings.log_level);
    match collect(arguments).await {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is_usage() => Err(error),
        Err(error) => {
            tracing::error!(event = "failed", reason = %error, "ending");
            Ok(error.exit_code())
        }
    }
}

async fn collect(
    CollectArguments { key_file, schema, dev, settings }: CollectArguments,
) -> Result<(), CommandError> {
    let connection = connection_settings(schema)?;
    let keys = KeySource::find(key_file.as_deref(), KeyUse::Signing(settings.token_format))?;
    match &settings.sender {
        Some(command) => {
            let sender = Sender::new(command.clone(), settings.timeouts.sender_timeout);
            collect_into(sender, settings, connection, keys, dev).await
        }
        None => collect_into(Stdout::start()?, settings, connection, keys, dev).await,
    }
}

/// Runs the collector. If the task that listens ends before it, the collector is stopped in order,
/// and that is an error: it would miss notifications.
async fn collect_into(
    sink: impl Sink + 'static,
    settings: CollectSettings,
    connection: ConnectionSettings,
    source: KeySource,
    is_for_development: bool,
) -> Result<(), CommandError> {
    let format = settings.token_format;
    let keys = source.load()?;
    let (key_sender, signing_key) = watch::channel(Arc::new(keys.signing_key(format)?));
    let stop = CancellationToken::new();
    let terminations =
        signals::on_termination(stop.clone()).map_err(CommandError::because(NOT_STARTED))?;
    let key_file = match &source {
        KeySource::File(path) => Some(path.display().to_string()),
        KeySource::Environment(_) => None,
    };
    let hangups = signals::on_hangup(move || reload(&source, format, &key_sender))
        .map_err(CommandError::because(NOT_STARTED))?;
    log_start(&settings, &connection, key_file.as_deref(), keys.count());
    let metrics = Arc::new(Metrics::default());
    let counted = Arc::clone(&metrics);
    let traces = Recorder::of_environment(move |spans| counted.spans_dropped(spans));
    let (calls, called) = watch::channel(0);
    serve_metrics(&settings, &connection, &metrics, calls)?;
    service::report(&metrics).map_err(CommandError::because(NOT_STARTED))?;
    show_signs_of_life(Arc::clone(&metrics));
    // What comes later is for the next run.
    let listens = settings.wake == Wake::Listen && !settings.once;
    // On the base schema writers always notify.
    let (idle_lock, holder) =
        idle_lock::pair(settings.queue_kind == QueueKind::Deliveries && listens);
    if let (QueueKind::Deliveries, Some(log), false) =
        (settings.queue_kind, settings.retention, settings.once)
    {
        let ages = Ages { log, tokens: settings.token_retention };
        tokio::spawn(retention::prune_hourly(connection.clone(), ages, Arc::clone(&metrics)));
    }
    #[cfg(feature = "relay")]
    follow_verdicts(&settings, &connection, &metrics).await?;
    let mut listener = listens.then(|| {
        Listener::start(
            connection.clone(),
            &settings.channel_name,
            settings.healthcheck_interval,
            holder,
        )
    });
    // Where nobody can call, the sender of this channel is dropped at once.
    let wakeups = listener.as_ref().map_or(called, |listener| listener.wakeups.clone());
    let inputs = Inputs { wakeups, idle_lock, stop: stop.clone(), metrics, traces: traces.clone() };
    let mut collecting: Pin<Box<dyn Future<Output = Result<(), CollectError>>>> =
        match settings.queue_kind {
            QueueKind::Cursor => {
                let queue = CursorQueue::new(connection, &settings);
                Box::pin(Collector::new(queue, sink, &settings, signing_key, inputs).run())
            }
            QueueKind::Deliveries => {
                let queue =
                    DeliveriesQueue::new(connection, settings.deliveries, settings.lease, format);
                let mut queue = queue.map_err(CommandError::because(NOT_STARTED))?;
                queue.collect_for(settings.installation.clone());
                queue.run_with(&shown::all(&settings));
                if is_for_development {
                    queue.take_development();
                }
                if settings.wake == Wake::Call {
                    queue.may_rest();
                }
                Box::pin(Collector::new(queue, sink, &settings, signing_key, inputs).run())
            }
        };
    let listening_ended =
        OptionFuture::from(listener.as_mut().map(|listener| listener.task.join_next()));
    tokio::select! {
        outcome = &mut collecting => {
            traces.finish();
            outcome?;
            tracing::info!(event = "ended", "ended");
            return Ok(());
        }
        Some(_) = listening_ended => {}
        never = terminations => match never {},
        never = hangups => match never {},
    }
    stop.cancel();
    let outcome = collecting.await;
    traces.finish();
    outcome?;
    let fault = "the task that listens to the database ended by a fault of this program; start it \
                 again and report what the log says before";
    Err(CommandError::Failure(fault.to_owned()))
}

/// Records what senders at a broker say, if one is named.
#[cfg(feature = "relay")]
async fn follow_verdicts(
    settings: &CollectSettings,
    connection: &ConnectionSettings,
    metrics: &Arc<Metrics>,
) -> Result<(), CommandError> {
    let Some(from) = settings.verdicts_from.as_ref().filter(|_| !settings.once) else {
        return Ok(());
    };
    let broker = mailroom_relay::Verdicts::connect(from).await?;
    let of_verdicts = verdicts::Settings {
        installation: settings.installation.clone(),
        suppresses_unknown: settings.deliveries.suppress_unknown,
    };
    let (connection, metrics) = (connection.clone(), Arc::clone(metrics));
    tokio::spawn(verdicts::follow(broker, connection, of_verdicts, metrics));
    Ok(())
}

/// Serves metrics if an address is set for them, and counts calls there if they wake.
fn serve_metrics(
    settings: &CollectSettings,
    connection: &ConnectionSettings,
    metrics: &Arc<Metrics>,
    calls: watch::Sender<u64>,
) -> Result<(), CommandError> {
    let Some(address) = settings.metrics_address else { return Ok(()) };
    let server = metrics::Server {
        address,
        metrics: Arc::clone(metrics),
        connection: connection.clone(),
        rate: settings.deliveries.rate,
        lease: (settings.queue_kind == QueueKind::Deliveries).then_some(settings.lease),
        calls: (settings.wake == Wake::Call).then_some(calls),
    };
    server.start().map_err(CommandError::because(NOT_STARTED))?;
    Ok(())
}

/// Shows from now on that tasks have their turn.
fn show_signs_of_life(metrics: Arc<Metrics>) {
    tokio::spawn(async move {
        loop {
            metrics.health.turned();
            sleep(SIGN_OF_LIFE).await;
        }
    });
}

/// Logs the versions, and every setting that is no secret, by the name of its variable: in text
/// those that have another value than the default.
fn log_start(
    settings: &CollectSettings,
    connection: &ConnectionSettings,
    key_file: Option<&str>,
    keys: usize,
) {
    for (name, nearest) in unknown_variables() {
        tracing::warn!(
            event = "unknown_variable",
            name,
            nearest,
            "a variable of the environment is no setting"
        );
    }
    tracing::info!(
        event = "started",
        version = env!("CARGO_PKG_VERSION"),
        schema_version = MIGRATIONS.last().map(|migration| migration.version),
        database = %connection,
        schema = %connection.schema,
        keys,
        key_file,
        token_format = %shown::token_format(settings),
        changed = %shown::changed(settings),
        settings = %shown::all(settings),
        "the collector starts"
    );
}

/// A file that cannot be used changes nothing: the keys in use are better than none.
fn reload(source: &KeySource, format: Option<Version>, key: &watch::Sender<Arc<SigningKey>>) {
    let KeySource::File(path) = source else {
        tracing::warn!(
            event = "keys_kept",
            "SIGHUP: nothing to read again, the key came from the environment of this process"
        );
        return;
    };
    match source.load().and_then(|keys| Ok((keys.signing_key(format)?, keys.count()))) {
        Ok((new, count)) => {
            key.send_replace(Arc::new(new));
            let key_file = path.display();
            tracing::info!(
                event = "keys_read",
                count,
                %key_file,
                "SIGHUP: the keys were read, and the first one signs from now on"
            );
        }
        Err(error) => {
            tracing::error!(event = "keys_kept", reason = %error, "SIGHUP: the keys in use stay");
        }
    }
}
