//! The program `mailroom`: runs one of the commands.

use std::fmt::Display;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use mailroom::commands::{collect, keygen, migrate, sign, verify};
use mailroom::telemetry::{self, LogFormat, LogLevel};

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
    Collect(collect::Arguments),
    /// Bring the database to the schema that this version works with, or back
    Migrate(migrate::Arguments),
    /// Say whether a token is genuine
    Verify(verify::Arguments),
    /// Make a token
    Sign(sign::Arguments),
    /// Make a key
    Keygen(keygen::Arguments),
}

fn main() -> anyhow::Result<ExitCode> {
    let command = CommandLine::parse().command;
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
            Err(error) => failed(&error, error.exit_code()),
        },
        Command::Migrate(arguments) => match migrate::run(&arguments).await {
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
    eprintln!("mailroom: {error}");
    code
}
