//! `mailroom collect` on an installation without accounts.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::collector::{self, Collector, KEY};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_verifier_core::{
    Action, Actions, Expected, Further, KeyRing, Moment, SharedKey, UntrustedToken,
};
use serde_json::{Value, json};

use super::{product, refused};

const VOTE: Further = Further { number: 100, name: "vote", path: "/vote", digits: 6 };
const ADD_VOTE: &str = "INSERT INTO mailroom.actions (number, name, path, code_digits) \
                        VALUES (100, 'vote', '/vote', 6)";

/// The private key whose seed is `00 01 … 1f`.
const PRIVATE_KEY: &str = "mrsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

pub(super) fn start(database: &Database, format: &str) -> Result<Collector> {
    let mut command = collector::command(database.url())?;
    command.args(["--line-format", "ndjson", "--token-format", format, "--batch-timeout", "0"]);
    command.env("MAILROOM_SIGNING_KEY", PRIVATE_KEY);
    Collector::start(&mut command)
}

pub(super) fn only_item(line: &str) -> Result<Value> {
    let batch: Value = serde_json::from_str(line)?;
    let items = batch["items"].as_array().context("items are a list")?;
    assert_eq!(items.len(), 1, "{line}");
    Ok(items[0].clone())
}

#[tokio::test]
async fn an_action_that_is_added_is_sent_by_a_running_collector_and_used_by_its_link_and_code()
-> Result<()> {
    let (database, client) = product().await?;
    let mut collector = start(&database, "v2")?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    client.batch_execute(ADD_VOTE).await?;
    let mail = client.mail("vote").name("Ada").subject("member 7").payload(r#"{"poll": "ü"}"#);
    let mail = mail.language("de-CH").deliver_in(Duration::from_secs(1));
    let id = mail.enqueue().await?;
    let item = only_item(&lines.next_line()?)?;
    let (token, code) =
        (item["token"].as_str().unwrap_or_default(), item["code"].as_str().unwrap_or_default());
    assert_eq!(
        item,
        json!({
            "id": id,
            "attempt": 1,
            "action": "vote",
            "path": "/vote",
            "email": "ada@example.test",
            "login": "Ada",
            "token": token,
            "code": code,
            "expires_at": item["expires_at"],
            "key": item["key"],
            "language": "de-CH",
            "payload": {"poll": "ü"},
        })
    );

    let key = SharedKey::from_hex(KEY).ok().context("the key of the tests is one")?;
    let actions = Actions::new([VOTE]).ok().context("it is sound")?;
    let ring = KeyRing::new([key.into()]).ok().context("one key is a ring")?.knowing(&actions);
    let expected =
        Expected { action: Action::Further(VOTE), code: Some(code.as_bytes()), binding: None };
    let verified =
        UntrustedToken::parse(token)?.verify(&ring, expected, Moment::at(1_700_000_000))?;
    let secret = verified.secret().as_bytes().to_vec();
    let redeem = "SELECT verdict::text, subject_id FROM mailroom.redeem($1, 'vote', $2)";
    let row = client.query_one(redeem, &[&secret, &code]).await?;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("ok", "member 7"));

    // A mail without a link, at once.
    client.mail("notice").enqueue().await?;
    let item = only_item(&lines.next_line()?)?;
    assert_eq!(
        (&item["action"], &item["path"], &item["token"]),
        (&json!("notice"), &json!(""), &json!(""))
    );
    collector.stop()?;
    let waiting: i64 = client
        .query_one("SELECT count(*) FROM mailroom.deliveries WHERE state <> 'sent'", &[])
        .await?
        .get(0);
    assert_eq!(waiting, 0);
    Ok(())
}

#[tokio::test]
async fn a_collector_of_v1_warns_of_what_it_leaves_and_sends_the_rest() -> Result<()> {
    let (database, client) = product().await?;
    let left = client.mail("invite").enqueue().await?;
    let mut collector = start(&database, "v1")?;
    let lines = collector.lines()?;
    collector.wait_for_log("tokens wait because this collector cannot sign them", 1)?;
    collector.wait_for_log("set MAILROOM_TOKEN_FORMAT=v2", 1)?;
    client.mail("activate").to("eve@example.test").enqueue().await?;
    assert_eq!(only_item(&lines.next_line()?)?["email"], "eve@example.test");
    lines.expect_none(Duration::from_secs(1))?;
    collector.stop()?;
    let state: String = client
        .query_one("SELECT state FROM mailroom.deliveries WHERE token = $1", &[&left])
        .await?
        .get(0);
    assert_eq!(state, "deferred");
    Ok(())
}

