//! What `mailroom.request` makes, and that it tells nobody.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::application::{Application, action_name, at_once};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::Database;
use tokio::time::timeout;
use tokio_postgres::error::{DbError, SqlState};

use crate::RACE;

const ACTIVATION: &str = "activation";
const RECOVERY: &str = "password_recovery";

/// Calls `mailroom.request` with limits, written in SQL.
async fn request_with(
    application: &Application,
    who: &str,
    action: &str,
    limits: &str,
) -> Result<(), DbError> {
    let query = format!("SELECT mailroom.request($1, $2, {limits})");
    match application.client.query_one(&query, &[&who, &action_name(action)]).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.as_db_error().expect("the server answered").clone()),
    }
}

/// Inserts a token that was made some seconds ago.
async fn made_ago(application: &Application, account: i64, seconds: i32) -> Result<()> {
    let insert = "INSERT INTO tokens (account, action, created_at)
        VALUES ($1, 'password_recovery', floor(extract(epoch FROM now())) - $2::int)";
    application.client.execute(insert, &[&account, &seconds]).await?;
    Ok(())
}

#[tokio::test]
async fn a_recovery_is_made_for_the_email_or_login_of_an_active_account() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for (login, who) in [("a", "a@example.test"), ("b", "b")] {
        let account = application.register_and_activate(login).await?;
        application.request(who, RECOVERY).await?;
        let token = application.newest_token(account, RECOVERY).await?;
        assert_eq!(token.secret.len(), 32);
        let fresh = format!(
            "WHERE id = {} AND expires_at - extract(epoch FROM now()) BETWEEN 600 AND 901",
            token.id
        );
        assert_eq!(application.count_tokens(&fresh).await?, 1);
        let answer = application.redeem(&token.secret, RECOVERY, token.code.as_deref()).await?;
        assert_eq!(answer.account, Some(account));
    }
    Ok(())
}

#[tokio::test]
async fn the_link_of_an_account_is_renewed_while_its_address_is_the_same() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let owner = database.connect().await?;
    owner
        .batch_execute("UPDATE mailroom.actions SET cooldown = '0' WHERE name = 'recover'")
        .await?;
    let account = application.register_and_activate("a").await?;
    application.request("a", RECOVERY).await?;
    let first = application.newest_token(account, RECOVERY).await?;
    let renew = "SELECT mailroom.renew_link($1, 'recover')";
    owner.query(renew, &[&first.secret]).await?;
    let second = application.newest_token(account, RECOVERY).await?;
    assert_ne!(first.secret, second.secret);
    let changed = "UPDATE accounts SET email = 'new@example.test' WHERE id = $1";
    owner.execute(changed, &[&account]).await?;
    owner.query(renew, &[&second.secret]).await?;
    assert_eq!(application.newest_token(account, RECOVERY).await?.secret, second.secret);
    Ok(())
}

#[tokio::test]
async fn a_fresh_activation_is_made_for_a_provisioned_account() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let first = application.newest_token(account, ACTIVATION).await?;
    request_with(&application, "a", ACTIVATION, "cooldown => '0 s'").await?;
    let second = application.newest_token(account, ACTIVATION).await?;
    assert_ne!(first.secret, second.secret);
    for token in [&second, &first] {
        let verdict = application.redeem(&token.secret, ACTIVATION, None).await?.verdict;
        assert_eq!(verdict, if token == &second { "ok" } else { "used" });
    }
    Ok(())
}

#[tokio::test]
async fn accounts_of_another_status_get_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for (status, action, made) in [
        ("provisioned", ACTIVATION, 1),
        ("provisioned", RECOVERY, 0),
        ("active", ACTIVATION, 0),
        ("active", RECOVERY, 1),
        ("suspended", ACTIVATION, 0),
        ("suspended", RECOVERY, 0),
    ] {
        let who = format!("{status} {action}");
        application.account(&who).status(status).insert().await?;
        application.client.execute("DELETE FROM tokens", &[]).await?;
        application.request(&who, action).await?;
        assert_eq!(application.count_tokens("").await?, made, "{who}");
    }
    Ok(())
}

