//! `mailroom dev`: shows the mails of a developer's database.
//!
//! `folder` (files of this machine: key, configuration, environment), `postgres` (a server that is
//! deleted at the end, under an `account` that may run it), `database` (whether it may be used, its
//! schema and its mark), `application` (its variables), `sink` (mails into the inbox).

mod application;
mod database;
mod folder;
mod postgres;
mod sink;

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args as _, FromArgMatches as _};
use mailroom_connect::{ConnectionSettings, Environment};
use mailroom_inbox::Inbox;
use mailroom_traces::Recorder;
use mailroom_verifier_core::Version;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use self::folder::{Folder, FormerEnvironment};
use self::postgres::Server;
use self::sink::InboxSink;
use super::{
    CommandError, DATABASE_URL, Outcome, connection_settings, keygen, print, random_text, report,
    warn,
};
use crate::collect::{Collector, Inputs};
use crate::config::{
    CollectSettings, LineFormat, SchemaSetting, heading, setting_of_variable, token_format,
};
use crate::environment::variable;
use crate::keys::{KeySource, KeyUse};
use crate::queue::DeliveriesQueue;
use crate::signals;
use crate::wake::idle_lock;
use crate::wake::listener::Listener;

/// Why this machine cannot do it, and what helps.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct DevError(String);

#[derive(clap::Args)]
pub(crate) struct DevArguments {
    /// Port of the inbox on this machine; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8025)]
    port: u16,

    /// Configuration of the sender, for its templates and links; default: send.toml of the folder
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where links lead, such as `http://localhost:3000`, instead of where the configuration says
    #[arg(long, value_name = "URL")]
    links: Option<String>,

    /// File of keys; default: that of `MAILROOM_KEY_FILE`, or the key of `MAILROOM_SECRET_KEY`, or
    /// one that is made in the folder
    #[arg(long, value_name = "FILE")]
    #[arg(help_heading = heading::KEYS)]
    key_file: Option<PathBuf>,

    /// Folder for the key, the configuration and the variables of the application
    #[arg(long, value_name = "FOLDER", default_value = ".mailroom")]
    folder: PathBuf,

    /// Also make the tables `accounts`, `tokens` and `jobs`
    #[arg(long)]
    with_accounts: bool,

    #[command(flatten)]
    schema: SchemaSetting,
}

/// Shows mails until SIGTERM or SIGINT.
pub(crate) async fn run(arguments: DevArguments) -> Outcome {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port));
    let listener = listener.await.map_err(CommandError::because(format_args!(
        "the inbox cannot listen at port {}; name another one by --port, or 0 for any",
        arguments.port
    )))?;
    let folder = Folder::open(&arguments.folder)?;
    let mut variables = Zeroizing::new(String::new());
    let former = folder.former_environment();
    let (format, keys) = keys(&arguments, &folder, &former, &mut variables)?;
    let config = match arguments.config {
        Some(config) => config,
        None => folder.send()?,
    };
    let (connection, server) = database(arguments.schema, &former, &mut variables)?;
    let mut say = |line: &str| report(line);
    let actions = database::prepare(&connection, arguments.with_accounts, &mut say).await?;
    let (names, shown): (Vec<_>, Vec<_>) = actions.into_iter().unzip();
    match mailroom_sender::actions_without_mail(&config, &names) {
        Err(error) => warn(error),
        Ok(missing) if missing.is_empty() => {}
        Ok(missing) => warn(format_args!("no template for {}", missing.join(", "))),
    }
    for lost in mailroom_sender::lost_placeholders(&config, &shown).unwrap_or_default() {
        warn(lost);
    }
    let environment =
        if variables.is_empty() { None } else { Some(folder.environment(&variables)?) };

    let inbox = Arc::new(Inbox::default());
    let address =
        listener.local_addr().map_err(CommandError::because("the inbox has no address"))?;
    let sink = InboxSink::new(Arc::clone(&inbox), config.clone(), arguments.links);
    let stop = CancellationToken::new();
    let terminations = signals::on_termination(stop.clone())
        .map_err(CommandError::because("signals cannot be taken"))?;
    let settings = settings()?;
    let (idle_lock, holder) = idle_lock::pair(true);
    let mut listening = Listener::start(
        connection.clone(),
        &settings.channel_name,
        settings.healthcheck_interval,
        holder,
    );
    let wakeups = listening.wakeups.clone();
    let mut queue = DeliveriesQueue::new(connection, settings.deliveries, settings.lease, format)
        .map_err(CommandError::because("the operating system gives no random bytes"))?;
    queue.collect_for(settings.installation.clone());
    queue.take_development();
    let (_key, signing_key) = watch::channel(Arc::new(keys.load()?.signing_key(format)?));
    let inputs = Inputs {
        wakeups,
        idle_lock,
        stop: stop.clone(),
        metrics: Arc::default(),
        traces: Recorder::default(),
    };
    let collecting = Collector::new(queue, sink, &settings, signing_key, inputs).run();

    print(format_args!("Templates, sender and links: {}", config.display()))?;
    if let Some(environment) = environment {
        let environment = environment.display();
        print(format_args!(
            "Your application: `set -a; . {environment}`, or node --env-file={environment}, or for \
             Next.js `cp {environment} .env.local`"
        ))?;
    }
    let end = if server.is_some() { ", and deletes the database" } else { "" };
    print(format_args!("Ctrl-C ends it{end}. Nothing leaves this machine."))?;
    print(format_args!("Inbox: http://{address}/"))?;
    let outcome = tokio::select! {
        outcome = Box::pin(collecting) => outcome.map_err(CommandError::from),
        shown = mailroom_inbox::serve(listener, inbox) => {
            shown.map_err(CommandError::because("the inbox cannot be shown"))
        }
        _ = listening.task.join_next() => {
            Err(CommandError::Failure("the task that listens to the database ended".to_owned()))
        }
        never = terminations => match never {},
    };
    drop(server);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// The keys that sign, and the format if one is asked for. A key that is made goes to the
