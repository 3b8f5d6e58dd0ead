//! Which kind of installation a database gets, and in which format its links are signed.

use anyhow::Result;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::schema::description;
use super::{count, fail, succeed};

const FORMAT: &str = "SELECT token_format FROM mailroom.installation";

async fn format(client: &Client) -> Result<String> {
    Ok(client.query_one(FORMAT, &[]).await?.get(0))
}

#[tokio::test]
async fn beside_tables_of_others_accounts_are_made_only_for_who_asks_for_them() -> Result<()> {
    for (tables, named) in [
        ("CREATE TABLE users (id integer)", "(public.users)"),
        (
            "CREATE SCHEMA shop; CREATE TABLE shop.users (id integer) PARTITION BY LIST (id)",
            "(shop.users)",
        ),
        (
            "CREATE TABLE a (); CREATE TABLE b (); CREATE TABLE c (); CREATE TABLE \"D e\" (); \
             CREATE TABLE z ()",
            "(public.\"D e\", public.a, public.b and 2 more)",
        ),
    ] {
        let database = Database::create()?;
        let client = database.connect().await?;
        client.batch_execute(tables).await?;
        let before = description(&client).await?;
        for up in [&["up"][..], &["up", "--drop-secrets"], &["up", "--migrations-table", "other"]] {
            let said = fail(&database, up)?;
            assert!(said.contains(named), "{up:?}: {said}");
            for choice in [
                "`mailroom migrate up --without-accounts`",
                "`mailroom migrate up --with-accounts`",
            ] {
                assert!(said.contains(choice), "{up:?}: {said}");
            }
            assert_eq!(description(&client).await?, before, "{up:?}");
        }
        succeed(&database, &["up", "--with-accounts"])?;
        assert_eq!(count(&client, "accounts").await?, 0);
        // What is there needs no choice any more.
        assert_eq!(succeed(&database, &["up"])?.trim(), "no migration is missing");
    }
    Ok(())
}

#[tokio::test]
async fn tables_of_the_server_of_extensions_and_of_an_installation_are_nobody_elses() -> Result<()>
{
    let database = Database::create()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE of_an_extension (); CREATE EXTENSION pgcrypto;
            ALTER EXTENSION pgcrypto ADD TABLE of_an_extension; CREATE TEMPORARY TABLE passing ()",
        )
        .await?;
    succeed(&database, &["up"])?;
    succeed(&database, &["down", "--yes"])?;
    client.batch_execute("CREATE TABLE users (id integer)").await?;
    // A part of an installation is one.
    succeed(&database, &["up"])?;
    Ok(())
}

#[tokio::test]
async fn v2_is_recorded_where_an_installation_without_accounts_is_created_and_never_again()
-> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    let without_accounts = ["up", "--without-accounts"];
    succeed(&database, &without_accounts)?;
    assert_eq!(format(&client).await?, "v2");
    client.batch_execute("UPDATE mailroom.installation SET token_format = 'v1'").await?;
    succeed(&database, &without_accounts)?;
    assert_eq!(format(&client).await?, "v1");
    // What is created anew is new.
    succeed(&database, &["down", "--yes"])?;
    succeed(&database, &without_accounts)?;
    assert_eq!(format(&client).await?, "v2");
    let error = client.batch_execute("UPDATE mailroom.installation SET token_format = 'v3'").await;
    assert!(
        error.is_err(),
        "v3 needs keys of another kind, which collectors are told of by a variable"
    );
    Ok(())
}

#[tokio::test]
async fn with_accounts_the_default_is_v1_which_existing_verifiers_expect() -> Result<()> {
    for database in
        [Database::migrated()?, Database::with_base_schema()?.migrate_with(&["--baseline", "0"])?]
    {
        assert_eq!(format(&database.connect().await?).await?, "v1");
    }
    Ok(())
}

#[tokio::test]
async fn the_schema_and_its_format_are_created_together_or_not_at_all() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    // The last write of the transaction fails, as it would if the process were killed before.
    client
        .batch_execute(
            "CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF to_regclass('mailroom.migrations') IS NOT NULL THEN
                        RAISE EXCEPTION 'not now';
                    END IF;
                END $$;
            CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE
                FUNCTION refuse()",
        )
        .await?;
    assert!(fail(&database, &["up", "--without-accounts"])?.contains("not now"));
    assert_eq!(count(&client, "pg_namespace WHERE nspname = 'mailroom'").await?, 0);
    client.batch_execute("DROP EVENT TRIGGER refuse").await?;
    succeed(&database, &["up", "--without-accounts"])?;
    assert_eq!(format(&client).await?, "v2");
    Ok(())
}
