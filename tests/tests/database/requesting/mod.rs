//! What `mailroom.request` makes, and that it tells nobody.

mod limits;
mod races;

use anyhow::Result;
use mailroom_tests::application::{Application, action_name};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::Database;
use tokio_postgres::error::DbError;

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