/// application's variables.
fn keys(
    arguments: &DevArguments,
    folder: &Folder,
    former: &FormerEnvironment,
    variables: &mut String,
) -> Result<(Option<Version>, KeySource), CommandError> {
    let format = setting_of_variable("MAILROOM_TOKEN_FORMAT", token_format);
    let format = format.map_err(CommandError::Usage)?;
    let is_given = arguments.key_file.is_some()
        || ["MAILROOM_KEY_FILE", "MAILROOM_SECRET_KEY", "MAILROOM_SIGNING_KEY"]
            .iter()
            .any(|name| variable(name).is_some() && !former.has(name));
    if is_given || format.is_some_and(Version::is_public) {
        let source = KeySource::find(arguments.key_file.as_deref(), KeyUse::Signing(format))?;
        return Ok((format, source));
    }
    let path = folder.key();
    if !path.exists() {
        folder.write_key(&keygen::new_key(Version::V2)?)?;
    }
    let text = std::fs::read_to_string(&path).map(Zeroizing::new);
    let text = text.map_err(CommandError::because(path.display()))?;
    writeln!(variables, "MAILROOM_SECRET_KEY={}", text.trim())
        .expect("a string takes all that is written");
    Ok((format, KeySource::File(path)))
}

/// The database that the environment names, or one that is made and deleted.
fn database(
    schema: SchemaSetting,
    former: &FormerEnvironment,
    variables: &mut String,
) -> Result<(ConnectionSettings, Option<Server>), CommandError> {
    let reason = if variable(DATABASE_URL).is_none() {
        "MAILROOM_DATABASE_URL is not set"
    } else if former.has(DATABASE_URL) {
        // Only of a database that this command has made it is in that file.
        "the database of MAILROOM_DATABASE_URL was that of the last `mailroom dev`"
    } else {
        let settings = connection_settings(schema)?;
        let given = std::env::var(DATABASE_URL).map(Zeroizing::new).unwrap_or_default();
        application::add_database(variables, &given, &settings, former);
        return Ok((settings, None));
    };
    report(format_args!("{reason}; starting a PostgreSQL that is deleted at the end"));
    let server = Server::start(&random_text()?)?;
    let settings = ConnectionSettings::resolve(&server.url, &Environment::of_process());
    let mut settings = settings.map_err(CommandError::because("the new database"))?;
    settings.schema = schema.read().map_err(CommandError::Usage)?;
    writeln!(variables, "{DATABASE_URL}={}", *server.url)
        .expect("a string takes all that is written");
    application::add_database(variables, &server.url, &settings, former);
    Ok((settings, Some(server)))
}

/// The collector's defaults, with batches that are sent at once. Variables of a collector that was
/// set up for something else do not count.
fn settings() -> Result<CollectSettings, CommandError> {
    let command = CollectSettings::augment_args(clap::Command::new("dev"));
    let command = command.mut_args(|arg| arg.env(None::<&str>));
    let arguments = ["dev", "--batch-timeout=0", "--retention=off", "--missing-schema=exit"];
    let parsed = command.try_get_matches_from(arguments);
    let settings = parsed.and_then(|matches| CollectSettings::from_arg_matches(&matches));
    let mut settings = settings.map_err(|error| CommandError::Failure(error.to_string()))?;
    settings.line_format = LineFormat::Ndjson;
    Ok(settings)
}

impl From<DevError> for CommandError {
    fn from(error: DevError) -> Self {
        Self::Failure(error.to_string())
    }
}
