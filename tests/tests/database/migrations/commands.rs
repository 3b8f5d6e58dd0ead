//! What `mailroom migrate` says and how it ends.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use anyhow::Result;
use mailroom::migrate::MIGRATIONS;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;

use super::{clean, count, fail, newest, recorded, run, succeed};

fn all_applied() -> String {
    format!("{} migrations applied", MIGRATIONS.len())
}

#[tokio::test]
async fn up_applies_what_is_missing_and_then_nothing() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    let outcome = run(&database, &["up"])?;
    assert_eq!((outcome.code, outcome.stdout.trim()), (Some(0), &*all_applied()));
    for step in MIGRATIONS {
        assert!(outcome.stderr.contains(&format!("{step}: went up")), "{}", outcome.stderr);
    }
    assert_eq!(recorded(&client).await?, Some(clean(newest())));

    let outcome = run(&database, &["up"])?;
    assert_eq!((outcome.code, outcome.stdout.trim()), (Some(0), "no migration is missing"));
    assert_eq!(outcome.stderr, "");
    Ok(())
}

#[tokio::test]
async fn nothing_goes_down_to_where_a_bound_link_would_be_signed_for_every_browser() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "BEGIN; SET LOCAL mailroom.binding = 'b9e260ad2a53014fc325099499a79eda';
            INSERT INTO accounts (email, login) VALUES ('a@example.test', 'a'); COMMIT",
        )
        .await?;
    for _ in 3..=newest() {
        succeed(&database, &["down", "--yes"])?;
    }
    let said = fail(&database, &["down", "--yes"])?;
    assert!(said.contains("a token that is bound to a browser can still be used"), "{said}");
    assert_eq!(recorded(&client).await?, Some(clean(2)));
    client.batch_execute("SELECT mailroom.cancel_subject('1')").await?;
    succeed(&database, &["down", "--yes"])?;
    assert_eq!(count(&client, "tokens").await?, 0);
    Ok(())
}

#[tokio::test]
async fn what_a_migration_has_to_say_is_shown() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    mailroom_tests::rows::register(&client, 1..=3).await?;
    client.batch_execute("UPDATE mailroom.queue SET attempts = 1 WHERE token = 2").await?;
    let mut said = String::new();
    for _ in 2..=newest() {
        said = run(&database, &["down", "--yes"])?.stderr;
    }
    let lines: Vec<_> = said.lines().collect();
    let notice = lines.iter().position(|line| *line == "NOTICE: 1 tokens may be sent again");
    let end = lines.iter().position(|line| line.contains("went down"));
    assert!(notice.is_some() && notice < end, "{said}");
    Ok(())
}

#[tokio::test]
async fn status_shows_each_migration_and_changes_nothing() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    let lines =
        |status: &str, state: &str| status.lines().filter(|line| line.starts_with(state)).count();

    let status = succeed(&database, &["status"])?;
    assert_eq!(
        (lines(&status, "pending "), lines(&status, "applied ")),
        (MIGRATIONS.len(), 0),
        "{status}"
    );
    assert!(status.ends_with("schema public: nothing is applied\n"), "{status}");
    assert_eq!(count(&client, "pg_class WHERE relnamespace = 'public'::regnamespace").await?, 0);

    succeed(&database, &["up"])?;
    succeed(&database, &["down"])?;
    let status = succeed(&database, &["status"])?;
    assert_eq!(
        (lines(&status, "pending "), lines(&status, "applied ")),
        (1, MIGRATIONS.len() - 1),
        "{status}"
    );
    assert!(
        status.contains(&format!("pending  {}\n", MIGRATIONS[MIGRATIONS.len() - 1])),
        "{status}"
    );
    assert!(status.ends_with(&format!("schema public: version {}\n", newest() - 1)), "{status}");
    Ok(())
}

