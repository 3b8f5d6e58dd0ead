//! A migration that fails leaves the database as it was and says where it failed.

use anyhow::Result;
use mailroom::migrate::{self, Error, FailedStatement, MIGRATIONS, Migration, Place};
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;
use tokio_postgres::error::{DbError, SqlState};

use super::schema::description;
use super::{clean, count, down, newest, recorded, up};

/// The shipped migrations and one more.
fn with(up: &'static str, down: &'static str) -> Vec<Migration> {
    let version = MIGRATIONS.len() as u64;
    [MIGRATIONS, &[Migration { version, name: "try_something", up, down }]].concat()
}

/// Runs a migration that has to fail, and makes sure that nothing of it is left.
async fn failure(client: &mut Client, script: &'static str) -> Result<Error> {
    let before = description(client).await?;
    let error = up(client, &with(script, "")).await.expect_err("the script is faulty");
    assert_eq!(description(client).await?, before);
    assert_eq!(recorded(client).await?, Some(clean(newest())));
    assert_eq!(count(client, "pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").await?, 0);
    Ok(error)
}

async fn failed_statement(client: &mut Client, script: &'static str) -> Result<Box<FailedStatement>> {
    match failure(client, script).await? {
        Error::Failed(failed) => Ok(failed),
        other => panic!("another error: {other}"),
    }
}

#[tokio::test]
async fn the_failed_statement_is_named_with_number_line_and_first_words() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let script = "-- A comment; with a semicolon.
        BEGIN;

        CREATE TABLE extra (id bigint);
        DO $$ BEGIN PERFORM 1; END; $$;
        ALTER TABLE tokens
            ADD COLUMN extra int,
            ADD COLUMN expires_at int;
        DROP TABLE accounts;
        COMMIT;";
    let failed = failed_statement(&mut client, script).await?;
    let excerpt = "ALTER TABLE tokens ADD COLUMN extra…".to_owned();
    assert_eq!(failed.place, Place::Statement { number: 4, line: 6, excerpt });
    assert_eq!(failed.cause.code(), Some(&SqlState::DUPLICATE_COLUMN));
    assert_eq!(
        failed.to_string(),
        format!(
            "{}_try_something.up.sql: statement 4, line 6 (`ALTER TABLE tokens ADD COLUMN extra…`) failed: column \
            \"expires_at\" of relation \"tokens\" already exists (SQLSTATE 42701). The database is as it was before \
            this migration",
            newest() + 1
        )
    );
    Ok(())
}

#[tokio::test]
async fn the_line_is_the_one_that_the_server_points_at() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let failed = failed_statement(&mut client, "SELECT 'ä';\nSELECT\n  'ö',\n  nothing\n;").await?;
    let excerpt = "SELECT 'ö', nothing…".to_owned();
    assert_eq!(failed.place, Place::Statement { number: 2, line: 4, excerpt });
    Ok(())
}

#[tokio::test]
async fn a_commit_in_the_middle_of_a_file_commits_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let failed =
        failed_statement(&mut client, "BEGIN; CREATE TABLE one (); COMMIT; BEGIN; SELECT 1 / 0; COMMIT;")
            .await?;
    assert_eq!(failed.cause.code(), Some(&SqlState::DIVISION_BY_ZERO));
    Ok(())
}

#[tokio::test]
async fn bodies_of_functions_keep_their_own_begin_and_end() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let script = "BEGIN;
        CREATE FUNCTION three() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RETURN 3; END; $f$;
        CREATE FUNCTION four() RETURNS int BEGIN ATOMIC SELECT 1; SELECT three() + 1; END;
        CREATE TABLE kept AS SELECT three() * four() AS twelve;
        END;";
    let migrations = with(script, "DROP TABLE kept; DROP FUNCTION four(), three();");
    assert_eq!(up(&mut client, &migrations).await?, 1);
    let row = client.query_one("SELECT twelve FROM kept", &[]).await?;
    assert_eq!(row.get::<_, i32>(0), 12);
    down(&mut client, &migrations).await?;
    assert_eq!(recorded(&client).await?, Some(clean(newest())));
    Ok(())
}

#[tokio::test]
async fn what_fails_at_commit_leaves_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let script = "CREATE TABLE extra (); INSERT INTO tokens (account, action) VALUES (99, 'activation');";
    let failed = failed_statement(&mut client, script).await?;
    assert_eq!(failed.place, Place::Commit);
    assert_eq!(count(&client, "tokens").await?, 0);
    Ok(())
}

