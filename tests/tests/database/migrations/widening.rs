//! The steps that replace integer columns by wider ones while others use the tables.

use std::cell::Cell;
use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use mailroom::migrate::{MIGRATIONS, Migration};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{CURSOR, register, wait_for};
use tokio::try_join;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::schema::description;
use super::{clean, down, recorded, refusal, terminate_migrations, up};

/// The steps, and the tables that they change.
const STEPS: [(usize, &str); 2] = [(4, "tokens"), (5, "accounts")];

/// A database at a version with 2,500 accounts and tokens. Whoever changes row 1,500 waits while
/// somebody else locks the table `gate`.
async fn at(version: usize) -> Result<(Database, Client)> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    up(&mut client, &MIGRATIONS[..=version]).await?;
    register(&client, 1..=2_500).await?;
    client
        .batch_execute(
            "UPDATE tokens SET consumed_at = id WHERE id % 3 = 0; UPDATE accounts
            SET status = 'suspended' WHERE id % 4 = 1;
            ALTER TABLE tokens ALTER COLUMN expires_at SET DEFAULT extract(epoch
                FROM now() + interval '1 hour'),
                ALTER COLUMN consumed_at SET STATISTICS 500, ALTER COLUMN created_at
                    SET (n_distinct = -0.5);
            COMMENT ON COLUMN tokens.consumed_at IS 'somebody''s own words';
            CREATE TABLE gate ();
            CREATE FUNCTION pass_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM
                FROM gate; RETURN NEW; END $$;
            CREATE TRIGGER gate BEFORE UPDATE ON tokens
                FOR EACH ROW WHEN (NEW.id = 1500) EXECUTE FUNCTION pass_gate();
            CREATE TRIGGER gate BEFORE UPDATE ON accounts
                FOR EACH ROW WHEN (NEW.id = 1500) EXECUTE FUNCTION pass_gate()",
        )
        .await?;
    Ok((database, client))
}

/// All that must come back: the schema, what it leaves out, and the rows.
async fn contents(client: &Client) -> Result<Vec<String>> {
    let mut lines = description(client).await?;
    let query = "SELECT attname || attstattarget || attoptions::text FROM pg_attribute
            WHERE attrelid IN ('tokens'::regclass, 'accounts'::regclass) AND NOT attisdropped
                AND attnum > 0
        UNION ALL SELECT string_agg(tokens::text, ' ' ORDER BY id) FROM tokens
        UNION ALL SELECT string_agg(accounts::text, ' ' ORDER BY id) FROM accounts";
    lines.extend(
        client.query(query, &[]).await?.iter().filter_map(|row| row.get::<_, Option<String>>(0)),
    );
    Ok(lines)
}

async fn type_of(client: &Client, table: &str) -> Result<String> {
    let query = "SELECT format_type(atttypid, NULL) FROM pg_attribute \
                 WHERE attrelid = $1::text::regclass AND attname = 'created_at'";
    Ok(client.query_one(query, &[&table]).await?.get(0))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Up,
    Down,
}

async fn go(client: &mut Client, version: usize, way: Way) -> Result<()> {
    match way {
        Way::Up => ensure!(up(client, &MIGRATIONS[..=version]).await? == 1),
        Way::Down => down(client, &MIGRATIONS[..=version]).await?,
    }
    Ok(())
}

/// Takes a step that stops half-way through the rows, and does something then;
/// returns how the step ends.
async fn go_and_stop(
    database: &Database,
    version: usize,
    way: Way,
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
    let (outcome, ()) =
        try_join!(async { anyhow::Ok(go(&mut migrating, version, way).await) }, others)?;
    Ok(outcome)
}

