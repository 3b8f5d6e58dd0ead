//! Migrations outside a transaction: killed in the middle they are recorded as dirty, and the next
//! run completes them.

mod indexes;

use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom::migrate::{self, MIGRATIONS, Migration};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::wait_for;
use tokio::time::sleep;
use tokio::{select, try_join};
use tokio_postgres::Client;

use super::{Record, clean, count, down, newest, recorded, terminate_migrations, up, with};

const BUILD: &str = "-- no-transaction\n
    CREATE INDEX CONCURRENTLY IF NOT EXISTS tokens_by_time ON tokens (created_at);\n";
const DROP: &str = "-- no-transaction\nDROP INDEX CONCURRENTLY IF EXISTS tokens_by_time;\n";

/// Whether the index is there and not valid, as a condition.
const INVALID: &str = "EXISTS (SELECT FROM pg_index \
                       WHERE indexrelid = to_regclass('tokens_by_time') AND NOT indisvalid)";
const VALID: &str =
    "EXISTS (SELECT FROM pg_index WHERE indexrelid = to_regclass('tokens_by_time') AND indisvalid)";

async fn is(client: &Client, condition: &str) -> Result<bool> {
    Ok(client.query_one(&format!("SELECT {condition}"), &[]).await?.get(0))
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Up,
    Down,
}

async fn run(database: &Database, migrations: &[Migration], way: Way) -> Result<()> {
    let mut client = database.connect().await?;
    match way {
        Way::Up => ensure!(up(&mut client, migrations).await? == 1),
        Way::Down => down(&mut client, migrations).await?,
    }
    Ok(())
}

/// Migrates until a condition is met, ends the server's session then, and returns the error.
async fn kill(
    database: &Database,
    migrations: &[Migration],
    way: Way,
    client: &Client,
    condition: &str,
) -> Result<String> {
    let killer = async {
        wait_for(client, &format!("SELECT {condition}"), true).await?;
        assert_eq!(recorded(client).await?, Some(dirty()));
        terminate_migrations(client).await
    };
    let (outcome, ()) =
        try_join!(async { anyhow::Ok(run(database, migrations, way).await) }, killer)?;
    Ok(outcome.expect_err("its session is ended").to_string())
}

/// The record while the migration after the newest runs, and after it was killed.
fn dirty() -> Record {
    (newest() + 2, true)
}

#[tokio::test]
async fn what_a_server_completes_without_its_client_is_recorded_by_the_next_run() -> Result<()> {
    let migrations = with(BUILD, DROP);
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut other = database.connect().await?;
    let writer = other.transaction().await?;
    writer.batch_execute("LOCK TABLE tokens IN ROW EXCLUSIVE MODE").await?;
    let invalid = format!("SELECT {INVALID}");
    select! {
        outcome = run(&database, &migrations, Way::Up) => panic!("nothing held it up: {outcome:?}"),
        reached = wait_for(&client, &invalid, true) => reached?,
    }
    let oid = "SELECT 'tokens_by_time'::regclass::oid";
    let before: u32 = client.query_one(oid, &[]).await?.get(0);
    let release = async {
        sleep(Duration::from_millis(500)).await;
        assert_eq!(recorded(&client).await?, Some(dirty()));
        anyhow::Ok(writer.rollback().await?)
    };
    try_join!(run(&database, &migrations, Way::Up), release)?;
    assert!(is(&client, VALID).await?);
    assert_eq!(client.query_one(oid, &[]).await?.get::<_, u32>(0), before);
    assert_eq!(recorded(&client).await?, Some(clean(newest() + 2)));
    Ok(())
}