#[tokio::test]
async fn a_predicate_that_fails_is_in_the_log_without_what_it_says_of_people() -> Result<()> {
    let (database, client) = product().await?;
    client
        .batch_execute(
            "CREATE FUNCTION nobody(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text, email text, name text)
                LANGUAGE plpgsql SECURITY DEFINER AS
                $$ BEGIN RAISE EXCEPTION 'no row for ada@example.test' USING ERRCODE = 'ZZ123';
                    END $$;
            UPDATE mailroom.actions SET eligibility = 'public.nobody(text[], boolean)'
                WHERE name = 'invite'",
        )
        .await?;
    client.mail("invite").subject("7").enqueue().await?;
    client.mail("activate").to("eve@example.test").subject("7").enqueue().await?;
    let mut collector = start(&database, "v2")?;
    let lines = collector.lines()?;
    assert_eq!(only_item(&lines.next_line()?)?["email"], "eve@example.test");
    collector.wait_for_log("tokens wait because a predicate of eligibility fails", 1)?;
    client
        .batch_execute(
            "UPDATE mailroom.actions SET eligibility = NULL WHERE name = 'invite'; \
             SELECT mailroom.recheck('7')",
        )
        .await?;
    assert_eq!(only_item(&lines.next_line()?)?["email"], "ada@example.test");
    let log = collector.stop()?;
    assert!(log.contains("public.nobody(text[],boolean) fails with SQLSTATE ZZ123"), "{log}");
    assert!(!log.contains("@example.test"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_subject_whose_id_does_not_fit_has_another_reason_than_a_predicate_that_fails()
-> Result<()> {
    let (database, client) = product().await?;
    client
        .batch_execute(
            "CREATE FUNCTION numbered(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text, email text, name text)
                LANGUAGE plpgsql SECURITY DEFINER AS $$
                DECLARE ids bigint[] := subject_ids::bigint[];
                BEGIN
                    IF 8 = ANY (ids) THEN RAISE EXCEPTION 'not now' USING ERRCODE = 'ZZ123'; END IF;
                    RETURN QUERY SELECT id::text, NULL, NULL FROM pg_catalog.unnest(ids) AS id;
                END $$;
            UPDATE mailroom.actions SET eligibility = 'public.numbered(text[], boolean)'
                WHERE name = 'invite'",
        )
        .await?;
    for subject in ["8", "ada"] {
        client.mail("invite").to("a@example.test").subject(subject).enqueue().await?;
    }
    let collector = start(&database, "v2")?;
    collector.wait_for_log("public.numbered(text[],boolean) fails with SQLSTATE ZZ123", 1)?;
    collector.wait_for_log(
        "public.numbered(text[],boolean) cannot convert the id of the subject, or another value \
         of it (SQLSTATE 22P02)",
        1,
    )?;
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_role_with_the_rights_of_the_document_collects_and_reads_no_table() -> Result<()> {
    let (database, client) = product().await?;
    let role = format!("{}_collector", database.name());
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN;
            GRANT EXECUTE ON FUNCTION mailroom.settle, mailroom.release, mailroom.claim,
                mailroom.list_actions,
                mailroom.heartbeat, mailroom.sweep, mailroom.peek TO {role}"
        ))
        .await?;
    let url = database.url().replace("//postgres@", &format!("//{role}@"));
    let mut command = collector::command(&url)?;
    let mut collector =
        Collector::start(command.args(["--token-format", "v2", "--batch-timeout", "0"]))?;
    let lines = collector.lines()?;
    client.mail("invite").name("Ada").enqueue().await?;
    assert_eq!(lines.next_batch()?[0].email, "ada@example.test");
    collector.stop()?;
    let stranger = database.connect().await?;
    stranger.batch_execute(&format!("SET ROLE {role}")).await?;
    for statement in [
        "SELECT FROM mailroom.queue",
        "SELECT FROM mailroom.issued_tokens",
        "SELECT mailroom.cancel(1)",
    ] {
        refused(&stranger, statement).await?;
    }
    drop(stranger);
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    Ok(())
}
