//! What keeps migrations from being taken is found before the first of them.

use anyhow::Result;
use mailroom::migrate::{self, HistoryTable, MIGRATIONS, Plan};
use mailroom_connect::Schema;
use mailroom_tests::application::{Application, Redemption};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::{Cluster, Database};
use tokio_postgres::Client;

use super::schema::description;
use super::{count, fail, mailroom_migrate, newest, succeed, up};

/// Makes sure that migrating fails with one sentence that holds all of these, and changes nothing.
async fn refused(client: &mut Client, sentences: &[&str]) -> Result<()> {
    let before = description(client).await?;
    let error = up(client, MIGRATIONS).await.expect_err("something is missing").to_string();
    for sentence in sentences.iter().chain(&["nothing was changed"]) {
        assert!(error.contains(sentence), "{sentence} in {error}");
    }
    assert_eq!(description(client).await?, before);
    assert_eq!(
        count(client, "pg_class WHERE relname IN ('accounts', 'schema_migrations')").await?,
        0
    );
    Ok(())
}

#[tokio::test]
async fn an_old_server_is_one_sentence() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    // A function that goes before the built-in one, as the search path says.
    client
        .batch_execute(
            "CREATE SCHEMA mail; SET search_path = mail, pg_catalog;
            CREATE FUNCTION current_setting(name text) RETURNS text LANGUAGE sql
                AS $$ SELECT CASE name WHEN 'server_version_num' THEN '130023' ELSE
                    pg_catalog.current_setting(name) END $$",
        )
        .await?;
    refused(&mut client, &["the server is PostgreSQL 13, and Mailroom needs 14 or newer"]).await?;
    client.batch_execute("DROP FUNCTION current_setting(text)").await?;
    assert_eq!(up(&mut client, MIGRATIONS).await?, MIGRATIONS.len());
    Ok(())
}

#[tokio::test]
async fn an_extension_in_another_schema_has_to_be_on_the_path() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    client
        .batch_execute("CREATE SCHEMA extensions; CREATE EXTENSION pgcrypto SCHEMA extensions")
        .await?;
    refused(
        &mut client,
        &[
            "role \"postgres\"",
            "pgcrypto, which is in the schema extensions",
            "SET search_path = public, extensions",
        ],
    )
    .await?;
    client.batch_execute("SET search_path = public, extensions").await?;
    assert_eq!(up(&mut client, MIGRATIONS).await?, MIGRATIONS.len());
    client.batch_execute("SET search_path = public").await?;
    client.account("a").insert().await?;
    assert_eq!(count(&client, "mailroom.queue").await?, 1);
    Ok(())
}

/// Heroku's rule for extensions, which holds before the command looks whether there is anything to
/// do.
const HEROKU: &str = "CREATE SCHEMA heroku_ext;
    CREATE FUNCTION heroku_ext.create_extension() RETURNS event_trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF current_query() !~* 'schema heroku_ext' OR EXISTS (
                SELECT FROM pg_extension WHERE extname <> 'plpgsql'
            AND extnamespace <> 'heroku_ext'::regnamespace
            ) THEN
                RAISE EXCEPTION 'Extensions can only be created on heroku_ext schema';
            END IF;
        END $$;
    CREATE EVENT TRIGGER heroku_start ON ddl_command_start WHEN TAG IN ('CREATE EXTENSION')
        EXECUTE FUNCTION heroku_ext.create_extension();
    CREATE EVENT TRIGGER heroku_end ON ddl_command_end WHEN TAG IN ('CREATE EXTENSION')
        EXECUTE FUNCTION heroku_ext.create_extension()";

#[tokio::test]
async fn extensions_that_must_be_in_a_schema_of_the_hosts_are() -> Result<()> {
    for is_there in [false, true] {
        let database = Database::create()?;
        let mut client = database.connect().await?;
        client.batch_execute(HEROKU).await?;
        if is_there {
            client.batch_execute("CREATE EXTENSION pgcrypto SCHEMA heroku_ext").await?;
        }
        refused(&mut client, &["pgcrypto", "SET search_path = public, heroku_ext"]).await?;
        client.batch_execute("SET search_path = public, heroku_ext").await?;
        assert_eq!(up(&mut client, MIGRATIONS).await?, MIGRATIONS.len());
        client.account("a").insert().await?;
        let home =
            "pg_extension WHERE extname = 'pgcrypto' AND extnamespace = 'heroku_ext'::regnamespace";
        assert_eq!((count(&client, "mailroom.queue").await?, count(&client, home).await?), (1, 1));
    }
    let database = Database::create()?;
    database.connect().await?.batch_execute(HEROKU).await?;
    succeed(&database, &["up", "--without-accounts"])?;
    Ok(())
}

