//! What `enqueue` refuses: one error that says why and repeats nothing of what was given, and
//! nothing half done.

use anyhow::Result;
use tokio_postgres::error::SqlState;

use super::{count, enqueue, product, refused};

#[tokio::test]
async fn bad_arguments_are_refused_with_one_error_and_leave_nothing() -> Result<()> {
    let (_database, client) = product().await?;
    client
        .batch_execute("UPDATE mailroom.actions SET is_retired = true WHERE name = 'notice'")
        .await?;
    let megabyte = "repeat('geheim', 200000)";
    for (arguments, said) in [
        ("'invitation', 'ada@example.test'", "there is no such action"),
        ("NULL, 'ada@example.test'", "there is no such action"),
        (&format!("{megabyte}, 'ada@example.test'"), "there is no such action"),
        ("'Invite', 'ada@example.test'", "there is no such action"),
        ("'notice', 'ada@example.test'", "the action is retired"),
        ("'invite', NULL", "recipient_email is not an address"),
        ("'invite', ''", "recipient_email is not an address"),
        ("'invite', 'geheim'", "recipient_email is not an address"),
        ("'invite', 'geheim@'", "recipient_email is not an address"),
        ("'invite', '@example.test'", "recipient_email is not an address"),
        ("'invite', 'geheim@a@b.test'", "recipient_email is not an address"),
        ("'invite', 'geheim@a.test, eve@b.test'", "recipient_email is not an address"),
        ("'invite', 'geheim@a.test,eve'", "recipient_email is not an address"),
        ("'invite', 'Ada <geheim@a.test>'", "recipient_email is not an address"),
        ("'invite', E'geheim@a.test\\nBcc: eve@b.test'", "recipient_email is not an address"),
        ("'invite', E'geheim@a.test\\n'", "recipient_email is not an address"),
        ("'invite', 'geheim@a.test.'", "recipient_email is not an address"),
        ("'invite', 'geheim@-a.test'", "recipient_email is not an address"),
        ("'invite', 'geheim@a..test'", "recipient_email is not an address"),
        ("'invite', 'geheim@[192.0.2.1]'", "recipient_email is not an address"),
        ("'invite', '\"geheim\"@a.test'", "recipient_email is not an address"),
        ("'invite', repeat('g', 65) || '@a.test'", "recipient_email is not an address"),
        ("'invite', 'geheim@' || repeat('g', 64) || '.test'", "recipient_email is not an address"),
        ("'invite', 'geheim' || chr(8203) || '@a.test'", "recipient_email is not an address"),
        ("'invite', 'geheimo' || chr(776) || '@a.test'", "recipient_email is not an address"),
        ("'invite', repeat('g', 250) || '@b.test'", "recipient_email is not an address"),
        (&format!("'invite', {megabyte}"), "recipient_email is not an address"),
        ("'invite', 'ada@example.test', E'geheim\\r\\nBcc: x'", "recipient_name has"),
        (&format!("'invite', 'ada@example.test', {megabyte}"), "recipient_name has"),
        ("'invite', 'ada@example.test', subject_id => ''", "subject_id is empty"),
        (
            &format!("'invite', 'ada@example.test', subject_id => {megabyte}"),
            "subject_id is empty or has more",
        ),
        (
            &format!("'invite', 'ada@example.test', payload => to_jsonb({megabyte})"),
            "payload has more than 8192",
        ),
        (
            "'invite', 'ada@example.test', \
             payload => (repeat('[', 101) || repeat(']', 101))::jsonb",
            "payload is nested more than 100",
        ),
        (
            "'invite', 'ada@example.test', \
             payload => (repeat('{\"a\":', 101) || 1 || repeat('}', 101))::jsonb",
            "payload is nested more than 100",
        ),
        (
            "'invite', 'ada@example.test', payload => '{\"geheim\": [-1e308]}'",
            "payload has a number of 1e308 or more",
        ),
        (
            "'invite', 'ada@example.test', payload => '1e400'",
            "payload has a number of 1e308 or more",
        ),
        (
            "'invite', 'ada@example.test', deliver_at => now() + interval '367 days'",
            "deliver_at is more than a year",
        ),
        (
            "'invite', 'ada@example.test', deliver_at => 'infinity'",
            "deliver_at is more than a year",
        ),
        ("'invite', 'ada@example.test', idempotency_key => ''", "idempotency_key is empty"),
        (
            &format!("'invite', 'ada@example.test', idempotency_key => {megabyte}"),
            "idempotency_key is empty or has",
        ),
    ] {
        let (code, message) =
            refused(&client, &format!("SELECT mailroom.enqueue({arguments})")).await?;
        assert_eq!(code, SqlState::INVALID_PARAMETER_VALUE, "{arguments}: {message}");
        assert!(
            message.starts_with(&format!("mailroom.enqueue(): {said}")),
            "{arguments}: {message}"
        );
        assert!(message.len() < 200 && !message.contains("geheim"), "{arguments}: {message}");
    }
    for table in ["issued_tokens", "queue", "payloads", "idempotency_keys"] {
        assert_eq!(count(&client, &format!("mailroom.{table}")).await?, 0, "{table}");
    }
    Ok(())
}

