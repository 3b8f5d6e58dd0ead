//! What `mailroom.redeem` answers, and what it leaves behind.

use anyhow::Result;
use mailroom_tests::application::{Application, Redemption, Token};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;

const ACTIVATION: &str = "activation";
const RECOVERY: &str = "password_recovery";

/// A code that is not the token's.
fn wrong_code(token: &Token) -> String {
    let code: u32 =
        token.code.as_deref().and_then(|code| code.parse().ok()).expect("the token has a code");
    format!("{:05}", (code + 1) % 100_000)
}

/// Sets the clock by which tokens are judged.
async fn set_clock(application: &Application, epoch: &str) -> Result<()> {
    let clock = format!(
        "CREATE OR REPLACE FUNCTION mailroom.clock() RETURNS timestamptz LANGUAGE sql \
         RETURN to_timestamp({epoch})"
    );
    Ok(application.client.batch_execute(&clock).await?)
}

#[tokio::test]
async fn an_activation_is_redeemed_once_and_activates() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let token = application.newest_token(account, ACTIVATION).await?;
    assert_eq!(application.redeem(&token.secret, ACTIVATION, None).await?, Redemption::ok(account));
    assert_eq!(application.status(account).await?, "active");
    for _ in 0..3 {
        assert_eq!(
            application.redeem(&token.secret, ACTIVATION, None).await?,
            Redemption::refused("used")
        );
    }
    let recent =
        "WHERE consumed_at BETWEEN extract(epoch FROM now()) - 600 AND extract(epoch FROM now())";
    assert_eq!(application.count_tokens(recent).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_recovery_is_redeemed_once_with_its_code_and_changes_no_status() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let token = application.insert_token(account, RECOVERY).await?;
    let code = token.code.as_deref();
    assert_eq!(application.redeem(&token.secret, RECOVERY, code).await?, Redemption::ok(account));
    assert_eq!(
        application.redeem(&token.secret, RECOVERY, code).await?,
        Redemption::refused("used")
    );
    assert_eq!(application.status(account).await?, "active");
    Ok(())
}

#[tokio::test]
async fn redeeming_is_undone_with_the_transaction_around_it() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let token = application.newest_token(account, ACTIVATION).await?;
    application.client.batch_execute("BEGIN").await?;
    assert_eq!(application.redeem(&token.secret, ACTIVATION, None).await?, Redemption::ok(account));
    assert_eq!(application.status(account).await?, "active");
    application.client.batch_execute("ROLLBACK").await?;
    assert_eq!(
        (application.is_used(token.id).await?, application.status(account).await?.as_str()),
        (false, "provisioned")
    );
    assert_eq!(application.redeem(&token.secret, ACTIVATION, None).await?, Redemption::ok(account));
    Ok(())
}

#[tokio::test]
async fn a_link_for_another_action_is_unknown() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let (fresh, active) =
        (application.register("a").await?, application.register_and_activate("b").await?);
    for (account, action, other) in [(fresh, ACTIVATION, RECOVERY), (active, RECOVERY, ACTIVATION)]
    {
        let token = application.insert_token(account, action).await?;
        for code in [None, token.code.as_deref()] {
            assert_eq!(
                application.redeem(&token.secret, other, code).await?,
                Redemption::refused("unknown")
            );
        }
        assert_eq!(application.attempts(token.id).await?, 0);
        assert!(!application.is_used(token.id).await?);
    }
    Ok(())
}

