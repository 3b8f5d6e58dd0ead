//! `mailroom migrate up --without-accounts`: the schema `mailroom` alone.

use anyhow::Result;
use mailroom::migrate::MIGRATIONS;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::{Cluster, Database};
use tokio_postgres::Client;

use super::schema::description;
use super::{count, fail, run, succeed};

const UP: &[&str] = &["up", "--without-accounts"];

/// A product with tables of its own, which have some of Mailroom's names.
const PRODUCT: &str =
    "CREATE TABLE accounts (id uuid PRIMARY KEY, email text); CREATE TABLE tokens (token text);
    CREATE TABLE schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean NOT NULL);
    INSERT INTO schema_migrations VALUES (20, false)";

/// Takes back so many migrations.
fn go_down(database: &Database, steps: usize) -> Result<()> {
    for _ in 0..steps {
        assert!(succeed(database, &["down", "--yes"])?.contains("is taken back"));
    }
    Ok(())
}

/// Enqueues, claims and redeems.
async fn works(client: &Client) -> Result<()> {
    client.mail("invite").to("a@example.test").subject("7").enqueue().await?;
    let claim = "SELECT secrets[1], convert_from(emails[1], 'UTF8') FROM mailroom.claim(
        1, ARRAY[gen_random_uuid()], 1, true, 9, 0, NULL, NULL, 90000, 30, '{1,2,3,4,5,6}', true)
            WHERE batch IS NOT NULL";
    let row = client.query_one(claim, &[]).await?;
    let (secret, email): (Vec<u8>, &str) = (row.get(0), row.get(1));
    assert_eq!(email, "a@example.test");
    let redeem = "SELECT verdict::text, subject_id FROM mailroom.redeem($1, 'invite')";
    let row = client.query_one(redeem, &[&secret]).await?;
    assert_eq!((row.get(0), row.get(1)), ("ok", "7"));
    Ok(())
}

#[tokio::test]
async fn an_empty_database_gets_the_schema_mailroom_and_nothing_else_and_loses_all_of_it_again()
-> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    let before = description(&client).await?;
    for _ in 0..2 {
        assert_eq!(succeed(&database, UP)?.trim(), "1 migration applied");
        assert_eq!(succeed(&database, UP)?.trim(), "no migration is missing");
        let status = succeed(&database, &["status"])?;
        assert!(status.ends_with("schema mailroom: version 1\n"), "{status}");
        works(&client).await?;
        let elsewhere = "pg_class WHERE relnamespace = 'public'::regnamespace";
        assert_eq!(
            (count(&client, elsewhere).await?, count(&client, "pg_extension").await?),
            (0, 1)
        );
        go_down(&database, 1)?;
        assert_eq!(description(&client).await?, before);
        let nothing_left = run(&database, &["down"])?;
        assert_eq!(
            (nothing_left.code, nothing_left.stdout.trim()),
            (Some(3), "no migration is applied")
        );
    }
    Ok(())
}

