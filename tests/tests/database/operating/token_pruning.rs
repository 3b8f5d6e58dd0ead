//! Tokens that expired long ago are deleted, in steps.

use anyhow::Result;
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::plan::{blocks, rows_read};
use mailroom_tests::postgres::Database;

use super::{count, give_up, run};

#[tokio::test]
async fn tokens_that_expired_long_ago_go_and_all_others_stay() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    // Used ones, unused ones, and such as live for a year;
    // every fourth still waits for a collector.
    client.accounts(numbered("", 1..=100)).active().insert().await?;
    client
        .batch_execute(
            "INSERT INTO tokens (account, action, created_at, expires_at)
                SELECT 1, 'password_recovery', 1, 32503680000 FROM generate_series(1, 10500);
            INSERT INTO tokens (account, action, created_at, expires_at, consumed_at)
                SELECT 1 + n % 100, 'password_recovery', 1, CASE WHEN n % 10 = 0 THEN 32503680000
                    ELSE 900 END,
                    CASE WHEN n % 3 = 0 THEN 2 END
                FROM generate_series(1, 4000) n;
            INSERT INTO tokens (account, action) SELECT id, 'password_recovery' FROM accounts;
            DELETE FROM mailroom.queue WHERE token % 4 <> 0",
        )
        .await?;
    let stays = "tokens WHERE expires_at > 900 OR id % 4 = 0";
    let kept = count(&client, stays).await?;
    let gone = count(&client, "tokens").await? - kept;
    let said = run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(
        said,
        format!(
            "pruned 0 delivery attempts, 0 dead letters and {gone} expired tokens; older than 30d, \
             the tokens expired for longer than 2d\n"
        )
    );
    assert_eq!((count(&client, "tokens").await?, count(&client, stays).await?), (kept, kept));
    Ok(())
}

#[tokio::test]
async fn what_others_have_locked_is_left_for_the_next_time() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    client.account("a").insert().await?;
    client
        .batch_execute(
            "INSERT INTO tokens (account, action, expires_at) SELECT 1, 'activation', 900
                FROM generate_series(1, 3);
            DELETE FROM mailroom.queue",
        )
        .await?;
    application.batch_execute("BEGIN; SELECT FROM tokens WHERE id = 2 FOR UPDATE").await?;
    run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(count(&client, "tokens").await?, 2);
    application.batch_execute("COMMIT").await?;
    run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(count(&client, "tokens").await?, 1);
    Ok(())
}

#[tokio::test]
async fn nothing_younger_than_a_day_is_pruned() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let error = client
        .query("SELECT * FROM mailroom.prune_tokens(now() - interval '23 hours', 0, 10)", &[])
        .await;
    assert_eq!(
        error.err().and_then(|error| error.code().cloned()),
        Some(tokio_postgres::error::SqlState::INVALID_PARAMETER_VALUE)
    );
    Ok(())
}

/// A million seconds ago; tokens are kept for two days.
const LONG_AGO: &str = "floor(extract(epoch FROM now()))::bigint - 1000000";