#[tokio::test]
async fn one_that_is_killed_is_completed_by_the_same_command_and_taken_back_by_the_other()
-> Result<()> {
    for (version, table) in STEPS {
        for (killed, next) in
            [(Way::Up, Way::Up), (Way::Up, Way::Down), (Way::Down, Way::Up), (Way::Down, Way::Down)]
        {
            let start = if killed == Way::Up { version - 1 } else { version };
            let (database, mut client) = at(start).await?;
            let before = contents(&client).await?;
            let terminate = async |observer: &Client| terminate_migrations(observer).await;
            let outcome = go_and_stop(&database, version, killed, terminate).await?;
            assert!(outcome.is_err(), "its session was ended");
            let version_number = i64::try_from(version)?;
            assert_eq!(recorded(&client).await?, Some((version_number, true)));
            let copy = if killed == Way::Up { "created_at_bigint" } else { "created_at_integer" };
            let copied = format!("SELECT count({copy}) FROM {table}");
            assert_eq!(client.query_one(&copied, &[]).await?.get::<_, i64>(0), 1_000);

            go(&mut client, version, next).await?;
            let (number, expected) = if next == Way::Up {
                (version_number, "bigint")
            } else {
                (version_number - 1, "integer")
            };
            assert_eq!(recorded(&client).await?, Some(clean(number)));
            assert_eq!(type_of(&client, table).await?, expected);
            if killed == next {
                go(&mut client, version, if next == Way::Up { Way::Down } else { Way::Up }).await?;
            }
            assert_eq!(contents(&client).await?, before, "{table}: {killed:?}, then {next:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_somebody_made_for_a_replaced_column_is_named_and_nothing_changes() -> Result<()> {
    let (database, mut client) = at(3).await?;
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
    let before = contents(&client).await?;
    let error = go(&mut client, 4, Way::Up).await.expect_err("there are obstacles").to_string();
    assert!(error.contains("4_widen_token_epochs.up.sql"), "{error}");
    assert_eq!(contents(&client).await?, before);
    for (_, remove, name) in obstacles {
        assert!(error.contains(name), "{name} is not in: {error}");
        client.batch_execute(remove).await?;
    }

    // One that comes while rows are copied.
    let (grant, revoke, name) = obstacles[obstacles.len() - 1];
    let outcome =
        go_and_stop(&database, 4, Way::Up, async |other| Ok(other.batch_execute(grant).await?))
            .await?;
    let error = outcome.expect_err("somebody granted a privilege").to_string();
    assert!(error.contains(name), "{error}");
    assert_eq!(type_of(&client, "tokens").await?, "integer");
    client.batch_execute(revoke).await?;
    go(&mut client, 4, Way::Up).await?;
    assert_eq!(type_of(&client, "tokens").await?, "bigint");
    Ok(())
}

#[tokio::test]
async fn a_time_that_does_not_fit_is_refused_as_soon_as_the_way_down_has_begun() -> Result<()> {
    for (version, table) in STEPS {
        let (database, mut client) = at(version).await?;
        let write = format!("UPDATE {table} SET created_at = 2147483648 WHERE id = 7");
        let outcome = go_and_stop(&database, version, Way::Down, async |other| {
            ensure!(refusal(other, &write).await?.0 == SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
            Ok(())
        });
        outcome.await??;
        assert_eq!(type_of(&client, table).await?, "integer");
        // With one in the table nothing is begun, also where it was before.
        go(&mut client, version, Way::Up).await?;
        client.batch_execute(&write).await?;
        let before = contents(&client).await?;
        let error =
            go(&mut client, version, Way::Down).await.expect_err("a time does not fit").to_string();
        assert!(error.contains(&format!("rows of {table} with a time outside")), "{error}");
        assert_eq!(contents(&client).await?, before);
    }
    Ok(())
}

/// With statements that were prepared before, none of which returns a column that is replaced.
#[tokio::test]
async fn writers_and_a_collector_of_the_cursor_lose_nothing_and_see_no_error() -> Result<()> {
    let (database, mut client) = at(3).await?;
    client.batch_execute("UPDATE tokens SET expires_at = 2147483647").await?;
    let mut command = collector::on_base_schema(database.url())?;
    command.args(["--batch-timeout", "0", "--poll-interval", "200ms"]);
    let mut collector = Collector::start(&mut command)?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    wait_for(&client, CURSOR, 2_500_i64).await?;
    let before = description(&client).await?;
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
        for _ in 0..2 {
            ensure!(up(&mut client, &MIGRATIONS[..=5]).await? == 2);
            down(&mut client, &MIGRATIONS[..=5]).await?;
            down(&mut client, &MIGRATIONS[..=5]).await?;
        }
        is_over.set(true);
        Ok(())
    };
    let (registered, consumed, suspended, (), ()) =
        try_join!(registering, consuming, suspending, counting, migrating)?;

    assert_eq!(description(&client).await?, before);
    let query = "SELECT count(*) FROM tokens WHERE id = ANY ($1) AND consumed_at = id";
    let found: i64 = client.query_one(query, &[&consumed]).await?.get(0);
    assert_eq!(found, i64::try_from(consumed.len())?);
    let query = "SELECT suspended_at = status_changed_at FROM accounts WHERE id = $1";
    assert!(client.query_one(query, &[&suspended]).await?.get::<_, bool>(0));

    let newest: i64 = client.query_one("SELECT max(id) FROM tokens", &[]).await?.get(0);
    wait_for(&client, CURSOR, newest).await?;
    collector.stop()?;
    let sent: Vec<_> = lines.rest()?.into_iter().map(|item| item.login).collect();
    let distinct: BTreeSet<_> = sent.iter().collect();
    assert_eq!(distinct.len(), sent.len(), "a token was sent twice");
    let missing = (2_501..=registered)
        .map(|number| format!("user{number}"))
        .find(|login| !distinct.contains(login));
    assert_eq!(missing, None);
    Ok(())
}

#[test]
fn the_files_differ_in_their_constants_only() -> Result<()> {
    let steps: Vec<&Migration> = STEPS.iter().map(|(version, _)| &MIGRATIONS[*version]).collect();
    let mark = "-- From here on the four files that replace columns are the same.";
    let mut rest = BTreeSet::new();
    for file in steps.iter().flat_map(|step| [step.up, step.down]) {
        rest.insert(file.split_once(mark).context("a file has no mark")?.1);
    }
    assert_eq!(rest.len(), 1);
    Ok(())
}