#[tokio::test]
async fn batches_that_are_killed_resume_where_they_stopped() -> Result<()> {
    let migrations = with(
        "-- no-transaction
        DO $$
        DECLARE
            changed bigint;
        BEGIN
            LOOP
                UPDATE work SET ups = ups + 1, is_done = true
                WHERE id IN (SELECT id FROM work WHERE NOT is_done ORDER BY id LIMIT 2);
                GET DIAGNOSTICS changed = ROW_COUNT;
                EXIT WHEN changed = 0;
                COMMIT;
            END LOOP;
        END;
        $$;",
        "-- no-transaction
        DO $$
        BEGIN
            WHILE EXISTS (SELECT FROM work WHERE is_done) LOOP
                UPDATE work SET downs = downs + 1, is_done = false
                WHERE id IN (SELECT id FROM work WHERE is_done ORDER BY id LIMIT 2);
                COMMIT;
            END LOOP;
        END;
        $$;",
    );
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut other = database.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE work AS SELECT id, 0 AS ups, 0 AS downs, false AS is_done \
             FROM generate_series(1, 10) AS id",
        )
        .await?;
    for (way, done, undone) in
        [(Way::Up, "is_done", "NOT is_done"), (Way::Down, "NOT is_done", "is_done")]
    {
        let writer = other.transaction().await?;
        writer.execute("SELECT FROM work WHERE id = 6 FOR UPDATE", &[]).await?;
        let four = format!("count(*) = 4 FROM work WHERE {done}");
        kill(&database, &migrations, way, &client, &four).await?;
        writer.rollback().await?;
        assert_eq!(
            (count(&client, &format!("work WHERE {undone}")).await?, recorded(&client).await?),
            (6, Some(dirty()))
        );

        run(&database, &migrations, way).await?;
        assert_eq!(count(&client, &format!("work WHERE {undone}")).await?, 0);
        let version = if way == Way::Up { newest() + 2 } else { newest() };
        assert_eq!(recorded(&client).await?, Some(clean(version)));
    }
    assert_eq!(
        count(&client, "work WHERE ups = 1 AND downs = 1").await?,
        10,
        "a row was changed twice"
    );
    Ok(())
}

#[tokio::test]
async fn a_failure_keeps_what_was_done_and_can_be_taken_back() -> Result<()> {
    let migrations = with(
        "-- no-transaction\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS tokens_by_time ON \
         tokens (expires_at);\n",
        DROP,
    );
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    client.accounts(["a", "b"]).insert().await?;
    for _ in 0..2 {
        let error = up(&mut client, &migrations).await.expect_err("two expire at once").to_string();
        assert!(
            error.contains("could not create unique index")
                && error.contains(". What it did stays: "),
            "{error}"
        );
        assert_eq!(recorded(&client).await?, Some(dirty()));
        assert!(is(&client, INVALID).await?);
    }
    down(&mut client, &migrations).await?;
    assert!(!is(&client, INVALID).await?);
    assert_eq!(recorded(&client).await?, Some(clean(newest())));
    Ok(())
}

/// To take it back would take back the migration before it.
#[tokio::test]
async fn one_that_cannot_be_recorded_as_dirty_has_done_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    client
        .batch_execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN RAISE 'full'; END; $$;
            CREATE TRIGGER refuse BEFORE INSERT ON schema_migrations EXECUTE FUNCTION refuse()",
        )
        .await?;
    let error =
        up(&mut client, &with(BUILD, DROP)).await.expect_err("no row can be inserted").to_string();
    assert!(error.contains("it cannot be recorded as dirty"), "{error}");
    assert!(error.ends_with(". The database is as it was before this migration"), "{error}");
    assert_eq!(recorded(&client).await?, Some(clean(newest())));
    assert!(!is(&client, VALID).await?);
    Ok(())
}

#[tokio::test]
async fn only_what_is_known_to_resume_is_executed_again() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    let refused = "marked as dirty";
    // A program that does not know the migration.
    client
        .batch_execute(&format!(
            "UPDATE schema_migrations SET version = {}, dirty = true",
            newest() + 2
        ))
        .await?;
    let error = up(&mut client, MIGRATIONS).await.expect_err("it is unknown").to_string();
    assert!(error.contains(refused), "{error}");

    // golang-migrate did not take the newest one back, and records as dirty the one before, which
    // could be executed again.
    client
        .batch_execute(&format!("UPDATE schema_migrations SET version = {}", newest() - 1))
        .await?;
    let mut migrations = MIGRATIONS.to_vec();
    migrations[MIGRATIONS.len() - 2].up = "-- no-transaction\nSELECT 1 / 0;\n";
    migrations[MIGRATIONS.len() - 2].down = "-- no-transaction\nSELECT 1 / 0;\n";
    let status = migrate::status(&client, &*migrations).await?;
    assert!(
        status.contains("was left dirty by golang-migrate") && !status.contains("completes"),
        "{status}"
    );
    for way in
        [up(&mut client, &migrations).await.map(|_| ()), down(&mut client, &migrations).await]
    {
        let error = way.expect_err("the newest one is there").to_string();
        assert!(error.contains(refused), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn the_same_files_work_by_plain_execution() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    for (file, is_there) in [(BUILD, true), (BUILD, true), (DROP, false), (DROP, false)] {
        client.batch_execute(file).await?;
        assert_eq!(is(&client, VALID).await?, is_there);
    }
    Ok(())
}