#[tokio::test]
async fn rights_that_are_missing_are_named() -> Result<()> {
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?;
    let mut client = database.connect().await?;
    client
        .batch_execute("CREATE ROLE owner; CREATE SCHEMA mail; GRANT USAGE ON SCHEMA mail TO owner")
        .await?;
    client.batch_execute("SET search_path = mail; SET ROLE owner").await?;
    refused(&mut client, &["role \"owner\"", "GRANT CREATE, USAGE ON SCHEMA mail TO \"owner\""])
        .await?;
    client
        .batch_execute("RESET ROLE; GRANT CREATE ON SCHEMA mail TO owner; SET ROLE owner")
        .await?;
    let (name, grant) =
        (database.name(), format!("GRANT CREATE ON DATABASE {} TO \"owner\"", database.name()));
    refused(&mut client, &["role \"owner\" may not create the schema mailroom", &grant]).await?;
    client
        .batch_execute(&format!(
            "RESET ROLE; GRANT CREATE ON DATABASE {name} TO owner; SET ROLE owner"
        ))
        .await?;
    assert_eq!(up(&mut client, MIGRATIONS).await?, MIGRATIONS.len());
    Ok(())
}

/// A database with a product's own record of its own migrations.
async fn with_record_of_a_product(version: i64, more: &str) -> Result<(Database, Client)> {
    let database = Database::create()?;
    let client = database.connect().await?;
    client
        .batch_execute(&format!(
            "CREATE TABLE schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean
            NOT NULL);
            INSERT INTO schema_migrations VALUES ({version}, false); {more}"
        ))
        .await?;
    Ok((database, client))
}

#[tokio::test]
async fn the_record_of_a_product_is_not_taken_for_ours() -> Result<()> {
    let accounts = "CREATE TABLE accounts (id bigserial PRIMARY KEY, email text)";
    for (version, more) in
        [(0, ""), (5, accounts), (newest(), ""), (newest(), accounts), (4711, "")]
    {
        let (database, client) = with_record_of_a_product(version, more).await?;
        let before = description(&client).await?;
        for arguments in [&["up"][..], &["down", "--yes"], &["status"], &["up", "--baseline", "0"]]
        {
            let said = fail(&database, arguments)?;
            assert!(said.contains(&format!("records version {version}")), "{arguments:?}: {said}");
            assert!(said.contains("MAILROOM_MIGRATIONS_TABLE"), "{arguments:?}: {said}");
        }
        assert_eq!(description(&client).await?, before);
    }
    Ok(())
}

