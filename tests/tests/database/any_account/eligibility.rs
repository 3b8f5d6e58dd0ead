//! Who may get and use an action's mails is for a function of the application to say.

use anyhow::Result;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use mailroom_verifier_core::Version;
use tokio_postgres::Client;

use super::{clock, count, ids, number, product, queue, redeem, refused, send, state};

/// People who may sign in unless they are blocked, with keys of letters.
const PEOPLE: &str = "
    CREATE TABLE people (id text PRIMARY KEY, email text NOT NULL, is_blocked boolean NOT NULL
        DEFAULT false);
    CREATE FUNCTION may_sign_in(subject_ids text[], is_redemption boolean)
    RETURNS TABLE (subject_id text, email text, name text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        IF is_redemption THEN
            PERFORM FROM people WHERE id = ANY (subject_ids) FOR NO KEY UPDATE;
        END IF;
        RETURN QUERY SELECT id, people.email, NULL FROM people WHERE id = ANY (subject_ids)
            AND NOT is_blocked;
    END $$;
    UPDATE mailroom.actions SET eligibility = 'public.may_sign_in(text[], boolean)'
        WHERE name = 'sign_in';
    INSERT INTO people VALUES ('ada', 'ada@example.test', false), ('eve', 'eve@example.test',
        true)";

async fn sign_in(client: &Client, who: &str) -> Result<i64> {
    Ok(client.mail("sign_in").to(format!("{who}@example.test")).subject(who).enqueue().await?)
}

async fn pause(client: &Client) -> Result<i64> {
    number(client, "SELECT extract(epoch FROM due_at - put_off_at) * 1000 FROM mailroom.queue")
        .await
}

#[tokio::test]
async fn mails_of_ineligible_subjects_wait_and_are_looked_at_again_when_the_application_says_so()
-> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute(PEOPLE).await?;
    clock::stop(&client).await?;
    let (ada, eve) = (sign_in(&client, "ada").await?, sign_in(&client, "eve").await?);
    let without = "SELECT mailroom.enqueue('sign_in', 'ada@example.test')";
    let (_, message) = refused(&client, without).await?;
    assert!(message.contains("this action needs a subject_id"), "{message}");
    let mut collector = queue(&database, Version::V2).await?;
    assert_eq!(ids(&send(&mut collector).await?), [ada]);
    assert_eq!(state(&client, eve).await?, "deferred");
    client.batch_execute("UPDATE people SET is_blocked = false").await?;
    assert!(send(&mut collector).await?.is_empty());
    for subject in ["'nobody'", "NULL", "''", "'ada'", "repeat('e', 1000000)"] {
        assert_eq!(
            number(&client, &format!("SELECT mailroom.recheck({subject})")).await?,
            0,
            "{subject}"
        );
    }
    assert_eq!(number(&client, "SELECT mailroom.recheck('eve')").await?, 1);
    assert_eq!(ids(&send(&mut collector).await?), [eve]);
    Ok(())
}

#[tokio::test]
async fn a_redemption_asks_too_and_compares_the_present_address() -> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute(PEOPLE).await?;
    sign_in(&client, "ada").await?;
    let token = send(&mut queue(&database, Version::V2).await?).await?.remove(0);
    let code = String::from_utf8(token.code.clone().unwrap_or_default())?;
    for (change, verdict) in [
        ("is_blocked = true", "not_eligible"),
        ("is_blocked = false, email = 'eve@example.test'", "expired"),
        // Another spelling of the address is none.
        ("email = 'Ada@example.test'", "ok"),
    ] {
        client.batch_execute(&format!("UPDATE people SET {change} WHERE id = 'ada'")).await?;
        assert_eq!(redeem(&client, &token, "sign_in", Some(&code)).await?, verdict, "{change}");
    }
    Ok(())
}

#[tokio::test]
async fn a_subject_that_a_predicate_names_twice_gets_one_mail_and_one_that_was_not_asked_for_none()
-> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute(PEOPLE).await?;
    client
        .batch_execute(
            "CREATE OR REPLACE FUNCTION may_sign_in(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text, email text, name text)
            LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
                SELECT id, email, NULL FROM people, generate_series(1, 2)
                    UNION ALL SELECT NULL, 'eve@example.test', NULL
            $$",
        )
        .await?;
    let ada = sign_in(&client, "ada").await?;
    assert_eq!(ids(&send(&mut queue(&database, Version::V2).await?).await?), [ada]);
    Ok(())
}

