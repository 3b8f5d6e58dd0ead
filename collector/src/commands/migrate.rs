//! `mailroom migrate`: brings the database to the schema that this version works with, or back.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use mailroom_connect::{Schema, SchemaClient, explain};
use tokio_postgres::Client;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::{ToSql, Type};

use super::{CommandError, Outcome, connect, connection_settings, print, report, warn};
use crate::config::{
    SchemaSetting, Setting, digits, heading, installation, must_be, setting_of_variable,
};
use crate::migrate::{
    self, DataLoss, HistoryTable, MIGRATIONS, MigrateError, Plan, Prefix, Script,
};
use crate::preflight::{self, Requirements};

/// What `down` ends with if no migration is applied, so that a loop ends.
const NOTHING_LEFT: u8 = 3;

#[derive(Args)]
pub(crate) struct MigrateArguments {
    /// Table, or schema.table, for what is applied; default: `MAILROOM_MIGRATIONS_TABLE`, or
    /// `schema_migrations`
    // clap would read the variable of a global flag also where the flag stands before the action,
    // and fail if it is invalid.
    #[arg(long, value_name = "TABLE", global = true, value_parser = Setting(history_table))]
    migrations_table: Option<HistoryTable>,

    #[command(flatten)]
    schema: SchemaSetting,

    #[command(subcommand)]
    action: MigrateAction,
}

#[derive(Subcommand)]
enum MigrateAction {
    /// Apply all migrations that the database lacks
    Up {
        /// First record, without executing them, that all migrations up to number N are applied
        ///
        /// For a schema that was loaded by hand: 0 for the base schema. Does nothing if this
        /// version or a later one is recorded.
        #[arg(long, value_name = "N", value_parser = migration_number)]
        baseline: Option<i64>,
        /// Install the schema `mailroom` alone, for an application with accounts of its own
        ///
        /// It refers to no table outside of it. The table `mailroom.migrations` records what is
        /// applied. Where it is installed already, `up` goes on with it also without this option.
        #[arg(long, conflicts_with_all = ["baseline", "migrations_table", "drop_secrets"])]
        #[arg(conflicts_with = "with_accounts")]
        without_accounts: bool,
        /// Also make the tables `accounts`, `tokens` and `jobs`, beside tables of others
        ///
        /// Only where a database has such tables is that asked for: most products have users and
        /// want --without-accounts.
        #[arg(long)]
        with_accounts: bool,
        /// Also drop the columns of the tokens' secrets and codes, which does not go back
        ///
        /// For installations whose applications redeem by `mailroom.redeem()` only.
        #[arg(long)]
        drop_secrets: bool,
        /// Change nothing: say which migrations would be applied
        #[arg(long, conflicts_with = "baseline")]
        dry_run: bool,
        /// With `--dry-run`: print the statements that they would execute
        #[arg(long, requires = "dry_run")]
        show_sql: bool,
    },
    /// Take back the newest applied migration; ends with status 3 if none is applied
    Down {
        /// Go down even if that drops tables with all their rows
        #[arg(long)]
        yes: bool,
    },
    /// Show which migrations are applied
    Status {
        /// Print one line of JSON
        #[arg(long, help_heading = heading::OUTPUT)]
        json: bool,
    },
    /// Print the statements of the migrations, for another migration tool
    ///
    /// It needs no database. Of all, the last statements record what is applied, so that
    /// `mailroom migrate` can go on. A step that builds an index concurrently must run outside a
    /// transaction.
    Sql {
        /// Number of the one migration to print
        #[arg(value_name = "N", value_parser = migration_number)]
        number: Option<i64>,
        /// Print the way back
        #[arg(long)]
        down: bool,
        /// All of an installation without accounts
        #[arg(long, required_unless_present_any = ["number", "with_accounts"])]
        #[arg(conflicts_with = "with_accounts")]
        without_accounts: bool,
        /// All of an installation with accounts, but for the one that drops secrets
        #[arg(long)]
        with_accounts: bool,
    },
    /// Let this cluster send the mails of a database that was restored from another one
    ///
    /// Collectors refuse such a database, also after `pg_upgrade`. If another copy is collected
    /// from, mails go out twice.
    Bind {
        /// Also call this installation NAME, which collectors that start from now on must have in
        /// `MAILROOM_INSTALLATION`
        ///
        /// It tells copies apart that have the same identifier: snapshots and clones of hosted
        /// databases, branches, disks. Without it the installation keeps the name that it has.
        #[arg(long, value_name = "NAME", value_parser = Setting(installation))]
        name: Option<String>,
        /// Take the installation's name away
        #[arg(long, conflicts_with = "name")]
        without_name: bool,
    },
    /// Make roles for collectors, applications, operators and `mailroom bounces`, each with the
    /// rights for its work and no others
    ///
    /// They do not log in: `CREATE ROLE web LOGIN IN ROLE mailroom_application` makes a login that
    /// does. Roles that exist get exactly these rights again, as after an upgrade.
    Roles {
        /// Print the statements, and execute none of them
        #[arg(long)]
        print: bool,
        /// What the names of the roles begin with; default: the schema's name and `_`
        #[arg(long, value_name = "PREFIX", value_parser = Setting(prefix))]
        prefix: Option<Prefix>,
    },
}