#[tokio::test]
async fn whatever_names_nobody_is_answered_alike_and_makes_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let email = format!("{}@b.test", "a".repeat(247));
    application.account("a").email(&email).active().insert().await?;
    let ten_megabytes = email.repeat(40_000);
    let (longer, shorter) = (format!("{email}x"), &email[..253]);
    for who in [
        "",
        " ",
        "A",
        " a",
        "a ",
        "a\n",
        "%",
        "_",
        "b",
        "' OR ''='",
        "a'; DROP TABLE accounts; --",
        "ａ",
        &longer,
        shorter,
        &ten_megabytes,
    ] {
        for action in [ACTIVATION, RECOVERY] {
            application.request(who, action).await?;
        }
    }
    let nulls = "SELECT mailroom.request(NULL, 'recover')";
    application.client.query_one(nulls, &[]).await?;
    assert_eq!(application.count_tokens("").await?, 0);

    application.request(&email, RECOVERY).await?;
    assert_eq!(application.count_tokens("").await?, 1, "the longest email is not found");
    Ok(())
}

#[tokio::test]
async fn whose_email_it_is_goes_before_whose_login_it_is() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let owner = application.register_and_activate("owner").await?;
    let impostor = application.register_and_activate("impostor").await?;
    let rename = "UPDATE accounts SET login = 'owner@example.test' WHERE id = $1";
    application.client.execute(rename, &[&impostor]).await?;
    application.request("owner@example.test", RECOVERY).await?;
    let recoveries = "WHERE action = 'password_recovery' AND account =";
    assert_eq!(application.count_tokens(&format!("{recoveries} {owner}")).await?, 1);
    assert_eq!(application.count_tokens(&format!("{recoveries} {impostor}")).await?, 0);
    Ok(())
}

#[tokio::test]
async fn within_the_cooldown_nothing_more_is_made() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    for who in ["a", "a", "a@example.test"] {
        application.request(who, RECOVERY).await?;
        assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 1);
    }
    for (ago, cooldown, made) in [
        (20, "60 seconds", 0),
        (60, "60 seconds", 1),
        (3000, "1 hour", 0),
        (3600, "1 hour", 1),
        (0, "0 seconds", 1),
        (-5, "0 seconds", 1),
        (-1000, "60 seconds", 0),
    ] {
        application.client.execute("DELETE FROM tokens", &[]).await?;
        made_ago(&application, account, ago).await?;
        request_with(&application, "a", RECOVERY, &format!("cooldown => '{cooldown}'")).await?;
        assert_eq!(application.count_tokens("").await?, 1 + made, "{ago} s ago, {cooldown}");
    }
    Ok(())
}

#[tokio::test]
async fn the_mail_of_the_registration_counts_and_that_of_another_action_does_not() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    application.request("a", ACTIVATION).await?;
    assert_eq!(application.count_tokens("").await?, 1);
    application.set_status(account, "active").await?;
    application.request("a", RECOVERY).await?;
    assert_eq!(application.count_tokens("").await?, 2);
    Ok(())
}

#[tokio::test]
async fn no_more_than_the_ceiling_is_made_in_its_period() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    for (made, ago, limits, more) in [
        (4, 3000, "", 1),
        (5, 3000, "", 0),
        (9, 3605, "", 1),
        (1, 3000, ", at_most => 1", 0),
        (1, 3000, ", at_most => 1, per => '10 minutes'", 1),
        (20, 80_000, ", at_most => 20, per => '1 day'", 0),
        (50, 3000, ", per => '0 s'", 1),
        (50, 3000, ", at_most => 2147483647, per => '31 days'", 1),
    ] {
        application.client.execute("DELETE FROM tokens", &[]).await?;
        for _ in 0..made {
            made_ago(&application, account, ago).await?;
        }
        request_with(&application, "a", RECOVERY, &format!("'60 s'{limits}")).await?;
        assert_eq!(
            application.count_tokens("").await?,
            made + more,
            "{made} of {ago} s ago{limits}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn limits_of_no_sense_are_refused_whoever_is_named() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.register_and_activate("a").await?;
    for limits in [
        "'-1 s'",
        "'1 s', 0",
        "'1 s', -1",
        "'1 s', NULL",
        "'1 s', 1, '-1 hour'",
        "'1 s', 1, NULL",
        "'31 days 1 s'",
        "'1 s', 1, '31 days 1 s'",
        "'1 s', 1, '178000000 years'",
    ] {
        for who in ["a", "nobody"] {
            let error = request_with(&application, who, RECOVERY, limits).await.expect_err(limits);
            assert_eq!(error.code(), &SqlState::INVALID_PARAMETER_VALUE, "{limits}");
            assert_eq!(error.message(), "the limits of mailroom.request() are out of range");
        }
    }
    assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 0);
    Ok(())
}

