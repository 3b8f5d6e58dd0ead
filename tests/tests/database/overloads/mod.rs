//! The schema's functions call each other with arguments of exactly their parameters' types, so
//! that no function that somebody puts beside them fits better and gets the rights of their owner.
//! Migrations and the program call nothing that lies in a schema of the search path beside
//! PostgreSQL's own functions and operators.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use mailroom::migrate::{self, MIGRATIONS};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::Database;
use mailroom_tests::{program, tools};
use tokio_postgres::Client;

/// Functions that look up what they call each time, and that the scenario has not executed.
const NOT_EXECUTED: &str = "
    SELECT proname::text FROM pg_proc AS known JOIN pg_language ON pg_language.oid = prolang
    WHERE pronamespace = 'mailroom'::regnamespace AND lanname = 'plpgsql'
        AND prosrc ~ 'mailroom\\.[a-z_]+\\('
        AND NOT EXISTS (
            SELECT FROM pg_stat_xact_user_functions
            WHERE funcname = proname AND schemaname = 'mailroom'
        )
    GROUP BY proname ORDER BY proname";

#[tokio::test]
async fn no_function_that_is_put_beside_those_of_the_schema_is_called() -> Result<()> {
    // With secrets in `tokens` and without them.
    for count in [MIGRATIONS.len() - 1, MIGRATIONS.len()] {
        let database = Database::create()?;
        let mut client = database.connect().await?;
        migrate::up(&mut client, &MIGRATIONS[..count], &mut |_| {}).await?;
        client.batch_execute(include_str!("plant.sql")).await?;
        let planted = "SELECT count(*) FROM public.overloads";
        let planted: i64 = client.query_one(planted, &[]).await?.get(0);
        assert!(planted > 5_000, "{planted} overloads");

        // What is counted of functions is counted of this transaction.
        client.batch_execute("SET track_functions = 'all'; BEGIN").await?;
        let life = client.batch_execute(include_str!("life.sql")).await;
        let left_out = match life {
            Ok(()) => client.query(NOT_EXECUTED, &[]).await?,
            Err(_) => Vec::new(),
        };
        client.batch_execute("ROLLBACK").await?;
        let called = "SELECT signature FROM public.called_overload JOIN public.overloads
            ON number = last_value AND is_called";
        let called = client.query_opt(called, &[]).await?.map(|row| row.get::<_, String>(0));
        assert_eq!(called, None, "of {count} migrations");
        life.context("the scenario fails")?;
        let left_out: Vec<String> = left_out.iter().map(|row| row.get(0)).collect();
        assert!(left_out.is_empty(), "{left_out:?} of {count} migrations");
    }
    Ok(())
}

/// What refers to a function or an operator that was planted, but for the operators themselves.
const DEPENDENT: &str = "
    SELECT pg_describe_object(classid, objid, objsubid)
    FROM pg_depend
    WHERE classid <> 'pg_operator'::regclass
        AND (
            refclassid = 'pg_proc'::regclass
                AND refobjid IN (SELECT oid FROM pg_proc WHERE prosrc LIKE '%public.calls%')
            OR refclassid = 'pg_operator'::regclass
                AND refobjid IN (SELECT oid FROM pg_operator
                    WHERE oprnamespace = 'public'::regnamespace)
        )";

const DROP_SECRETS: &str = include_str!("../../../../migrations/4_drop_secrets.up.sql");

