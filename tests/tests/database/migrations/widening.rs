//! The step that replaces integer columns by wider ones, and repairs codes, while others use the
//! tables.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom::migrate::MIGRATIONS;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{register, wait_for};
use tokio::time::sleep;
use tokio::try_join;
use tokio_postgres::Client;

use super::faults::approach_the_code_that_does_not_fit;
use super::schema::{but_for_what_stays, description};
use super::{clean, count, down, recorded, terminate_migrations, up};

/// The version of the step.
const STEP: i64 = 3;

/// The tables that it changes, in that order.
const TABLES: [&str; 2] = ["tokens", "accounts"];

/// A database of the base schema with 2,500 accounts and tokens, before
/// the step. Whoever changes row 1,500 of a table waits while somebody else locks the table `gate`.
async fn before_the_step(gated: &str) -> Result<(Database, Client)> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    up(&mut client, &MIGRATIONS[..=0]).await?;
    register(&client, 1..=2_500).await?;
    // One in 200,000, which would be repaired.
    client.batch_execute("UPDATE tokens SET code = '00000' WHERE code = '#####'").await?;
    client
        .batch_execute(&format!(
            "UPDATE tokens SET consumed_at = id WHERE id % 3 = 0;
            UPDATE accounts SET status = 'suspended' WHERE id % 4 = 1;
            ALTER TABLE tokens ALTER COLUMN expires_at SET DEFAULT extract(epoch
                FROM now() + interval '1 hour'),
                ALTER COLUMN consumed_at SET STATISTICS 500, ALTER COLUMN created_at
                    SET (n_distinct = -0.5);
            CREATE TABLE gate ();
            CREATE FUNCTION pass_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM
                FROM gate; RETURN NEW; END $$;
            CREATE TRIGGER gate BEFORE UPDATE ON {gated}
                FOR EACH ROW WHEN (NEW.id = 1500) EXECUTE FUNCTION pass_gate()"
        ))
        .await?;
    up(&mut client, &MIGRATIONS[..=2]).await?;
    client.batch_execute("COMMENT ON COLUMN tokens.consumed_at IS 'somebody''s own words'").await?;
    Ok((database, client))
}

/// The rows, and what a description of the schema leaves out.
async fn contents(client: &Client) -> Result<Vec<String>> {
    let query = "SELECT attname || attstattarget || attoptions::text FROM pg_attribute
            WHERE attrelid IN ('tokens'::regclass, 'accounts'::regclass) AND NOT attisdropped
                AND attnum > 0
        UNION ALL SELECT string_agg(tokens::text, ' ' ORDER BY id) FROM tokens
        UNION ALL SELECT string_agg(accounts::text, ' ' ORDER BY id) FROM accounts";
    let rows = client.query(query, &[]).await?;
    Ok(rows.iter().filter_map(|row| row.get::<_, Option<String>>(0)).collect())
}

async fn schema(client: &Client) -> Result<Vec<String>> {
    Ok(but_for_what_stays(description(client).await?))
}

async fn type_of(client: &Client, table: &str) -> Result<String> {
    let query = "SELECT format_type(atttypid, NULL) FROM pg_attribute \
                 WHERE attrelid = $1::text::regclass AND attname = 'created_at'";
    Ok(client.query_one(query, &[&table]).await?.get(0))
}

async fn take_step(client: &mut Client) -> Result<()> {
    ensure!(up(client, MIGRATIONS).await? == 1);
    Ok(())
}

/// Takes the step, which stops half-way through the rows of a table, and does something then;
/// returns how the step ends.
async fn take_step_and_stop(
    database: &Database,
    then: impl AsyncFnOnce(&Client) -> Result<()>,
) -> Result<Result<()>> {
    let mut keeper = database.connect().await?;
    let (mut migrating, observer) = (database.connect().await?, database.connect().await?);
    let gate = keeper.transaction().await?;
    gate.batch_execute("LOCK TABLE gate").await?;
    let others = async {
        let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'gate'::regclass \
                     AND NOT granted)";
        wait_for(&observer, waits, true).await?;
        then(&observer).await?;
        Ok(gate.rollback().await?)
    };
    let (outcome, ()) = try_join!(async { anyhow::Ok(take_step(&mut migrating).await) }, others)?;
    Ok(outcome)
}

