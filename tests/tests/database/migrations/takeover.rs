//! Databases that something else has made: psql, golang-migrate, another program.

use anyhow::Result;
use mailroom::migrate::MIGRATIONS;
use mailroom_tests::application::{Application, Redemption};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::machine::is_full;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::faults::approach_the_code_that_does_not_fit;
use super::schema::description;
use super::{clean, count, down, fail, newest, recorded, run, succeed, up};

/// golang-migrate's bookkeeping, as its drivers for PostgreSQL write it.
async fn record_as_golang_migrate(client: &Client, version: i64, dirty: bool) -> Result<()> {
    client
        .batch_execute(&format!(
            "CREATE TABLE IF NOT EXISTS \"public\".\"schema_migrations\"
                (version bigint not null primary key, dirty boolean not null);
            TRUNCATE \"public\".\"schema_migrations\";
            INSERT INTO \"public\".\"schema_migrations\" (version, dirty)
                VALUES ({version}, {dirty})"
        ))
        .await?;
    Ok(())
}

/// Accounts and tokens as an installation of the base schema has them after some time.
async fn live_through_some_years(client: &Client) -> Result<()> {
    client.accounts(numbered("", 1..=200)).at("b.test").insert().await?;
    client
        .batch_execute(
            "UPDATE tokens SET consumed_at = extract(epoch FROM now()) WHERE account % 2 = 0;
            UPDATE accounts SET status = 'suspended' WHERE id % 5 = 0;
            INSERT INTO tokens (account, action) SELECT id, 'password_recovery'
                FROM accounts WHERE status = 'active';
            INSERT INTO tokens (account, action, code) VALUES (1, 'password_recovery', NULL);
            UPDATE jobs SET last_seq = 150",
        )
        .await?;
    approach_the_code_that_does_not_fit(client).await?;
    client.batch_execute("INSERT INTO tokens (account, action) VALUES (1, 'activation')").await?;
    Ok(())
}

/// All rows in the columns of the base schema, but for codes that are no codes.
async fn rows(client: &Client) -> Result<Vec<String>> {
    let query = "SELECT to_jsonb(accounts)::text FROM accounts
        UNION ALL
        SELECT (to_jsonb(tokens) - CASE WHEN id = $1 THEN 'code' ELSE '' END)::text
        FROM tokens
        ORDER BY 1";
    let damaged = count(client, "tokens").await?;
    Ok(client.query(query, &[&damaged]).await?.iter().map(|row| row.get(0)).collect())
}

async fn is_upgraded_in_place(
    database: &Database,
    client: &Client,
    arguments: &[&str],
) -> Result<()> {
    live_through_some_years(client).await?;
    let before = rows(client).await?;
    let last = "SELECT code FROM tokens ORDER BY id DESC LIMIT 1";
    assert_eq!(client.query_one(last, &[]).await?.get::<_, &str>(0), "#####");

    let said = succeed(database, arguments)?;
    assert_eq!(said.trim(), format!("{} migrations applied", MIGRATIONS.len() - 1));
    assert_eq!(rows(client).await?, before);
    let code: String = client.query_one(last, &[]).await?.get(0);
    assert!(code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_digit()), "{code}");

    let fresh = Database::migrated()?;
    assert_eq!(description(client).await?, description(&fresh.connect().await?).await?);
    client.account("new").insert().await?;
    Ok(())
}

#[tokio::test]
async fn an_installation_made_by_psql_is_upgraded_in_place() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    is_upgraded_in_place(&database, &client, &["up", "--baseline", "0"]).await
}

#[tokio::test]
async fn an_installation_made_by_golang_migrate_is_upgraded_in_place() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    record_as_golang_migrate(&client, 0, false).await?;
    is_upgraded_in_place(&database, &client, &["up"]).await
}

#[tokio::test]
async fn living_tokens_are_redeemed_after_the_upgrade_and_consumed_by_hand_after_going_down()
-> Result<()> {
    let database = Database::with_base_schema()?;
    let mut application = Application::connect(&database).await?;
    let [provisioned, active, left] = [
        application.register("a").await?,
        application.register("b").await?,
        application.register("c").await?,
    ];
    application.set_status(active, "active").await?;
    let activation = application.newest_token(provisioned, "activation").await?;
    let recovery = application.insert_token(active, "password_recovery").await?;

    succeed(&database, &["up", "--baseline", "0"])?;
    let code = application.newest_token(active, "password_recovery").await?.code;
    for code in [Some("wrong"), code.as_deref()] {
        let answer = application.redeem(&recovery.secret, "password_recovery", code).await?;
        assert_eq!(answer.verdict, if code == Some("wrong") { "wrong_code" } else { "ok" });
    }
    let answer = application.redeem(&activation.secret, "activation", None).await?;
    assert_eq!(answer, Redemption::ok(provisioned));

    go_down_to(&mut application.client, 0).await?;
    assert_eq!(application.count_tokens("WHERE consumed_at IS NOT NULL").await?, 2);
    let update = "UPDATE tokens SET consumed_at = extract(epoch FROM now()) WHERE account = $1";
    application.client.execute(update, &[&left]).await?;
    assert_eq!(application.status(left).await?, "active");
    Ok(())
}