/// The names of everything that the statements may call, and of more.
fn called_names(statements: &str) -> Vec<&str> {
    let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let before = statements.match_indices('(').map(|(place, _)| &statements[..place]);
    let mut names: Vec<_> = before
        .map(|before| &before[before.trim_end_matches(is_of_name).len()..])
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Puts functions and operators into the schema `public` that would fit better than PostgreSQL's.
/// Returns a session on whose path they are not.
async fn plant(database: &Database, statements: &str) -> Result<Client> {
    let client = database.connect().await?;
    client.batch_execute("SET search_path = pg_catalog").await?;
    client.batch_execute(include_str!("plant_operators.sql")).await?;
    client.execute("SELECT public.plant_functions($1)", &[&called_names(statements)]).await?;
    let planted = "SELECT count(*) FROM pg_proc WHERE prosrc LIKE '%public.calls%'";
    let planted: i64 = client.query_one(planted, &[]).await?.get(0);
    assert!(planted > 5_000, "{planted} functions");
    Ok(client)
}

/// What was called of that, also by a transaction that did not commit, and what refers to it.
async fn called(client: &Client) -> Result<Vec<String>> {
    let query = format!(
        "SELECT DISTINCT 'called: ' || signature FROM public.called
        UNION ALL SELECT 'called' FROM public.calls WHERE is_called
        UNION ALL ({DEPENDENT})"
    );
    Ok(client.query(&query, &[]).await?.iter().map(|row| row.get(0)).collect())
}

#[tokio::test]
async fn migrations_call_nothing_that_lies_beside_the_functions_and_operators_of_postgresql()
-> Result<()> {
    let statements: String =
        MIGRATIONS.iter().flat_map(|step| [step.up, step.down]).chain([DROP_SECRETS]).collect();
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    client.batch_execute(include_str!("years.sql")).await?;
    let observer = plant(&database, &statements).await?;
    // As psql and golang-migrate execute them, on the path that a session has.
    let steps = &MIGRATIONS[1..];
    let up = steps.iter().map(|step| (step.name, step.up));
    let down = steps.iter().rev().map(|step| (step.name, step.down));
    let last = ("drop_secrets", DROP_SECRETS);
    for (name, statements) in up.clone().chain(down).chain(up).chain([last]) {
        client.batch_execute(statements).await.with_context(|| name.to_owned())?;
        assert_eq!(called(&observer).await?, Vec::<String>::new(), "{name}");
    }
    Ok(())
}

/// Everything that the program may send to a server.
fn statements_of_the_program() -> Result<String> {
    let mut folders = vec![tools::workspace().join("collector/src")];
    let mut statements = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                statements += &fs::read_to_string(path)?;
            }
        }
    }
    Ok(statements)
}

#[tokio::test]
async fn the_program_calls_nothing_that_lies_beside_the_functions_and_operators_of_postgresql()
-> Result<()> {
    let statements = statements_of_the_program()?;
    for has_accounts in [false, true] {
        let database =
            if has_accounts { Database::with_base_schema()? } else { Database::create()? };
        if has_accounts {
            database.connect().await?.batch_execute(include_str!("years.sql")).await?;
        }
        let observer = plant(&database, &statements).await?;
        let collect = |mut command: Command| -> Result<()> {
            let collector = Collector::start(&mut command)?;
            collector.wait_until_it_collects()?;
            collector.stop()?;
            Ok(())
        };
        let up: &[&str] = if has_accounts {
            collect(collector::on_base_schema(database.url())?)?;
            assert_eq!(called(&observer).await?, Vec::<String>::new(), "the cursor");
            &["migrate", "up", "--baseline", "0"]
        } else {
            &["migrate", "up", "--without-accounts"]
        };
        let later: [&[&str]; 8] = [
            &["migrate", "status"],
            &["status"],
            &["trace", "1"],
            &["dead"],
            &["suppress", "list"],
            &["prune", "--older-than", "1d"],
            &["subject", "export", "1"],
            &["retry", "--all-dead"],
        ];
        for arguments in [up].into_iter().chain(later) {
            let said = program::mailroom()?
                .args(arguments)
                .env("MAILROOM_DATABASE_URL", database.url())
                .output()?;
            let error = String::from_utf8_lossy(&said.stderr).into_owned();
            assert!(said.status.success() || arguments[0] == "trace", "{arguments:?}: {error}");
            assert_eq!(called(&observer).await?, Vec::<String>::new(), "{arguments:?}");
        }
        collect(collector::command(database.url())?)?;
        assert_eq!(called(&observer).await?, Vec::<String>::new(), "a collector");
    }
    Ok(())
}
