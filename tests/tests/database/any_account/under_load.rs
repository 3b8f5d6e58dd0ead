//! What many callers at once, or many rows, must not cost.

use anyhow::Result;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::plan::{blocks, rows_read};
use mailroom_verifier_core::Version;
use tokio_postgres::error::SqlState;

use super::{count, ids, number, product, queue, refused, send, state};

/// More pages than any index search touches, and far fewer than the tables of these tests have.
const FEW_BLOCKS: i64 = 300;

#[tokio::test]
async fn enqueueing_locks_no_row_of_an_action_and_so_makes_no_multixact() -> Result<()> {
    let (database, mut client) = product().await?;
    let mut other = database.connect().await?;
    let operator = database.connect().await?;
    let (first, second) = (client.transaction().await?, other.transaction().await?);
    for application in [&first, &second] {
        application.mail("invite").enqueue().await?;
    }
    assert_eq!(number(&operator, "SELECT max(xmax::text::bigint) FROM mailroom.actions").await?, 0);
    // What is in no link can be changed meanwhile: an action can be stopped under load.
    let stop =
        "UPDATE mailroom.actions SET is_retired = true, lifetime = '1 day' WHERE name = 'invite'";
    operator.batch_execute(&format!("SET lock_timeout = '1ms'; {stop}")).await?;
    second.commit().await?;
    let (_, message) =
        refused(&operator, "SELECT mailroom.enqueue('invite', 'ada@example.test')").await?;
    assert!(message.ends_with("the action is retired"), "{message}");
    first.commit().await?;
    Ok(())
}