#[tokio::test]
async fn tables_of_a_product_are_neither_read_nor_changed_whatever_their_names() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    client.batch_execute(PRODUCT).await?;
    let before = description(&client).await?;
    assert_eq!(succeed(&database, UP)?.trim(), "1 migration applied");
    let installed = description(&client).await?;
    assert!(
        before.iter().filter(|line| line.contains("public.")).all(|line| installed.contains(line))
    );
    works(&client).await?;
    go_down(&database, 1)?;
    assert_eq!(description(&client).await?, before);
    assert_eq!(count(&client, "schema_migrations WHERE version = 20").await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_right_to_create_schemas_is_all_that_a_role_needs() -> Result<()> {
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?;
    let client = database.connect().await?;
    client
        .batch_execute("CREATE ROLE product LOGIN; REVOKE ALL ON SCHEMA public FROM PUBLIC")
        .await?;
    let url = database.url_of("product");
    let migrate = || -> Result<_> {
        let mut command = super::mailroom_migrate(&database, UP)?;
        Ok(super::Outcome::from(command.env("MAILROOM_DATABASE_URL", &url).output()?))
    };
    let said = migrate()?;
    let grant = format!("GRANT CREATE ON DATABASE {} TO \"product\"", database.name());
    assert!(said.code == Some(1) && said.stderr.contains(&grant), "{said:?}");
    assert_eq!(count(&client, "pg_namespace WHERE nspname = 'mailroom'").await?, 0);
    client.batch_execute(&grant).await?;
    assert_eq!(migrate()?.stdout.trim(), "1 migration applied");
    Ok(())
}

#[tokio::test]
async fn what_an_application_has_put_into_the_schema_outlives_it() -> Result<()> {
    for (up, steps) in [(UP, 1), (&["up"][..], MIGRATIONS.len())] {
        for object in [
            "TABLE mailroom.own ()",
            "FUNCTION mailroom.own() RETURNS integer LANGUAGE sql RETURN 1",
        ] {
            let database = Database::create()?;
            let client = database.connect().await?;
            succeed(&database, up)?;
            client.batch_execute(&format!("CREATE {object}")).await?;
            go_down(&database, steps)?;
            let kind = object.split(' ').next().unwrap_or_default();
            let parentheses = if kind == "FUNCTION" { "()" } else { "" };
            client.batch_execute(&format!("DROP {kind} mailroom.own{parentheses}")).await?;
            assert_eq!(
                count(&client, "pg_class WHERE relnamespace = to_regnamespace('mailroom')").await?,
                0
            );
            succeed(&database, up)?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_database_with_one_kind_of_installation_is_refused_the_other() -> Result<()> {
    let with_accounts = "the database has Mailroom with accounts";
    for database in [Database::migrated()?, Database::with_base_schema()?] {
        let client = database.connect().await?;
        let before = description(&client).await?;
        assert!(fail(&database, UP)?.contains(with_accounts));
        assert_eq!(description(&client).await?, before);
    }
    let database = Database::create()?;
    let client = database.connect().await?;
    succeed(&database, UP)?;
    let before = description(&client).await?;
    for arguments in [
        &["up", "--with-accounts"][..],
        &["up", "--baseline", "0"],
        &["up", "--migrations-table", "other"],
        &["up", "--drop-secrets"],
    ] {
        let said = fail(&database, arguments)?;
        assert!(
            said.contains("run `mailroom migrate up --without-accounts`"),
            "{arguments:?}: {said}"
        );
    }
    succeed(&database, UP)?;
    assert_eq!(description(&client).await?, before);
    Ok(())
}

#[tokio::test]
async fn what_is_installed_without_accounts_is_gone_on_with_without_saying_so() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    client.batch_execute(PRODUCT).await?;
    succeed(&database, UP)?;
    let before = description(&client).await?;
    assert_eq!(succeed(&database, &["up"])?.trim(), "no migration is missing");
    // The variable is for installations with accounts, and of all of a machine's.
    let mut command = super::mailroom_migrate(&database, &["up"])?;
    let said = command.env("MAILROOM_MIGRATIONS_TABLE", "mailroom_migrations").output()?;
    assert_eq!(super::Outcome::from(said).stdout.trim(), "no migration is missing");
    assert_eq!(description(&client).await?, before);
    // As one whose newest migration is not applied yet.
    client
        .batch_execute(
            "DROP SCHEMA mailroom CASCADE; CREATE SCHEMA mailroom;
        CREATE TABLE mailroom.migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL)",
        )
        .await?;
    assert_eq!(succeed(&database, &["up"])?.trim(), "1 migration applied");
    works(&client).await?;
    Ok(())
}

#[test]
fn a_baseline_or_another_record_beside_it_is_a_usage_error() -> Result<()> {
    let database = Database::create()?;
    for arguments in [
        &["up", "--without-accounts", "--baseline", "0"][..],
        &["up", "--without-accounts", "--migrations-table", "other"],
        &["up", "--without-accounts", "--with-accounts"],
        &["up", "--migrations-table", "mailroom.migrations"],
        &["down", "--without-accounts"],
    ] {
        assert_eq!(run(&database, arguments)?.code, Some(2), "{arguments:?}");
    }
    Ok(())
}
