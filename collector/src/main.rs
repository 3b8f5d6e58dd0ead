//! The command line of Mailroom.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mailroom::commands::migrate;

/// Collects tokens from PostgreSQL and hands them, signed, to whatever sends the mail.
#[derive(Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Bring the database to the schema that this version works with, or back.
    Migrate(migrate::Arguments),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match CommandLine::parse().command {
        Command::Migrate(arguments) => match migrate::run(&arguments).await {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("mailroom: {error}");
                error.exit_code()
            }
        },
    }
}