#[tokio::test]
async fn the_longest_arguments_are_taken() -> Result<()> {
    let (_database, client) = product().await?;
    let arguments = "'sign_in',
        repeat('ü', 32) || '@'
            || repeat('b', 63) || '.' || repeat('b', 63) || '.' || repeat('b', 61),
        repeat('ü', 127),
        repeat('ü', 127) || 'x',
        to_jsonb(repeat('x', 8190)),
        'zh-Hant-TW-x1234567',
        now() + interval '1 year',
        repeat('k', 255)";
    enqueue(&client, arguments).await?;
    // What only looks like too many levels, or too large a number, is text.
    for payload in [
        "(repeat('[', 100) || repeat(']', 100))::jsonb",
        "(repeat('{\"[\":', 100) || 1 || repeat('}', 100))::jsonb",
        "to_jsonb(repeat('[', 500) || repeat('7', 500))",
        "('[' || repeat('9', 308) || ']')::jsonb",
        "('[0.' || repeat('0', 400) || '1]')::jsonb",
    ] {
        enqueue(&client, &format!("'invite', 'ada@example.test', payload => {payload}")).await?;
    }
    assert_eq!(count(&client, "mailroom.queue").await?, 6);
    Ok(())
}

#[tokio::test]
async fn a_role_that_may_not_is_refused_and_one_that_may_needs_no_table() -> Result<()> {
    let (database, client) = product().await?;
    let role = format!("{}_product", database.name());
    let application = database.connect().await?;
    client.batch_execute(&format!("CREATE ROLE {role}")).await?;
    application.batch_execute(&format!("SET ROLE {role}")).await?;
    let calls = [
        "enqueue('invite', 'ada@example.test', idempotency_key => 'k')",
        "cancel(1)",
        "cancel_subject('1')",
        "recheck('1')",
        "redeem('', 'invite')",
        "renew_link('', 'nothing')",
        "withdraw('{1}', 'x')",
        "generate_secret()",
        "next_token_id()",
        "ask_eligibility('x', '{1}')",
    ];
    for call in calls {
        let (code, message) = refused(&application, &format!("SELECT mailroom.{call}")).await?;
        assert_eq!(code, SqlState::INSUFFICIENT_PRIVILEGE, "{call}: {message}");
    }
    assert_eq!(count(&client, "mailroom.queue").await?, 0);
    client
        .batch_execute(&format!(
            "GRANT EXECUTE ON FUNCTION mailroom.enqueue, mailroom.cancel,
                mailroom.cancel_subject, mailroom.recheck,
                mailroom.redeem, mailroom.renew_link TO {role}"
        ))
        .await?;
    for call in &calls[..6] {
        application.batch_execute(&format!("SELECT mailroom.{call}")).await?;
    }
    for table in [
        "queue",
        "leases",
        "dead_letters",
        "issued_tokens",
        "payloads",
        "idempotency_keys",
        "actions",
    ] {
        let (code, _) = refused(&application, &format!("SELECT FROM mailroom.{table}")).await?;
        assert_eq!(code, SqlState::INSUFFICIENT_PRIVILEGE, "{table}");
    }
    drop(application);
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    Ok(())
}
