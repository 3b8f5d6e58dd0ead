//! A new link in place of an old one, which nobody types an address for.

use anyhow::{Context, Result};
use mailroom::queue::Token;
use mailroom_tests::fixtures::{Fixtures, NewMail};
use mailroom_tests::postgres::Database;
use mailroom_verifier_core::Version;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{clock, count, number, product, queue, redeem, refused, send};

/// People, of whom `mailed` may get mails, and what a change of an address does.
const PEOPLE: &str = "
    CREATE TABLE people (id text PRIMARY KEY, email text NOT NULL, mailed boolean DEFAULT true);
    INSERT INTO people VALUES ('7', 'ada@example.test'), ('8', 'eve@example.test');
    CREATE FUNCTION mailed(subject_ids text[], is_redemption boolean)
    RETURNS TABLE (subject_id text, email text, name text)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT id, email, NULL::text FROM public.people WHERE id = ANY ($1) AND mailed';
    UPDATE mailroom.actions SET eligibility = 'public.mailed(text[], boolean)'
    WHERE name IN ('recover', 'sign_in')";

/// Renews the link with this secret, and says how many mails that made.
async fn renewed(client: &Client, secret: &[u8], action: &str) -> Result<i64> {
    let before = count(client, "mailroom.issued_tokens").await?;
    let query = "SELECT mailroom.renew_link($1, $2)::text";
    let answer: String = client.query_one(query, &[&secret, &action]).await?.get(0);
    assert_eq!(answer, "", "it answers alike in every case");
    Ok(count(client, "mailroom.issued_tokens").await? - before)
}

/// A mail to a subject of an action, which was sent.
async fn mailed(database: &Database, mail: NewMail<'_>) -> Result<Token> {
    mail.enqueue().await?;
    Ok(send(&mut queue(database, Version::V2).await?).await?.remove(0))
}

fn recovery(client: &Client) -> NewMail<'_> {
    client.mail("recover").name("Ada").subject(7).language("de").bound_to([0xb9; 16])
}

async fn people() -> Result<(Database, Client)> {
    let (database, client) = product().await?;
    client.batch_execute(PEOPLE).await?;
    clock::stop(&client).await?;
    Ok((database, client))
}

async fn minutes(client: &Client, minutes: u64) -> Result<()> {
    clock::forward(client, std::time::Duration::from_secs(60 * minutes)).await
}

#[tokio::test]
async fn an_old_link_is_renewed_for_the_same_person_address_language_and_browser() -> Result<()> {
    let (database, client) = people().await?;
    let old = mailed(&database, recovery(&client)).await?;
    minutes(&client, 20).await?;
    assert_eq!(redeem(&client, &old, "recover", Some("00000")).await?, "expired");
    assert_eq!(renewed(&client, &old.secret, "recover").await?, 1);
    let same = "SELECT count(*) FROM (SELECT DISTINCT action, subject_id, recipient_email,
        recipient_name, language, binding FROM mailroom.issued_tokens) AS kinds";
    assert_eq!(number(&client, same).await?, 1);
    assert_eq!(
        count(&client, "(SELECT DISTINCT consumed_id FROM mailroom.issued_tokens) AS t").await?,
        2
    );
    let new = send(&mut queue(&database, Version::V2).await?).await?.remove(0);
    assert_eq!(redeem(&client, &new, "recover", Some("x")).await?, "wrong_code");
    Ok(())
}

