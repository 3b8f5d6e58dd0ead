//! Indexes that are built concurrently.

use anyhow::{Context, Result, ensure};
use mailroom::migrate::{self, lock_ids};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::wait_for;
use tokio::sync::mpsc::unbounded_channel;
use tokio::try_join;

use super::super::{clean, down, newest, recorded, up, with};

use super::{BUILD, DROP, INVALID, VALID, Way, dirty, is, kill, run};

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