#[tokio::test]
async fn an_old_snapshot_makes_no_token_of_an_action_that_has_changed_since() -> Result<()> {
    for change in [
        "UPDATE mailroom.actions SET path = '/other' WHERE name = 'invite'",
        "DELETE FROM mailroom.actions WHERE name = 'invite'",
    ] {
        for level in ["REPEATABLE READ", "SERIALIZABLE"] {
            let (database, client) = product().await?;
            let operator = database.connect().await?;
            client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1")).await?;
            assert_eq!(count(&client, "mailroom.queue").await?, 0);
            operator.batch_execute(change).await?;
            let (code, _) =
                refused(&client, "SELECT mailroom.enqueue('invite', 'a@example.test')").await?;
            assert_eq!(code, SqlState::T_R_SERIALIZATION_FAILURE, "{level}: {change}");
            client.batch_execute("ROLLBACK").await?;
            // What changes nothing that a link carries is no reason to fail.
            operator.batch_execute("UPDATE mailroom.actions SET lifetime = '1 day'").await?;
            client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).await?;
            client.mail("notice").enqueue().await?;
            client.batch_execute("COMMIT").await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn no_function_that_forbids_sequential_scans_is_compiled_by_jit() -> Result<()> {
    // A forbidden scan has a cost of 10^10, which is above every threshold of JIT,
    // up to PostgreSQL 17.
    let database =
        mailroom_tests::postgres::Database::create()?.migrate_with(&["--drop-secrets"])?;
    let client = database.connect().await?;
    let compiled = "SELECT coalesce(string_agg(proname, ' '), '') FROM pg_proc
        WHERE 'enable_seqscan=off' = ANY (proconfig) AND NOT 'jit=off' = ANY (proconfig)";
    assert_eq!(client.query_one(compiled, &[]).await?.get::<_, &str>(0), "");
    let forbidding = "pg_proc WHERE 'enable_seqscan=off' = ANY (proconfig)";
    assert!(count(&client, forbidding).await? > 20);

    // What adds up costs over whole tables passes the thresholds, too. The others look rows up by
    // their keys, at each mail: a setting more would cost more than it could save.
    let compiled = "SELECT string_agg(DISTINCT proname, ' ' ORDER BY proname) FROM pg_proc
        WHERE pronamespace = 'mailroom'::regnamespace AND prosecdef
            AND NOT 'jit=off' = ANY (coalesce(proconfig, '{}')) AND proname NOT LIKE 'trg%'";
    let compiled = client.query_one(compiled, &[]).await?;
    assert_eq!(compiled.get::<_, &str>(0), "enqueue list_actions measure_rate redeem");
    Ok(())
}

#[tokio::test]
async fn a_subject_that_a_predicate_fails_for_keeps_nobody_else_waiting() -> Result<()> {
    let (database, client) = product().await?;
    client
        .batch_execute(
            "CREATE TABLE people (id integer PRIMARY KEY, email text NOT NULL);
            CREATE FUNCTION known(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text, email text, name text)
            LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
            AS $$ SELECT id::text, email, NULL FROM public.people
                WHERE id = ANY (subject_ids::integer[]) $$;
            INSERT INTO people SELECT id, id || '@example.test' FROM generate_series(1, 20) AS id;
            UPDATE mailroom.actions SET eligibility = 'public.known(text[], boolean)'
                WHERE name = 'sign_in'",
        )
        .await?;
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for id in 1..=20 {
        let known = client.mail("sign_in").to(format!("{id}@example.test")).subject(id);
        good.push(known.enqueue().await?);
        if id % 7 == 0 {
            let team = client.mail("sign_in").to("team@example.test");
            bad.push(team.subject(format!("team {id}")).enqueue().await?);
        }
    }
    let mut collector = queue(&database, Version::V2).await?;
    let mut sent = ids(&send(&mut collector).await?);
    sent.sort_unstable();
    assert_eq!(sent, good);
    for token in bad {
        assert_eq!(state(&client, token).await?, "deferred");
    }
    Ok(())
}

#[tokio::test]
async fn a_predicate_that_fails_for_everybody_is_asked_once() -> Result<()> {
    let (database, client) = product().await?;
    client
        .batch_execute(
            "CREATE SEQUENCE calls;
            CREATE FUNCTION gone(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text, email text, name text)
            LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
            BEGIN
                PERFORM nextval('public.calls');
                RETURN QUERY SELECT id, email, NULL FROM public.people;
            END;
            $$;
            UPDATE mailroom.actions SET eligibility = 'public.gone(text[], boolean)'
                WHERE name = 'sign_in'",
        )
        .await?;
    for id in 1..=40 {
        client.mail("sign_in").to(format!("{id}@example.test")).subject(id).enqueue().await?;
    }
    client.mail("notice").enqueue().await?;
    let mut collector = queue(&database, Version::V2).await?;
    assert_eq!(send(&mut collector).await?.len(), 1);
    // Once a statement that asks: not for each half of the subjects.
    assert!(number(&client, "SELECT last_value FROM calls").await? <= 4);
    Ok(())
}

#[tokio::test]
async fn calls_for_one_token_never_read_whole_tables_even_after_plans_for_empty_ones() -> Result<()>
{
    after_plans_for_empty_tables(true).await?;
    // A table without rows has no order that costs more than another.
    after_plans_for_empty_tables(false).await
}

async fn after_plans_for_empty_tables(is_analyzed: bool) -> Result<()> {
    let (_database, client) = product().await?;
    let calls = [
        "cancel(#)",
        "cancel_subject('#')",
        "recheck('#')",
        "lift_suppression('#@example.test')",
        "retry(ARRAY[#]::bigint[])",
        "redeem(sha256(int8send(#::bigint + 10000)), 'invite')",
        // Of an action that proves the address, which locks the others of its subject.
        "redeem(sha256(int8send(#::bigint + 20000)), 'sign_in', '123456')",
        "browser_code(substring(sha256(int8send(#)) FOR 16))",
        "history(#)",
        // A key that was used before.
        "enqueue('notice', 'ada@example.test', idempotency_key => '#')",
        "prune_attempts(now() - interval '2 days', 0, 8)",
    ];
    let call =
        |call: &str, id: i64| format!("SELECT mailroom.{}", call.replace('#', &id.to_string()));
    // So that they are known to be empty.
    client.batch_execute("VACUUM").await?;
    if !is_analyzed {
        for name in calls {
            client.batch_execute(&call(name, 70_000)).await?;
        }
    }
    for name in calls.iter().cycle().take(8 * calls.len()) {
        client.batch_execute(&call(name, 70_000)).await?;
        // Of one that there is, too, so that everything is planned.
        let invited = client.mail("invite").enqueue().await?;
        client.batch_execute(&format!("SELECT mailroom.cancel({invited})")).await?;
        client.mail("sign_in").subject("one").enqueue().await?;
        client
            .batch_execute(
                "SELECT mailroom.redeem(secret, 'sign_in', '-') FROM mailroom.queue
                    WHERE code IS NOT NULL;
                SELECT mailroom.forget('one')",
            )
            .await?;
    }
    if is_analyzed {
        // Autovacuum may do that at this moment. It then says of the log that all tokens are alike.
        client.batch_execute("ANALYZE").await?;
    }
    client
        .batch_execute(
            "INSERT INTO mailroom.issued_tokens
                (id, action, subject_id, recipient_email, consumed_id, created_at, expires_at)
            SELECT id, CASE WHEN id < 85000 THEN 4 ELSE 5 END, id::text, id || '@example.test',
                mailroom.consumed_id(sha256(int8send(id))), 0, 9999999999
            FROM generate_series(1001::bigint, 100000) AS id;
            INSERT INTO mailroom.queue (token, due_at, priority, secret, deferrals)
            SELECT id, now(), 1, sha256(int8send(id)), 1
            FROM generate_series(1001::bigint, 100000) AS id;
            INSERT INTO mailroom.suppressions
            SELECT id || '@example.test', 'manual', NULL, NULL, now()
            FROM generate_series(1001, 100000) AS id;
            INSERT INTO mailroom.dead_letters
                (token, died_at, expires_at, attempts, failures, priority, secret, reason)
            SELECT id, now(), 9999999999, 1, 1, 1, sha256(int8send(id)), 'no such user'
            FROM generate_series(100001::bigint, 200000) AS id;
            INSERT INTO mailroom.payloads
            SELECT id, '{}' FROM generate_series(1001::bigint, 100000) AS id;
            INSERT INTO mailroom.code_attempts
            SELECT id, 1, 1, false FROM generate_series(1001, 100000) AS id;
            INSERT INTO mailroom.code_failures
            SELECT id::text, 1, 0, false FROM generate_series(1001, 100000) AS id;
            INSERT INTO mailroom.browser_codes
            SELECT substring(sha256(int8send(id)) FOR 16), '12345', 0, 9999999999
            FROM generate_series(1001::bigint, 100000) AS id
            ON CONFLICT DO NOTHING;
            INSERT INTO mailroom.idempotency_keys
                (action, key, token, digest, expires_at, subject_id)
            SELECT action, id::text, id, digest, expires_at, subject_id
            FROM mailroom.idempotency_keys, generate_series(1001::bigint, 100000) AS id
            ON CONFLICT DO NOTHING;
            INSERT INTO mailroom.receipts (token, attempt, accepted_at, action, provider, answer)
            SELECT id, 1, now(), 5, 'smtp', '' FROM generate_series(1001::bigint, 100000) AS id;
            INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
            SELECT ARRAY[id], now(), 1, 'sent' FROM generate_series(1001::bigint, 100000) AS id",
        )
        .await?;
    for name in calls {
        // The first call reads catalogues, too.
        client.batch_execute(&call(name, 70_000)).await?;
        let touched = blocks(&client, &call(name, 70_001)).await?;
        assert!(touched < FEW_BLOCKS, "{name} touches {touched} blocks, analyzed: {is_analyzed}");
    }
    Ok(())
}

#[tokio::test]
async fn a_step_of_pruning_reads_no_keys_and_browsers_that_are_still_good() -> Result<()> {
    let (_database, client) = product().await?;
    client
        .batch_execute(
            "INSERT INTO mailroom.idempotency_keys
            SELECT 4, id::text, id, '', 9999999999 FROM generate_series(1, 50000) AS id;
            INSERT INTO mailroom.browser_codes
            SELECT substring(sha256(int8send(id)) FOR 16), '12345', 0, 9999999999
            FROM generate_series(1::bigint, 50000) AS id;
            INSERT INTO mailroom.idempotency_keys SELECT 4, 'old ' || id, id, '', 1
                FROM generate_series(1, 5) AS id;
            ANALYZE",
        )
        .await?;
    let prune = "SELECT * FROM mailroom.prune_tokens(now() - interval '2 days', 0, 10000)";
    client.batch_execute(prune).await?;
    assert_eq!(count(&client, "mailroom.idempotency_keys").await?, 50_000);
    let touched = blocks(&client, prune).await?;
    assert!(touched < FEW_BLOCKS, "{touched} blocks");
    // A session that the changes of others have made forget its catalogues reads those again, and
    // no more of the tables.
    let elsewhere = mailroom_tests::postgres::Database::create()?;
    let churn = "DO $$ BEGIN FOR n IN 1..1000 LOOP
        EXECUTE 'CREATE TABLE churn (id integer PRIMARY KEY)'; DROP TABLE churn;
        END LOOP; END $$";
    elsewhere.connect().await?.batch_execute(churn).await?;
    let touched = blocks(&client, prune).await?;
    assert!(touched < FEW_BLOCKS, "{touched} blocks");
    Ok(())
}

/// Also where the tables are larger than the memory, as a planner with this setting takes them to
/// be: a bitmap would have all that are over.
#[tokio::test]
async fn a_step_of_pruning_reads_no_more_of_what_is_over_than_it_deletes() -> Result<()> {
    let (_database, client) = product().await?;
    client
        .batch_execute(
            "INSERT INTO mailroom.idempotency_keys
            SELECT 4, id::text, id, '', id * 7919 % 50000 FROM generate_series(1, 50000) AS id;
            INSERT INTO mailroom.browser_codes
            SELECT substring(sha256(int8send(id)) FOR 16), '12345', 0, id * 7919 % 50000
            FROM generate_series(1::bigint, 50000) AS id;
            INSERT INTO mailroom.code_failures
            SELECT id::text, 1, id * 7919 % 50000, false FROM generate_series(1, 50000) AS id;
            ANALYZE; SET effective_cache_size = '8kB'",
        )
        .await?;
    let entries = async || {
        client.batch_execute("SELECT pg_stat_force_next_flush()").await?;
        let read = "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
            WHERE indexrelname IN ('idempotency_keys_expires_at_idx',
                'browser_codes_expires_at_idx', 'code_failures_rests_until_idx')";
        anyhow::Ok(client.query_one(read, &[]).await?.get::<_, i64>(0))
    };
    let before = entries().await?;
    let prune = "SELECT * FROM mailroom.prune_tokens(now() - interval '2 days', 0, 100)";
    client.batch_execute(prune).await?;
    for table in ["idempotency_keys", "browser_codes", "code_failures"] {
        assert_eq!(count(&client, &format!("mailroom.{table}")).await?, 49_900, "{table}");
    }
    let read = entries().await? - before;
    assert!((300..1_000).contains(&read), "{read} entries are read to delete 300 rows");
    Ok(())
}

/// A fifth of the largest tables would be hundreds of millions of dead rows.
#[tokio::test]
async fn tables_with_rows_of_days_are_vacuumed_before_a_fifth_of_them_is_dead() -> Result<()> {
    let database = mailroom_tests::postgres::Database::migrated()?;
    let client = database.connect().await?;
    let late = "SELECT coalesce(string_agg(relname, ' ' ORDER BY relname), '')
        FROM pg_class
        WHERE relnamespace = 'mailroom'::regnamespace
            AND relname IN ('issued_tokens', 'idempotency_keys', 'delivery_log', 'receipts')
            AND NOT EXISTS (
                SELECT FROM pg_options_to_table(reloptions)
                WHERE option_name = 'autovacuum_vacuum_scale_factor'
                    AND option_value::float8 <= 0.05
            )";
    assert_eq!(client.query_one(late, &[]).await?.get::<_, &str>(0), "");
    Ok(())
}

#[tokio::test]
async fn each_table_that_has_rows_has_a_key_by_which_a_subscriber_finds_them() -> Result<()> {
    let database = mailroom_tests::postgres::Database::migrated()?;
    let client = database.connect().await?;
    let without_key = "SELECT coalesce(string_agg(relname, ' '), '') FROM pg_class
        WHERE relnamespace = 'mailroom'::regnamespace AND relkind = 'r' AND relnatts > 0
            AND (relreplident <> 'd' OR NOT EXISTS (SELECT FROM pg_index
                WHERE indrelid = pg_class.oid AND indisprimary))";
    assert_eq!(client.query_one(without_key, &[]).await?.get::<_, &str>(0), "");
    Ok(())
}

#[tokio::test]
async fn looking_through_many_mails_for_one_time_reads_no_more_than_was_asked_for() -> Result<()> {
    let (_database, client) = product().await?;
    let at_nine = "SELECT count(mailroom.enqueue('notice', 'ada@example.test', deliver_at =>
        moment))
        FROM (SELECT date_trunc('day', now()) + interval '33 hours' AS moment)
            AS nine, generate_series(1, 10000)";
    client.batch_execute(at_nine).await?;
    client.batch_execute("ANALYZE mailroom.queue").await?;
    let early = "mailroom.queue WHERE due_at < date_trunc('day', now()) + interval '33 hours'";
    assert_eq!(count(&client, early).await?, 0, "none is sent before its time");
    let late =
        "mailroom.queue WHERE due_at >= date_trunc('day', now()) + interval '33 hours 1 second'";
    assert_eq!(count(&client, late).await?, 0);
    client.batch_execute("BEGIN").await?;
    let before = rows_read(&client).await?;
    client.batch_execute("SELECT mailroom.sweep(NULL, 100)").await?;
    let read = rows_read(&client).await? - before;
    client.batch_execute("COMMIT").await?;
    assert!(read < 1_000, "{read} rows are read");
    Ok(())
}