#[tokio::test]
async fn a_link_that_was_used_or_had_too_many_codes_tried_is_renewed_too() -> Result<()> {
    let (database, client) = people().await?;
    let old = mailed(&database, client.mail("sign_in").subject(7)).await?;
    let code = String::from_utf8(old.code.clone().expect("a sign-in has a code"))?;
    assert_eq!(redeem(&client, &old, "sign_in", Some(&code)).await?, "ok");
    minutes(&client, 2).await?;
    assert_eq!(renewed(&client, &old.secret, "sign_in").await?, 1);
    let new = send(&mut queue(&database, Version::V2).await?).await?.remove(0);
    for _ in 0..5 {
        assert_eq!(redeem(&client, &new, "sign_in", Some("x")).await?, "wrong_code");
    }
    assert_eq!(redeem(&client, &new, "sign_in", Some("x")).await?, "too_many_attempts");
    minutes(&client, 2).await?;
    assert_eq!(renewed(&client, &new.secret, "sign_in").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_link_is_not_renewed_unless_all_is_as_it_was() -> Result<()> {
    let cases = [
        ("its address has changed", "UPDATE people SET email = 'new@example.test' WHERE id = '7'"),
        ("another one has it now", "UPDATE people SET id = '9' WHERE id = '7'"),
        ("its subject was deleted", "DELETE FROM people WHERE id = '7'"),
        ("its subject may get no mails", "UPDATE people SET mailed = false"),
        ("it was cancelled", "SELECT mailroom.cancel(max(id)) FROM mailroom.issued_tokens"),
        ("its subject's tokens were", "SELECT mailroom.cancel_subject('7')"),
        ("its address is suppressed", "SELECT mailroom.suppress('ADA@example.test', 'manual')"),
        (
            "there is a later one",
            "SELECT mailroom.enqueue('recover', 'ada@example.test', NULL, '7')",
        ),
        ("its row is gone", "SELECT mailroom.forget('7', NULL)"),
        ("its action is retired", "UPDATE mailroom.actions SET is_retired = true"),
        (
            "wrong codes have its subject rest",
            "INSERT INTO mailroom.code_failures (subject, is_other_browser, failures, rests_until)
            VALUES ('7', false, 100, 9999999999)",
        ),
        (
            "who is eligible cannot be asked",
            "ALTER FUNCTION mailed SET search_path = nowhere;
            CREATE OR REPLACE FUNCTION mailed(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text, email text, name text)
            LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RAISE EXCEPTION $$ada$$; END'",
        ),
    ];
    for (name, statement) in cases {
        let (database, client) = people().await?;
        let old = mailed(&database, recovery(&client)).await?;
        client.batch_execute(statement).await?;
        minutes(&client, 20).await?;
        assert_eq!(renewed(&client, &old.secret, "recover").await?, 0, "{name}");
    }
    Ok(())
}

/// Else a page says that a new link is on its way, and nobody learns why none ever comes.
#[tokio::test]
async fn an_action_without_a_predicate_is_an_error_that_says_so_whatever_the_link_is() -> Result<()>
{
    let (database, client) = people().await?;
    let old = mailed(&database, recovery(&client)).await?;
    client.batch_execute("UPDATE mailroom.actions SET eligibility = NULL").await?;
    minutes(&client, 20).await?;
    for secret in [&old.secret[..], &[0; 32], &[]] {
        let error = renewed(&client, secret, "recover").await.unwrap_err();
        let error =
            error.downcast_ref::<tokio_postgres::Error>().and_then(|error| error.as_db_error());
        let error = error.context("the database says it")?;
        assert_eq!(*error.code(), SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
        assert_eq!(
            error.message(),
            "mailroom.renew_link() needs a predicate of the action recover"
        );
        assert!(error.hint().is_some_and(|hint| hint.contains("mailroom.actions.eligibility")));
    }
    assert_eq!(renewed(&client, &old.secret, "nothing").await?, 0, "no action");
    Ok(())
}

#[tokio::test]
async fn what_is_no_such_link_makes_nothing_and_says_nothing() -> Result<()> {
    let (database, client) = people().await?;
    let old = mailed(&database, recovery(&client)).await?;
    let invited = mailed(&database, client.mail("sign_in").subject(7).payload("1")).await?;
    minutes(&client, 20).await?;
    assert_eq!(renewed(&client, &invited.secret, "sign_in").await?, 0, "it had a payload");
    for (secret, action) in [
        (&old.secret[..], "sign_in"),
        (&old.secret[..], "nothing"),
        (&old.secret[..], "notice"),
        (&old.secret[..31], "recover"),
        (&[0; 32][..], "recover"),
        (&[][..], "recover"),
        (&vec![7; 100_000], "recover"),
    ] {
        assert_eq!(renewed(&client, secret, action).await?, 0, "{action}");
    }
    for call in ["NULL, 'recover'", "'', NULL", "NULL, NULL"] {
        client.batch_execute(&format!("SELECT mailroom.renew_link({call})")).await?;
    }
    let (_, message) = refused(
        &client,
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT mailroom.renew_link('', 'recover')",
    )
    .await?;
    assert!(message.contains("serializable"), "{message}");
    client.batch_execute("ROLLBACK").await?;
    assert_eq!(renewed(&client, &old.secret, "recover").await?, 1, "afterwards");
    Ok(())
}

#[tokio::test]
async fn a_link_is_renewed_once_and_a_subject_gets_five_an_hour_at_most() -> Result<()> {
    let (database, client) = people().await?;
    let mut last = mailed(&database, recovery(&client)).await?;
    assert_eq!(renewed(&client, &last.secret, "recover").await?, 0, "within a minute");
    let mut made = 1;
    for _ in 0..10 {
        minutes(&client, 2).await?;
        made += renewed(&client, &last.secret, "recover").await?;
        assert_eq!(renewed(&client, &last.secret, "recover").await?, 0, "again");
        last = send(&mut queue(&database, Version::V2).await?).await?.pop().unwrap_or(last);
    }
    assert_eq!(made, 5);
    minutes(&client, 60).await?;
    assert_eq!(renewed(&client, &last.secret, "recover").await?, 1, "an hour later");
    let kept = "SELECT last_value FROM mailroom.longest_limit";
    assert_eq!(number(&client, kept).await?, 3600, "how long pruning keeps tokens that count");
    Ok(())
}

#[tokio::test]
async fn of_calls_at_the_same_time_one_renews_the_link_and_none_waits() -> Result<()> {
    let (database, mut client) = people().await?;
    let old = mailed(&database, recovery(&client)).await?;
    minutes(&client, 20).await?;
    let other = database.connect().await?;
    let first = client.transaction().await?;
    let query = "SELECT mailroom.renew_link($1, 'recover')";
    first.query(query, &[&old.secret]).await?;
    assert_eq!(renewed(&other, &old.secret, "recover").await?, 0, "while it is renewed");
    first.commit().await?;
    assert_eq!(renewed(&other, &old.secret, "recover").await?, 0, "once it was");
    assert_eq!(count(&client, "mailroom.issued_tokens").await?, 2);
    Ok(())
}
