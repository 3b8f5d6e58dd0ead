//! Actions are rows of a table.

use std::time::Duration;

use anyhow::Result;
use mailroom::queue::Queue;
use mailroom_tests::fixtures::Fixtures;
use mailroom_verifier_core::Version;
use tokio::time::sleep;
use tokio_postgres::error::SqlState;

use super::{count, ids, number, product, queue, redeem, refused, send, state};

const ACTION: &str = "INSERT INTO mailroom.actions (number, name, path, code_digits) VALUES";

#[tokio::test]
async fn what_a_link_carries_of_an_action_can_be_changed_until_it_has_tokens() -> Result<()> {
    let (_database, client) = product().await?;
    client.batch_execute(&format!("{ACTION} (100, 'vote', '/poll', 0)")).await?;
    client
        .batch_execute(
            "UPDATE mailroom.actions SET number = 101, name = 'poll', path = '/vote', \
             code_digits = 6 WHERE number = 100",
        )
        .await?;
    client.mail("poll").enqueue().await?;
    for change in [
        "number = 102",
        "name = 'vote'",
        "path = '/poll'",
        "path = NULL, code_digits = 0",
        "code_digits = 5",
    ] {
        let (code, message) =
            refused(&client, &format!("UPDATE mailroom.actions SET {change} WHERE number = 101"))
                .await?;
        assert_eq!(code, SqlState::INTEGRITY_CONSTRAINT_VIOLATION, "{change}");
        assert_eq!(
            message,
            "number, name, path and code_digits of the action poll cannot be changed: it has tokens"
        );
    }
    let (code, message) =
        refused(&client, "DELETE FROM mailroom.actions WHERE number = 101").await?;
    assert_eq!(code, SqlState::INTEGRITY_CONSTRAINT_VIOLATION);
    assert_eq!(message, "the action poll cannot be deleted: it has tokens");
    client
        .batch_execute(
            "UPDATE mailroom.actions SET lifetime = '2 days', priority = 0, is_retired = true \
             WHERE number = 101",
        )
        .await?;
    Ok(())
}

#[tokio::test]
async fn an_action_whose_idempotency_keys_are_kept_gives_its_number_to_no_other() -> Result<()> {
    let (_database, client) = product().await?;
    client.batch_execute(&format!("{ACTION} (100, 'vote', '/vote', 0)")).await?;
    client.mail("vote").key("ada").enqueue().await?;
    // As pruning leaves it two days after the token's expiry.
    client.batch_execute("DELETE FROM mailroom.queue; DELETE FROM mailroom.issued_tokens").await?;
    for change in [
        "UPDATE mailroom.actions SET name = 'poll' WHERE number = 100",
        "DELETE FROM mailroom.actions WHERE number = 100",
    ] {
        let (_, message) = refused(&client, change).await?;
        assert!(message.ends_with("its idempotency keys are not forgotten yet"), "{message}");
    }
    client.batch_execute("DELETE FROM mailroom.idempotency_keys").await?;
    client.batch_execute("UPDATE mailroom.actions SET name = 'poll' WHERE number = 100").await?;
    Ok(())
}

#[tokio::test]
async fn an_action_without_tokens_can_be_deleted_unless_it_is_one_of_mailrooms_own() -> Result<()> {
    let (_database, client) = product().await?;
    for change in [
        "DELETE FROM mailroom.actions WHERE number = 1",
        "UPDATE mailroom.actions SET number = 100 WHERE number = 2",
        "UPDATE mailroom.actions SET path = '/confirm' WHERE number = 1",
        "TRUNCATE mailroom.actions",
        "TRUNCATE mailroom.actions CASCADE",
        "BEGIN ISOLATION LEVEL REPEATABLE READ; DELETE FROM mailroom.actions WHERE number = 6",
        "ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE; \
         UPDATE mailroom.actions SET number = 100 WHERE number = 6",
    ] {
        let (code, message) = refused(&client, change).await?;
        assert_eq!(code, SqlState::INTEGRITY_CONSTRAINT_VIOLATION, "{change}: {message}");
    }
    let unnamed = "ROLLBACK; UPDATE mailroom.actions SET notice = NULL, code_notice = NULL";
    client.batch_execute(unnamed).await?;
    client.batch_execute("DELETE FROM mailroom.actions WHERE number = 6").await?;
    assert_eq!(count(&client, "mailroom.actions").await?, 5);
    Ok(())
}