#[tokio::test]
async fn each_action_needs_its_status() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for (action, status, verdict) in [
        (ACTIVATION, "provisioned", "ok"),
        (ACTIVATION, "active", "not_eligible"),
        (ACTIVATION, "suspended", "not_eligible"),
        (RECOVERY, "provisioned", "not_eligible"),
        (RECOVERY, "active", "ok"),
        (RECOVERY, "suspended", "not_eligible"),
    ] {
        let token = application.token().action(action).for_account(status);
        let (token, account) = token.insert().await?;
        let code = token.code.as_deref().filter(|_| action == RECOVERY);
        let answer = application.redeem(&token.secret, action, code).await?;
        assert_eq!(answer.verdict, verdict, "{action}, {status}");
        assert_eq!(application.is_used(token.id).await?, verdict == "ok", "{action}, {status}");
        if verdict != "ok" {
            assert_eq!((answer.account, application.attempts(token.id).await?), (None, 0));
            assert_eq!(application.status(account).await?, status);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_suspended_accounts_activation_waits_for_the_end_of_the_suspension() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let token = application.newest_token(account, ACTIVATION).await?;
    application.set_status(account, "suspended").await?;
    assert_eq!(
        application.redeem(&token.secret, ACTIVATION, None).await?,
        Redemption::refused("not_eligible")
    );
    assert_eq!(application.status(account).await?, "suspended");
    application.set_status(account, "provisioned").await?;
    assert_eq!(application.redeem(&token.secret, ACTIVATION, None).await?, Redemption::ok(account));
    Ok(())
}

#[tokio::test]
async fn a_token_expires_in_the_second_that_its_row_names() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    // In 2040, after the last second of 32-bit integers.
    let expiry = 2_208_988_800_i64;
    for (offset, verdict) in [
        ("+ 0", "expired"),
        ("- 1", "ok"),
        ("- 0.001", "ok"),
        ("+ 0.001", "expired"),
        ("+ 1e9", "expired"),
    ] {
        let account = application.register(offset).await?;
        let insert =
            "INSERT INTO tokens (account, action, expires_at) VALUES ($1, 'activation', $2)";
        application.client.execute(insert, &[&account, &expiry]).await?;
        let token = application.newest_token(account, ACTIVATION).await?;
        set_clock(&application, &format!("{expiry} {offset}")).await?;
        assert_eq!(
            application.redeem(&token.secret, ACTIVATION, None).await?.verdict,
            verdict,
            "{offset}"
        );
        if verdict == "ok" {
            let query = "SELECT consumed_at FROM tokens WHERE id = $1";
            let consumed_at: i64 = application.client.query_one(query, &[&token.id]).await?.get(0);
            assert_eq!(consumed_at, expiry - 1);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_transaction_that_began_before_the_expiry_gains_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    application.client.batch_execute("BEGIN").await?;
    let (token, _) = application.token().of(account).living(1).insert().await?;
    application.client.query_one("SELECT pg_sleep(2.5)", &[]).await?;
    assert_eq!(
        application.redeem(&token.secret, ACTIVATION, None).await?,
        Redemption::refused("expired")
    );
    Ok(())
}

/// Brings a fresh recovery of an active account into a state in which it cannot be redeemed.
async fn spoil(application: &Application, account: i64, how: &str) -> Result<Token> {
    let expiry = if how.contains("expired") { -1 } else { 900 };
    let (token, _) = application.token().recovery().of(account).living(expiry).insert().await?;
    if how.contains("exhausted") {
        let insert = "INSERT INTO mailroom.code_attempts SELECT $1, ordinal, 0 \
                      FROM generate_series(1, 5) AS ordinal";
        application.client.execute(insert, &[&token.id]).await?;
    }
    if how.contains("used") {
        application
            .client
            .execute("UPDATE tokens SET consumed_at = 0 WHERE id = $1", &[&token.id])
            .await?;
    }
    if how.contains("suspended") {
        application.set_status(account, "suspended").await?;
    }
    Ok(token)
}

#[tokio::test]
async fn what_can_be_said_without_the_code_is_said_first_and_tells_nothing_of_it() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for (how, verdict) in [
        ("used", "used"),
        ("used expired suspended exhausted", "used"),
        ("expired", "expired"),
        ("expired suspended exhausted", "expired"),
        ("suspended", "not_eligible"),
        ("suspended exhausted", "not_eligible"),
        ("exhausted", "too_many_attempts"),
    ] {
        let account = application.register_and_activate(how).await?;
        let token = spoil(&application, account, how).await?;
        let attempts = application.attempts(token.id).await?;
        for code in [token.code.as_deref(), Some(wrong_code(&token).as_str()), Some("x"), None] {
            let answer = application.redeem(&token.secret, RECOVERY, code).await?;
            assert_eq!(answer, Redemption::refused(verdict), "{how}");
        }
        assert_eq!(application.attempts(token.id).await?, attempts, "{how}: a try was counted");
    }
    Ok(())
}

#[tokio::test]
async fn a_redeemed_token_ends_its_accounts_other_ones_of_the_same_action() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let (account, other) = (
        application.register_and_activate("a").await?,
        application.register_and_activate("b").await?,
    );
    let earlier = application.insert_token(account, RECOVERY).await?;
    let expired = spoil(&application, account, "expired").await?;
    let token = application.insert_token(account, RECOVERY).await?;
    let later = application.insert_token(account, RECOVERY).await?;
    let of_another_action = application.insert_token(account, ACTIVATION).await?;
    let of_another_account = application.insert_token(other, RECOVERY).await?;
    let code = token.code.as_deref();
    assert_eq!(application.redeem(&token.secret, RECOVERY, code).await?, Redemption::ok(account));
    for ended in [&earlier, &later] {
        let code = ended.code.as_deref();
        assert_eq!(
            application.redeem(&ended.secret, RECOVERY, code).await?,
            Redemption::refused("used")
        );
    }
    for untouched in [&expired, &of_another_action, &of_another_account] {
        assert!(!application.is_used(untouched.id).await?);
    }
    let code = of_another_account.code.as_deref();
    assert_eq!(
        application.redeem(&of_another_account.secret, RECOVERY, code).await?,
        Redemption::ok(other)
    );
    Ok(())
}

