//! The publication of docs/examples/outbox.sql, for products that capture changes anyway.

use anyhow::{Context, Result};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::postgres::{Cluster, Database};
use mailroom_tests::rows::wait_for;

const OUTBOX: &str = include_str!("../../../docs/examples/outbox.sql");

/// What a subscriber keeps, under the same name.
const COPY: &str = "CREATE SCHEMA mailroom;
    CREATE TABLE mailroom.issued_tokens (
        id bigint PRIMARY KEY, action smallint, subject_id text,
        created_at bigint, expires_at bigint, consumed_at bigint, cancelled_at bigint
    )";

/// All that a reader of the publication gets, as it is sent.
const SENT: &str = "SELECT string_agg(data, '') FROM pg_logical_slot_peek_binary_changes('watched',
    NULL, NULL, 'proto_version', '1', 'publication_names', 'mailroom_outbox')";

#[tokio::test]
async fn changes_of_tokens_are_published_without_links_codes_and_addresses() -> Result<()> {
    let cluster = Cluster::builder().setting("wal_level", "logical").start()?;
    let source =
        Database::create_on(&cluster.url("postgres"))?.migrate_with(&["--without-accounts"])?;
    let copy = Database::create_on(&cluster.url("postgres"))?;
    let (there, here) = (source.connect().await?, copy.connect().await?);
    there.batch_execute(OUTBOX).await?;
    for slot in ["outbox", "watched"] {
        let make = "SELECT pg_create_logical_replication_slot($1::text, 'pgoutput')";
        there.query(make, &[&slot]).await?;
    }
    here.batch_execute(COPY).await?;
    here.batch_execute(&format!(
        "CREATE SUBSCRIPTION outbox CONNECTION 'host={} dbname={} user=postgres'
            PUBLICATION mailroom_outbox WITH (create_slot = false, copy_data = false)",
        cluster.socket_dir().display(),
        source.name()
    ))
    .await?;

    let mail = there.mail("recover").name("Ada").subject("subject 7").bound_to([0x5a; 16]);
    let token = mail.payload(r#"{"colour": "octarine"}"#).enqueue().await?;
    let row = there
        .query_one(
            "SELECT secret, code, consumed_id, code_hash FROM mailroom.queue
                JOIN mailroom.issued_tokens ON id = token",
            &[],
        )
        .await?;
    let [consumed_id, code_hash]: [Vec<u8>; 2] = [row.get(2), row.get(3)];
    // As if a broker had it.
    there
        .batch_execute(
            "INSERT INTO mailroom.handed_over (token, handed_over_at, expires_at, attempts,
                failures, priority, secret, code)
                SELECT token, now(), 1, 1, 0, priority, secret, code FROM mailroom.queue",
        )
        .await?;
    there.batch_execute("SELECT mailroom.cancel_subject('subject 7')").await?;
    let cancelled = "SELECT count(*) FROM mailroom.issued_tokens WHERE subject_id = 'subject 7'
        AND action = 2 AND cancelled_at IS NOT NULL";
    let arrived = wait_for(&here, cancelled, 1_i64).await;
    arrived.with_context(|| format!("not replicated: {}", cluster.log()))?;
    let copied: i64 = here.query_one("SELECT id FROM mailroom.issued_tokens", &[]).await?.get(0);
    assert_eq!(copied, token);

    let sent: Vec<u8> = there.query_one(SENT, &[]).await?.get(0);
    let has = |part: &[u8]| sent.windows(part.len()).any(|window| window == part);
    assert!(has(b"subject 7"));
    let secret: Vec<u8> = row.get(0);
    let code: String = row.get(1);
    for part in [&secret[..], code.as_bytes(), b"ada@example", b"Ada", b"octarine", b"ZZZZ"] {
        assert!(!has(part) && !has(hexadecimal(part).as_bytes()), "{part:?} is sent");
    }
    for part in [&consumed_id, &code_hash] {
        assert!(!has(part) && !has(hexadecimal(part).as_bytes()), "a hash of the link is sent");
    }
    here.batch_execute(
        "ALTER SUBSCRIPTION outbox DISABLE; ALTER SUBSCRIPTION outbox SET (slot_name = NONE);
            DROP SUBSCRIPTION outbox",
    )
    .await?;
    Ok(())
}