#[tokio::test]
async fn tables_that_nothing_records_are_neither_created_over_nor_dropped() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let before = description(&client).await?;
    for arguments in [&["up"][..], &["down"], &["down", "--yes"]] {
        let said = fail(&database, arguments)?;
        assert!(said.contains("`accounts`, `jobs`, `tokens`"), "{said}");
        assert!(said.contains("mailroom migrate up --baseline 0"), "{said}");
    }
    assert!(succeed(&database, &["status"])?.contains("tables are there that nothing records"));
    assert_eq!(description(&client).await?, before);
    assert_eq!(recorded(&client).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_baseline_is_recorded_once_and_the_command_can_be_repeated() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    succeed(&database, &["up", "--baseline", "0"])?;
    let said = succeed(&database, &["up", "--baseline", "0"])?;
    assert_eq!(said.trim(), "no migration is missing");
    assert_eq!(recorded(&client).await?, Some(clean(newest())));
    Ok(())
}

#[tokio::test]
async fn a_baseline_beyond_what_is_recorded_is_refused() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    record_as_golang_migrate(&client, 0, false).await?;
    let said = fail(&database, &["up", "--baseline", "3"])?;
    assert!(said.contains("already records version 0"), "{said}");
    assert_eq!(recorded(&client).await?, Some(clean(0)));
    Ok(())
}

#[tokio::test]
async fn only_the_baseline_that_the_schema_looks_like_is_recorded() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    for version in (0..MIGRATIONS.len()).rev() {
        client.batch_execute("DROP TABLE schema_migrations").await?;
        let is_tried =
            |wrong: &usize| *wrong != version && (is_full() || wrong.abs_diff(version) == 1);
        for wrong in (0..MIGRATIONS.len()).filter(is_tried) {
            let said = fail(&database, &["up", "--baseline", &wrong.to_string()])?;
            assert!(
                said.contains(&format!("run `mailroom migrate up --baseline {version}`")),
                "{said}"
            );
        }
        assert_eq!(recorded(&client).await?, None);
        record_as_golang_migrate(&client, i64::try_from(version)?, false).await?;
        succeed(&database, &["down", "--yes"])?;
    }
    Ok(())
}

