//! Personal data of a subject are erased everywhere, and can be exported before.

use anyhow::Result;
use mailroom::queue::{Nack, Queue, Receipt, Settlement};
use mailroom_tests::fixtures::{Fixtures, NewMail};
use mailroom_tests::program;
use mailroom_verifier_core::Version;
use serde_json::Value;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{claim, count, number, product, queue, refused};

/// Stands in everything that is kept of Ada, and in nothing else.
const MARK: &str = "lovelace";

fn to_ada(client: &Client) -> NewMail<'_> {
    client
        .mail("sign_in")
        .to("ada@lovelace.test")
        .name("Ada Lovelace")
        .subject("lovelace-1")
        .payload(r#"{"of": "lovelace"}"#)
        .key("lovelace's first")
}

fn to_bob(client: &Client) -> NewMail<'_> {
    client.mail("sign_in").to("bob@example.test").name("Bob").subject("bob-1").key("first")
}

/// The tables of the schema that have a row with this text in any column.
async fn tables_with(client: &Client, text: &str) -> Result<Vec<String>> {
    let tables = "SELECT oid::regclass::text FROM pg_class
        WHERE relnamespace = 'mailroom'::regnamespace AND relkind = 'r' ORDER BY 1";
    let mut found = Vec::new();
    for row in client.query(tables, &[]).await? {
        let table: String = row.get(0);
        if count(client, &format!("{table} AS kept WHERE kept::text ILIKE '%{text}%'")).await? > 0 {
            found.push(table);
        }
    }
    Ok(found)
}

fn receipt(answer: &str) -> Receipt {
    Receipt { provider: "smtp".to_owned(), message_id: None, answer: answer.to_owned() }
}

#[tokio::test]
async fn nothing_is_left_of_a_subject_in_any_table_and_others_lose_nothing() -> Result<()> {
    let (database, client) = product().await?;
    let mut collector = queue(&database, Version::V2).await?;
    let wrong = "SELECT verdict::text FROM mailroom.queue, mailroom.redeem(secret, 'sign_in', '-')";
    for (mail, name) in [(to_ada(&client), "Lovelace"), (to_bob(&client), "Bob")] {
        mail.enqueue().await?;
        client.batch_execute(wrong).await?;
        let batch = claim(&mut collector).await?.expect("it is due");
        let nacks =
            vec![(batch.tokens[0].id, Nack::Retry { after: None, reason: format!("no {name}") })];
        collector.settle_and_claim(vec![Settlement::of(batch.id, nacks)], None).await?;
    }
    let bound = client.mail("sign_in").to("ada@lovelace.test").subject("lovelace-1");
    let dead = bound.bound_to([0xab; 16]).enqueue().await?;
    client
        .batch_execute(&format!(
            "SELECT mailroom.browser_code(decode(repeat('ab', 16), 'hex'));
            DELETE FROM mailroom.queue WHERE token = {dead};
            INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures,
                priority, reason)
                SELECT id, now(), expires_at, 8, 8, 0, 'no Lovelace here'
                    FROM mailroom.issued_tokens WHERE id = {dead};
            -- Of a token that was pruned.
            INSERT INTO mailroom.receipts (token, attempt, accepted_at, action, provider, answer,
                address_hash)
                SELECT -1, 1, now(), 5, 'smtp', 'for Lovelace',
                    mailroom.address_hash('ADA@lovelace.test', address_key)
                FROM mailroom.installation;
            INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
                VALUES ('{{-1}}', now(), 1, 'retry', 'Lovelace is away')"
        ))
        .await?;
    let own = client.mail("notice").to("ada@lovelace.test").key("lovelace's own");
    let own = own.enqueue().await?;
    let marked =
        ["code_failures", "dead_letters", "delivery_log", "idempotency_keys", "issued_tokens"]
            .into_iter()
            .chain(["payloads", "receipts"])
            .map(|table| format!("mailroom.{table}"))
            .collect::<Vec<_>>();
    assert_eq!(tables_with(&client, MARK).await?, marked);

    assert_eq!(number(&client, "mailroom.forget('lovelace-1')").await?, 2);
    // What has no subject is found by the address alone.
    let nobodys = ["mailroom.idempotency_keys", "mailroom.issued_tokens"];
    assert_eq!(tables_with(&client, MARK).await?, nobodys);
    assert_eq!(count(&client, &format!("mailroom.queue WHERE token <> {own}")).await?, 1);
    assert_eq!(number(&client, "mailroom.forget(NULL, 'Ada@Lovelace.test')").await?, 1);
    assert_eq!(tables_with(&client, MARK).await?, [""; 0]);
    assert_eq!(count(&client, "mailroom.browser_codes").await?, 0);

    let kept = tables_with(&client, "bob").await?;
    for table in ["code_failures", "delivery_log", "issued_tokens"] {
        assert!(kept.contains(&format!("mailroom.{table}")), "{table}: {kept:?}");
    }
    assert_eq!(count(&client, "mailroom.idempotency_keys").await?, 1);
    // What was sent and why not is counted on, by nobody's ids.
    assert_eq!(count(&client, "mailroom.delivery_log WHERE tokens = '{-1}'").await?, 1);
    assert_eq!(number(&client, "mailroom.forget('lovelace-1', 'ada@lovelace.test')").await?, 0);
    let (_, message) = refused(&client, "SELECT mailroom.forget(NULL)").await?;
    assert!(message.contains("neither a subject_id nor an address"), "{message}");
    Ok(())
}

