//! Requests at the same time, and locks that others hold.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::application::{Application, at_once};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::wait_for;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use crate::RACE;

use super::RECOVERY;

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
async fn a_subject_whose_account_is_being_deleted_is_forgotten_afterwards() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let mut deleting = database.connect().await?;
    let deleting = deleting.transaction().await?;
    // As a DELETE does, step by step: the account, what refers to it, and then what hangs on that.
    deleting.query("SELECT FROM accounts WHERE id = $1 FOR UPDATE", &[&account]).await?;
    deleting.query("SELECT FROM tokens WHERE account = $1 FOR UPDATE", &[&account]).await?;
    let observer = database.connect().await?;
    let forgetting = tokio::spawn(async move {
        let forget = format!("SELECT mailroom.forget('{account}')");
        Ok::<i64, tokio_postgres::Error>(application.client.query_one(&forget, &[]).await?.get(0))
    });
    let waits = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND datname = current_database()";
    wait_for(&observer, waits, 1_i64).await?;
    deleting.execute("DELETE FROM accounts WHERE id = $1", &[&account]).await?;
    deleting.commit().await?;
    assert_eq!(forgetting.await??, 0);
    let left = "SELECT count(*) FROM mailroom.issued_tokens";
    assert_eq!(observer.query_one(left, &[]).await?.get::<_, i64>(0), 0);
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