#[tokio::test]
async fn a_baseline_of_an_empty_database_is_refused() -> Result<()> {
    let database = Database::create()?;
    let said = fail(&database, &["up", "--baseline", "0"])?;
    assert!(said.contains("run `mailroom migrate up` without --baseline"), "{said}");
    let client = database.connect().await?;
    assert_eq!(count(&client, "pg_class WHERE relnamespace = 'public'::regnamespace").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_baseline_that_does_not_exist_is_a_usage_error() -> Result<()> {
    let database = Database::with_base_schema()?;
    let too_new = MIGRATIONS.len().to_string();
    for version in [&too_new, "18446744073709551615", "-1", "x", ""] {
        let outcome = run(&database, &["up", "--baseline", version])?;
        assert_eq!(outcome.code, Some(2), "{outcome:?}");
    }
    assert_eq!(recorded(&database.connect().await?).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_baseline_of_other_tables_is_refused() -> Result<()> {
    for (change, complaint) in [
        (
            "ALTER TABLE tokens ALTER COLUMN secret DROP DEFAULT, \
             ALTER COLUMN secret TYPE varchar(64) USING ''",
            "tokens.secret is character varying(64) instead of bytea",
        ),
        ("DROP TABLE jobs", "jobs.job_type is missing instead of job_type"),
    ] {
        let database = Database::with_base_schema()?;
        let client = database.connect().await?;
        client.batch_execute(change).await?;
        let said = fail(&database, &["up", "--baseline", "0"])?;
        assert!(said.contains(complaint), "{said}");
        assert_eq!(recorded(&client).await?, None);
    }
    Ok(())
}

#[tokio::test]
async fn what_golang_migrate_left_dirty_is_refused_with_what_to_do() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    for version in [-1, 0, 2] {
        record_as_golang_migrate(&client, version, true).await?;
        let before = description(&client).await?;
        for arguments in [&["up"][..], &["down", "--yes"], &["up", "--baseline", "0"]] {
            let said = fail(&database, arguments)?;
            assert!(said.contains(&format!("left version {version} marked as dirty")), "{said}");
            assert!(said.contains("UPDATE schema_migrations SET version"), "{said}");
        }
        assert!(succeed(&database, &["status"])?.contains("dirty"));
        assert_eq!(description(&client).await?, before);
    }
    client.batch_execute("UPDATE schema_migrations SET version = 0, dirty = false").await?;
    succeed(&database, &["up"])?;
    Ok(())
}

#[tokio::test]
async fn versions_of_a_newer_program_are_refused() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    for version in [newest() + 2, 20_240_101_120_000] {
        record_as_golang_migrate(&client, version, false).await?;
        for arguments in [&["up"][..], &["down", "--yes"]] {
            let said = fail(&database, arguments)?;
            assert!(
                said.contains(&format!("at version {version}, which this mailroom does not know")),
                "{said}"
            );
        }
        assert!(succeed(&database, &["status"])?.contains("newer than this mailroom"));
        assert_eq!(recorded(&client).await?, Some(clean(version)));
    }
    Ok(())
}

#[tokio::test]
async fn a_table_of_another_tool_with_the_same_name_is_left_alone() -> Result<()> {
    for table in [
        "CREATE TABLE schema_migrations (version varchar PRIMARY KEY)",
        "CREATE TABLE schema_migrations (version bigint PRIMARY KEY, inserted_at timestamp)",
    ] {
        let database = Database::create()?;
        let client = database.connect().await?;
        client.batch_execute(table).await?;
        let before = count(&client, "pg_class").await?;
        for arguments in [&["up"][..], &["down"], &["status"]] {
            let said = fail(&database, arguments)?;
            assert!(
                said.contains("schema_migrations in schema public is another tool's"),
                "{said}"
            );
            assert!(said.contains("run `mailroom migrate up --without-accounts`"), "{said}");
        }
        assert_eq!(count(&client, "pg_class").await?, before);
        succeed(&database, &["up", "--without-accounts"])?;
        assert_eq!(count(&client, "pg_class WHERE relname = 'accounts'").await?, 0);
    }
    Ok(())
}

#[tokio::test]
async fn several_recorded_versions_are_refused() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.batch_execute("INSERT INTO schema_migrations VALUES (1, false)").await?;
    let said = fail(&database, &["up"])?;
    assert!(said.contains("has several rows instead of one"), "{said}");
    Ok(())
}

#[tokio::test]
async fn codes_of_another_make_stop_the_upgrade_before_the_tables_change() -> Result<()> {
    let database = Database::with_base_schema()?;
    let mut client = database.connect().await?;
    let account = client.account("a").insert().await?;
    client.token().recovery().of(account).code(Some("ABCDE")).insert().await?;
    record_as_golang_migrate(&client, 0, false).await?;
    up(&mut client, &MIGRATIONS[..=1]).await?;
    let before = description(&client).await?;
    let said = fail(&database, &["up"])?;
    assert!(said.contains("the code of token 2 is not five digits"), "{said}");
    assert!(!said.contains("ABCDE"), "{said}");
    assert_eq!(description(&client).await?, before);
    assert_eq!(recorded(&client).await?, Some(clean(1)));

    client.batch_execute("DELETE FROM tokens WHERE id = 2").await?;
    up(&mut client, MIGRATIONS).await?;
    Ok(())
}

/// Goes down to a version.
async fn go_down_to(client: &mut Client, version: i64) -> Result<()> {
    while recorded(client).await? != Some(clean(version)) {
        down(client, MIGRATIONS).await?;
    }
    Ok(())
}

/// The width of columns is kept on the way down: numbers are read as before.
#[tokio::test]
async fn times_after_2038_survive_the_way_down_and_up_again() -> Result<()> {
    let database = Database::migrated()?;
    let mut client = database.connect().await?;
    client.account("a").insert().await?;
    client
        .batch_execute(
            "UPDATE accounts SET suspended_at = 2147483648;
            INSERT INTO tokens (account, action, expires_at)
                VALUES (1, 'activation', 253402300799)",
        )
        .await?;
    let before = rows(&client).await?;
    go_down_to(&mut client, 0).await?;
    assert_eq!(rows(&client).await?, before);
    up(&mut client, MIGRATIONS).await?;
    assert_eq!(rows(&client).await?, before);
    Ok(())
}

#[tokio::test]
async fn whoever_has_numbers_of_before_is_told_what_to_do() -> Result<()> {
    let advice = "go down with that one to version 0, or without accounts until nothing is left, \
                  and up with this one";
    for version in [7, 19] {
        let database = Database::migrated()?;
        let client = database.connect().await?;
        record_as_golang_migrate(&client, version, false).await?;
        for arguments in [&["up"][..], &["down", "--yes"]] {
            assert!(fail(&database, arguments)?.contains(advice), "{version}");
        }
    }
    // Of the base schema and the first of its repairs.
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    record_as_golang_migrate(&client, 3, false).await?;
    assert!(fail(&database, &["up"])?.contains(advice));
    Ok(())
}

#[tokio::test]
async fn a_role_that_does_not_own_the_tables_cannot_migrate_them() -> Result<()> {
    let database = Database::with_base_schema()?;
    let mut client = database.connect().await?;
    record_as_golang_migrate(&client, 0, false).await?;
    let role = format!("{}_other", database.name());
    client
        .batch_execute(&format!(
            "CREATE ROLE {role}; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}; \
             SET ROLE {role}"
        ))
        .await?;
    let error = up(&mut client, MIGRATIONS).await;
    client.batch_execute(&format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    let said = error.expect_err("the role may not").to_string();
    assert!(
        said.contains(&format!("the role \"{role}\" does not own accounts, jobs, tokens")),
        "{said}"
    );
    assert_eq!(recorded(&client).await?, Some(clean(0)));
    Ok(())
}
