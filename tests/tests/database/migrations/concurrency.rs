//! Several at once: migrations, and the people who use the tables meanwhile.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Stdio};

use anyhow::{Context, Result, ensure};
use mailroom::migrate::{self, LOCK_ATTEMPTS, MIGRATIONS, lock_ids};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;

use super::schema::description;
use super::{Outcome, clean, count, mailroom_migrate, newest, recorded, terminate_migrations, up};

/// A running command whose progress can be read.
struct Running {
    child: Child,
    progress: BufReader<ChildStderr>,
}

impl Running {
    fn start(database: &Database, arguments: &[&str]) -> Result<Self> {
        let mut command = mailroom_migrate(database, arguments)?;
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let progress = BufReader::new(child.stderr.take().context("standard error is piped")?);
        Ok(Self { child, progress })
    }

    /// Reads until a line contains `text`, and returns that.
    fn wait_for(&mut self, text: &str) -> Result<String> {
        let mut read = String::new();
        loop {
            let mut line = String::new();
            ensure!(
                self.progress.read_line(&mut line)? > 0,
                "it ended without saying `{text}`: {read}"
            );
            if line.contains(text) {
                return Ok(line);
            }
            read.push_str(&line);
        }
    }

    fn finish(mut self) -> Result<Outcome> {
        let mut stderr = String::new();
        while self.progress.read_line(&mut stderr)? > 0 {}
        Ok(Outcome { stderr, ..self.child.wait_with_output()?.into() })
    }
}

/// Computed by Python: `zlib.crc32(b"public\0schema_migrations\0/mailroom") *
/// 1486364155 & 0xffffffff`.
#[test]
fn the_ids_of_the_locks_are_those_of_golang_migrate() {
    assert_eq!(lock_ids("mailroom", "public", "schema_migrations"), [11_723_333, 1_922_301_032]);
}

#[tokio::test]
async fn of_several_at_once_each_migration_is_applied_by_one() -> Result<()> {
    let database = Database::create()?;
    let running = (0..4).map(|_| Running::start(&database, &["up"])).collect::<Result<Vec<_>>>()?;
    let mut applied = 0;
    for running in running {
        let outcome = running.finish()?;
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        applied += outcome.stderr.matches(": went up").count();
    }
    assert_eq!(applied, MIGRATIONS.len());
    let client = database.connect().await?;
    assert_eq!(recorded(&client).await?, Some(clean(newest())));
    assert_eq!(count(&client, "jobs").await?, 1);
    Ok(())
}

