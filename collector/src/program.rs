//! The program: reads the command line, and runs the command that it names.

use std::io;
use std::process::ExitCode;

use tracing::level_filters::LevelFilter;

use crate::cli::{self, Command};
#[cfg(any(feature = "bounces", feature = "serve"))]
use crate::commands::connection_settings;
#[cfg(feature = "dev")]
use crate::commands::dev;
#[cfg(feature = "ui")]
use crate::commands::ui;
use crate::commands::{
    Outcome, actions, check, collect, completions, dead, discard, keygen, man, migrate, prune,
    report_error, retry, sign, status, subject, suppress, trace, verify,
};
#[cfg(feature = "send")]
use crate::commands::{init, send};
use crate::log::{self, LogFormat};
use crate::secrecy;

/// Runs the command that the arguments of this process name; returns the status to end with.
pub fn run() -> io::Result<ExitCode> {
    secrecy::keep();
    let command = match cli::parse() {
        Ok(command) => command,
        Err(error) => {
            let code = cli::report(&error);
            return Ok(if error.exit_code() == 0 {
                code
            } else {
                status::refused().unwrap_or(code)
            });
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(execute(command));
    // Without waiting for a name that is still being looked up.
    runtime.shutdown_background();
    Ok(outcome.unwrap_or_else(|error| {
        report_error(&error);
        error.exit_code()
    }))
}

async fn execute(command: Command) -> Outcome {
    match &command {
        Command::Collect(_) => {}
        // A service, whose log says what it does.
        #[cfg(feature = "serve")]
        Command::Serve { .. } => log::start(LogFormat::Text, LevelFilter::INFO),
        _ => log::start(LogFormat::Text, LevelFilter::WARN),
    }
    match command {
        Command::Collect(arguments) => Box::pin(collect::run(*arguments)).await,
        #[cfg(feature = "send")]
        Command::Init(arguments) => init::run(&arguments),
        Command::Check(arguments) => check::run(arguments).await,
        Command::Migrate(arguments) => migrate::run(arguments).await,
        Command::Status(arguments) => status::run(arguments).await,
        Command::Discard(arguments) => discard::run(arguments).await,
        Command::Actions(arguments) => actions::run(arguments).await,
        Command::Dead(arguments) => dead::run(arguments).await,
        Command::Retry(arguments) => retry::run(arguments).await,
        Command::Prune(arguments) => prune::run(arguments).await,
        Command::Suppress(arguments) => suppress::run(arguments).await,
        Command::Subject(arguments) => subject::run(arguments).await,
        Command::Trace(arguments) => trace::run(arguments).await,
        #[cfg(feature = "ui")]
        Command::Ui(arguments) => Box::pin(ui::run(arguments)).await,
        #[cfg(feature = "dev")]
        Command::Dev(arguments) => Box::pin(dev::run(*arguments)).await,
        #[cfg(feature = "bounces")]
        Command::Bounces { arguments, schema } => {
            let database = connection_settings(schema).map_err(|error| error.to_string());
            Ok(mailroom_bounces::run(&arguments, database).await)
        }
        #[cfg(feature = "serve")]
        Command::Serve { arguments, schema } => {
            let database = connection_settings(schema).map_err(|error| error.to_string());
            Ok(mailroom_serve::run(&arguments, database).await)
        }
        #[cfg(feature = "send")]
        Command::Send(arguments) => Box::pin(send::run(&arguments)).await,
        #[cfg(feature = "relay")]
        Command::Relay(arguments) => {
            Box::pin(mailroom_relay::relay(&arguments)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Sign(arguments) => sign::run(&arguments),
        Command::Keygen(arguments) => keygen::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, cli::definition()),
        Command::Man(arguments) => man::run(&arguments, cli::definition()),
    }
}