#[tokio::test]
async fn earlier_migrations_of_the_same_run_stay_applied() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    let error = up(&mut client, &with("SELECT 1 / 0", "")).await.expect_err("the last one is faulty");
    assert!(matches!(error, Error::Failed(failed) if failed.migration.version == MIGRATIONS.len() as u64));
    assert_eq!(recorded(&client).await?, Some(clean(newest())));
    let fresh = Database::migrated()?;
    assert_eq!(description(&client).await?, description(&fresh.connect().await?).await?);
    Ok(())
}

#[tokio::test]
async fn a_first_migration_that_fails_leaves_an_empty_database() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    let first = [Migration { version: 0, name: "fail", up: "CREATE TABLE one (); SELECT 1 / 0;", down: "" }];
    up(&mut client, &first).await.expect_err("it divides by zero");
    assert_eq!(count(&client, "pg_class WHERE relnamespace = 'public'::regnamespace").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_failed_way_down_leaves_the_schema_as_it_was() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let migrations = with("CREATE TABLE extra ();", "DROP TABLE extra; DROP TABLE nothing;");
    up(&mut client, &migrations).await?;
    let before = description(&client).await?;
    let error = down(&mut client, &migrations).await.expect_err("there is no such table");
    assert!(error.to_string().contains("_try_something.down.sql: statement 2, line 1"), "{error}");
    assert_eq!(description(&client).await?, before);
    assert_eq!(recorded(&client).await?, Some(clean(newest() + 1)));
    Ok(())
}

#[tokio::test]
async fn scripts_that_would_end_the_transaction_are_refused_unexecuted() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    for script in [
        "CREATE TABLE extra ();\nROLLBACK;",
        "CREATE TABLE extra ();\nCOMMIT AND CHAIN;",
        "CREATE TABLE extra ();\nBEGIN ISOLATION LEVEL SERIALIZABLE;",
        "CREATE TABLE extra ();\nPREPARE TRANSACTION 'x';",
    ] {
        let error = failure(&mut client, script).await?;
        assert!(matches!(error, Error::TransactionControl { line: 2, .. }), "{error}");
    }
    let error = failure(&mut client, "CREATE TABLE extra ();\nSELECT 'never closed").await?;
    let said = error.to_string();
    assert!(said.ends_with("_try_something.up.sql: what `'` opens on line 2 is never closed"), "{said}");
    Ok(())
}

#[tokio::test]
async fn errors_do_not_quote_rows() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    client.batch_execute("INSERT INTO accounts (email, login) VALUES ('a', 'a')").await?;
    // The server shortens long values.
    let query = "SELECT left(encode(secret, 'hex'), 40) FROM tokens";
    let secret: String = client.query_one(query, &[]).await?.get(0);
    for script in [
        "UPDATE tokens SET code = 'x'",
        "INSERT INTO tokens (account, action, secret) SELECT account, action, secret FROM tokens",
    ] {
        let error = failure(&mut client, script).await?;
        let Error::Failed(failed) = &error else { panic!("another error: {error}") };
        let detail = failed.cause.as_db_error().and_then(DbError::detail).unwrap_or_default();
        assert!(detail.contains(&secret), "the server does not quote the row: {detail}");
        let with_all_causes = format!("{:#}", anyhow::Error::from(error));
        assert!(!with_all_causes.contains(&secret), "{with_all_causes}");
    }
    Ok(())
}

#[tokio::test]
async fn limits_of_the_role_do_not_stop_a_migration() -> Result<()> {
    let database = Database::migrated()?;
    let name = database.name();
    let client = database.connect().await?;
    client
        .batch_execute(&format!(
            "ALTER DATABASE {name} SET statement_timeout = '50ms';
            ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '50ms';
            ALTER DATABASE {name} SET default_transaction_read_only = on;
            ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
        ))
        .await?;
    let mut client = database.connect().await?;
    let script = "SELECT pg_sleep(0.2);
        CREATE TABLE seen AS SELECT current_setting('transaction_isolation') AS isolation,
            current_setting('lock_timeout') AS lock_timeout";
    assert_eq!(up(&mut client, &with(script, "")).await?, 1);
    let row = client.query_one("SELECT isolation, lock_timeout FROM seen", &[]).await?;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("read committed", "5s"));
    let after = client.query_one("SELECT current_setting('statement_timeout')", &[]).await?;
    assert_eq!(after.get::<_, &str>(0), "50ms", "the session's own limit is gone");
    Ok(())
}

#[tokio::test]
async fn a_session_without_a_schema_is_told_so() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    client.batch_execute("SET search_path = nowhere").await?;
    let error = up(&mut client, MIGRATIONS).await.expect_err("there is no schema");
    assert!(matches!(error, Error::NoSchema), "{error}");
    assert!(matches!(migrate::status(&client, MIGRATIONS).await, Err(Error::NoSchema)));
    Ok(())
}