fn migration_number(text: &str) -> Result<i64, &'static str> {
    digits(text)
        .filter(|number| MIGRATIONS.iter().any(|migration| migration.version == *number))
        .ok_or("it must be the number of a migration, such as 0 for the base schema")
}

fn prefix(text: &str) -> Result<Prefix, String> {
    Prefix::parse(text).ok_or_else(|| must_be(text, Prefix::ALLOWED))
}

/// The table of `MAILROOM_MIGRATIONS_TABLE`.
pub(crate) fn named_table() -> Result<Option<HistoryTable>, CommandError> {
    setting_of_variable("MAILROOM_MIGRATIONS_TABLE", history_table).map_err(CommandError::Usage)
}

fn history_table(text: &str) -> Result<HistoryTable, String> {
    let allowed = "the name of a table, or schema.table, of small letters, digits and underscores";
    HistoryTable::parse(text).ok_or_else(|| must_be(text, allowed))
}

/// The progress goes to standard error, the outcome to standard output.
pub(crate) async fn run(arguments: MigrateArguments) -> Outcome {
    let asks_for_table = arguments.migrations_table.is_some();
    let table = match arguments.migrations_table {
        None => named_table()?,
        given => given,
    };
    if let MigrateAction::Sql { number, down, without_accounts, .. } = arguments.action {
        let schema = arguments.schema.read().map_err(CommandError::Usage)?;
        return print_statements(schema, table.unwrap_or_default(), number, down, without_accounts);
    }
    let settings = connection_settings(arguments.schema)?;
    let schema = settings.schema.clone();
    if table.as_ref() == Some(&HistoryTable::without_accounts(&schema)) {
        let fault =
            "is what Mailroom without accounts records in; give --migrations-table another name";
        return Err(CommandError::Usage(format!("{schema}.migrations {fault}")));
    }
    let session = connect(&settings, "mailroom migrate", true).await?;
    // The client's next call reports why a connection ended.
    tokio::spawn(async { session.connection.run_with(show).await.ok() });
    let mut client = SchemaClient { raw: session.client, schema: schema.clone() };
    let is_table_named = table.is_some();
    let table = table.unwrap_or_default();
    match arguments.action {
        MigrateAction::Sql { .. } => unreachable!("it needs no database, and has returned"),
        MigrateAction::Roles { print, prefix } => {
            give_rights(&client, &prefix.unwrap_or_else(|| Prefix::of(&schema)), print).await
        }
        MigrateAction::Bind { name, without_name } => {
            bind(&client, if without_name { Some(String::new()) } else { name }).await
        }
        MigrateAction::Down { yes } => {
            let plan = Plan::of_database(&client.raw, table, schema).await?;
            down(&mut client.raw, plan, yes).await
        }
        MigrateAction::Status { json } => {
            let plan = Plan::of_database(&client.raw, table, schema).await?;
            let status = migrate::look(&client.raw, plan).await?;
            print(if json { status.to_json().to_string() } else { status.to_string() })
        }
        MigrateAction::Up {
            baseline,
            without_accounts,
            with_accounts,
            drop_secrets,
            dry_run,
            show_sql,
        } => {
            let plan = if without_accounts {
                Plan::without_accounts(schema)
            } else if drop_secrets {
                Plan::dropping_secrets(table, schema)
            } else if with_accounts || baseline.is_some() || asks_for_table {
                Plan::with_accounts(&client.raw, table, schema).await?
            } else {
                // The kind of the installation that is there, if one is.
                Plan::of_database(&client.raw, table, schema).await?
            };
            let is_kind_known = baseline.is_some() || with_accounts || without_accounts;
            let plan = Plan { is_kind_known, is_table_named, ..plan };
            if dry_run {
                let missing = migrate::missing(&mut client.raw, plan).await?;
                return print_missing(&missing, show_sql);
            }
            let outcome = up(&mut client.raw, plan, baseline).await?;
            for warning in preflight::warnings(&client).await? {
                warn(warning);
            }
            print(outcome)
        }
    }
}