#[tokio::test]
async fn of_several_at_once_for_schemas_of_different_names_one_installs_its_own() -> Result<()> {
    for up in [&["up"][..], &["up", "--without-accounts"]] {
        let database = Database::create()?;
        let client = database.connect().await?;
        let lock = lock_ids(database.name(), "", "")[0];
        client.execute("SELECT pg_advisory_lock($1)", &[&lock]).await?;
        let mut running = Vec::new();
        for name in ["letters", "mailroom", "other"] {
            let mut migration = Running::start(&database, &[up, &["--schema", name]].concat())?;
            migration.wait_for("waiting for the migration")?;
            running.push(migration);
        }
        client.execute("SELECT pg_advisory_unlock($1)", &[&lock]).await?;
        let outcomes: Vec<_> = running.into_iter().map(Running::finish).collect::<Result<_>>()?;
        let (installed, refused): (Vec<_>, Vec<_>) =
            outcomes.into_iter().partition(|outcome| outcome.code == Some(0));
        assert_eq!(installed.len(), 1, "{refused:?}");
        for outcome in refused {
            let words = "the database has Mailroom in the schema ";
            assert!(outcome.code == Some(1) && outcome.stderr.contains(words), "{outcome:?}");
        }
        assert_eq!(count(&client, "pg_class WHERE relname = 'issued_tokens'").await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn two_that_go_down_take_two_steps() -> Result<()> {
    let database = Database::migrated()?;
    let running = [Running::start(&database, &["down"])?, Running::start(&database, &["down"])?];
    let mut said = Vec::new();
    for running in running {
        said.push(running.finish()?.stdout);
    }
    let mut newest_two = MIGRATIONS[MIGRATIONS.len() - 2..]
        .iter()
        .map(|migration| format!("{migration} is taken back\n"));
    assert!(newest_two.all(|line| said.contains(&line)), "{said:?}");
    assert_eq!(recorded(&database.connect().await?).await?, Some(clean(newest() - 2)));
    Ok(())
}

#[tokio::test]
async fn a_migration_waits_for_golang_migrate_and_says_for_whom() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    let process: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    for (arguments, id) in
        [["up"], ["down"]].iter().zip(lock_ids(database.name(), "public", "schema_migrations"))
    {
        client.query_one("SELECT pg_advisory_lock($1)", &[&id]).await?;
        let before = description(&client).await?;
        let mut running = Running::start(&database, arguments)?;
        let line = running.wait_for("waiting")?;
        assert!(line.contains(&format!("server process {process} ")), "{line}");
        assert_eq!(description(&client).await?, before);
        client.query_one("SELECT pg_advisory_unlock($1)", &[&id]).await?;
        let outcome = running.finish()?;
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
    assert_eq!(recorded(&client).await?, Some(clean(newest() - 1)));
    Ok(())
}

/// An installation of the base schema, before the step that locks its tables.
async fn before_adoption() -> Result<Database> {
    let database = Database::with_base_schema()?;
    let mut client = database.connect().await?;
    migrate::baseline(&mut client, MIGRATIONS, 0, &mut |_| {}).await?;
    up(&mut client, &MIGRATIONS[..=1]).await?;
    Ok(database)
}

/// Makes a migration give way after a tenth of the time that it takes by default.
async fn be_impatient(database: &Database) -> Result<()> {
    let set = format!("ALTER DATABASE {} SET lock_timeout = '500ms'", database.name());
    Ok(database.connect().await?.batch_execute(&set).await?)
}

#[tokio::test]
async fn a_migration_that_waits_for_a_reader_lets_writers_pass_and_tries_again() -> Result<()> {
    let database = before_adoption().await?;
    let mut reader = database.connect().await?;
    let writer = database.connect().await?;
    be_impatient(&database).await?;

    let transaction = reader.transaction().await?;
    transaction.query("SELECT FROM tokens", &[]).await?;
    let mut running = Running::start(&database, &["up"])?;
    running.wait_for("2_adopt_accounts: going up")?;
    // Behind the migration, which waits for the reader, this one waits too:
    // until the migration gives way.
    for name in ["a", "b", "c"] {
        writer.account(name).insert().await?;
    }
    running.wait_for("2_adopt_accounts: others hold a lock it needs; trying again in 1 s")?;
    transaction.commit().await?;

    let outcome = running.finish()?;
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(recorded(&writer).await?, Some(clean(newest())));
    assert_eq!(count(&writer, "tokens").await?, 3);
    Ok(())
}

#[tokio::test]
async fn a_lock_that_is_never_given_back_ends_the_attempts_and_is_named() -> Result<()> {
    let database = before_adoption().await?;
    let mut reader = database.connect().await?;
    let observer = database.connect().await?;
    be_impatient(&database).await?;

    reader.batch_execute("SET application_name = 'long report'").await?;
    let process: i32 = reader.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    let transaction = reader.transaction().await?;
    transaction.query("SELECT FROM tokens", &[]).await?;
    let before = description(&observer).await?;
    let outcome = Running::start(&database, &["up"])?.finish()?;
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let attempts = LOCK_ATTEMPTS as usize;
    assert_eq!(outcome.stderr.matches("trying again").count(), attempts - 1, "{}", outcome.stderr);
    for part in [
        "2_adopt_accounts.up.sql: statement ".to_owned(),
        "PL/pgSQL function mailroom.lock_briefly(regclass[]) line ".to_owned(),
        format!("It was tried {attempts} times"),
        format!("(the oldest open transaction is that of server process {process}, user "),
        "application \"long report\"".to_owned(),
    ] {
        assert!(outcome.stderr.contains(&part), "{part} is not in: {}", outcome.stderr);
    }
    assert_eq!(description(&observer).await?, before);
    assert_eq!(recorded(&observer).await?, Some(clean(1)));
    drop(transaction);
    Ok(())
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_the_database_as_it_was() -> Result<()> {
    let database = before_adoption().await?;
    let mut reader = database.connect().await?;
    let observer = database.connect().await?;
    let before = description(&observer).await?;
    let transaction = reader.transaction().await?;
    transaction.query("SELECT FROM tokens", &[]).await?;

    let mut running = Running::start(&database, &["up"])?;
    running.wait_for("2_adopt_accounts: going up")?;
    terminate_migrations(&observer).await?;
    let outcome = running.finish()?;
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    transaction.commit().await?;
    assert_eq!(description(&observer).await?, before);
    assert_eq!(recorded(&observer).await?, Some(clean(1)));
    Ok(())
}
