//! What a broker's senders say of a token, wherever it stands, and whoever has it just then.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

const KINDS: [&str; 5] = ["sent", "dead", "unknown_address", "expired", "in_doubt"];

/// What each of [`KINDS`] does, and where the token stands afterwards.
const CASES: [(&str, [&str; 5]); 9] = [
    (
        "queued",
        ["early: queued", "early: queued", "early: queued", "early: queued", "early: queued"],
    ),
    (
        "leased",
        ["early: leased", "early: leased", "early: leased", "early: leased", "early: leased"],
    ),
    (
        "handed_over",
        ["applied: sent", "dead: dead", "dead: dead", "dead: dead", "applied: handed_over"],
    ),
    (
        // It expires within the minute by which clocks may differ.
        "over",
        ["applied: sent", "dead: dead", "dead: dead", "applied: expired", "applied: handed_over"],
    ),
    (
        "in_doubt",
        ["applied: sent", "dead: dead", "dead: dead", "dead: dead", "repeated: handed_over"],
    ),
    (
        "used",
        ["applied: sent", "dead: dead", "dead: dead", "applied: cancelled", "applied: handed_over"],
    ),
    (
        "dead",
        ["applied: sent", "repeated: dead", "repeated: dead", "repeated: dead", "repeated: dead"],
    ),
    (
        "sent",
        ["repeated: sent", "repeated: sent", "repeated: sent", "repeated: sent", "repeated: sent"],
    ),
    ("gone", ["unknown: ", "unknown: ", "unknown: ", "unknown: ", "unknown: "]),
];

struct Token {
    id: i64,
    key: String,
    address: String,
}

/// A mail that stands there, after one attempt.
async fn token(client: &Client, place: &str) -> Result<Token> {
    let recipient = format!("{}@x.test", fastrand::u64(..));
    let id = client.mail("invite").to(recipient).payload("{}").enqueue().await?;
    let known = "SELECT encode(consumed_id, 'hex'), recipient_email
        FROM mailroom.issued_tokens WHERE id = $1";
    let row = client.query_one(known, &[&id]).await?;
    let away = format!(
        "WITH gone AS (DELETE FROM mailroom.queue WHERE token = {id} RETURNING *)
        INSERT INTO mailroom.handed_over
            (token, handed_over_at, expires_at, attempts, failures, priority, secret, code, doubts)
        SELECT token, now(), expires_at, 1, 0, priority, secret, code, {}
        FROM gone JOIN mailroom.issued_tokens ON id = token",
        i32::from(place == "in_doubt")
    );
    let log = |outcome: &str| {
        format!(
            "INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
            VALUES ('{{{id}}}', now(), 1, '{outcome}')"
        )
    };
    client
        .batch_execute(&match place {
            "queued" => String::new(),
            "leased" => format!(
                "WITH gone AS (DELETE FROM mailroom.queue WHERE token = {id} RETURNING *)
                INSERT INTO mailroom.leases (batch, collector_id, claimed_at, renewed_at, ends_at,
                    due_at, tokens, attempts, failures, priorities, secrets, codes)
                SELECT gen_random_uuid(), 1, now(), now(), now() + interval '1 hour', due_at,
                    ARRAY[token], ARRAY[1], ARRAY[failures], ARRAY[priority], ARRAY[secret],
                    ARRAY[code] FROM gone"
            ),
            "over" => format!(
                "{away}; UPDATE mailroom.handed_over SET expires_at = extract(epoch FROM now()) + 30
                    WHERE token = {id}"
            ),
            "used" => format!(
                "{away}; UPDATE mailroom.issued_tokens SET consumed_at = created_at WHERE id = {id}"
            ),
            "dead" => format!(
                "WITH gone AS (DELETE FROM mailroom.queue WHERE token = {id} RETURNING *)
                INSERT INTO mailroom.dead_letters
                    (token, died_at, expires_at, attempts, failures, priority, secret, reason)
                SELECT token, now(), expires_at, 1, 1, priority, secret, ''
                FROM gone JOIN mailroom.issued_tokens ON id = token; {}",
                log("dead")
            ),
            "sent" => {
                format!("DELETE FROM mailroom.queue WHERE token = {id}; {}", log("sent"))
            }
            "gone" => format!(
                "DELETE FROM mailroom.queue WHERE token = {id};
                DELETE FROM mailroom.payloads WHERE token = {id};
                DELETE FROM mailroom.issued_tokens WHERE id = {id}"
            ),
            _ => away,
        })
        .await?;
    Ok(Token { id, key: row.get(0), address: row.get(1) })
}