/// Prints the statements of migrations, for another tool.
fn print_statements(
    schema: Schema,
    table: HistoryTable,
    number: Option<i64>,
    down: bool,
    without_accounts: bool,
) -> Outcome {
    let plan = match (without_accounts, number) {
        (true, _) => Plan::without_accounts(schema),
        (false, Some(_)) => Plan::dropping_secrets(table, schema),
        (false, None) => Plan { migrations: MIGRATIONS, ..Plan::dropping_secrets(table, schema) },
    };
    let scripts = migrate::scripts(&plan, number, down);
    if scripts.is_empty() {
        let fault = "an installation without accounts has no migration of this number";
        return Err(CommandError::Usage(fault.to_owned()));
    }
    print_scripts(&scripts)
}

/// Makes the roles and gives them their rights, or prints the statements that would.
async fn give_rights(client: &SchemaClient, prefix: &Prefix, prints: bool) -> Outcome {
    let statements = migrate::roles(client, prefix).await?;
    if prints {
        return print(statements);
    }
    client.raw.batch_execute(&statements).await.map_err(|error| {
        let mut fault = explain(&error);
        if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
            fault.push_str(
                "; connect as the owner of the schema with the right to create roles, or have \
                 somebody execute what --print prints",
            );
        }
        CommandError::Failure(fault)
    })?;
    print(
        "the roles have their rights; give them to logins, whose passwords psql sets by \\password",
    )
}

/// Binds the queue to this cluster; an empty name takes the installation's name away.
async fn bind(client: &SchemaClient, name: Option<String>) -> Outcome {
    let requirements =
        Requirements { functions: &["mailroom.bind"], optional: &[], tables: &[], alternative: "" };
    if let Some(fault) = preflight::missing(client, requirements).await? {
        return Err(CommandError::Failure(fault));
    }
    let parameters = [(&name as &(dyn ToSql + Sync), Type::TEXT)];
    let bound = client.query_typed_one("SELECT mailroom.bind($1)", &parameters).await?;
    let by_whom = bound.get::<_, Option<&str>>(0).map_or_else(String::new, |name| {
        format!(", by collectors that are started with MAILROOM_INSTALLATION={name}")
    });
    print(format_args!("the queue is sent from this cluster{by_whom}"))
}

async fn down(client: &mut Client, plan: Plan<'_>, accepts_loss: bool) -> Outcome {
    let data_loss = if accepts_loss { DataLoss::Accepted } else { DataLoss::Refused };
    match migrate::down(client, plan, data_loss, &mut |line| report(line)).await? {
        None => {
            print("no migration is applied")?;
            Ok(ExitCode::from(NOTHING_LEFT))
        }
        Some(migration) => print(format_args!("{migration} is taken back")),
    }
}

/// Says what `up` would apply.
fn print_missing(missing: &[Script], shows_sql: bool) -> Outcome {
    if missing.is_empty() {
        let sign = if shows_sql { "-- " } else { "" };
        return print(format_args!("{sign}no migration is missing"));
    }
    if shows_sql {
        return print_scripts(missing);
    }
    for script in missing {
        print(format_args!("would execute {}", script.name()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_scripts(scripts: &[Script]) -> Outcome {
    let texts: Vec<_> = scripts.iter().map(Script::to_string).collect();
    print(texts.join("\n\n"))
}

async fn up(
    client: &mut Client,
    plan: Plan<'_>,
    baseline: Option<i64>,
) -> Result<String, MigrateError> {
    if let Some(version) = baseline {
        let is_new =
            migrate::baseline(client, plan.clone(), version, &mut |line| report(line)).await?;
        let state = if is_new { "recorded" } else { "already recorded, or a later one" };
        report(format_args!("version {version} is {state}"));
    }
    Ok(match migrate::up(client, plan, &mut |line| report(line)).await? {
        0 => "no migration is missing".to_owned(),
        1 => "1 migration applied".to_owned(),
        applied => format!("{applied} migrations applied"),
    })
}

/// Reports what a migration raises, such as how many mails may go out a second time. The server's
/// own notices, such as that an extension is there already, have codes of their own.
fn show(notice: &DbError) {
    if notice.code() == &SqlState::SUCCESSFUL_COMPLETION {
        report(format_args!("{}: {}", notice.severity(), notice.message()));
    }
}
