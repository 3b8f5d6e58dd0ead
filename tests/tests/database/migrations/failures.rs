//! A migration that fails leaves the database as it was and says where it failed.

use anyhow::Result;
use mailroom::migrate::{self, DataLoss, FailedMigration, MIGRATIONS, MigrateError, Migration};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::schema::description;
use super::{clean, count, down, newest, recorded, up, with};

/// Runs a migration that has to fail, and makes sure that nothing of it is left.
async fn failure(client: &mut Client, script: &'static str) -> Result<Box<FailedMigration>> {
    let before = description(client).await?;
    let error = up(client, &with(script, "")).await.expect_err("the script is faulty");
    assert_eq!(description(client).await?, before);
    assert_eq!(recorded(client).await?, Some(clean(newest())));
    assert_eq!(
        count(client, "pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").await?,
        0
    );
    match error {
        MigrateError::Failed(failed) => Ok(failed),
        other => panic!("another error: {other}"),
    }
}

#[tokio::test]
async fn the_place_of_a_failure_is_named() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    for (script, place) in [
        (
            "-- ü\nBEGIN;\n\nSELECT 'ä';\nSELECT\n  'ö',\n  nothing\n;\nCOMMIT;\n",
            "line 7 failed: the server says: column",
        ),
        (
            "SELECT 1;\n\nSELEC 2;\n",
            "line 3 failed: the server says: syntax error at or near \"SELEC\"",
        ),
        ("SELECT 1;\nSELECT 'never closed;\n", "line 2 failed: the server says: unterminated"),
        (
            "BEGIN;\nSELECT 1; SELECT 2;\nSELECT 1 / 0;\nCOMMIT;\n",
            "statement 3 failed: the server says: division by zero",
        ),
        (
            "SELECT 1;\nDO $$\nBEGIN\n  RAISE 'no' USING DETAIL = 'a reason', HINT = 'Go\non.';\n\
             END $$;\n",
            "statement 2, PL/pgSQL function inline_code_block line 3 at RAISE, failed: the server \
             says: no (SQLSTATE P0001). a reason. Go; on",
        ),
        (
            "CREATE TABLE extra ();\nINSERT INTO tokens (account, action) VALUES (99, \
             'activation');\n",
            "its transaction cannot be committed",
        ),
    ] {
        let text = failure(&mut client, script).await?.to_string();
        let start = format!("{}_try_something.up.sql: {place}", newest() + 2);
        assert!(
            text.starts_with(&start)
                && text.ends_with(". The database is as it was before this migration"),
            "{text}"
        );
    }
    let script = "CREATE TABLE extra ();\nALTER TABLE tokens ADD COLUMN extra int, ADD COLUMN \
                  expires_at int;";
    let failed = failure(&mut client, script).await?;
    assert_eq!(failed.cause.code(), Some(&SqlState::DUPLICATE_COLUMN));
    assert_eq!(
        failed.to_string(),
        format!(
            "{}_try_something.up.sql: statement 2 failed: the server says: column \"expires_at\" \
             of relation \"tokens\" already exists (SQLSTATE 42701). \
             The database is as it was before this migration",
            newest() + 2
        )
    );
    Ok(())
}

#[tokio::test]
async fn a_commit_in_the_middle_of_a_file_commits_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let script = "BEGIN;\nCREATE TABLE one ();\nCOMMIT;\nBEGIN;\nSELECT 1 / 0;\nCOMMIT;\n";
    let failed = failure(&mut client, script).await?;
    assert_eq!(failed.cause.code(), Some(&SqlState::DIVISION_BY_ZERO));
    Ok(())
}

#[tokio::test]
async fn bodies_of_functions_keep_their_own_begin_and_end() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let script = "BEGIN;
        \nCREATE FUNCTION three() RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RETURN 3; END; $f$;
        CREATE FUNCTION four() RETURNS int BEGIN ATOMIC SELECT 1; SELECT three() + 1; END;
        CREATE TABLE kept AS SELECT three() * four() AS twelve;
        \nCOMMIT;\n";
    let migrations = with(script, "DROP TABLE kept; DROP FUNCTION four(), three();");
    assert_eq!(up(&mut client, &migrations).await?, 1);
    let row = client.query_one("SELECT twelve FROM kept", &[]).await?;
    assert_eq!(row.get::<_, i32>(0), 12);
    down(&mut client, &migrations).await?;
    assert_eq!(recorded(&client).await?, Some(clean(newest())));
    Ok(())
}

#[tokio::test]
async fn earlier_migrations_of_the_same_run_stay_applied() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    let error =
        up(&mut client, &with("SELECT 1 / 0", "")).await.expect_err("the last one is faulty");
    assert!(error.to_string().contains("_try_something.up.sql: statement 1 failed"), "{error}");
    assert_eq!(recorded(&client).await?, Some(clean(newest())));
    let fresh = Database::migrated()?;
    assert_eq!(description(&client).await?, description(&fresh.connect().await?).await?);
    Ok(())
}

