//! The program `mailroom`: runs one of the commands.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use mailroom::commands::{collect, keygen, migrate, prune, retry, sign, status, verify};
use mailroom::telemetry::{self, LogFormat, LogLevel};
use mailroom::usage;

/// Collects tokens from PostgreSQL and hands them, signed, to whatever sends the mail.
///
/// Ends with 0 after success, 1 after a failure, 2 if a setting or an argument is wrong.
#[derive(Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Sign the tokens of new accounts and recoveries and write them to standard output, batch by batch
    ///
    /// Standard output carries lines `action,email,username,token,code`, repeated for every token of a batch; log lines
    /// go to standard error. The database is that of `MAILROOM_DATABASE_URL`, the key that of `MAILROOM_SECRET_KEY` (v1,
    /// v2), of `MAILROOM_SIGNING_KEY` (v3) or of a key file: none has a flag, because arguments are visible to everybody on the
    /// machine. Times are in milliseconds, or carry a unit: 500ms, 5s, 2m, 1h.
    ///
    /// Collects until SIGTERM or SIGINT, and waits for a database that is away. SIGHUP reads the key file again.
    Collect(Box<collect::Arguments>),
    /// Bring the database to the schema that this version works with, or back
    Migrate(migrate::Arguments),
    /// Show how much waits, is being sent, was given up or expired
    ///
    /// Of the queue of deliveries in the database of `MAILROOM_DATABASE_URL`. Ends with 1 if anything of it is an alarm, and says
    /// what.
    Status(status::Arguments),
    /// Put tokens that were given up back into the queue
    ///
    /// Ids are those of the rows of the table tokens, which log lines name. A token goes out once, however many put it back at
    /// the same time. Ends with 1 if one that is named is not dead.
    Retry(retry::Arguments),
    /// Delete what is old from the log of hand-overs
    ///
    /// In steps of a few milliseconds, beside collectors and everybody else.
    Prune(prune::Arguments),
    /// Say whether a token is genuine
    ///
    /// That is, whether one of the keys signed it for this action and code and, in v2 and v3, whether it is still valid. It
    /// does not prove that the link is unused, and of v1 not that it is still valid: only the database knows. The code of a
    /// v3 recovery is for the database too. Ends with 0 if every token is genuine, 1 if one is not, 2 if the command was
    /// called in the wrong way. The keys are those of `MAILROOM_SECRET_KEY` (v1, v2) and of `MAILROOM_PUBLIC_KEY` or
    /// `MAILROOM_SIGNING_KEY` (v3), or those of a key file.
    Verify(verify::Arguments),
    /// Make a token, for tests and for mails sent by hand
    ///
    /// The key is that of `MAILROOM_SECRET_KEY` (v1, v2) or of `MAILROOM_SIGNING_KEY` (v3), or the first one of a key file.
    Sign(sign::Arguments),
    /// Make a key: 64 hexadecimal characters for v1 and v2, `mrsk_…` for v3; or tell the public key of a private one
    Keygen(keygen::Arguments),
}

fn main() -> anyhow::Result<ExitCode> {
    let command = match CommandLine::try_parse() {
        Ok(line) => line.command,
        Err(error) => return Ok(usage::answer(&error)),
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
        telemetry::start(LogFormat::Text, LogLevel::Warn);
    }
    match command {
        Command::Collect(arguments) => match Box::pin(collect::run(&arguments)).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) if !error.is_setting() => {
                tracing::error!(event = "failed", reason = %error, "ending");
                error.exit_code()
            }
            Err(error) => failed(&error, error.exit_code()),
        },
        Command::Migrate(arguments) => match migrate::run(&arguments).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error, error.exit_code()),
        },
        Command::Status(arguments) => match status::run(arguments).await {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => failed(&error, error.exit_code()),
        },
        Command::Retry(arguments) => match retry::run(&arguments).await {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => failed(&error, error.exit_code()),
        },
        Command::Prune(arguments) => match prune::run(arguments).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error, error.exit_code()),
        },
        Command::Verify(arguments) => match verify::run(&arguments) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => failed(&error, error.exit_code()),
        },
        Command::Sign(arguments) => match sign::run(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error, error.exit_code()),
        },
        Command::Keygen(arguments) => match keygen::run(&arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error, error.exit_code()),
        },
    }
}

fn failed(error: &impl Display, code: ExitCode) -> ExitCode {
    // Nobody may be reading it; the code tells all the same.
    writeln!(io::stderr(), "mailroom: {error}").ok();
    code
}