#[tokio::test]
async fn a_dirty_record_of_a_product_is_not_to_be_changed() -> Result<()> {
    for version in [-1, 0, newest()] {
        let (database, client) =
            with_record_of_a_product(version, "UPDATE schema_migrations SET dirty = true").await?;
        let said = fail(&database, &["up", "--with-accounts"])?;
        assert!(said.contains("MAILROOM_MIGRATIONS_TABLE"), "{version}: {said}");
        assert!(said.contains("`mailroom migrate up --without-accounts`"), "{version}: {said}");
        assert!(!said.contains("SET version"), "{version}: {said}");
        assert_eq!(count(&client, "schema_migrations WHERE dirty").await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn an_empty_record_beside_tables_of_others_is_not_written_until_it_is_named() -> Result<()> {
    for table in ["schema_migrations", "mailroom_migrations"] {
        let (database, client) =
            with_record_of_a_product(7, "DELETE FROM schema_migrations; CREATE TABLE users ()")
                .await?;
        let before = description(&client).await?;
        let said = fail(&database, &["up", "--with-accounts"])?;
        for part in [
            "the table schema_migrations in schema public is empty",
            "(public.users)",
            "--migrations-table mailroom_migrations",
            "--migrations-table schema_migrations",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert_eq!(description(&client).await?, before);
        succeed(&database, &["up", "--with-accounts", "--migrations-table", table])?;
        let is_named = i64::from(table == "schema_migrations");
        assert_eq!(count(&client, "schema_migrations").await?, is_named);
        // From here on the record is known.
        succeed(&database, &["up", "--migrations-table", table])?;
    }
    Ok(())
}

#[tokio::test]
async fn a_table_of_its_own_records_the_migrations_beside_a_product() -> Result<()> {
    let name = "mailroom_migrations";
    for table in [name, "tools.mailroom_migrations"] {
        let (database, client) = with_record_of_a_product(7, "CREATE SCHEMA tools").await?;
        let up = ["up", "--with-accounts", "--migrations-table", table];
        assert!(succeed(&database, &up)?.contains("migrations applied"));
        let recorded =
            client.query_one(&format!("SELECT version, dirty FROM {table}"), &[]).await?;
        assert_eq!((recorded.get(0), recorded.get(1)), (newest(), false));
        let mut command = mailroom_migrate(&database, &["status"])?;
        let said = command.env("MAILROOM_MIGRATIONS_TABLE", table).output()?;
        assert!(
            String::from_utf8(said.stdout)?
                .ends_with(&format!("schema public: version {}\n", newest()))
        );
        assert!(
            succeed(&database, &["--migrations-table", table, "down", "--yes"])?
                .contains("is taken back")
        );
        assert_eq!(count(&client, "schema_migrations WHERE version = 7 AND NOT dirty").await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_schema_that_was_loaded_by_hand_beside_a_product_is_taken_over_into_a_table_of_its_own()
-> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "CREATE TABLE schema_migrations (version bigint NOT NULL PRIMARY KEY, dirty boolean
            NOT NULL);
            INSERT INTO schema_migrations VALUES (12, false)",
        )
        .await?;
    // To believe it would leave all migrations out.
    assert!(fail(&database, &["up"])?.contains("records version 12"));
    succeed(&database, &["up", "--baseline", "0", "--migrations-table", "mailroom_migrations"])?;
    assert_eq!(count(&client, "mailroom.leases").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_table_has_a_name_of_small_letters() -> Result<()> {
    let database = Database::create()?;
    for table in ["", "a.b.c", "Records", "a b", "1a", "a;b", "\"a\""] {
        let said = super::run(&database, &["status", "--migrations-table", table])?;
        assert_eq!(said.code, Some(2), "{table}: {said:?}");
        let mut command = mailroom_migrate(&database, &["status"])?;
        let output = command.env("MAILROOM_MIGRATIONS_TABLE", table).output()?;
        assert_eq!(output.status.code(), Some(if table.is_empty() { 0 } else { 2 }), "{table}");
    }
    Ok(())
}

#[tokio::test]
async fn an_upgrade_by_a_superuser_leaves_the_owner_what_its_functions_call() -> Result<()> {
    for done in 1..=MIGRATIONS.len() {
        let database = Database::create()?;
        let mut client = database.connect().await?;
        let role = database.name();
        client
            .batch_execute(&format!(
                "CREATE EXTENSION pgcrypto; CREATE ROLE {role}; GRANT CREATE
                ON SCHEMA public TO {role};
                GRANT CREATE ON DATABASE {role} TO {role}; SET ROLE {role}"
            ))
            .await?;
        up(&mut client, &MIGRATIONS[..done]).await?;
        client.batch_execute("RESET ROLE").await?;
        assert_eq!(up(&mut client, MIGRATIONS).await?, MIGRATIONS.len() - done);
        if done == MIGRATIONS.len() {
            let last = Plan::dropping_secrets(HistoryTable::default(), Schema::default());
            assert_eq!(migrate::up(&mut client, last, &mut |_| {}).await?, 1);
        }
        client.accounts(["a", "b"]).at("b.test").insert().await?;
        // Whoever calls them, they run with the rights of their owners.
        let claimed = client
            .query(
                "SELECT secrets[1], reason FROM mailroom.claim(
                    1, ARRAY[gen_random_uuid(), gen_random_uuid()], 1, true, 9, 0, NULL, NULL,
                        90000, 30, '{1,2}', true
                )",
                &[],
            )
            .await?;
        let (tokens, summary) = claimed.split_at(claimed.len() - 1);
        assert_eq!((tokens.len(), summary[0].get::<_, Option<&str>>(1)), (2, None), "{done}");
        let redeem = "SELECT verdict::text FROM mailroom.redeem($1, 'activate')";
        let verdict = client.query_one(redeem, &[&tokens[0].get::<_, Vec<u8>>(0)]).await?;
        assert_eq!(verdict.get::<_, &str>(0), "ok", "{done}");
        client
            .batch_execute(
                "SELECT mailroom.request('a', 'recover'); SELECT *
                FROM mailroom.status(); SELECT mailroom.retry_all()",
            )
            .await?;
        client.mail("notice").to("c@b.test").enqueue().await?;
        client.batch_execute("DELETE FROM accounts").await?;
        client.batch_execute(&format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await?;
    }
    Ok(())
}

#[tokio::test]
async fn functions_find_the_base_schema_and_need_no_pgcrypto_wherever_both_are_moved_to()
-> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    client.batch_execute("CREATE EXTENSION pgcrypto").await?;
    let database = database.migrate()?;
    client
        .batch_execute(
            "CREATE SCHEMA elsewhere; ALTER EXTENSION pgcrypto
            SET SCHEMA elsewhere; ALTER SCHEMA public RENAME TO base;
            CREATE SCHEMA public; SET search_path = base",
        )
        .await?;
    let application = Application { client };
    let account = application.register_and_activate("a").await?;
    application.request("a", "password_recovery").await?;
    let token = application.newest_token(account, "password_recovery").await?;
    let answer =
        application.redeem(&token.secret, "password_recovery", token.code.as_deref()).await?;
    assert_eq!(answer, Redemption::ok(account));
    // As applications of the base schema do it.
    let by_hand = application.register("b").await?;
    application
        .client
        .batch_execute("UPDATE tokens SET consumed_at = 1 WHERE consumed_at IS NULL")
        .await?;
    application.set_status(by_hand, "suspended").await?;
    application.set_status(by_hand, "active").await?;
    application.client.batch_execute("DELETE FROM accounts").await?;
    drop(database);
    Ok(())
}

#[tokio::test]
async fn a_schema_that_was_made_for_the_owner_does_and_one_of_somebody_else_does_not() -> Result<()>
{
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?;
    let mut client = database.connect().await?;
    client
        .batch_execute(
            "CREATE ROLE owner; CREATE SCHEMA mailroom;
            GRANT USAGE ON SCHEMA mailroom TO owner; SET ROLE owner",
        )
        .await?;
    let plan = || Plan::without_accounts(Schema::default());
    let error = migrate::up(&mut client, plan(), &mut |_| {}).await.expect_err("of another owner");
    assert!(error.to_string().contains("\"owner\""), "{error}");
    client
        .batch_execute("RESET ROLE; ALTER SCHEMA mailroom OWNER TO owner; SET ROLE owner")
        .await?;
    assert_eq!(migrate::up(&mut client, plan(), &mut |_| {}).await?, plan().migrations.len());
    client.mail("invite").enqueue().await?;
    Ok(())
}

#[tokio::test]
async fn settings_that_change_how_sql_is_read_change_nothing() -> Result<()> {
    for setting in [
        "standard_conforming_strings = off",
        "quote_all_identifiers = on",
        "plpgsql.extra_errors = 'all'",
        "plpgsql.variable_conflict = 'use_variable'",
    ] {
        let database = Database::create()?;
        let client = database.connect().await?;
        client.batch_execute(&format!("ALTER DATABASE {} SET {setting}", database.name())).await?;
        let mut client = database.connect().await?;
        assert_eq!(up(&mut client, MIGRATIONS).await?, MIGRATIONS.len(), "{setting}");
        let client = database.connect().await?;
        client.account("ada").insert().await?;
        client.mail("invite").name("Ada \u{e4}").enqueue().await?;
        let claim = "SELECT mailroom.claim(
            1, ARRAY[gen_random_uuid()], 2, true, 9, 0, NULL, NULL, 90000, 30, '{1,2,3,4,5,6}',
                true)";
        client.batch_execute(claim).await?;
        assert_eq!(count(&client, "mailroom.queue").await?, 0, "{setting}");
    }
    Ok(())
}
