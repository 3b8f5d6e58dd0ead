//! The program `mailroom`: runs one of the commands.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use mailroom::cli::{self, Command};
#[cfg(feature = "send")]
use mailroom::commands::send;
use mailroom::commands::{collect, keygen, migrate, prune, retry, sign, status, verify};
use mailroom::log::{self, LogFormat};
use tracing::level_filters::LevelFilter;

fn main() -> anyhow::Result<ExitCode> {
    let command = match cli::parse() {
        Ok(command) => command,
        Err(error) => return Ok(cli::report(&error)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the operating system refuses what the program needs to run")?;
    let code = runtime.block_on(run(command));
    // Without waiting for a name that is still being looked up.
    runtime.shutdown_background();
    Ok(code)
}

async fn run(command: Command) -> ExitCode {
    if !matches!(command, Command::Collect(_)) {
        log::start(LogFormat::Text, LevelFilter::WARN);
    }
    let outcome = match command {
        Command::Collect(arguments) => Box::pin(collect::run(*arguments)).await,
        Command::Migrate(arguments) => migrate::run(arguments).await,
        Command::Status(arguments) => status::run(arguments).await,
        Command::Retry(arguments) => retry::run(&arguments).await,
        Command::Prune(arguments) => prune::run(arguments).await,
        #[cfg(feature = "send")]
        Command::Send(arguments) => send::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Sign(arguments) => sign::run(&arguments),
        Command::Keygen(arguments) => keygen::run(&arguments),
    };
    outcome.unwrap_or_else(|error| {
        // A closed standard error does not change the status.
        writeln!(io::stderr(), "mailroom: {error}").ok();
        error.exit_code()
    })
}
