//! `mailroom migrate` and the migrations themselves, on real servers.

mod commands;
mod concurrency;
mod dropping_secrets;
mod failures;
mod faults;
mod kind;
mod no_transaction;
mod prerequisites;
mod privileges;
mod roles;
mod schema;
mod schema_name;
mod scripts;
mod takeover;
mod widening;
mod without_accounts;

use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use mailroom::migrate::{self, DataLoss, MIGRATIONS, MigrateError, Migration};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use tokio_postgres::Client;
use tokio_postgres::error::{DbError, SqlState};

/// `mailroom migrate` with some arguments, for a database.
fn mailroom_migrate(database: &Database, arguments: &[&str]) -> Result<Command> {
    let mut command = program::mailroom()?;
    command.arg("migrate").args(arguments).env("MAILROOM_DATABASE_URL", database.url());
    Ok(command)
}

/// What a finished command wrote, and its exit code.
#[derive(Debug)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

fn run(database: &Database, arguments: &[&str]) -> Result<Outcome> {
    Ok(mailroom_migrate(database, arguments)?.output().context("cannot run mailroom")?.into())
}

/// Runs a command that has to succeed, and returns its standard output.
fn succeed(database: &Database, arguments: &[&str]) -> Result<String> {
    let outcome = run(database, arguments)?;
    if outcome.code != Some(0) {
        bail!("{arguments:?} failed: {outcome:?}");
    }
    Ok(outcome.stdout)
}

/// Runs a command that has to fail with exit code 1, and returns what it says about it.
fn fail(database: &Database, arguments: &[&str]) -> Result<String> {
    let outcome = run(database, arguments)?;
    if outcome.code != Some(1) {
        bail!("{arguments:?} did not fail as expected: {outcome:?}");
    }
    Ok(outcome.stderr)
}

/// Migrates up as the command does, without starting a process.
async fn up(client: &mut Client, migrations: &[Migration]) -> Result<usize, MigrateError> {
    migrate::up(client, migrations, &mut |_| {}).await
}

/// Takes the newest migration back, dropping tables if it does.
async fn down(client: &mut Client, migrations: &[Migration]) -> Result<(), MigrateError> {
    migrate::down(client, migrations, DataLoss::Accepted, &mut |_| {}).await?;
    Ok(())
}

/// The shipped migrations and one more, behind the one that is taken only on request.
fn with(up: &'static str, down: &'static str) -> Vec<Migration> {
    [MIGRATIONS, &[Migration { version: newest() + 2, name: "try_something", up, down }]].concat()
}

/// Ends the sessions that migrate this database: other tests migrate theirs on the same server.
async fn terminate_migrations(client: &Client) -> Result<()> {
    let terminate =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_locks JOIN pg_database ON oid = database
        WHERE locktype = 'advisory' AND datname = current_database()";
    ensure!(client.query_one(terminate, &[]).await?.get::<_, i64>(0) > 0, "no migration runs");
    Ok(())
}

/// The version that is recorded, and whether it is dirty.
type Record = (i64, bool);

async fn recorded(client: &Client) -> Result<Option<Record>> {
    // Also reads the table, and refuses what does not fit the schema.
    migrate::status(client, MIGRATIONS).await?;
    let exists =
        client.query_one("SELECT to_regclass('schema_migrations') IS NOT NULL", &[]).await?;
    if !exists.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_opt("SELECT version, dirty FROM schema_migrations", &[]).await?;
    Ok(row.map(|row| (row.get(0), row.get(1))))
}

fn clean(version: i64) -> Record {
    (version, false)
}

/// The version of the newest schema.
fn newest() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("there are few") - 1
}

async fn count(client: &Client, table: &str) -> Result<i64> {
    Ok(client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?.get(0))
}

/// What the server says about statements that have to fail.
async fn refusal(client: &Client, statements: &str) -> Result<(SqlState, String)> {
    let Err(error) = client.batch_execute(statements).await else {
        bail!("this succeeded: {statements}")
    };
    let error: &DbError = error.as_db_error().context("the server did not answer")?;
    Ok((error.code().clone(), error.message().to_owned()))
}