#[tokio::test]
async fn a_first_migration_that_fails_leaves_an_empty_database() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    let first = [Migration {
        version: 0,
        name: "fail",
        up: "CREATE TABLE one (); SELECT 1 / 0;",
        down: "",
    }];
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
    assert!(error.to_string().contains("_try_something.down.sql: statement 2 failed"), "{error}");
    assert_eq!(description(&client).await?, before);
    assert_eq!(recorded(&client).await?, Some(clean(newest() + 2)));
    Ok(())
}

/// The owner of a schema may drop tables in it that belong to others.
#[tokio::test]
async fn tables_of_another_role_are_not_dropped_unasked() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let migrations = with("CREATE TABLE extra ();", "DROP TABLE extra;");
    up(&mut client, &migrations).await?;
    let [owner, schema_owner] = ["a", "b"].map(|suffix| format!("{}_{suffix}", database.name()));
    client
        .batch_execute(&format!(
            "CREATE ROLE {owner}; ALTER TABLE extra OWNER TO {owner};
            CREATE ROLE {schema_owner}; ALTER SCHEMA public OWNER TO {schema_owner};
            GRANT ALL ON schema_migrations TO {schema_owner}; SET ROLE {schema_owner}"
        ))
        .await?;
    let refused = migrate::down(&mut client, &*migrations, DataLoss::Refused, &mut |_| {}).await;
    let is_left: bool =
        client.query_one("SELECT to_regclass('extra') IS NOT NULL", &[]).await?.get(0);
    let accepted = down(&mut client, &migrations).await;
    client
        .batch_execute(&format!(
            "RESET ROLE; ALTER SCHEMA public OWNER TO postgres;
            DROP OWNED BY {owner}, {schema_owner};
            DROP ROLE {owner}, {schema_owner}"
        ))
        .await?;
    let said = refused.expect_err("the table is there").to_string();
    assert!(said.contains("drops extra (rows unknown), and nothing brings that back"), "{said}");
    assert!(is_left);
    accepted?;
    assert_eq!(recorded(&client).await?, Some(clean(newest())));
    Ok(())
}

#[tokio::test]
async fn a_file_that_ends_its_transaction_is_reported_and_not_recorded() -> Result<()> {
    for end in ["ROLLBACK", "COMMIT", "COMMIT AND CHAIN", "BEGIN; ROLLBACK AND CHAIN", "END; BEGIN"]
    {
        let database = Database::migrated()?;
        let mut client = database.connect().await?;
        let script = format!("CREATE TABLE extra (); {end}; SELECT 1;").leak();
        let error = up(&mut client, &with(script, "")).await.expect_err("it ends its transaction");
        assert!(matches!(error, MigrateError::Unrecorded(_)), "{error}");
        assert_eq!(recorded(&client).await?, Some(clean(newest())), "{end}");
    }
    Ok(())
}

#[tokio::test]
async fn errors_do_not_quote_rows() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    client.account("a").insert().await?;
    // The server shortens long values.
    let query = "SELECT left(encode(secret, 'hex'), 40) FROM tokens";
    let secret: String = client.query_one(query, &[]).await?.get(0);
    for script in [
        "UPDATE tokens SET code = 'x'",
        "INSERT INTO tokens (account, action, secret) SELECT account, action, secret FROM tokens",
        "DO $$ DECLARE update text := 'UPDATE tokens SET code = ''x'' WHERE secret = %L'; BEGIN
            EXECUTE format(update, (SELECT secret FROM tokens)); END $$",
    ] {
        let failed = failure(&mut client, script).await?;
        let server = failed.cause.as_db_error().expect("the server refuses it");
        let [detail, context] = [server.detail(), server.where_()].map(Option::unwrap_or_default);
        assert!(detail.contains(&secret), "the server does not quote the row: {detail}");
        assert_eq!(context.contains(&secret), script.starts_with("DO"), "{context}");
        let with_all_causes = format!("{:#}", anyhow::Error::from(MigrateError::Failed(failed)));
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
            "ALTER DATABASE {name} SET statement_timeout = '1s';
            ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '1s';
            ALTER DATABASE {name} SET default_transaction_read_only = on;
            ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
        ))
        .await?;
    let mut client = database.connect().await?;
    let script = "SELECT pg_sleep(1.2);
        CREATE TABLE seen AS SELECT current_setting('transaction_isolation') AS isolation,
            current_setting('lock_timeout') AS lock_timeout";
    assert_eq!(up(&mut client, &with(script, "")).await?, 1);
    let row = client.query_one("SELECT isolation, lock_timeout FROM seen", &[]).await?;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("read committed", "5s"));
    let after = client.query_one("SELECT current_setting('statement_timeout')", &[]).await?;
    assert_eq!(after.get::<_, &str>(0), "1s", "the session's own limit is gone");
    Ok(())
}

#[tokio::test]
async fn a_session_without_a_schema_is_told_so() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    client.batch_execute("SET search_path = nowhere").await?;
    let error = up(&mut client, MIGRATIONS).await.expect_err("there is no schema");
    assert!(matches!(error, MigrateError::Refused(_)), "{error}");
    assert!(matches!(migrate::status(&client, MIGRATIONS).await, Err(MigrateError::Refused(_))));
    Ok(())
}
