//! Through `PgBouncer`, where the database or a client asks for a stricter isolation level.

use anyhow::{Context, Result};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::{Cluster, Database, Pool};
use mailroom_tests::rows::wait_for;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

const PEOPLE: &str = "
    CREATE TABLE people (id text PRIMARY KEY, email text NOT NULL);
    INSERT INTO people VALUES ('7', 'ada@example.test');
    CREATE FUNCTION mailed(subject_ids text[], is_redemption boolean)
    RETURNS TABLE (subject_id text, email text, name text)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT id, email, NULL::text FROM public.people WHERE id = ANY ($1)';
    UPDATE mailroom.actions
    SET eligibility = 'public.mailed(text[], boolean)', cooldown = '0 seconds'
    WHERE name = 'sign_in'";

const ENQUEUE: &str = "SELECT mailroom.enqueue('sign_in', 'ada@example.test', NULL, '7')";

async fn text(client: &Client, query: &str) -> Result<String> {
    Ok(client.query_typed_one(query, &[]).await?.get(0))
}

#[tokio::test]
async fn a_database_that_is_serializable_by_default_collects_redeems_and_renews() -> Result<()> {
    let cluster = Cluster::start()?;
    let database = Database::create_on(&cluster.url("postgres"))?;
    let name = database.name().to_owned();
    let serializable =
        format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'");
    database.connect().await?.batch_execute(&serializable).await?;
    let database = database.migrate_with(&["--without-accounts"])?;
    let direct = database.connect().await?;
    direct.batch_execute(PEOPLE).await?;
    let pool = Pool::start(&cluster, "transaction", 3)?;
    let (pooled, connection) = tokio_postgres::connect(&pool.url(&name), NoTls).await?;
    tokio::spawn(connection);
    let level = text(&pooled, "SELECT current_setting('transaction_isolation')").await?;
    assert_eq!(level, "serializable");

    pooled.batch_execute(ENQUEUE).await?;
    let secret =
        text(&direct, "SELECT format('''\\x%s''', encode(secret, 'hex')) FROM mailroom.queue")
            .await?;
    let code = text(&direct, "SELECT code FROM mailroom.queue").await?;
    let mut command = collector::command(&pool.url(&name))?;
    command.args(["--wake", "poll", "--poll-interval", "200ms", "--batch-timeout", "0"]);
    command.args(["--token-format", "v2", "--line-format", "ndjson"]);
    let mut collector = Collector::start(&mut command)?;
    let lines = collector.lines()?;
    lines.next_line()?;
    wait_for(&direct, "SELECT count(*) FROM mailroom.leases", 0_i64).await?;

    let redeem =
        format!("SELECT verdict::text FROM mailroom.redeem({secret}, 'sign_in', '{code}')");
    assert_eq!(text(&pooled, &redeem).await?, "ok");
    assert_eq!(text(&pooled, &redeem).await?, "used");

    let renew = format!("SELECT mailroom.renew_link({secret}, 'sign_in')");
    for level in ["SERIALIZABLE", "REPEATABLE READ"] {
        let statements = format!("BEGIN ISOLATION LEVEL {level}; {renew}");
        let error = pooled.batch_execute(&statements).await.expect_err(level);
        pooled.batch_execute("ROLLBACK").await?;
        let error = error.as_db_error().context("the server refuses it")?.clone();
        assert_eq!(error.code(), &SqlState::INVALID_TRANSACTION_STATE, "{level}");
        let said = format!("does not work in {} transactions", level.to_lowercase());
        assert!(error.message().contains(&said), "{}", error.message());
        assert!(error.hint().is_some_and(|hint| hint.contains("READ COMMITTED")), "{error:?}");
    }
    let statements = format!("BEGIN ISOLATION LEVEL READ COMMITTED; {renew}; COMMIT");
    pooled.batch_execute(&statements).await?;
    // The successor, which the collector sends.
    lines.next_line()?;
    let tokens = "SELECT count(*)::text FROM mailroom.issued_tokens";
    assert_eq!(text(&direct, tokens).await?, "2");
    let log = collector.stop()?;
    assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    Ok(())
}