#[tokio::test]
async fn isolation_levels_in_which_a_race_makes_two_are_refused_whoever_is_named() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.register_and_activate("a").await?;
    for isolation in ["REPEATABLE READ", "SERIALIZABLE"] {
        for who in ["a", "nobody"] {
            application.client.batch_execute(&format!("BEGIN ISOLATION LEVEL {isolation}")).await?;
            let error = application.request(who, RECOVERY).await.expect_err(isolation);
            assert_eq!(
                error.as_db_error().context("by the server")?.code(),
                &SqlState::INVALID_TRANSACTION_STATE
            );
            application.client.batch_execute("ROLLBACK").await?;
        }
    }
    application.client.batch_execute("BEGIN ISOLATION LEVEL READ UNCOMMITTED").await?;
    application.request("a", RECOVERY).await?;
    application.client.batch_execute("COMMIT").await?;
    assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_hundred_requests_at_once_make_one_token() -> Result<()> {
    let _race = RACE.lock().await;
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.register_and_activate("a").await?;
    at_once(&database, 100, |index, application| async move {
        let who = ["a", "a@example.test"][index % 2];
        Ok(application.request(who, RECOVERY).await?)
    })
    .await?;
    assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 1);
    Ok(())
}

#[tokio::test]
async fn requests_for_a_hundred_people_at_once_make_a_hundred_tokens() -> Result<()> {
    let _race = RACE.lock().await;
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.accounts(numbered("", 0..=99)).active().insert().await?;
    at_once(&database, 100, |index, application| async move {
        Ok(application.request(&index.to_string(), RECOVERY).await?)
    })
    .await?;
    let row = application
        .client
        .query_one("SELECT count(*), count(DISTINCT account) FROM tokens", &[])
        .await?;
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (100, 100));
    Ok(())
}

#[tokio::test]
async fn a_request_waits_for_nobody() -> Result<()> {
    let database = Database::migrated()?;
    let (application, other) =
        (Application::connect(&database).await?, Application::connect(&database).await?);
    let account = application.register_and_activate("a").await?;
    let insert = "INSERT INTO tokens (account, action) VALUES ($1, 'password_recovery')";
    // A wait for what is not over would never end.
    let at_once = Duration::from_secs(240);

    // Somebody else's request that is not committed is a cooldown;
    // once it is rolled back it is none.
    other.client.batch_execute("BEGIN").await?;
    other.request("a", RECOVERY).await?;
    timeout(at_once, application.request("a@example.test", RECOVERY)).await??;
    assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 0);
    other.client.batch_execute("ROLLBACK").await?;
    application.request("a", RECOVERY).await?;
    assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 1);

    // Neither does it wait for whoever changes the account's status, or uses a token of it; it
    // makes nothing meanwhile.
    application
        .client
        .batch_execute("DELETE FROM tokens WHERE action = 'password_recovery'")
        .await?;
    other.client.batch_execute("BEGIN").await?;
    other
        .client
        .execute("UPDATE accounts SET status = 'suspended' WHERE id = $1", &[&account])
        .await?;
    other.client.execute(insert, &[&account]).await?;
    timeout(at_once, application.request("a", RECOVERY)).await??;
    other.client.batch_execute("ROLLBACK").await?;
    assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_name_that_reads_like_an_account_of_the_lock_hinders_nobody() -> Result<()> {
    let database = Database::migrated()?;
    let (application, other) =
        (Application::connect(&database).await?, Application::connect(&database).await?);
    let account = application.register_and_activate("a").await?;
    other.client.batch_execute("BEGIN").await?;
    for who in [format!("{account}"), format!("of account {account}"), format!("account {account}")]
    {
        other.request(&who, RECOVERY).await?;
    }
    application.request("a", RECOVERY).await?;
    assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 1);
    Ok(())
}

