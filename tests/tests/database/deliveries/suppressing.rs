//! Addresses that get no mails.

use anyhow::Result;
use mailroom::queue::{DeliveriesQueue, Queue};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::plan::blocks;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{all, at, ids, log, queue, state};

async fn enqueue(client: &Client, address: &str) -> Result<i64> {
    Ok(client.mail("invite").to(address).payload("{}").enqueue().await?)
}

async fn suppress(
    client: &Client,
    address: &str,
    reason: &str,
    detail: Option<&str>,
) -> Result<bool> {
    let suppress = "SELECT mailroom.suppress($1, $2, 'resend', $3)";
    Ok(client.query_one(suppress, &[&address, &reason, &detail]).await?.get(0))
}

async fn claimed(queue: &mut DeliveriesQueue) -> Result<Vec<i64>> {
    Ok(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches))
}

async fn count(client: &Client, rows: &str) -> Result<i64> {
    Ok(client.query_one(&format!("SELECT count(*) FROM {rows}"), &[]).await?.get(0))
}

#[tokio::test]
async fn a_suppressed_address_is_dead_when_claimed_and_goes_out_once_lifted_and_put_back()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut queue = queue(&database).await?;
    assert!(suppress(&client, "Ada@X.test", "bounce", None).await?);
    // In letters of either case; a longer or shorter address is another one.
    let mut made = Vec::new();
    for address in ["ada@x.test", "other@x.test", "ADA@x.TEST", "da@x.test", "ada@x.tes"] {
        made.push(enqueue(&client, address).await?);
    }
    assert_eq!(state(&client, made[0]).await?, at("queued", 0));
    assert_eq!(claimed(&mut queue).await?, [made[1], made[3], made[4]]);
    let reason = Some("its address is suppressed (bounce)".to_owned());
    for id in [made[0], made[2]] {
        assert_eq!(state(&client, id).await?, at("dead", 0));
        assert_eq!(log(&client, id).await?, [(0, "dead".to_owned(), reason.clone())]);
    }
    let letters = "mailroom.dead_letters JOIN mailroom.issued_tokens AS tokens ON id = token
        WHERE dead_letters.expires_at = tokens.expires_at AND octet_length(secret) = 32
            AND reason = 'its address is suppressed (bounce)'";
    assert_eq!(count(&client, letters).await?, 2);
    assert_eq!(count(&client, "mailroom.queue").await?, 0);

    // Put back too early, it is dead again.
    let retry = "SELECT * FROM mailroom.retry($1)";
    assert_eq!(client.query(retry, &[&made]).await?.len(), 2);
    assert_eq!(claimed(&mut queue).await?, [0_i64; 0]);
    assert_eq!(state(&client, made[0]).await?, at("dead", 0));
    let lift = "SELECT mailroom.lift_suppression($1)";
    assert!(client.query_one(lift, &[&"aDa@x.test"]).await?.get::<_, bool>(0));
    assert!(!client.query_one(lift, &[&"ada@x.test"]).await?.get::<_, bool>(0));
    assert_eq!(client.query(retry, &[&made]).await?.len(), 2);
    let mut back = claimed(&mut queue).await?;
    back.sort_unstable();
    assert_eq!(back, [made[0], made[2]]);
    assert_eq!(count(&client, "mailroom.payloads").await?, 5);
    Ok(())
}

#[tokio::test]
async fn what_is_used_expired_or_not_eligible_is_not_called_suppressed() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut queue = queue(&database).await?;
    client.accounts(["a", "b", "c"]).at("x.test").insert().await?;
    for address in ["a@x.test", "b@x.test", "c@x.test"] {
        suppress(&client, address, "complaint", None).await?;
    }
    client
        .batch_execute(
            "UPDATE mailroom.issued_tokens SET expires_at = 1 WHERE id = 1;
            UPDATE accounts SET status = 'suspended' WHERE email = 'b@x.test'",
        )
        .await?;
    assert_eq!(claimed(&mut queue).await?, [0_i64; 0]);
    assert_eq!(state(&client, 1).await?, at("expired", 0));
    assert_eq!(state(&client, 2).await?, at("deferred", 0));
    assert_eq!(state(&client, 3).await?, at("dead", 0));
    Ok(())
}

/// Claims begin where something may still wait: what is suppressed must not hide it.
#[tokio::test]
async fn many_suppressed_tokens_do_not_keep_others_waiting() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut queue = queue(&database).await?;
    suppress(&client, "ada@x.test", "manual", None).await?;
    client.mail("invite").to("ada@x.test").enqueue_times(3_000).await?;
    let last = enqueue(&client, "other@x.test").await?;
    assert_eq!(claimed(&mut queue).await?, [last]);
    assert_eq!(count(&client, "mailroom.dead_letters").await?, 3000);
    Ok(())
}