/// Records a verdict on an attempt, and answers what the database says.
async fn settle(client: &Client, token: &Token, key: &str, kind: &str) -> Result<String> {
    let doubts = i32::from(kind == "in_doubt");
    let provider = (kind == "sent").then_some("smtp");
    let settle = "SELECT result FROM mailroom.settle_verdicts(ARRAY[$1::bigint], ARRAY[$2::text],
        ARRAY[$3::text], ARRAY[1], ARRAY[$4::integer], ARRAY['550 no such user'],
        ARRAY[$5::text], ARRAY[NULL::text], ARRAY['250'])";
    let row = client.query_one(settle, &[&token.id, &key, &kind, &doubts, &provider]).await?;
    Ok(row.get(0))
}

async fn state(client: &Client, token: &Token) -> Result<String> {
    let query = "SELECT coalesce((SELECT state FROM mailroom.deliveries WHERE token = $1), '')";
    Ok(client.query_one(query, &[&token.id]).await?.get(0))
}

#[tokio::test]
async fn each_verdict_on_a_token_in_each_place_does_what_loses_no_mail() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    for (place, expected) in CASES {
        for (kind, expected) in KINDS.into_iter().zip(expected) {
            let token = token(&client, place).await?;
            let stranger = "00".repeat(16);
            let result = settle(&client, &token, &stranger, kind).await?;
            ensure!(result == "unknown", "{place}, {kind} on another key: {result}");
            let result = settle(&client, &token, &token.key, kind).await?;
            let found = format!("{result}: {}", state(&client, &token).await?);
            ensure!(found == expected, "{place}, {kind}: {found} instead of {expected}");
            // The same again, as after a kill between commit and acknowledgement.
            let again = settle(&client, &token, &token.key, kind).await?;
            let after = format!("{again}: {}", state(&client, &token).await?);
            let expected_after = expected.replace("applied: ", "repeated: ");
            let expected_after = expected_after.replace("dead: ", "repeated: ");
            ensure!(after == expected_after, "{place}, {kind} again: {after}");
            let row = client
                .query_one(
                    "SELECT (SELECT count(*) FROM mailroom.receipts WHERE token = $1),
                        (SELECT count(*) FROM mailroom.suppressed_addresses WHERE address = $2),
                        (SELECT count(*) FROM mailroom.payloads WHERE token = $1),
                        (SELECT count(*) FROM mailroom.dead_letters
                            WHERE token = $1 AND secret IS NOT NULL)",
                    &[&token.id, &token.address],
                )
                .await?;
            let is_applied = ["applied", "dead"].contains(&&*result);
            // What expires before its time is a dead letter: a sender's clock that is ahead says so
            // of all mails.
            let is_done = result == "applied" && ["sent", "expired"].contains(&kind);
            let is_kept = !is_done && place != "gone";
            // A link that was used is in no dead letter.
            let can_be_put_back =
                place == "dead" && kind != "sent" || result == "dead" && place != "used";
            let expected = (
                i64::from(is_applied && kind == "sent"),
                i64::from(is_applied && kind == "unknown_address"),
                i64::from(is_kept),
                i64::from(can_be_put_back),
            );
            let found: (i64, i64, i64, i64) = (row.get(0), row.get(1), row.get(2), row.get(3));
            ensure!(found == expected, "{place}, {kind}: {found:?} instead of {expected:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_verdict_waits_for_no_application_and_comes_again() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    // To wait for it fails.
    client.batch_execute("SET statement_timeout = '10s'").await?;
    for (place, kind, held, expected) in [
        ("handed_over", "sent", "SELECT FROM mailroom.handed_over WHERE token = ID FOR UPDATE", ""),
        ("handed_over", "dead", "SELECT mailroom.forget(NULL, 'ADDRESS')", ""),
        ("handed_over", "unknown_address", "SELECT mailroom.suppress('ADDRESS', 'manual')", ""),
        (
            "handed_over",
            "sent",
            "SELECT FROM mailroom.payloads WHERE token = ID FOR UPDATE",
            "applied",
        ),
        (
            "handed_over",
            "expired",
            "SELECT FROM mailroom.issued_tokens WHERE id = ID FOR NO KEY UPDATE",
            "dead",
        ),
        ("dead", "sent", "SELECT * FROM mailroom.retry_all()", ""),
        ("dead", "sent", "SELECT mailroom.discard(ARRAY[ID::bigint])", ""),
        ("dead", "sent", "SELECT FROM mailroom.issued_tokens WHERE id = ID FOR NO KEY UPDATE", ""),
    ] {
        let token = token(&client, place).await?;
        let held = held.replace("ID", &token.id.to_string()).replace("ADDRESS", &token.address);
        application.batch_execute(&format!("BEGIN; {held}")).await?;
        let result = settle(&client, &token, &token.key, kind).await?;
        let expected = if expected.is_empty() { "early" } else { expected };
        ensure!(result == expected, "{place}, {kind}, {held}: {result}");
        application.batch_execute("ROLLBACK").await?;
        if result == "early" {
            ensure!(state(&client, &token).await? == place, "{held}");
            let result = settle(&client, &token, &token.key, kind).await?;
            let expected = if kind == "sent" { "applied" } else { "dead" };
            ensure!(result == expected, "{place}, {kind} after {held}: {result}");
        }
    }
    // What was forgotten meanwhile leaves nothing.
    let token = token(&client, "handed_over").await?;
    let forget = format!("BEGIN; SELECT mailroom.forget(NULL, '{}')", token.address);
    application.batch_execute(&forget).await?;
    ensure!(settle(&client, &token, &token.key, "sent").await? == "early");
    application.batch_execute("COMMIT").await?;
    ensure!(settle(&client, &token, &token.key, "sent").await? == "unknown");
    Ok(())
}

/// A standby that took over may have lost the commit of a verdict which the broker does not give
/// out again.
#[tokio::test]
async fn what_was_handed_over_a_minute_ago_is_listed_by_its_key_in_pages() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(token(&client, "handed_over").await?);
    }
    token(&client, "queued").await?;
    let list = "SELECT token, key FROM mailroom.list_handed_over($1, 2)";
    ensure!(client.query(list, &[&0_i64]).await?.is_empty(), "its verdict is on its way");
    client.batch_execute("UPDATE mailroom.handed_over SET handed_over_at = '2020-01-01'").await?;
    let mut found: Vec<(i64, String)> = Vec::new();
    for after in [0, tokens[1].id] {
        let page = client.query(list, &[&after]).await?;
        found.extend(page.iter().map(|row| (row.get(0), row.get(1))));
    }
    let expected: Vec<_> = tokens.into_iter().map(|token| (token.id, token.key)).collect();
    ensure!(found == expected, "{found:?}");
    Ok(())
}

#[tokio::test]
async fn a_broker_can_tell_a_database_from_others_and_from_its_copies() -> Result<()> {
    let mut names = BTreeSet::new();
    for _ in 0..2 {
        let database = Database::migrated()?;
        let client = database.connect().await?;
        for installation in [None, Some("production"), Some("staging"), None] {
            let query = "SELECT mailroom.name_reader($1)";
            let name: String = client.query_one(query, &[&installation]).await?.get(0);
            ensure!(name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
            names.insert(name);
        }
    }
    ensure!(names.len() == 6, "{names:?}");
    Ok(())
}