#[tokio::test]
async fn a_change_of_an_action_waits_for_a_token_that_is_being_made_and_is_refused() -> Result<()> {
    for change in [
        "DELETE FROM mailroom.actions",
        "UPDATE mailroom.actions SET number = 100",
        "UPDATE mailroom.actions SET code_digits = 8",
    ] {
        let (database, mut client) = product().await?;
        let operator = database.connect().await?;
        let change = format!("{change} WHERE name = 'invite'");
        let mut code = SqlState::LOCK_NOT_AVAILABLE;
        // Again where a busy machine commits more than a second later.
        for _ in 0..10 {
            let making = client.transaction().await?;
            making.mail("invite").enqueue().await?;
            // Writers queue behind whoever waits for the lock, so it waits for a second and no
            // longer.
            let (given_up, message) = refused(&operator, &change).await?;
            assert_eq!(given_up, SqlState::LOCK_NOT_AVAILABLE, "{change}");
            assert!(
                message.contains("has read mailroom.actions for longer than a second"),
                "{message}"
            );
            let (changed, committed) = tokio::join!(refused(&operator, &change), async {
                sleep(Duration::from_millis(100)).await;
                making.commit().await
            });
            committed?;
            code = changed?.0;
            if code != SqlState::LOCK_NOT_AVAILABLE {
                break;
            }
        }
        assert_eq!(code, SqlState::INTEGRITY_CONSTRAINT_VIOLATION, "{change}");
    }
    Ok(())
}

#[tokio::test]
async fn a_token_that_is_being_made_waits_for_a_change_of_its_action_and_is_refused() -> Result<()>
{
    for change in ["DELETE FROM mailroom.actions", "UPDATE mailroom.actions SET name = 'note'"] {
        let (database, mut client) = product().await?;
        let application = database.connect().await?;
        let unnamed = "UPDATE mailroom.actions SET notice = NULL, code_notice = NULL";
        client.batch_execute(unnamed).await?;
        let changing = client.transaction().await?;
        changing.execute(&format!("{change} WHERE number = 6"), &[]).await?;
        let enqueue = "SELECT mailroom.enqueue('notice', 'ada@example.test')";
        let (enqueued, committed) = tokio::join!(refused(&application, enqueue), async {
            sleep(Duration::from_millis(300)).await;
            changing.commit().await
        });
        committed?;
        assert_eq!(enqueued?.0, SqlState::INVALID_PARAMETER_VALUE, "{change}");
        assert_eq!(count(&application, "mailroom.issued_tokens").await?, 0);
    }
    Ok(())
}