#[tokio::test]
async fn tokens_go_two_days_after_their_expiry_and_the_log_stays() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    mailroom_tests::rows::register(&client, 1..=3).await?;
    client
        .batch_execute(
            "DELETE FROM mailroom.queue;
            ALTER TABLE tokens DISABLE TRIGGER USER;
            UPDATE tokens SET expires_at = extract(epoch
                FROM now() - interval '1 hour' * (id * 24 - 1));
            ALTER TABLE tokens ENABLE TRIGGER USER;
            UPDATE mailroom.issued_tokens SET expires_at = tokens.expires_at FROM tokens
                WHERE tokens.id = issued_tokens.id;
            INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
                VALUES ('{1}', now() - interval '20 days', 1, 'sent')",
        )
        .await?;
    let said = run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(
        said,
        "pruned 0 delivery attempts, 0 dead letters and 1 expired token; older than 30d, the \
         tokens expired for longer than 2d\n"
    );
    let said = run(&database, &["prune", "--older-than", "30d", "--tokens-expired-for", "24h"])?
        .success()?;
    assert!(
        said.starts_with("pruned 0 delivery attempts, 0 dead letters and 1 expired token;"),
        "{said}"
    );
    assert_eq!(count(&client, "mailroom.issued_tokens").await?, 1);
    let said = run(&database, &["prune", "--older-than", "19d", "--tokens-expired-for", "90d"])?
        .success()?;
    assert!(
        said.starts_with("pruned 1 delivery attempt, 0 dead letters and 0 expired tokens;"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn what_is_leased_or_can_be_put_back_keeps_its_token() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 1).await?;
    mailroom_tests::rows::register(&client, 2..=4).await?;
    client
        .batch_execute(&format!(
            "SELECT * FROM mailroom.claim(
                7, ARRAY[gen_random_uuid()], 1, true, 1, 0, now() - interval '1 hour', NULL,
                    90000, 30,
                '{{1,2}}'::smallint[], true
            );
            DELETE FROM mailroom.queue WHERE token = (SELECT max(token) FROM mailroom.queue);
            ALTER TABLE tokens DISABLE TRIGGER USER;
            UPDATE tokens SET expires_at = {LONG_AGO}, created_at = {LONG_AGO};
            UPDATE mailroom.issued_tokens SET expires_at = {LONG_AGO}, created_at = {LONG_AGO}"
        ))
        .await?;
    for rows in ["mailroom.dead_letters", "mailroom.leases", "mailroom.queue"] {
        assert_eq!(count(&client, rows).await?, 1, "{rows}");
    }
    // Of accounts, and of Mailroom alone.
    for table in ["tokens", "mailroom.issued_tokens"] {
        run(&database, &["prune", "--older-than", "30d"])?.success()?;
        assert_eq!(count(&client, table).await?, 3);
        client.batch_execute("ALTER TABLE tokens DISABLE TRIGGER USER; DELETE FROM tokens").await?;
    }
    client
        .batch_execute(
            "DELETE FROM mailroom.dead_letters; DELETE FROM mailroom.leases; DELETE FROM \
             mailroom.queue",
        )
        .await?;
    run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(count(&client, "mailroom.issued_tokens").await?, 0);
    Ok(())
}

#[tokio::test]
async fn what_a_request_counts_is_not_pruned_however_long_its_period_is() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.account("a").active().insert().await?;
    client
        .batch_execute(
            "SELECT mailroom.request('a', 'recover', per => '20 days', at_most => 1);
            SELECT mailroom.request('a', 'sign_in', per => '10 days', at_most => 1)",
        )
        .await?;
    let age = |days: i32| {
        format!(
            "DELETE FROM mailroom.queue;
            ALTER TABLE tokens DISABLE TRIGGER USER;
            UPDATE tokens SET expires_at = extract(epoch FROM now() - interval '{days} days'),
                created_at = extract(epoch FROM now() - interval '{days} days');
            ALTER TABLE tokens ENABLE TRIGGER USER;
            UPDATE mailroom.issued_tokens SET expires_at = extract(epoch
                FROM now() - interval '{days} days'),
                created_at = extract(epoch FROM now() - interval '{days} days')"
        )
    };
    // A notice is counted by nobody.
    client.mail("notice").to("a@example.test").enqueue().await?;
    client.batch_execute(&age(19)).await?;
    run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(count(&client, "mailroom.issued_tokens").await?, 2);
    client
        .batch_execute("SELECT mailroom.request('a', 'recover', per => '20 days', at_most => 1)")
        .await?;
    assert_eq!(count(&client, "mailroom.queue").await?, 0, "the limit holds");
    client.batch_execute(&age(21)).await?;
    run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(
        (count(&client, "mailroom.issued_tokens").await?, count(&client, "tokens").await?),
        (0, 0)
    );
    client
        .batch_execute("SELECT mailroom.request('a', 'recover', per => '20 days', at_most => 1)")
        .await?;
    assert_eq!(count(&client, "mailroom.queue").await?, 1);
    Ok(())
}

