//! What a client leaves in a session that `PgBouncer` gives to another client.

use anyhow::{Context, Result};
use mailroom_tests::fixtures::eligible;
use mailroom_tests::postgres::{Cluster, Database, Pool};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A role that may call what an application may, and has a schema of its own.
const SITE: &str = "
    CREATE ROLE site LOGIN;
    CREATE SCHEMA shop AUTHORIZATION site;
    GRANT EXECUTE ON FUNCTION mailroom.enqueue, mailroom.redeem, mailroom.browser_code,
        mailroom.cancel, mailroom.cancel_subject, mailroom.recheck, mailroom.renew_link TO site";

/// A function of eligibility, of somebody else, that changes the path of the session.
const SELLER: &str = "
    CREATE ROLE seller;
    CREATE SCHEMA seller AUTHORIZATION seller;
    SET ROLE seller;
    CREATE FUNCTION seller.may(subject_ids text[], is_redemption boolean)
    RETURNS TABLE (subject_id text, email text, name text)
    LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        PERFORM pg_catalog.set_config('search_path', 'seller, pg_catalog', false);
        RETURN QUERY SELECT id, 'ada@example.test', NULL FROM pg_catalog.unnest(subject_ids) AS id;
    END $$;
    RESET ROLE;
    UPDATE mailroom.actions SET eligibility = 'seller.may(text[], boolean)' WHERE name = 'invite'";

struct Place {
    _cluster: Cluster,
    database: Database,
    owner: Client,
    pool: Pool,
}

impl Place {
    /// All clients of the role `site` take turns on one session.
    async fn new() -> Result<Self> {
        let cluster = Cluster::start()?;
        let database =
            Database::create_on(&cluster.url("postgres"))?.migrate_with(&["--without-accounts"])?;
        let owner = database.connect().await?;
        owner.batch_execute(SITE).await?;
        let pool = Pool::start_as(&cluster, "transaction", 1, "site")?;
        Ok(Self { _cluster: cluster, database, owner, pool })
    }

    /// Another client of the pool.
    async fn client(&self) -> Result<Client> {
        let url = self.pool.url(self.database.name());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// The newest token's secret, as a literal.
    async fn secret(&self) -> Result<String> {
        let newest = "SELECT format('%L::pg_catalog.bytea', secret::text) FROM mailroom.queue
            ORDER BY token DESC LIMIT 1";
        Ok(self.owner.query_one(newest, &[]).await?.get(0))
    }
}

/// The one value that a call answers, without a prepared statement.
async fn value(client: &Client, call: &str) -> Result<String> {
    for message in client.simple_query(&format!("SELECT {call}")).await? {
        if let SimpleQueryMessage::Row(row) = message {
            return Ok(row.get(0).unwrap_or_default().to_owned());
        }
    }
    Err(anyhow::anyhow!("no row")).context(call.to_owned())
}

#[tokio::test]
async fn what_a_client_leaves_in_a_session_gets_no_rights_by_the_next_one() -> Result<()> {
    let place = Place::new().await?;
    place.owner.batch_execute(&eligible(&["sign_in"])).await?;
    place.client().await?.batch_execute(include_str!("left.sql")).await?;
    let next = place.client().await?;
    let shown = value(&next, "pg_catalog.current_setting('search_path')").await?;
    assert_eq!(shown, "shop, pg_catalog", "the session is another one");
    assert_eq!(value(&next, "count(*) FROM pg_temp.queue").await?, "0");

    let enqueue = "mailroom.enqueue('sign_in', 'ada@example.test', 'Ada', '7',
        '{\"a\": 1}', idempotency_key => 'k1', binding => '\\x000102030405060708090a0b0c0d0e0f')";
    let token = value(&next, enqueue).await?;
    assert_eq!(value(&next, enqueue).await?, token, "its key is known");
    let digits =
        value(&next, "mailroom.browser_code('\\x000102030405060708090a0b0c0d0e0f')").await?;
    let code: String = place.owner.query_one("SELECT code FROM mailroom.queue", &[]).await?.get(0);
    let secret = place.secret().await?;
    for (action, code, verdict) in
        [("invite", &*code, "unknown"), ("sign_in", "x", "wrong_code"), ("sign_in", &code, "ok")]
    {
        let redeem = format!(
            "verdict FROM mailroom.redeem({secret}, '{action}', '{code}', false, '{digits}')"
        );
        assert_eq!(value(&next, &redeem).await?, verdict, "{action}");
    }
    let renew = format!("mailroom.renew_link({secret}, 'sign_in')");
    value(&next, &renew).await?;
    let invite = "mailroom.enqueue('invite', 'ada@example.test', subject_id => '7')";
    let token = value(&next, invite).await?;
    assert_eq!(value(&next, "mailroom.recheck('7')").await?, "0");
    assert_eq!(value(&next, &format!("mailroom.cancel({token})")).await?, "t");
    value(&next, invite).await?;
    value(&next, "mailroom.cancel_subject('7')").await?;

    let others = "SELECT DISTINCT who FROM shop.loot WHERE who <> 'site'";
    let others = place.owner.query(others, &[]).await?;
    let others: Vec<String> = others.iter().map(|row| row.get(0)).collect();
    assert!(others.is_empty(), "planted functions ran as {others:?}");
    // Those of the next client's own calls did, so they are found.
    value(&next, "1 = 1").await?;
    let own = "SELECT count(*) FROM shop.loot WHERE who = 'site'";
    assert!(place.owner.query_one(own, &[]).await?.get::<_, i64>(0) > 0);
    Ok(())
}

#[tokio::test]
async fn a_path_that_a_predicate_sets_reaches_no_other_client_of_the_pool() -> Result<()> {
    let place = Place::new().await?;
    place.owner.batch_execute(SELLER).await?;
    let first = place.client().await?;
    let path = "pg_catalog.current_setting('search_path')";
    let before = value(&first, path).await?;
    value(&first, "mailroom.enqueue('invite', 'ada@example.test', subject_id => '7')").await?;
    let redeem = format!("verdict FROM mailroom.redeem({}, 'invite')", place.secret().await?);
    let error = value(&first, &redeem).await.expect_err("the path has changed");
    assert!(format!("{error:#}").contains("db error"), "{error:#}");
    for _ in 0..3 {
        assert_eq!(value(&place.client().await?, path).await?, before);
    }
    Ok(())
}