#[tokio::test]
async fn a_token_that_is_being_made_waits_for_new_digits_of_its_action_and_has_as_many()
-> Result<()> {
    let (database, mut client) = product().await?;
    let application = database.connect().await?;
    let changing = client.transaction().await?;
    changing
        .execute("UPDATE mailroom.actions SET code_digits = 8 WHERE name = 'invite'", &[])
        .await?;
    let (enqueued, committed) = tokio::join!(application.mail("invite").enqueue(), async {
        sleep(Duration::from_millis(300)).await;
        changing.commit().await
    });
    committed?;
    enqueued?;
    assert_eq!(count(&application, "mailroom.queue WHERE length(code) = 8").await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_action_that_no_token_can_carry_is_refused() -> Result<()> {
    let (_database, client) = product().await?;
    let long = "x".repeat(256);
    for values in [
        "0, 'a', '/a', 0",
        "128, 'a', '/a', 0",
        "3, 'a', '/a', 0",
        "-1, 'a', '/a', 0",
        "NULL, 'a', '/a', 0",
        "100, 'invite', '/a', 0",
        "100, 'a', '/invite', 0",
        "100, 'A', '/a', 0",
        "100, '', '/a', 0",
        "100, 'a b', '/a', 0",
        "100, E'a\\n', '/a', 0",
        "100, 'a', 'a', 0",
        "100, 'a', '/', 0",
        "100, 'a', '', 0",
        "100, 'a', '/a/', 0",
        "100, 'a', '//a', 0",
        "100, 'a', '/a?b', 0",
        "100, 'a', E'/a\\n', 0",
        "100, 'a', '/ä', 0",
        "100, 'a', '/a', 4",
        "100, 'a', '/a', 9",
        "100, 'a', '/a', -1",
        "100, 'a', NULL, 6",
        &format!("100, 'a', '/{long}', 0"),
        &format!("100, '{long}', '/a', 0"),
    ] {
        refused(&client, &format!("{ACTION} ({values})")).await?;
    }
    for setting in [
        "lifetime = '59 seconds'",
        "lifetime = '367 days'",
        "cooldown = '-1 second'",
        "priority = 2",
    ] {
        refused(&client, &format!("UPDATE mailroom.actions SET {setting}")).await?;
    }
    assert_eq!(count(&client, "mailroom.actions").await?, 6);
    Ok(())
}

#[tokio::test]
async fn tokens_of_a_retired_action_are_sent_and_used() -> Result<()> {
    let (database, client) = product().await?;
    let token = client.mail("invite").enqueue().await?;
    client
        .batch_execute("UPDATE mailroom.actions SET is_retired = true WHERE name = 'invite'")
        .await?;
    let sent = send(&mut queue(&database, Version::V2).await?).await?;
    assert_eq!(ids(&sent), [token]);
    assert_eq!(redeem(&client, &sent[0], "invite", None).await?, "ok");
    Ok(())
}

#[tokio::test]
async fn each_action_is_redeemed_by_its_link_and_its_code_and_a_notice_has_neither() -> Result<()> {
    let (database, client) = product().await?;
    let mut collector = queue(&database, Version::V2).await?;
    for (action, digits) in
        [("activate", 0), ("recover", 5), ("change_email", 0), ("invite", 0), ("sign_in", 6)]
    {
        let made = client.mail(action).subject("7").enqueue().await?;
        // Beside it, in any order, the notice of the recovery before.
        let mut sent = send(&mut collector).await?;
        sent.retain(|token| token.id == made);
        let token = sent.remove(0);
        let code = token.code.clone().map(String::from_utf8).transpose()?;
        assert_eq!(code.as_ref().map_or(0, String::len), digits, "{action}");
        assert!(code.iter().all(|code| code.bytes().all(|digit| digit.is_ascii_digit())));
        for other in ["activate", "recover", "invite", "notice", "nothing", ""] {
            if other != action {
                assert_eq!(
                    redeem(&client, &token, other, code.as_deref()).await?,
                    "unknown",
                    "{action} as {other}"
                );
            }
        }
        let wrong = if digits == 0 { Some("123456") } else { None };
        assert_eq!(redeem(&client, &token, action, wrong).await?, "wrong_code", "{action}");
        assert_eq!(redeem(&client, &token, action, code.as_deref()).await?, "ok", "{action}");
        assert_eq!(redeem(&client, &token, action, code.as_deref()).await?, "used", "{action}");
    }
    client.mail("notice").enqueue().await?;
    let notice = send(&mut collector).await?.remove(0);
    assert_eq!(redeem(&client, &notice, "notice", None).await?, "unknown");
    Ok(())
}

#[tokio::test]
async fn codes_are_spread_over_all_their_digits() -> Result<()> {
    let (_database, client) = product().await?;
    for digits in 5..=8 {
        let codes = format!(
            "SELECT count(DISTINCT mailroom.generate_code({digits})) FROM generate_series(1, 200)"
        );
        assert!(number(&client, &codes).await? > 190, "{digits}");
        let sound = format!(
            "SELECT count(*) FROM generate_series(1, 200), \
             mailroom.generate_code({digits}) AS code WHERE code ~ '^[0-9]{{{digits}}}$'"
        );
        assert_eq!(number(&client, &sound).await?, 200, "{digits}");
    }
    Ok(())
}

#[tokio::test]
async fn a_key_of_v1_leaves_further_actions_to_others_and_sends_the_first_two() -> Result<()> {
    let (database, client) = product().await?;
    let (invite, notice) =
        (client.mail("invite").enqueue().await?, client.mail("notice").enqueue().await?);
    let activate = client.mail("activate").enqueue().await?;
    let mut v1 = queue(&database, Version::V1).await?;
    assert_eq!(ids(&send(&mut v1).await?), [activate]);
    for token in [invite, notice] {
        assert_eq!(state(&client, token).await?, "deferred");
    }
    client.batch_execute("UPDATE mailroom.queue SET due_at = now()").await?;
    assert_eq!(v1.peek(10).await?.due, 2);
    let mut sent = ids(&send(&mut queue(&database, Version::V3).await?).await?);
    sent.sort_unstable();
    assert_eq!(sent, [invite, notice]);
    Ok(())
}

#[tokio::test]
async fn no_column_has_a_type_that_keeps_pg_upgrade_from_upgrading() -> Result<()> {
    let (_database, client) = product().await?;
    // The list of its check "reg* data types in user tables".
    let columns = "pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'mailroom'::regnamespace
            AND atttypid = ANY ('{regcollation,regconfig,regdictionary,regnamespace,
                regoper,regoperator,regproc,regprocedure}'::regtype[])";
    assert_eq!(count(&client, columns).await?, 0);
    assert_eq!(
        count(&client, "pg_class WHERE relnamespace = 'mailroom'::regnamespace AND relkind = 'r'")
            .await?,
        19
    );
    Ok(())
}
