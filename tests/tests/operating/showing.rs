use anyhow::Result;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::register;
use serde_json::{Value, json};

use crate::run;

/// Something of everything.
const SCENE: &str = "
    UPDATE pending SET due_at = now() - interval '90 seconds' WHERE token = 1;
    UPDATE pending SET due_at = now() + interval '1 hour', attempts = 1, failures = 1 WHERE token IN (2, 3);
    INSERT INTO tokens (account, action) VALUES (4, 'password_recovery');
    DELETE FROM pending WHERE token BETWEEN 5 AND 10;
    INSERT INTO leases (batch, holder, claimed_at, renewed_at, ends_at, due_at, tokens, attempts, failures, priorities) VALUES
        (gen_random_uuid(), 7, now() - interval '5 minutes', now() - interval '2 minutes', now() - interval '1 minute', now(),
            '{5,6}', '{1,1}', '{0,0}', '{1,1}'),
        (gen_random_uuid(), 8, now(), now(), now() + interval '1 minute', now(), '{7}', '{1}', '{0}', '{1}');
    INSERT INTO parked (token, account, parked_at, expires_at, attempts, failures, priority)
        VALUES (8, 8, now(), extract(epoch FROM now()) + 600, 0, 0, 1);
    INSERT INTO dead (token, died_at, attempts, failures, priority, reason) VALUES (9, now(), 8, 8, 1, 'no such mailbox');
    INSERT INTO handovers (token, happened_at, attempt, outcome) VALUES
        (10, now() - interval '2 hours', 0, 'expired'), (1000, now(), 0, 'expired'), (1001, now(), 1, 'sent')";

#[tokio::test]
async fn an_empty_queue_is_all_zeros() -> Result<()> {
    let database = Database::migrated()?;
    let status: Value = serde_json::from_str(&run(&database, &["status", "--json"])?.success()?)?;
    assert_eq!(
        status["pending"],
        json!({ "depth": 0, "recoveries_due": 0, "activations_due": 0, "later": 0, "oldest_due_ms": null })
    );
    assert_eq!(status["leases"], json!({ "batches": 0, "tokens": 0, "lapsed": 0, "oldest_ms": null }));
    assert_eq!(status["expired"], json!({ "logged": 0, "last_hour": 0 }));
    assert_eq!((&status["parked"], &status["dead"]), (&json!(0), &json!(0)));
    let text = run(&database, &["status"])?.success()?;
    assert!(text.starts_with("waiting   0 tokens\n"), "{text}");
    Ok(())
}

#[tokio::test]
async fn depth_age_leases_dead_and_expired_are_shown() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    register(&client, 1..=10).await?;
    client.batch_execute(SCENE).await?;

    let status: Value = serde_json::from_str(&run(&database, &["status", "--json"])?.success()?)?;
    let pending = &status["pending"];
    let counts = ["depth", "recoveries_due", "activations_due", "later"].map(|field| &pending[field]);
    assert_eq!(counts, [&json!(5), &json!(1), &json!(2), &json!(2)], "{status}");
    let oldest = pending["oldest_due_ms"].as_i64();
    assert!(oldest.is_some_and(|oldest| (90_000..150_000).contains(&oldest)), "{status}");
    let leases = &status["leases"];
    assert_eq!(
        [&leases["batches"], &leases["tokens"], &leases["lapsed"]],
        [2, 3, 1].map(|n| json!(n)).each_ref()
    );
    assert!(leases["oldest_ms"].as_i64().is_some_and(|oldest| oldest >= 300_000), "{status}");
    assert_eq!([&status["parked"], &status["dead"]], [&json!(1), &json!(1)]);
    assert_eq!(status["expired"], json!({ "logged": 2, "last_hour": 1 }));

    let text = run(&database, &["status"])?.success()?;
    for line in [
        "waiting   5 tokens, the oldest due for ",
        "          3 due: 1 recoveries, 2 activations; 2 later\n",
        "leased    3 tokens in 2 batches, the oldest claimed for 5 min; 1 lapsed\n",
        "parked    1 tokens",
        "dead      1 tokens\n",
        "expired   2 tokens unsent, 1 of them within the last hour\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    Ok(())
}