#[tokio::test]
async fn only_the_id_as_the_application_writes_it_is_that_subject() -> Result<()> {
    let (database, client) = product().await?;
    let example = mailroom_tests::tools::workspace().join("docs/examples/existing_users.sql");
    let example = std::fs::read_to_string(example)?;
    // It may be executed again.
    for _ in 0..2 {
        client.batch_execute(&example).await?;
    }
    let mut collector = queue(&database, Version::V2).await?;
    for (id, others) in [
        ("7", &["07", "+7", " 7", "7.0"][..]),
        ("1234567890123456789", &["01234567890123456789", "9999999999999999999"]),
        ("-5", &["-05", "--5", "-"]),
        ("0", &["00", "-0"]),
    ] {
        let insert = format!(
            "INSERT INTO users (id, email) OVERRIDING SYSTEM VALUE
            VALUES ({id}, 'user{id}@example.test')"
        );
        client.batch_execute(&insert).await?;
        let mail = client.mail("sign_in").to(format!("user{id}@example.test"));
        for other in others {
            mail.clone().subject(other).enqueue().await?;
        }
        let token = mail.subject(id).enqueue().await?;
        let sent = send(&mut collector).await?;
        assert_eq!(ids(&sent), [token], "{id}");
        let code = String::from_utf8(sent[0].code.clone().unwrap_or_default())?;
        assert_eq!(redeem(&client, &sent[0], "sign_in", Some(&code)).await?, "ok", "{id}");
    }
    // Also where the predicate itself takes another spelling for it.
    client.batch_execute(PEOPLE).await?;
    client
        .batch_execute(
            "CREATE OR REPLACE FUNCTION may_sign_in(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text, email text, name text)
            LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
            AS $$ SELECT 'ada', 'ada@example.test', NULL $$",
        )
        .await?;
    let other = client.mail("sign_in").subject("ADA").enqueue().await?;
    let redeem = "SELECT verdict::text FROM mailroom.redeem(
        (SELECT secret FROM mailroom.queue WHERE token = $1), 'sign_in',
        (SELECT code FROM mailroom.queue WHERE token = $1))";
    assert_eq!(client.query_one(redeem, &[&other]).await?.get::<_, &str>(0), "not_eligible");
    Ok(())
}

#[tokio::test]
async fn a_predicate_that_fails_defers_its_own_tokens_alone_ever_longer() -> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute(PEOPLE).await?;
    clock::stop(&client).await?;
    let mut collector = queue(&database, Version::V2).await?;
    for fault in [
        "ALTER TABLE people RENAME COLUMN is_blocked TO blocked",
        "ALTER TABLE people RENAME COLUMN blocked TO is_blocked; \
         ALTER TABLE people RENAME TO persons",
        "ALTER FUNCTION may_sign_in RENAME TO may_enter",
        "CREATE FUNCTION may_sign_in(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text)
            LANGUAGE sql SECURITY DEFINER AS 'SELECT $1[1]'",
        "DROP FUNCTION may_sign_in; CREATE FUNCTION may_sign_in(subject_ids text[], is_redemption
            boolean)
            RETURNS TABLE (subject_id text, email text, name text)
                LANGUAGE sql SECURITY DEFINER AS
            'SELECT id, (1 / 0)::text, NULL FROM unnest(subject_ids) AS id'",
        "CREATE OR REPLACE FUNCTION may_sign_in(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text, email text, name text)
                LANGUAGE plpgsql SECURITY DEFINER AS
            'BEGIN ASSERT false; END'",
    ] {
        client.batch_execute(fault).await?;
        let waits = sign_in(&client, "ada").await?;
        let goes = client.mail("invite").subject("ada").enqueue().await?;
        assert_eq!(ids(&send(&mut collector).await?), [goes], "{fault}");
        let mut pauses = vec![pause(&client).await?];
        for _ in 0..10 {
            clock::turn(&client, pauses[pauses.len() - 1] + 1).await?;
            assert!(send(&mut collector).await?.is_empty());
            pauses.push(pause(&client).await?);
        }
        assert!((125..=250).contains(&pauses[0]), "{pauses:?}");
        assert!((4_000..=8_000).contains(&pauses[5]), "{pauses:?}");
        assert!((30_000..=60_000).contains(&pauses[10]), "{pauses:?}");
        assert_eq!(state(&client, waits).await?, "deferred");
        client.batch_execute("DELETE FROM mailroom.queue").await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_predicate_that_lost_its_own_rights_is_not_called() -> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute(PEOPLE).await?;
    let mut collector = queue(&database, Version::V2).await?;
    let token = sign_in(&client, "ada").await?;
    client.batch_execute("ALTER FUNCTION may_sign_in SECURITY INVOKER").await?;
    assert!(send(&mut collector).await?.is_empty());
    assert_eq!(state(&client, token).await?, "deferred");
    client
        .batch_execute(
            "ALTER FUNCTION may_sign_in SECURITY DEFINER; SELECT mailroom.recheck('ada')",
        )
        .await?;
    let sent = send(&mut collector).await?;
    client.batch_execute("ALTER FUNCTION may_sign_in SECURITY INVOKER").await?;
    assert!(redeem(&client, &sent[0], "sign_in", None).await.is_err());
    Ok(())
}

