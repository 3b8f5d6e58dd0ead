//! `mailroom migrate`: brings the database to the schema that this version works with, or back.

use std::env::{self, VarError};
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, Subcommand};
use tokio_postgres::Client;
use tokio_postgres::error::{DbError, SqlState};

use crate::migrate::{self, DataLoss, MIGRATIONS, Plan, Progress, RecordTable};
use crate::postgres::{
    self, ConnectError, ConnectionSettings, ProcessEnvironment, SessionOptions, SettingsError,
};

/// Arguments of `mailroom migrate`.
///
/// The database is that of `MAILROOM_DATABASE_URL`. The role has to own Mailroom's tables, and becomes the owner of
/// those that are made.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    #[arg(
        long,
        value_name = "TABLE",
        global = true,
        value_parser = RecordTable::from_str,
        help = "Table, or schema.table, that records which migrations are applied, if schema_migrations is another program's \
                [env: MAILROOM_MIGRATIONS_TABLE] [default: schema_migrations]"
    )]
    migrations_table: Option<RecordTable>,

    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Action {
    /// Apply all migrations that the database lacks.
    Up {
        /// First record, without executing them, that all migrations up to number N are applied.
        ///
        /// For a database whose schema was loaded by hand: 0 for the base schema of an existing installation. Does
        /// nothing if the database records this version or a later one.
        #[arg(long, value_name = "N", value_parser = migration_number)]
        baseline: Option<u64>,
    },
    /// Take back the newest applied migration.
    Down {
        /// Go down even if that drops tables with all they hold.
        #[arg(long)]
        yes: bool,
    },
    /// Show which migrations are applied.
    Status,
}

fn migration_number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "it must be the number of a migration, such as 0 for the base schema")
}

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing says which database.
    #[error("MAILROOM_DATABASE_URL is not set; set it to the database's URL or keyword string")]
    NoDatabase,
    /// What says which database is not text.
    #[error("MAILROOM_DATABASE_URL is not valid UTF-8; write it in UTF-8, or percent-encode it")]
    NotUtf8,
    /// What says where to record is no name of a table.
    #[error("MAILROOM_MIGRATIONS_TABLE: {0}")]
    Table(&'static str),
    /// What says which database is not understood.
    #[error("MAILROOM_DATABASE_URL: {0}")]
    Settings(SettingsError),
    /// The database was not reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The database was reached and not migrated.
    #[error(transparent)]
    Migrate(#[from] migrate::Error),
    /// Nobody reads what the command says.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl Error {
    /// 2 if the command was called in the wrong way, otherwise 1.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::NoDatabase
            | Self::NotUtf8
            | Self::Settings(_)
            | Self::Table(_)
            | Self::Migrate(migrate::Error::UnknownBaseline { .. }) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Runs the command. What it does goes to standard error while it does it, the outcome to standard output.
pub async fn run(arguments: &Arguments) -> Result<(), Error> {
    let table = match &arguments.migrations_table {
        Some(table) => table.clone(),
        None => table_of_environment()?,
    };
    let plan = Plan { migrations: MIGRATIONS, table };
    let mut client = connect().await?;
    let outcome = match arguments.action {
        Action::Up { baseline } => up(&mut client, plan, baseline).await?,
        Action::Down { yes } => down(&mut client, plan, yes).await?,
        Action::Status => migrate::status(&client, plan).await?.to_string(),
    };
    writeln!(io::stdout(), "{outcome}")?;
    Ok(())
}

async fn up(client: &mut Client, plan: Plan<'_>, baseline: Option<u64>) -> Result<String, Error> {
    if let Some(version) = baseline {
        let is_new = migrate::baseline(client, plan.clone(), version, &mut say).await?;
        let what = if is_new { "recorded" } else { "already recorded, or a later one" };
        writeln!(io::stderr(), "version {version} is {what}").ok();
    }
    let applied = migrate::up(client, plan, &mut say).await?;
    Ok(match applied {
        0 => "no migration is missing".to_owned(),
        1 => "1 migration applied".to_owned(),
        applied => format!("{applied} migrations applied"),
    })
}

async fn down(client: &mut Client, plan: Plan<'_>, yes: bool) -> Result<String, Error> {
    let data_loss = if yes { DataLoss::Accepted } else { DataLoss::Refused };
    let taken_back = migrate::down(client, plan, data_loss, &mut say).await?;
    Ok(match taken_back {
        None => "no migration is applied".to_owned(),
        Some(migration) => format!("{migration} is taken back"),
    })
}

/// A closed standard error must not stop a migration half-way through the list.
fn say(progress: Progress<'_>) {
    writeln!(io::stderr(), "{progress}").ok();
}

/// What a migration says, such as how many mails may go out a second time. The server's own notices, such as that an extension
/// is there already, have codes of their own.
fn pass_on(notice: &DbError) {
    if notice.code() == &SqlState::SUCCESSFUL_COMPLETION {
        writeln!(io::stderr(), "{}: {}", notice.severity(), notice.message()).ok();
    }
}

fn table_of_environment() -> Result<RecordTable, Error> {
    match env::var_os("MAILROOM_MIGRATIONS_TABLE").filter(|name| !name.is_empty()) {
        Some(name) => name.to_string_lossy().parse().map_err(Error::Table),
        None => Ok(RecordTable::default()),
    }
}

async fn connect() -> Result<Client, Error> {
    let text = match env::var("MAILROOM_DATABASE_URL") {
        Ok(text) if !text.is_empty() => text,
        Err(VarError::NotUnicode(_)) => return Err(Error::NotUtf8),
        _ => return Err(Error::NoDatabase),
    };
    let settings = ConnectionSettings::resolve(&text, &ProcessEnvironment).map_err(Error::Settings)?;
    let options =
        SessionOptions { application_name: "mailroom migrate", statement_timeout: None, needs_session: true };
    let session = postgres::connect(&settings, &options).await?;
    tokio::spawn(async move {
        // The client's next call reports why a connection ended.
        session.connection.run_with(pass_on).await.ok();
    });
    Ok(session.client)
}