#[tokio::test]
async fn pruning_reads_hardly_more_tokens_than_it_deletes() -> Result<()> {
    const EXPIRED: i64 = 60_000;
    let database = Database::create()?.migrate_with(&["--without-accounts"])?;
    let client = database.connect().await?;
    // Tokens of a quarter of an hour over twenty days, of which those of the last two days stay;
    // every hundredth lives on.
    client
        .batch_execute(&format!(
            "INSERT INTO mailroom.issued_tokens (id, action, recipient_email, consumed_id,
            created_at, expires_at)
            SELECT id, 4, 'a@example.test', sha256(int8send(id)), made, made + CASE id % 100 WHEN
                0 THEN 31536000 ELSE 900 END
            FROM generate_series(1::bigint, {EXPIRED}) AS id,
                LATERAL (SELECT extract(epoch FROM now() - interval '20 days' * (1 - id /
                    {EXPIRED}.0))::bigint AS made) AS at;
            INSERT INTO mailroom.queue (token, due_at, priority, secret)
            SELECT id, now() + interval '1 hour', 1, ''
                FROM generate_series(100::bigint, {EXPIRED}, 100) AS id;
            INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
            SELECT ARRAY[id], now(), 1, 'sent' FROM generate_series(1::bigint, {EXPIRED}) AS id;
            ANALYZE"
        ))
        .await?;
    let two_days: String =
        client.query_one("SELECT (now() - interval '2 days')::text", &[]).await?.get(0);
    client.batch_execute("BEGIN").await?;
    let before = rows_read(&client).await?;
    let mut after = 0_i64;
    let (mut steps, mut pruned) = (0, 0);
    loop {
        let step = format!(
            "SELECT pruned, through_id FROM mailroom.prune_tokens('{two_days}', {after}, 10000)"
        );
        let row = client.query_one(&step, &[]).await?;
        pruned += row.get::<_, i64>(0);
        steps += 1;
        let Some(through) = row.get(1) else { break };
        after = through;
    }
    let read = rows_read(&client).await? - before;
    client.batch_execute("COMMIT; BEGIN").await?;
    assert!((53_000..54_000).contains(&pruned), "{pruned} tokens are pruned");
    // Each is seen when a step is measured out, found to be old, and deleted, with a look for it in
    // each other place.
    assert!(read < 8 * pruned, "{read} rows are read and {pruned} deleted in {steps} steps");
    // Where nothing is old nothing is read but what lives on, and the first step that has none.
    let before = rows_read(&client).await?;
    let again = format!(
        "SELECT pruned, through_id IS NULL FROM mailroom.prune_tokens('{two_days}', 0, 10000)"
    );
    let row = client.query_one(&again, &[]).await?;
    assert_eq!((row.get::<_, i64>(0), row.get::<_, bool>(1)), (0, true));
    let read = rows_read(&client).await? - before;
    client.batch_execute("COMMIT").await?;
    assert!(read < 30_000, "{read} rows are read and none is deleted");
    let touched = blocks(&client, &again).await?;
    assert!(touched < 30_000, "{touched} blocks");
    Ok(())
}

#[tokio::test]
async fn a_run_ends_when_all_else_that_is_over_is_gone_too() -> Result<()> {
    let database = Database::create()?.migrate_with(&["--without-accounts"])?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "INSERT INTO mailroom.browser_codes
            SELECT substring(sha256(int8send(id)) FOR 16), '12345', 0, 1
                FROM generate_series(1::bigint, 25000) AS id;
            INSERT INTO mailroom.idempotency_keys
            SELECT 4, id::text, id, '', 1 FROM generate_series(1, 35000) AS id",
        )
        .await?;
    run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(count(&client, "mailroom.browser_codes").await?, 0);
    assert_eq!(count(&client, "mailroom.idempotency_keys").await?, 0);
    Ok(())
}