#[tokio::test]
async fn whatever_becomes_of_a_mail_that_is_leased_nothing_is_sent_again_and_nothing_kept()
-> Result<()> {
    let reason = || "Lovelace is not here".to_owned();
    for nack in [
        None,
        Some(Nack::Retry { after: None, reason: reason() }),
        Some(Nack::Dead { reason: reason() }),
        Some(Nack::InDoubt { reason: reason() }),
    ] {
        let (database, client) = product().await?;
        let mut collector = queue(&database, Version::V2).await?;
        let token = to_ada(&client).enqueue().await?;
        let batch = claim(&mut collector).await?.expect("it is due");
        client.batch_execute("SELECT mailroom.forget('lovelace-1')").await?;
        let receipts =
            if nack.is_none() { vec![(token, receipt("250 Lovelace"))] } else { Vec::new() };
        let settlement = Settlement {
            receipts,
            ..Settlement::of(batch.id, nack.iter().map(|nack| (token, nack.clone())).collect())
        };
        // Said twice, as after an answer that was lost.
        for _ in 0..2 {
            collector.settle_and_claim(vec![settlement.clone()], None).await?;
        }
        assert_eq!(tables_with(&client, MARK).await?, [""; 0], "{nack:?}");
        for place in ["queue", "leases", "handed_over", "dead_letters", "receipts", "payloads"] {
            assert_eq!(
                count(&client, &format!("mailroom.{place}")).await?,
                0,
                "{place} after {nack:?}"
            );
        }
        let outcome = if nack.is_none() { "sent" } else { "cancelled" };
        let logged =
            format!("mailroom.delivery_log WHERE outcome = '{outcome}' AND tokens = '{{{token}}}'");
        assert_eq!(count(&client, &logged).await?, 1, "{nack:?}");
        assert!(claim(&mut collector).await?.is_none());
    }
    // A collector that was killed meanwhile.
    let (database, client) = product().await?;
    let mut collector = queue(&database, Version::V2).await?;
    to_ada(&client).enqueue().await?;
    let batch = claim(&mut collector).await?.expect("it is due");
    client
        .batch_execute(
            "SELECT mailroom.forget('lovelace-1'); UPDATE mailroom.leases SET ends_at = now()",
        )
        .await?;
    let mut other = queue(&database, Version::V2).await?;
    assert!(claim(&mut other).await?.is_none());
    collector.settle_and_claim(vec![super::sent(batch.id)], None).await?;
    assert_eq!(count(&client, "mailroom.queue").await?, 0);
    assert_eq!(tables_with(&client, MARK).await?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn wrong_codes_of_an_address_are_forgotten_in_any_spelling_also_without_their_token()
-> Result<()> {
    for address in ["ADA@lovelace.test", "ada@Lovelace.TEST"] {
        let (_database, client) = product().await?;
        client.mail("sign_in").to("Ada@Lovelace.test").enqueue().await?;
        client
            .batch_execute(
                "SELECT mailroom.redeem(secret, 'sign_in', '-') FROM mailroom.queue;
                DELETE FROM mailroom.queue; DELETE FROM mailroom.issued_tokens",
            )
            .await?;
        let wrong_codes =
            format!("(mailroom.export_subject(NULL, '{address}') ->> 'wrong_codes')::bigint");
        assert_eq!(number(&client, &wrong_codes).await?, 1, "{address}");
        client.batch_execute(&format!("SELECT mailroom.forget(NULL, '{address}')")).await?;
        assert_eq!(count(&client, "mailroom.code_failures").await?, 0, "{address}");
    }
    Ok(())
}

#[tokio::test]
async fn a_new_token_for_a_dead_letter_that_is_just_put_back_is_forgotten_too() -> Result<()> {
    let (database, client) = product().await?;
    let token = to_ada(&client).enqueue().await?;
    client
        .batch_execute(
            "UPDATE mailroom.issued_tokens SET expires_at = created_at;
            INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures,
                priority, reason)
                SELECT id, now(), expires_at, 8, 8, 0, '' FROM mailroom.issued_tokens;
            DELETE FROM mailroom.queue",
        )
        .await?;
    let operator = database.connect().await?;
    operator
        .batch_execute(&format!("BEGIN; SELECT mailroom.retry(ARRAY[{token}]::bigint[])"))
        .await?;
    let observer = database.connect().await?;
    let forgetting = tokio::spawn(async move {
        let forgotten = number(&client, "mailroom.forget('lovelace-1')").await;
        (client, forgotten)
    });
    let waits = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND datname = current_database()";
    mailroom_tests::rows::wait_for(&observer, waits, 1_i64).await?;
    operator.batch_execute("COMMIT").await?;
    let (_client, forgotten) = forgetting.await?;
    assert_eq!(forgotten?, 2);
    assert_eq!(tables_with(&observer, MARK).await?, [""; 0]);
    assert_eq!(count(&observer, "mailroom.queue").await?, 0);
    Ok(())
}

/// A redemption makes a notice, and a renewal a new link, while somebody waits for the old one.
#[tokio::test]
async fn what_is_made_while_a_subject_is_forgotten_is_forgotten_too() -> Result<()> {
    for (makes, action) in [
        (
            "SELECT mailroom.redeem(secret, 'change_email')::text FROM mailroom.queue",
            "change_email",
        ),
        ("SELECT mailroom.renew_link(secret, 'recover')::text FROM mailroom.queue", "recover"),
    ] {
        let (database, client) = product().await?;
        let mail = "CREATE FUNCTION public.somebody(subject_ids text[], is_redemption boolean)
                RETURNS TABLE (subject_id text, email text, name text)
                LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
                AS 'SELECT id, ''ada@example.test'', NULL::text FROM unnest($1) AS id';
            UPDATE mailroom.actions SET eligibility = 'public.somebody(text[], boolean)'
                WHERE name = 'recover';
            UPDATE mailroom.actions SET notice = 'notice' WHERE name = 'change_email'";
        client.batch_execute(mail).await?;
        client.mail(action).subject(7).notice_to("old@example.test").enqueue().await?;
        let rested = "UPDATE mailroom.issued_tokens SET created_at = created_at - 3600";
        client.batch_execute(rested).await?;
        let mut application = database.connect().await?;
        let using = application.transaction().await?;
        using.query_one(makes, &[]).await?;
        let observer = database.connect().await?;
        let forgetting = tokio::spawn(async move { number(&client, "mailroom.forget('7')").await });
        let waits = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE NOT granted AND datname = current_database()";
        mailroom_tests::rows::wait_for(&observer, waits, 1_i64).await?;
        let made: i64 =
            using.query_one("SELECT count(*) FROM mailroom.issued_tokens", &[]).await?.get(0);
        assert_eq!(made, 2, "{action} has made nothing");
        using.commit().await?;
        assert_eq!(forgetting.await??, 2, "{action}");
        assert_eq!(count(&observer, "mailroom.issued_tokens").await?, 0, "{action}");
        assert_eq!(count(&observer, "mailroom.queue").await?, 0, "{action}");
    }
    Ok(())
}

#[tokio::test]
async fn an_export_has_what_is_kept_of_a_subject_and_neither_secrets_nor_codes() -> Result<()> {
    let (database, client) = product().await?;
    let token = to_ada(&client).enqueue().await?;
    to_bob(&client).enqueue().await?;
    let mut collector = queue(&database, Version::V2).await?;
    let batch = claim(&mut collector).await?.expect("it is due");
    let receipts =
        batch.tokens.iter().map(|token| (token.id, receipt(&format!("as {}", token.id)))).collect();
    let settlement = Settlement { receipts, ..Settlement::of(batch.id, Vec::new()) };
    collector.settle_and_claim(vec![settlement], None).await?;
    client.batch_execute("SELECT mailroom.suppress('ada@lovelace.test', 'manual')").await?;
    let export = "SELECT mailroom.export_subject('lovelace-1')::text";
    let text: String = client.query_one(export, &[]).await?.get(0);
    let exported: Value = serde_json::from_str(&text)?;
    let [mail] = exported["mails"].as_array().expect("a list").as_slice() else {
        panic!("one mail in {exported}")
    };
    assert_eq!((&mail["token"], &mail["action"]), (&token.into(), &"sign_in".into()));
    assert_eq!(
        (&mail["recipient_email"], &mail["recipient_name"]),
        (&"ada@lovelace.test".into(), &"Ada Lovelace".into())
    );
    assert_eq!(mail["attempts"][0]["outcome"], "sent");
    assert_eq!(exported["receipts"][0]["answer"], format!("as {token}"));
    assert_eq!(exported["idempotency_keys"][0]["key"], "lovelace's first");
    assert_eq!(exported["suppressions"][0]["reason"], "manual");
    assert!(!text.contains("bob"), "{text}");
    let leaked = format!(
        "mailroom.issued_tokens WHERE strpos($text${text}$text$, encode(consumed_id, 'hex')) > 0"
    );
    assert_eq!(count(&client, &leaked).await?, 0);
    for hidden in ["secret", "code\"", "binding"] {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
    Ok(())
}

#[tokio::test]
async fn the_program_forgets_whatever_isolation_level_is_the_default() -> Result<()> {
    let (database, client) = product().await?;
    for isolation in ["repeatable read", "serializable"] {
        to_ada(&client).enqueue().await?;
        let name = database.name();
        client
            .batch_execute(&format!(
                "ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'"
            ))
            .await?;
        for (action, says) in [("export", "lovelace's first"), ("forget", "1 token is erased")] {
            let said = program::mailroom()?
                .args(["subject", action, "lovelace-1"])
                .env("MAILROOM_DATABASE_URL", database.url())
                .output()?;
            let text = String::from_utf8_lossy(&said.stdout);
            assert!(text.contains(says), "{action} by default in {isolation}: {said:?}");
        }
        assert_eq!(tables_with(&client, MARK).await?, [""; 0]);
    }
    Ok(())
}

#[tokio::test]
async fn a_snapshot_that_may_lack_a_token_forgets_nobody() -> Result<()> {
    let (database, client) = product().await?;
    let privacy = database.connect().await?;
    for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
        privacy
            .batch_execute(&format!("BEGIN ISOLATION LEVEL {isolation}; SELECT FROM pg_class"))
            .await?;
        to_ada(&client).enqueue().await?;
        let (code, message) = refused(&privacy, "SELECT mailroom.forget('lovelace-1')").await?;
        assert_eq!(code, SqlState::INVALID_TRANSACTION_STATE);
        let words = isolation.to_lowercase();
        assert_eq!(message, format!("mailroom.forget() does not work in {words} transactions"));
        privacy.batch_execute("ROLLBACK").await?;
    }
    assert_eq!(number(&client, "SELECT mailroom.forget('lovelace-1')").await?, 1);
    Ok(())
}
