//! A key with which `enqueue` was called stands for one mail.

use std::time::Duration;

use anyhow::Result;
use mailroom_verifier_core::Version;
use tokio_postgres::error::SqlState;

use super::{clock, count, enqueue, ids, product, queue, refused, send};

const MAIL: &str = "'notice', 'ada@example.test', 'Ada', '7', '{\"a\": [1, 2]}', \
                    'de', '2026-01-01 12:00+00', 'key'";

#[tokio::test]
async fn a_second_call_answers_the_first_token_and_sends_nothing() -> Result<()> {
    let (database, client) = product().await?;
    let mut collector = queue(&database, Version::V2).await?;
    let first = enqueue(&client, MAIL).await?;
    assert_eq!(enqueue(&client, MAIL).await?, first);
    assert_eq!(ids(&send(&mut collector).await?), [first]);
    // Whatever the session's settings say of how times and numbers are written.
    client
        .batch_execute(
            "SET timezone = 'Asia/Kathmandu'; SET datestyle = 'German'; \
             SET extra_float_digits = -5",
        )
        .await?;
    let same =
        MAIL.replace("12:00+00", "17:45+05:45").replace("{\"a\": [1, 2]}", "{ \"a\":[1,2] }");
    assert_eq!(enqueue(&client, &same).await?, first);
    assert!(send(&mut collector).await?.is_empty());
    assert_eq!(count(&client, "mailroom.issued_tokens").await?, 1);
    // A key belongs to its action.
    assert_ne!(enqueue(&client, &MAIL.replace("notice", "invite")).await?, first);
    Ok(())
}

#[tokio::test]
async fn other_arguments_are_an_error_that_names_the_first_token() -> Result<()> {
    let (_database, client) = product().await?;
    let first = enqueue(&client, MAIL).await?;
    for (old, new) in [
        ("ada@", "eve@"),
        ("'Ada'", "NULL"),
        ("'7'", "'8'"),
        ("[1, 2]", "[1, 3]"),
        ("'de'", "'en'"),
        ("12:00+00", "12:01+00"),
        ("'2026-01-01 12:00+00'", "NULL"),
    ] {
        let (code, message) =
            refused(&client, &format!("SELECT mailroom.enqueue({})", MAIL.replace(old, new)))
                .await?;
        assert_eq!(code, SqlState::UNIQUE_VIOLATION, "{old}: {message}");
        assert_eq!(
            message,
            format!(
                "mailroom.enqueue(): this idempotency_key was used with other arguments, \
                 for token {first}"
            )
        );
    }
    assert_eq!(count(&client, "mailroom.issued_tokens").await?, 1);
    Ok(())
}

#[tokio::test]
async fn of_calls_at_the_same_time_one_makes_the_token() -> Result<()> {
    let (database, client) = product().await?;
    for (end, made) in [("ROLLBACK", 0), ("COMMIT", 1)] {
        let other = database.connect().await?;
        client.batch_execute("BEGIN").await?;
        let first = enqueue(&client, MAIL).await?;
        let waiting = tokio::spawn(async move { enqueue(&other, MAIL).await });
        while count(&client, "pg_locks WHERE NOT granted AND locktype = 'transactionid'").await?
            == 0
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.batch_execute(end).await?;
        let second = waiting.await??;
        assert_eq!(second == first, made == 1);
        assert_eq!(count(&client, "mailroom.queue").await?, 1);
        if made == 0 {
            client
                .batch_execute("DELETE FROM mailroom.idempotency_keys; DELETE FROM mailroom.queue")
                .await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_call_that_the_snapshot_cannot_see_is_a_serialization_failure() -> Result<()> {
    let (database, client) = product().await?;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let mail = MAIL.replace("key", level);
        let other = database.connect().await?;
        client
            .batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT FROM mailroom.actions"))
            .await?;
        enqueue(&other, &mail).await?;
        let (code, _) = refused(&client, &format!("SELECT mailroom.enqueue({mail})")).await?;
        assert_eq!(code, SqlState::T_R_SERIALIZATION_FAILURE, "{level}");
        client.batch_execute("ROLLBACK").await?;
    }
    assert_eq!(count(&client, "mailroom.queue").await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_key_outlives_sending_cancelling_and_pruning_by_thirty_days() -> Result<()> {
    const DAY: Duration = Duration::from_secs(86_400);
    let (database, client) = product().await?;
    clock::stop(&client).await?;
    let mail = |key: &str| {
        format!("'notice', 'ada@example.test', payload => '1', idempotency_key => '{key}'")
    };
    let sent = enqueue(&client, &mail("sent")).await?;
    send(&mut queue(&database, Version::V2).await?).await?;
    let cancelled = enqueue(&client, &mail("cancelled")).await?;
    client.batch_execute(&format!("SELECT mailroom.cancel({cancelled})")).await?;
    let prune = "SELECT mailroom.prune_tokens(mailroom.clock() - interval '1 day', 0, 1000)";
    // A notice lives for a day; the second that it ends in is the last of the thirty days.
    clock::forward(&client, DAY * 31).await?;
    client.batch_execute(prune).await?;
    assert_eq!(count(&client, "mailroom.issued_tokens").await?, 0);
    for (key, token) in [("sent", sent), ("cancelled", cancelled)] {
        assert_eq!(enqueue(&client, &mail(key)).await?, token, "{key}");
        let other = mail(key).replace("'1'", "'2'");
        assert_eq!(
            refused(&client, &format!("SELECT mailroom.enqueue({other})")).await?.0,
            SqlState::UNIQUE_VIOLATION
        );
    }
    clock::forward(&client, Duration::from_secs(1)).await?;
    client.batch_execute(prune).await?;
    assert_eq!(count(&client, "mailroom.idempotency_keys").await?, 0);
    assert_ne!(enqueue(&client, &mail("sent")).await?, sent);
    Ok(())
}

#[tokio::test]
async fn a_call_that_is_repeated_after_its_action_was_retired_is_answered_as_before() -> Result<()>
{
    let (_database, client) = product().await?;
    let call = "'invite', 'ada@example.test', idempotency_key => 'first'";
    let first = enqueue(&client, call).await?;
    client
        .batch_execute("UPDATE mailroom.actions SET is_retired = true WHERE name = 'invite'")
        .await?;
    assert_eq!(enqueue(&client, call).await?, first);
    for (call, code) in [
        ("'invite', 'bob@example.test', idempotency_key => 'first'", SqlState::UNIQUE_VIOLATION),
        (
            "'invite', 'ada@example.test', idempotency_key => 'second'",
            SqlState::INVALID_PARAMETER_VALUE,
        ),
        ("'invite', 'ada@example.test'", SqlState::INVALID_PARAMETER_VALUE),
    ] {
        assert_eq!(refused(&client, &format!("SELECT mailroom.enqueue({call})")).await?.0, code);
    }
    assert_eq!(count(&client, "mailroom.issued_tokens").await?, 1);
    Ok(())
}