#[tokio::test]
async fn an_activation_has_no_code_and_is_refused_with_one() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let token = application.newest_token(account, ACTIVATION).await?;
    for code in [token.code.as_deref(), Some(wrong_code(&token).as_str()), Some("")] {
        assert_eq!(
            application.redeem(&token.secret, ACTIVATION, code).await?,
            Redemption::refused("wrong_code")
        );
    }
    assert_eq!(
        (application.attempts(token.id).await?, application.is_used(token.id).await?),
        (0, false)
    );
    Ok(())
}

#[tokio::test]
async fn secrets_that_no_link_carries_are_unknown() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let token = application.newest_token(account, ACTIVATION).await?;
    let megabyte = vec![b'x'; 1 << 20];
    for length in [0, 1, 16, 31, 33, 64] {
        let insert = "INSERT INTO tokens (account, action, secret) VALUES ($1, 'activation', $2)";
        application.client.execute(insert, &[&account, &&megabyte[..length]]).await?;
        let answer = application.redeem(&megabyte[..length], ACTIVATION, None).await?;
        assert_eq!(answer, Redemption::refused("unknown"), "a row with a secret of {length} bytes");
    }
    let (mut longer, mut other) = (token.secret.clone(), token.secret.clone());
    longer.push(0);
    other[31] ^= 1;
    for secret in [&megabyte, &longer, &other, &token.secret[..31].to_vec(), &vec![0; 32]] {
        let answer = application.redeem(secret, ACTIVATION, None).await?;
        assert_eq!(answer, Redemption::refused("unknown"), "{} bytes", secret.len());
    }
    for (secret, action) in
        [(None, Some(ACTIVATION)), (Some(&token.secret[..]), None), (None, None)]
    {
        let answer = application.redeem_anything(secret, action, None).await?;
        assert_eq!(answer, Redemption::refused("unknown"), "{action:?}");
    }
    for action in ["", "Activate", "activate ", "notice", "sign_in", "no_such_action"] {
        let answer = application.redeem(&token.secret, action, None).await?;
        assert_eq!(answer, Redemption::refused("unknown"), "{action}");
    }
    assert!(!application.is_used(token.id).await?);
    Ok(())
}

#[tokio::test]
async fn a_redemption_writes_into_no_index() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for login in ["a", "b", "c"] {
        application.register_and_activate(login).await?;
    }
    let updates =
        "SELECT pg_stat_force_next_flush(), n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
        WHERE relid IN ('tokens'::regclass, 'mailroom.issued_tokens'::regclass)";
    application.client.query(updates, &[]).await?;
    let rows = application.client.query(updates, &[]).await?;
    let counts: Vec<(i64, i64)> = rows.iter().map(|row| (row.get(1), row.get(2))).collect();
    assert_eq!(counts, [(3, 3), (3, 3)]);
    Ok(())
}
