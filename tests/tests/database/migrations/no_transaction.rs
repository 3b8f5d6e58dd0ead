//! Migrations outside a transaction: killed in the middle they are recorded as dirty, and the next
//! run completes them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom::migrate::{self, MIGRATIONS, Migration, lock_ids};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::wait_for;
use tokio::sync::mpsc::unbounded_channel;
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
async fn an_index_whose_building_or_dropping_is_killed_is_built_or_dropped_by_the_next_run()
-> Result<()> {
    let migrations = with(BUILD, DROP);
    for killed in [Way::Up, Way::Down] {
        for next in [Way::Up, Way::Down] {
            let database = Database::migrated()?;
            let client = database.connect().await?;
            let mut other = database.connect().await?;
            if killed == Way::Down {
                run(&database, &migrations, Way::Up).await?;
                ensure!(
                    is(&client, VALID).await?
                        && recorded(&client).await? == Some(clean(newest() + 2))
                );
            }
            let writer = other.transaction().await?;
            writer.batch_execute("LOCK TABLE tokens IN ROW EXCLUSIVE MODE").await?;
            let error = kill(&database, &migrations, killed, &client, INVALID).await?;
            assert!(
                error.ends_with(
                    "`mailroom migrate up` completes it, `mailroom migrate down` takes it back"
                ),
                "{error}"
            );
            writer.rollback().await?;

            assert!(is(&client, INVALID).await?);
            assert_eq!(recorded(&client).await?, Some(dirty()));
            let status = migrate::status(&client, &*migrations).await?;
            assert!(
                status.contains(&format!("\ndirty    {}_try_something\n", newest() + 2)),
                "{status}"
            );
            assert!(
                status.contains("is unfinished; `mailroom migrate up` completes it"),
                "{status}"
            );

            run(&database, &migrations, next).await?;
            let version = if next == Way::Up { newest() + 2 } else { newest() };
            assert_eq!(recorded(&client).await?, Some(clean(version)));
            assert_eq!(
                [is(&client, VALID).await?, is(&client, INVALID).await?],
                [next == Way::Up, false]
            );
        }
    }
    Ok(())
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
async fn an_index_that_does_not_get_its_lock_in_time_is_built_again() -> Result<()> {
    let database = Database::migrated()?;
    let name = database.name();
    // Before the limits, which are for the migration.
    let (client, mut other) = (database.connect().await?, database.connect().await?);
    client
        .batch_execute(&format!(
            "ALTER DATABASE {name} SET lock_timeout = '2s';
            ALTER DATABASE {name} SET statement_timeout = '1s';
            ALTER DATABASE {name} SET default_transaction_read_only = on"
        ))
        .await?;
    let writer = other.transaction().await?;
    writer.batch_execute("LOCK TABLE tokens IN ROW EXCLUSIVE MODE").await?;
    let (report, mut reports) = unbounded_channel::<String>();
    let release = async {
        while !reports
            .recv()
            .await
            .context("it ended")?
            .ends_with("others hold a lock it needs; trying again in 1 s")
        {}
        assert!(is(&client, INVALID).await?);
        anyhow::Ok(writer.rollback().await?)
    };
    let (mut migrating, migrations) = (database.connect().await?, with(BUILD, DROP));
    let mut report = |line: &str| report.send(line.to_owned()).expect("it is received");
    let migrating =
        async { anyhow::Ok(migrate::up(&mut migrating, &*migrations, &mut report).await?) };
    assert_eq!(try_join!(migrating, release)?, (1, ()));
    assert!(is(&client, VALID).await?);
    Ok(())
}

/// golang-migrate waits for the advisory lock in one statement, and the build of the index waits
/// for that statement.
#[tokio::test]
async fn an_index_for_which_golang_migrate_waits_is_built_once_that_is_ended() -> Result<()> {
    let database = Database::migrated()?;
    let name = database.name();
    let client = database.connect().await?;
    client.batch_execute(&format!("ALTER DATABASE {name} SET deadlock_timeout = '300ms'")).await?;
    let mut other = database.connect().await?;
    let writer = other.transaction().await?;
    writer.batch_execute("LOCK TABLE tokens IN ROW EXCLUSIVE MODE").await?;
    let golang_migrate = database.connect().await?;
    golang_migrate.batch_execute("SET deadlock_timeout = '1h'").await?;
    let waiting = "EXISTS (SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event = 'advisory')";
    let (report, mut reports) = unbounded_channel::<String>();
    let others = async {
        wait_for(&client, &format!("SELECT {INVALID}"), true).await?;
        let lock = lock_ids(name, "public", "schema_migrations")[0];
        let waiter = async {
            anyhow::Ok(golang_migrate.execute("SELECT pg_advisory_lock($1)", &[&lock]).await)
        };
        let rest = async {
            wait_for(&client, &format!("SELECT {waiting}"), true).await?;
            writer.rollback().await?;
            let expected = "most likely golang-migrate, waits for this one to end; end that one; \
                            trying again in 1 s";
            while !reports.recv().await.context("it ended")?.ends_with(expected) {}
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event = 'advisory'";
            client.query_one(end, &[]).await?;
            anyhow::Ok(())
        };
        let (locked, ()) = try_join!(waiter, rest)?;
        ensure!(locked.is_err(), "it got the lock");
        anyhow::Ok(())
    };
    let (mut migrating, migrations) = (database.connect().await?, with(BUILD, DROP));
    let mut report = |line: &str| report.send(line.to_owned()).expect("it is received");
    let migrating =
        async { anyhow::Ok(migrate::up(&mut migrating, &*migrations, &mut report).await?) };
    assert_eq!(try_join!(migrating, others)?, (1, ()));
    assert!(is(&client, VALID).await?);
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

#[tokio::test]
async fn an_invalid_index_is_found_by_its_name_in_the_statement_and_never_recorded_as_built()
-> Result<()> {
    let migrations = with(
        "-- no-transaction
        -- Unlike CREATE INDEX CONCURRENTLY IF NOT EXISTS tokens_by_account it is used.
        CREATE INDEX CONCURRENTLY
            IF NOT EXISTS tokens_by_time ON tokens (created_at);\n",
        DROP,
    );
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    client.accounts(["a", "b"]).insert().await?;
    let duplicates = "CREATE UNIQUE INDEX CONCURRENTLY tokens_by_time ON tokens (expires_at)";
    client.batch_execute(duplicates).await.expect_err("two expire at once");
    assert!(is(&client, INVALID).await?);
    assert_eq!(up(&mut client, &migrations).await?, 1);
    assert!(is(&client, VALID).await?);
    down(&mut client, &migrations).await?;

    // As if somebody else began to build it at the same time.
    client
        .batch_execute(
            "CREATE FUNCTION invalidate() RETURNS event_trigger LANGUAGE plpgsql AS $$
            BEGIN
                UPDATE pg_index SET indisvalid = false
                    WHERE indexrelid = to_regclass('tokens_by_time');
            END;
            $$;
            CREATE EVENT TRIGGER invalidate ON ddl_command_end WHEN TAG IN ('CREATE INDEX')
                EXECUTE FUNCTION invalidate()",
        )
        .await?;
    let error = up(&mut client, &migrations).await.expect_err("it is invalid").to_string();
    assert!(error.contains("its index tokens_by_time is invalid and is not used"), "{error}");
    assert_eq!(recorded(&client).await?, Some(dirty()));
    client.batch_execute("DROP EVENT TRIGGER invalidate").await?;
    assert_eq!(up(&mut client, &migrations).await?, 1);
    assert!(is(&client, VALID).await?);
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