#[tokio::test]
async fn the_same_notification_twice_is_one_suppression_and_says_no_address() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let said = format!(
        "550\r\n<Ada@x.test>: no ada%40x.test\u{7f}here {} {}",
        "A-_z".repeat(8),
        "é ".repeat(900)
    );
    assert!(suppress(&client, "ADA@x.test", "bounce", Some(&said)).await?);
    assert!(!suppress(&client, "ada@x.test", "complaint", Some("later")).await?);
    let rows = client
        .query("SELECT address, reason, provider, detail FROM mailroom.suppressed_addresses", &[])
        .await?;
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!([row.get::<_, &str>(0), row.get(1), row.get(2)], ["ada@x.test", "bounce", "resend"]);
    let detail: String = row.get(3);
    assert!(detail.starts_with("550 [address] no [address] here [secret] é é"), "{detail}");
    assert_eq!(detail.chars().count(), 200);
    Ok(())
}

#[tokio::test]
async fn what_is_no_address_or_reason_is_refused_without_repeating_it() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let long = format!("{}@x.test", "a".repeat(255));
    for (address, reason) in [
        ("", "bounce"),
        ("ada", "bounce"),
        ("ada@x.test\nb@x.test", "bounce"),
        ("ada@x.test\n", "bounce"),
        ("<ada@x.test>", "bounce"),
        ("ada@x.test, b@x.test", "bounce"),
        (&long, "bounce"),
        ("ada@x.test", "soft"),
        ("ada@x.test", ""),
    ] {
        let error =
            client.query_one("SELECT mailroom.suppress($1, $2)", &[&address, &reason]).await;
        let error = error.expect_err("it must be refused");
        let error = error.as_db_error().expect("by the server");
        assert_eq!(error.code(), &SqlState::INVALID_PARAMETER_VALUE, "{address:?}");
        assert!(!error.message().contains("ada"), "{error}");
    }
    let nulls = "SELECT mailroom.suppress(NULL, 'bounce')";
    assert!(client.query_one(nulls, &[]).await.is_err());
    assert_eq!(count(&client, "mailroom.suppressed_addresses").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_role_for_bounces_can_do_nothing_else() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let name = format!("{}_bounces", database.name());
    let grant = format!(
        "CREATE ROLE {name}; GRANT EXECUTE ON FUNCTION mailroom.suppress TO {name}; SET ROLE {name}"
    );
    client.batch_execute(&grant).await?;
    assert!(suppress(&client, "ada@x.test", "bounce", None).await?);
    for statement in [
        "SELECT count(*) FROM mailroom.suppressions",
        "SELECT count(*) FROM mailroom.suppressed_addresses",
        "SELECT mailroom.lift_suppression('ada@x.test')",
        "SELECT mailroom.enqueue('invite', 'ada@x.test')",
        "SELECT count(*) FROM mailroom.queue",
    ] {
        let error = client.batch_execute(statement).await.expect_err(statement);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{statement}");
    }
    client.batch_execute(&format!("RESET ROLE; DROP OWNED BY {name}; DROP ROLE {name}")).await?;
    Ok(())
}

/// Also where they are many, and no statistics say so.
#[tokio::test]
async fn a_claim_looks_suppressions_up_by_their_key() -> Result<()> {
    const TOKENS: i64 = 20;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    drop(queue(&database).await?);
    let recipients = (1..=TOKENS).map(|number| format!("{number}@y.test"));
    client.mail("invite").enqueue_to_each(recipients).await?;
    let claim = "SELECT mailroom.claim(2, ARRAY[gen_random_uuid()], 100, true, 100, 0, NULL, NULL, \
                 90000, 30, '{4}', true)";
    let mut costs = Vec::new();
    for suppressed in [0, 50_000] {
        let insert = format!(
            "INSERT INTO mailroom.suppressions
                SELECT n || '@x.test', 'bounce', NULL, NULL, now()
                    FROM generate_series(1, {suppressed}) n"
        );
        client.batch_execute(&insert).await?;
        client.batch_execute("BEGIN").await?;
        // The first of a session plans.
        client.batch_execute(&format!("SAVEPOINT first; {claim}; ROLLBACK TO first")).await?;
        costs.push(blocks(&client, claim).await?);
        client.batch_execute("ROLLBACK").await?;
    }
    let [none, many] = costs[..] else { unreachable!() };
    assert!(many <= none + 4 * TOKENS, "{many} blocks instead of {none}");
    Ok(())
}