#[tokio::test]
async fn every_request_is_a_commit_that_waits_for_the_disk() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.register("provisioned").await?;
    application.register_and_activate("active").await?;
    // The second for `active` is in the cooldown.
    for who in ["nobody", "provisioned", "active", "active", ""] {
        application.client.batch_execute("BEGIN").await?;
        application.request(who, RECOVERY).await?;
        let query = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL, \
                     pg_current_wal_insert_lsn()::text";
        let row = application.client.query_one(query, &[]).await?;
        assert!(row.get::<_, bool>(0), "{who}");
        let before: String = row.get(1);
        application.client.batch_execute("COMMIT").await?;
        // Neither call to the server would have flushed the log without one that was written to.
        let query = "SELECT pg_current_wal_flush_lsn() >= $1::text::pg_lsn";
        assert!(application.client.query_one(query, &[&before]).await?.get::<_, bool>(0), "{who}");
    }
    Ok(())
}

#[tokio::test]
async fn a_request_for_an_account_that_is_locked_waits_for_nobody_and_makes_nothing() -> Result<()>
{
    let database = Database::migrated()?;
    let (application, other) =
        (Application::connect(&database).await?, Application::connect(&database).await?);
    application.register_and_activate("a").await?;
    other.client.batch_execute("BEGIN; SELECT FROM accounts FOR UPDATE").await?;
    // Also not at the commit, nor as an error after a time that only an account that exists has.
    application.client.batch_execute("SET lock_timeout = '1ms'").await?;
    for who in ["a", "nobody"] {
        timeout(Duration::from_secs(240), application.request(who, RECOVERY)).await??;
    }
    other.client.batch_execute("ROLLBACK").await?;
    assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 0);
    application.request("a", RECOVERY).await?;
    assert_eq!(application.count_tokens("WHERE action = 'password_recovery'").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_link_of_an_account_that_is_being_deleted_is_not_renewed_and_waits_for_nobody()
-> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let earlier = "UPDATE mailroom.issued_tokens SET created_at = created_at - 3600";
    application.client.batch_execute(earlier).await?;
    let mut deleting = database.connect().await?;
    let deleting = deleting.transaction().await?;
    deleting.query("SELECT FROM accounts WHERE id = $1 FOR UPDATE", &[&account]).await?;
    let renew = "SELECT mailroom.renew_link(secret, 'activate') FROM mailroom.queue";
    let limit = "SET lock_timeout = '60s'";
    application.client.batch_execute(&format!("{limit}; BEGIN; {renew}; COMMIT")).await?;
    deleting.execute("DELETE FROM accounts WHERE id = $1", &[&account]).await?;
    deleting.commit().await?;
    let left = "SELECT count(*) FROM mailroom.issued_tokens";
    assert_eq!(application.client.query_one(left, &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}

#[tokio::test]
async fn a_request_takes_no_lock_that_every_role_can_take() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.register_and_activate("a").await?;
    application.client.batch_execute("BEGIN").await?;
    for who in ["nobody", "a"] {
        application.request(who, RECOVERY).await?;
    }
    // But for the one by which collectors go to sleep.
    let query = "SELECT count(*) FROM pg_locks
        WHERE pid = pg_backend_pid() AND locktype = 'advisory'
            AND (objsubid <> 2 OR classid <> 1835100524)";
    assert_eq!(application.client.query_one(query, &[]).await?.get::<_, i64>(0), 0);
    Ok(())
}

#[tokio::test]
async fn a_plan_that_was_made_on_empty_tables_reads_no_full_table_later() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for table in ["accounts", "tokens"] {
        application.client.batch_execute(&format!("VACUUM ANALYZE {table}")).await?;
    }
    // Planned now, as a session of a pool does that lives for days.
    for _ in 0..6 {
        application.request("nobody", RECOVERY).await?;
        application.redeem(&[0; 32], RECOVERY, None).await?;
    }
    let filler = database.connect().await?;
    filler
        .batch_execute(
            "ALTER TABLE accounts SET (autovacuum_enabled = off); ALTER TABLE tokens
        SET (autovacuum_enabled = off)",
        )
        .await?;
    filler.accounts(numbered("", 1..=20_000)).insert().await?;
    // Of this session alone, and after its transaction at the latest.
    let reads = "SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_xact_user_tables";
    application.client.batch_execute("BEGIN").await?;
    application.request("17", RECOVERY).await?;
    application.redeem(&[0; 32], RECOVERY, None).await?;
    let rows: i64 = application.client.query_one(reads, &[]).await?.get(0);
    assert!(rows < 100, "{rows} rows were read one after the other");
    Ok(())
}