#[tokio::test]
async fn one_that_is_killed_is_completed_by_the_same_command_and_taken_back_by_the_other()
-> Result<()> {
    for table in TABLES {
        let (_reference, mut client) = before_the_step(table).await?;
        take_step(&mut client).await?;
        let expected = description(&client).await?;
        for is_completed in [true, false] {
            let (database, mut client) = before_the_step(table).await?;
            let (before, rows) = (schema(&client).await?, contents(&client).await?);
            let terminate = async |observer: &Client| terminate_migrations(observer).await;
            let outcome = take_step_and_stop(&database, terminate).await?;
            assert!(outcome.is_err(), "its session was ended");
            assert_eq!(recorded(&client).await?, Some((STEP, true)));
            let copied = format!("SELECT count(created_at_bigint) FROM {table}");
            assert_eq!(client.query_one(&copied, &[]).await?.get::<_, i64>(0), 1_000);

            if is_completed {
                take_step(&mut client).await?;
                assert_eq!(recorded(&client).await?, Some(clean(STEP)));
                assert_eq!(description(&client).await?, expected);
            } else {
                down(&mut client, MIGRATIONS).await?;
                assert_eq!(recorded(&client).await?, Some(clean(STEP - 1)));
                assert_eq!(schema(&client).await?, before);
                assert_eq!(type_of(&client, "accounts").await?, "integer");
                // And up again, over what stays of it.
                take_step(&mut client).await?;
                assert_eq!(description(&client).await?, expected);
            }
            assert_eq!(contents(&client).await?, rows, "{table}: {is_completed}");
            for table in TABLES {
                assert_eq!(type_of(&client, table).await?, "bigint");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn codes_that_nobody_can_type_are_repaired_and_queued_as_they_are_then() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    up(&mut client, &MIGRATIONS[..=0]).await?;
    register(&client, 1..=2).await?;
    approach_the_code_that_does_not_fit(&client).await?;
    client
        .batch_execute("INSERT INTO tokens (account, action) VALUES (1, 'password_recovery')")
        .await?;
    assert_eq!(count(&client, "tokens WHERE code = '#####'").await?, 1);
    up(&mut client, &MIGRATIONS[..=2]).await?;
    assert_eq!(count(&client, "tokens WHERE code = '#####'").await?, 1);
    take_step(&mut client).await?;
    let repaired = "tokens JOIN mailroom.queue ON token = id JOIN mailroom.issued_tokens USING (id)
        WHERE tokens.code ~ '^[0-9]{5}$' AND queue.code = tokens.code
            AND code_hash = mailroom.code_hash(tokens.secret, tokens.code) AND id = 3";
    assert_eq!(count(&client, repaired).await?, 1);
    // Nobody may change a token, as before.
    let change = client.batch_execute("UPDATE tokens SET code = '00000'").await;
    assert!(change.is_err());
    Ok(())
}

#[tokio::test]
async fn what_somebody_made_for_a_replaced_column_is_named_and_nothing_changes() -> Result<()> {
    let (database, mut client) = before_the_step("tokens").await?;
    let obstacles = [
        (
            "CREATE VIEW waiting AS SELECT id, expires_at FROM tokens",
            "DROP VIEW waiting",
            "view waiting",
        ),
        (
            "CREATE INDEX by_expiry ON tokens (expires_at)",
            "DROP INDEX by_expiry",
            "index by_expiry",
        ),
        (
            "ALTER TABLE tokens ADD CONSTRAINT later CHECK (expires_at > created_at)",
            "ALTER TABLE tokens DROP CONSTRAINT later",
            "constraint later on table tokens",
        ),
        (
            "ALTER TABLE tokens ADD COLUMN lifetime integer GENERATED ALWAYS AS (expires_at - \
             created_at) STORED",
            "ALTER TABLE tokens DROP COLUMN lifetime",
            "column lifetime of table tokens",
        ),
        (
            "CREATE TRIGGER watch AFTER UPDATE OF consumed_at ON tokens \
             FOR EACH ROW EXECUTE FUNCTION pass_gate()",
            "DROP TRIGGER watch ON tokens",
            "trigger watch on table tokens",
        ),
        (
            "CREATE TRIGGER \"~~last\" BEFORE INSERT ON tokens \
             FOR EACH ROW EXECUTE FUNCTION pass_gate()",
            "DROP TRIGGER \"~~last\" ON tokens",
            "trigger ~~last on table tokens, which fires after ~copy_token_epochs",
        ),
        (
            "CREATE POLICY fresh ON tokens USING (consumed_at IS NULL)",
            "DROP POLICY fresh ON tokens",
            "policy fresh on table tokens",
        ),
        (
            "CREATE STATISTICS times ON expires_at, created_at FROM tokens",
            "DROP STATISTICS times",
            "statistics object times",
        ),
        (
            "GRANT SELECT (consumed_at) ON tokens TO public",
            "REVOKE SELECT (consumed_at) ON tokens FROM public",
            "privileges on column consumed_at of table tokens",
        ),
    ];
    for (create, ..) in obstacles {
        client.batch_execute(create).await?;
    }
    let before = (schema(&client).await?, contents(&client).await?);
    let error = take_step(&mut client).await.expect_err("there are obstacles").to_string();
    assert!(error.contains("3_catch_up.up.sql"), "{error}");
    assert_eq!((schema(&client).await?, contents(&client).await?), before);
    for (_, remove, name) in obstacles {
        assert!(error.contains(name), "{name} is not in: {error}");
        client.batch_execute(remove).await?;
    }

    // One that comes while rows are copied.
    let (grant, revoke, name) = obstacles[obstacles.len() - 1];
    let outcome =
        take_step_and_stop(&database, async |other| Ok(other.batch_execute(grant).await?)).await?;
    let error = outcome.expect_err("somebody granted a privilege").to_string();
    assert!(error.contains(name), "{error}");
    assert_eq!(type_of(&client, "tokens").await?, "integer");
    client.batch_execute(revoke).await?;
    take_step(&mut client).await?;
    assert_eq!(type_of(&client, "tokens").await?, "bigint");
    Ok(())
}

/// From the base schema to the end, back and to the end again, with statements that were prepared
/// before, none of which returns a column that is replaced, and sessions whose triggers were
/// compiled for other columns.
#[tokio::test]
async fn writers_lose_nothing_and_see_no_error() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    up(&mut client, &MIGRATIONS[..=0]).await?;
    register(&client, 1..=2_500).await?;
    client
        .batch_execute(
            "UPDATE tokens SET expires_at = 2147483647;
            UPDATE accounts SET status = 'suspended' WHERE id % 4 = 1",
        )
        .await?;
    let is_over = Cell::new(false);

    let registering = async {
        let client = database.connect().await?;
        let insert = client.prepare("INSERT INTO accounts (email, login) VALUES ($1, $1)").await?;
        let mut number = 2_500;
        while !is_over.get() {
            number += 1;
            client.execute(&insert, &[&format!("user{number}")]).await?;
        }
        anyhow::Ok(number)
    };
    let consuming = async {
        let client = database.connect().await?;
        let update = client
            .prepare("UPDATE tokens SET consumed_at = $1 WHERE id = $2 AND consumed_at IS NULL")
            .await?;
        let mut consumed = Vec::new();
        for id in (1..=2_500_i64).cycle().filter(|id| id % 4 != 1) {
            if is_over.get() {
                break;
            }
            if client.execute(&update, &[&i32::try_from(id)?, &id]).await? == 1 {
                consumed.push(id);
            }
        }
        anyhow::Ok(consumed)
    };
    let suspending = async {
        let client = database.connect().await?;
        let update = client
            .prepare("UPDATE accounts SET status = $1::text::account_status WHERE id = $2")
            .await?;
        let mut last = 0_i64;
        for round in (1..).take_while(|_| !is_over.get()) {
            last = 4 * (round % 625) + 1;
            client.execute(&update, &[&"active", &last]).await?;
            client.execute(&update, &[&"suspended", &last]).await?;
        }
        anyhow::Ok(last)
    };
    let counting = async {
        let client = database.connect().await?;
        let count = client
            .prepare("SELECT count(consumed_at) FROM tokens WHERE expires_at > created_at")
            .await?;
        let mut consumed: i64 = 0;
        while !is_over.get() {
            let now = client.query_one(&count, &[]).await?.get(0);
            ensure!(now >= consumed, "{now} tokens are consumed after {consumed}");
            consumed = now;
        }
        anyhow::Ok(())
    };
    let migrating = async {
        // So that each session has called the triggers of a step before the next one.
        let use_triggers = || sleep(Duration::from_millis(300));
        for last in 1..MIGRATIONS.len() {
            ensure!(up(&mut client, &MIGRATIONS[..=last]).await? == 1);
            use_triggers().await;
        }
        for _ in 1..MIGRATIONS.len() {
            down(&mut client, MIGRATIONS).await?;
            use_triggers().await;
        }
        ensure!(up(&mut client, MIGRATIONS).await? == MIGRATIONS.len() - 1);
        is_over.set(true);
        Ok(())
    };
    let (registered, consumed, suspended, (), ()) =
        try_join!(registering, consuming, suspending, counting, migrating)?;

    let query = "SELECT count(*) FROM tokens WHERE id = ANY ($1) AND consumed_at = id";
    let found: i64 = client.query_one(query, &[&consumed]).await?.get(0);
    assert_eq!(found, i64::try_from(consumed.len())?);
    let query = "SELECT suspended_at = status_changed_at FROM accounts WHERE id = $1";
    assert!(client.query_one(query, &[&suspended]).await?.get::<_, bool>(0));

    // Each registration is queued, and no use of a token is missing in what redeem() reads.
    let missing = "SELECT count(*) FROM accounts
        JOIN tokens ON account = accounts.id LEFT JOIN mailroom.queue ON token = tokens.id
        WHERE consumed_at IS NULL AND token IS NULL";
    assert_eq!(client.query_one(missing, &[]).await?.get::<_, i64>(0), 0);
    let differing = "SELECT count(*) FROM tokens JOIN mailroom.issued_tokens AS known USING (id)
        WHERE tokens.consumed_at IS DISTINCT FROM known.consumed_at";
    assert_eq!(client.query_one(differing, &[]).await?.get::<_, i64>(0), 0);
    assert_eq!(count(&client, "tokens").await?, registered);
    Ok(())
}