#[tokio::test]
async fn a_predicate_must_exist_return_rows_and_have_rights_of_its_own() -> Result<()> {
    let (_database, client) = product().await?;
    client.batch_execute(PEOPLE).await?;
    client
        .batch_execute(
            "CREATE FUNCTION invoker(text[], boolean) RETURNS TABLE (subject_id text, email text,
                name text)
                LANGUAGE sql AS 'SELECT $1[1], $1[1], $1[1]';
            CREATE FUNCTION one_row(text[], boolean) RETURNS text
                LANGUAGE sql SECURITY DEFINER AS 'SELECT $1[1]';
            CREATE FUNCTION other(text) RETURNS SETOF text LANGUAGE sql SECURITY DEFINER
                AS 'SELECT $1';
            -- Its definition could not be told from that of one without rights of its own.
            CREATE FUNCTION quoted(text[], boolean DEFAULT 'a' = 'b')
                RETURNS TABLE (subject_id text, email text, name text)
                LANGUAGE sql SECURITY DEFINER AS 'SELECT $1[1], $1[1], $1[1]'",
        )
        .await?;
    for name in [
        "invoker(text[], boolean)",
        "one_row(text[], boolean)",
        "other(text)",
        "quoted(text[], boolean)",
        "missing(text[], boolean)",
        "may_sign_in",
    ] {
        let update = format!(
            "UPDATE mailroom.actions SET eligibility = 'public.{name}' WHERE name = 'sign_in'"
        );
        let (_, message) = refused(&client, &update).await?;
        assert!(
            message.starts_with("the eligibility of the action sign_in is not a SECURITY DEFINER"),
            "{message}"
        );
    }
    assert_eq!(
        count(&client, "mailroom.actions WHERE eligibility = 'public.may_sign_in(text[],boolean)'")
            .await?,
        1
    );
    Ok(())
}

#[tokio::test]
async fn accounts_that_are_locked_or_cannot_be_read_defer_their_tokens_alone() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut collector = queue(&database, Version::V2).await?;
    register(&client, 1..=2).await?;
    let other = database.connect().await?;
    let view = |email| {
        format!(
            "CREATE OR REPLACE VIEW mailroom.adopted_accounts AS
                SELECT id, {email} AS email, login, status, NULL::text AS language FROM accounts"
        )
    };
    let fails = view("(email || left('', 1 / (id - 1)::integer))::varchar(254)");
    // A lock keeps both accounts from being read, a view that fails for one of them that one.
    for (breaks, mends, deferred) in
        [("BEGIN; LOCK TABLE accounts", "COMMIT", 2), (&fails, &view("email"), 1)]
    {
        other.batch_execute(breaks).await?;
        let goes = client.mail("invite").enqueue().await?;
        let sent = ids(&send(&mut collector).await?);
        assert!(sent.contains(&goes) && sent.len() == 3 - deferred, "{sent:?}");
        other.batch_execute(mends).await?;
        let waiting = count(&client, "mailroom.deliveries WHERE state = 'deferred'").await?;
        assert_eq!(usize::try_from(waiting)?, deferred);
        client.batch_execute("SELECT mailroom.recheck(id::text) FROM accounts").await?;
    }
    assert_eq!(send(&mut collector).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_predicate_that_waits_or_does_not_end_holds_up_nobody_else() -> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute(PEOPLE).await?;
    let other = database.connect().await?;
    let mut collector = queue(&database, Version::V2).await?;
    let waits = sign_in(&client, "ada").await?;
    let goes = client.mail("invite").enqueue().await?;
    other.batch_execute("BEGIN; LOCK TABLE people").await?;
    assert_eq!(ids(&send(&mut collector).await?), [goes]);
    other.batch_execute("COMMIT").await?;
    assert_eq!(state(&client, waits).await?, "deferred");

    // Two of them, each of which takes longer than a statement may.
    client
        .batch_execute(
            "CREATE FUNCTION sleeps(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text, email text, name text)
                LANGUAGE plpgsql SECURITY DEFINER AS
                'BEGIN PERFORM pg_sleep(60); END';
            UPDATE mailroom.actions SET eligibility = 'public.sleeps(text[], boolean)'
                WHERE name IN ('sign_in', 'recover');
            SELECT mailroom.recheck('ada')",
        )
        .await?;
    let recovery = client.mail("recover").subject("ada").enqueue().await?;
    let goes = client.mail("invite").enqueue().await?;
    assert_eq!(ids(&send(&mut collector).await?), [goes]);
    for token in [waits, recovery] {
        assert_eq!(state(&client, token).await?, "deferred");
    }
    Ok(())
}
