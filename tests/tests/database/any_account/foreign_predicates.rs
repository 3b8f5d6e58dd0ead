//! Whoever owns a function of eligibility gets no rights of Mailroom's owner by it.

use anyhow::Result;
use mailroom_tests::fixtures::Fixtures;
use mailroom_verifier_core::Version;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{count, ids, product, queue, refused, send, state};

/// What the owner of a shop has: people, a function of eligibility, and a table for what is stolen.
/// Whatever its functions note there tells as whom they ran.
const SHOP: &str = "
    CREATE SCHEMA shop;
    CREATE TABLE shop.loot (who text);
    CREATE FUNCTION shop.may(subject_ids text[], is_redemption boolean)
    RETURNS TABLE (subject_id text, email text, name text)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT id, 'ada@example.test', NULL FROM unnest(subject_ids) AS id $$;
    UPDATE mailroom.actions SET eligibility = 'shop.may(text[], boolean)' WHERE name = 'invite'";

/// The same function with a type of its own, which a cast of its own makes a text.
const WITH_A_CAST: &str = "
    CREATE TYPE shop.word AS (word text);
    CREATE FUNCTION shop.steal(shop.word) RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO shop.loot VALUES (current_user);
        RETURN ($1).word;
    END $$;
    CREATE CAST (shop.word AS text) WITH FUNCTION shop.steal(shop.word) AS ASSIGNMENT;
    DROP FUNCTION shop.may(text[], boolean);
    CREATE FUNCTION shop.may(subject_ids text[], is_redemption boolean)
    RETURNS TABLE (subject_id shop.word, email shop.word, name shop.word)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT ROW(id)::shop.word, ROW('ada@example.test')::shop.word, NULL::shop.word
        FROM unnest(subject_ids) AS id $$";

/// The same function, which puts a schema with operators of its own first on the search path. What
/// a sequence has counted stays also where the call fails and is taken back.
const WITH_A_PATH: &str = "
    CREATE SEQUENCE shop.thefts;
    CREATE FUNCTION shop.steal(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_catalog.nextval('shop.thefts');
        INSERT INTO shop.loot VALUES (current_user);
        RETURN pg_catalog.int8ge($1, $2);
    END $$;
    CREATE OPERATOR shop.>= (leftarg = bigint, rightarg = bigint, function = shop.steal);
    DROP FUNCTION shop.may(text[], boolean);
    CREATE FUNCTION shop.may(subject_ids text[], is_redemption boolean)
    RETURNS TABLE (subject_id text, email text, name text)
    LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        PERFORM pg_catalog.set_config('search_path', 'shop, pg_catalog', false);
        RETURN QUERY SELECT id, 'ada@example.test', NULL FROM pg_catalog.unnest(subject_ids) AS id;
    END $$";

/// The same function with the rights of whoever calls it.
const OF_THE_CALLER: &str = "
    CREATE OR REPLACE FUNCTION shop.may(subject_ids text[], is_redemption boolean)
    RETURNS TABLE (subject_id text, email text, name text)
    LANGUAGE sql
    AS $$ INSERT INTO shop.loot VALUES (current_user);
        SELECT id, 'ada@example.test', NULL FROM unnest($1) AS id $$";

/// A name of an argument that has the lines of a function with rights of its own.
const NAME_OF_LINES: &str = "\"x)\n RETURNS y\n LANGUAGE z\n SECURITY DEFINER\nAS\"";

/// What in a function of the caller's rights looks like one with rights of its own: a part of
/// [`OF_THE_CALLER`], and by what it is replaced.
const LOOKS: [(&str, &str); 4] = [
    ("LANGUAGE sql", "LANGUAGE sql"),
    ("AS $$ INSERT", "AS $$-- SECURITY DEFINER \nINSERT"),
    ("LANGUAGE sql", "LANGUAGE sql SET application_name = 'a SECURITY DEFINER b'"),
    (
        "is_redemption boolean",
        "is_redemption boolean DEFAULT
            (E'\\n RETURNS x\\n LANGUAGE y\\n SECURITY DEFINER\\n' = 'a')",
    ),
];

async fn invited(client: &Client) -> Result<(i64, Vec<u8>)> {
    let token = client.mail("invite").subject("7").enqueue().await?;
    let query = "SELECT secret FROM mailroom.queue WHERE token = $1";
    Ok((token, client.query_one(query, &[&token]).await?.get(0)))
}

async fn path(client: &Client) -> Result<String> {
    Ok(client.query_one("SHOW search_path", &[]).await?.get(0))
}

#[tokio::test]
async fn a_cast_of_the_owners_is_never_called() -> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute(SHOP).await?;
    let (token, secret) = invited(&client).await?;
    client.batch_execute(WITH_A_CAST).await?;
    let redeem = "SELECT verdict::text FROM mailroom.redeem($1, 'invite')";
    let error = client.query_one(redeem, &[&secret]).await.expect_err("it returns no texts");
    assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE));
    assert!(send(&mut queue(&database, Version::V2).await?).await?.is_empty());
    assert_eq!(state(&client, token).await?, "deferred");
    let assign =
        "UPDATE mailroom.actions SET eligibility = 'shop.may(text[], boolean)' WHERE number = 5";
    let (_, message) = refused(&client, assign).await?;
    assert!(message.ends_with("(subject_id text, email text, name text)"), "{message}");
    assert_eq!(count(&client, "shop.loot").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_search_path_that_a_predicate_sets_finds_nothing_and_stays_nowhere() -> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute(SHOP).await?;
    let (token, secret) = invited(&client).await?;
    client.batch_execute(WITH_A_PATH).await?;
    let before = path(&client).await?;
    let redeem = "SELECT verdict::text FROM mailroom.redeem($1, 'invite')";
    let error = client.query_one(redeem, &[&secret]).await.expect_err("the path has changed");
    let message = error.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default();
    assert!(message.contains("changes the search_path of the session"), "{message}");
    assert_eq!(path(&client).await?, before);
    // A claim takes it back, and the mail goes out.
    assert_eq!(ids(&send(&mut queue(&database, Version::V2).await?).await?), [token]);
    let claim = "SELECT mailroom.claim(
        1, ARRAY[gen_random_uuid()], 2, true, 9, 0, NULL, NULL, 90000, 30, '{4}', true)";
    invited(&client).await?;
    client.batch_execute(claim).await?;
    assert_eq!(count(&client, "mailroom.leases").await?, 1);
    assert_eq!(path(&client).await?, before);
    assert_eq!(count(&client, "shop.loot").await?, 0);
    assert_eq!(count(&client, "shop.thefts WHERE is_called").await?, 0, "an operator was called");
    Ok(())
}