#[tokio::test]
async fn down_goes_one_step_at_a_time_and_drops_accounts_only_with_yes() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let accounts = client.accounts(["a", "b"]).insert().await?;
    client.token().recovery().insert_for_each(&accounts[..1]).await?;
    for migration in MIGRATIONS[1..].iter().rev() {
        let drops_tables = migration.down.contains("DROP TABLE");
        let arguments = if drops_tables { &["down", "--yes"][..] } else { &["down"] };
        let said = succeed(&database, arguments)?;
        assert_eq!(said.trim(), format!("{migration} is taken back"));
    }
    assert_eq!(recorded(&client).await?, Some(clean(0)));

    let said = fail(&database, &["down"])?;
    assert!(said.contains("drops accounts (2 rows), jobs (1 row), tokens (3 rows)"), "{said}");
    assert!(said.contains("repeat with --yes"), "{said}");
    assert_eq!((count(&client, "accounts").await?, count(&client, "tokens").await?), (2, 3));

    let said = succeed(&database, &["down", "--yes"])?;
    assert_eq!(said.trim(), "0_create_base_schema is taken back");
    assert_eq!(recorded(&client).await?, None);
    assert_eq!(
        count(&client, "pg_tables WHERE schemaname = 'public'").await?,
        1,
        "more than the bookkeeping is left"
    );
    assert_eq!(count(&client, "schema_migrations").await?, 0);

    // A loop ends by the status.
    let nothing_left = run(&database, &["down", "--yes"])?;
    assert_eq!(
        (nothing_left.code, nothing_left.stdout.trim()),
        (Some(3), "no migration is applied")
    );
    assert_eq!(succeed(&database, &["up"])?.trim(), all_applied());
    Ok(())
}

#[test]
fn without_a_usable_database_url_the_command_is_used_wrongly() -> Result<()> {
    for (url, complaint) in [
        (None, "MAILROOM_DATABASE_URL is not set"),
        (Some(OsStr::new("")), "MAILROOM_DATABASE_URL is not set"),
        (Some(OsStr::from_bytes(b"dbname=\xff")), "MAILROOM_DATABASE_URL is not valid UTF-8"),
        (
            Some(OsStr::new("mysql://localhost/mailroom")),
            "MAILROOM_DATABASE_URL cannot be used: the URL is not one of PostgreSQL",
        ),
        (
            Some(OsStr::new("host=/tmp sslmod=require")),
            "MAILROOM_DATABASE_URL cannot be used: unknown parameter \"sslmod\"",
        ),
    ] {
        let mut command = program::mailroom()?;
        command.args(["migrate", "status"]);
        if let Some(url) = url {
            command.env("MAILROOM_DATABASE_URL", url);
        }
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(complaint), "{said}");
    }
    Ok(())
}

#[test]
fn a_database_that_is_not_there_is_a_failure_and_its_password_a_secret() -> Result<()> {
    let mut command = program::mailroom()?;
    command.args(["migrate", "up"]).env(
        "MAILROOM_DATABASE_URL",
        "postgresql://someone:hunter2@127.0.0.1:1/nowhere?sslmode=disable",
    );
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("onnect") && !said.contains("hunter2"), "{said}");
    Ok(())
}

#[tokio::test]
async fn a_role_without_rights_is_told_to_connect_as_the_owner() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let role = database.name();
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await?;
    let url = database.url_of(role);
    for action in ["status", "up"] {
        let command = &mut program::mailroom()?;
        let output =
            command.args(["migrate", action]).env("MAILROOM_DATABASE_URL", &url).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("connect as the role that owns Mailroom's tables"), "{said}");
    }
    client.batch_execute(&format!("DROP ROLE {role}")).await?;
    Ok(())
}

#[test]
fn wrong_arguments_are_a_usage_error() -> Result<()> {
    let database = Database::create()?;
    for arguments in
        [&[][..], &["sideways"], &["up", "--yes"], &["down", "2"], &["status", "--baseline", "0"]]
    {
        assert_eq!(run(&database, arguments)?.code, Some(2), "{arguments:?}");
    }
    Ok(())
}
