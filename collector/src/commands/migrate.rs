//! `mailroom migrate`: brings the database to the schema that this version works with, or back.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tokio_postgres::Client;
use tokio_postgres::error::{DbError, SqlState};

use super::session::connect;
use super::{CommandError, Outcome};
use crate::config::{Refusal, Setting};
use crate::migrate::{self, DataLoss, HistoryTable, MIGRATIONS, MigrateError, Plan};

/// Arguments of `mailroom migrate`.
///
/// The database is that of `MAILROOM_DATABASE_URL`. The role has to own Mailroom's tables, and becomes the owner of
/// those that are made.
#[derive(Args)]
pub struct MigrateArguments {
    /// Table, or schema.table, that records which migrations are applied, if another program has the default
    #[arg(
        long,
        value_name = "TABLE",
        global = true,
        env = "MAILROOM_MIGRATIONS_TABLE",
        default_value = "schema_migrations",
        value_parser = Setting(history_table)
    )]
    migrations_table: HistoryTable,

    #[command(subcommand)]
    action: MigrateAction,
}

#[derive(Subcommand)]
enum MigrateAction {
    /// Apply all migrations that the database lacks
    Up {
        /// First record, without executing them, that all migrations up to number N are applied
        ///
        /// For a database whose schema was loaded by hand: 0 for the base schema of an existing installation. Does
        /// nothing if the database records this version or a later one.
        #[arg(long, value_name = "N", value_parser = migration_number)]
        baseline: Option<i64>,
    },
    /// Take back the newest applied migration
    Down {
        /// Go down even if that drops tables with all their rows
        #[arg(long)]
        yes: bool,
    },
    /// Show which migrations are applied
    Status,
}

fn migration_number(text: &str) -> Result<i64, &'static str> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or("it must be the number of a migration, such as 0 for the base schema")
}

fn history_table(text: &str) -> Result<HistoryTable, Refusal> {
    text.parse().map_err(|allowed: &str| Refusal::Allowed(allowed.to_owned()))
}

impl From<MigrateError> for CommandError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::UnknownBaseline(..) => Self::Usage(error.to_string()),
            _ => Self::Failure(error.to_string()),
        }
    }
}

/// The progress goes to standard error, the outcome to standard output.
pub async fn run(arguments: MigrateArguments) -> Outcome {
    let plan = Plan { migrations: MIGRATIONS, table: arguments.migrations_table };
    let session = connect("mailroom migrate", true).await?;
    // The client's next call reports why a connection ended.
    tokio::spawn(async { session.connection.run_with(show).await.ok() });
    let mut client = session.client;
    let outcome = match arguments.action {
        MigrateAction::Up { baseline } => up(&mut client, plan, baseline).await?,
        MigrateAction::Down { yes } => {
            let data_loss = if yes { DataLoss::Accepted } else { DataLoss::Refused };
            match migrate::down(&mut client, plan, data_loss, &mut report).await? {
                None => "no migration is applied".to_owned(),
                Some(migration) => format!("{migration} is taken back"),
            }
        }
        MigrateAction::Status => migrate::status(&client, plan).await?.text,
    };
    writeln!(io::stdout(), "{outcome}").map_err(CommandError::Output)?;
    Ok(ExitCode::SUCCESS)
}

async fn up(client: &mut Client, plan: Plan<'_>, baseline: Option<i64>) -> Result<String, MigrateError> {
    if let Some(version) = baseline {
        let is_new = migrate::baseline(client, plan.clone(), version, &mut report).await?;
        let state = if is_new { "recorded" } else { "already recorded, or a later one" };
        report(&format!("version {version} is {state}"));
    }
    Ok(match migrate::up(client, plan, &mut report).await? {
        0 => "no migration is missing".to_owned(),
        1 => "1 migration applied".to_owned(),
        applied => format!("{applied} migrations applied"),
    })
}

/// A closed standard error must not stop a migration half-way through the list.
fn report(line: &str) {
    writeln!(io::stderr(), "{line}").ok();
}

/// Reports what a migration raises, such as how many mails may go out a second time. The server's own notices, such as that an
/// extension is there already, have codes of their own.
fn show(notice: &DbError) {
    if notice.code() == &SqlState::SUCCESSFUL_COMPLETION {
        report(&format!("{}: {}", notice.severity(), notice.message()));
    }
}