#[tokio::test]
async fn a_search_path_of_the_callers_own_finds_nothing_in_redeem() -> Result<()> {
    let (_database, client) = product().await?;
    client.batch_execute(SHOP).await?;
    let (_, secret) = invited(&client).await?;
    // Types, operators and functions that redeem() itself could name.
    client
        .batch_execute(
            "CREATE FUNCTION shop.note(text, text) RETURNS boolean LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO shop.loot VALUES (current_user);
                RETURN pg_catalog.textne($1, $2);
            END $$;
            CREATE OPERATOR shop.<> (leftarg = text, rightarg = text, function = shop.note);
            CREATE FUNCTION shop.keep(pg_catalog.text) RETURNS boolean LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO shop.loot VALUES (current_user);
                RETURN true;
            END $$;
            CREATE DOMAIN shop.text AS pg_catalog.text CHECK (shop.keep(VALUE));
            SET search_path = shop, pg_catalog",
        )
        .await?;
    let redeem = "SELECT verdict::pg_catalog.text FROM mailroom.redeem($1, 'invite')";
    let row = client.query_one(redeem, &[&secret]).await?;
    assert_eq!(row.get::<_, &str>(0), "ok");
    client.batch_execute("RESET search_path").await?;
    assert_eq!(count(&client, "shop.loot").await?, 0);
    Ok(())
}

#[tokio::test]
async fn what_replaces_a_predicate_during_a_transaction_gets_no_rights_of_its_caller() -> Result<()>
{
    for (name, (part, look)) in
        LOOKS.map(|look| ("subject_ids", look)).into_iter().chain([(NAME_OF_LINES, LOOKS[0])])
    {
        let (database, client) = product().await?;
        let named =
            |statements: &str| statements.replace("(subject_ids text", &format!("({name} text"));
        client.batch_execute(&named(&SHOP.replace("unnest(subject_ids)", "unnest($1)"))).await?;
        let (_, secret) = invited(&client).await?;
        let redeem = "SELECT verdict::text FROM mailroom.redeem($1, 'invite')";
        let claim = "SELECT * FROM mailroom.ask_eligibility(
            'shop.may(text[], boolean)', ARRAY['7'])";
        let owner = database.connect().await?;
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await?;
        owner.batch_execute(&named(&OF_THE_CALLER.replace(part, look))).await?;
        let asked = client.query_one(claim, &[]).await?;
        assert_eq!(
            asked.get::<_, &str>("fault"),
            "shop.may(text[], boolean) fails with SQLSTATE 55000",
            "{look}"
        );
        let error = client.query_one(redeem, &[&secret]).await.expect_err("it is another function");
        assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{look}");
        client.batch_execute("COMMIT").await?;
        assert_eq!(count(&client, "shop.loot").await?, 0, "{look}");
    }
    Ok(())
}

#[tokio::test]
async fn a_function_of_the_same_name_for_other_types_is_never_called() -> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute(SHOP).await?;
    for types in ["text[], is_redemption text", "text[], is_redemption anyelement"] {
        let other = OF_THE_CALLER.replace("text[], is_redemption boolean", types);
        client.batch_execute(&other).await?;
    }
    client.batch_execute("SET quote_all_identifiers = on").await?;
    let (token, secret) = invited(&client).await?;
    assert_eq!(ids(&send(&mut queue(&database, Version::V2).await?).await?), [token]);
    let redeem = "SELECT verdict::text FROM mailroom.redeem($1, 'invite')";
    assert_eq!(client.query_one(redeem, &[&secret]).await?.get::<_, &str>(0), "ok");
    assert_eq!(count(&client, "shop.loot").await?, 0);
    Ok(())
}
