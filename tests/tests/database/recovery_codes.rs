//! Codes of recoveries: five tries, whatever is typed.

use anyhow::Result;
use mailroom_tests::application::{Application, Redemption, Token};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio_postgres::error::SqlState;

const RECOVERY: &str = "password_recovery";

/// A fresh recovery with a code of the test's choice.
async fn recovery(application: &Application, account: i64, code: Option<&str>) -> Result<Token> {
    Ok(application.token().recovery().of(account).code(code).insert().await?.0)
}

async fn try_code(application: &Application, token: &Token, code: Option<&str>) -> Result<String> {
    Ok(application.redeem(&token.secret, RECOVERY, code).await?.verdict)
}

#[tokio::test]
async fn the_sixth_try_has_no_verdict_on_the_code() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let token = recovery(&application, account, Some("00042")).await?;
    for attempts in 1..=5 {
        assert_eq!(try_code(&application, &token, Some("00041")).await?, "wrong_code");
        assert_eq!(application.attempts(token.id).await?, attempts);
    }
    for code in [Some("00042"), Some("00041"), None] {
        assert_eq!(try_code(&application, &token, code).await?, "too_many_attempts");
    }
    assert_eq!(
        (application.attempts(token.id).await?, application.is_used(token.id).await?),
        (5, false)
    );

    // Another link has tries of its own.
    let fresh = recovery(&application, account, Some("00042")).await?;
    assert_eq!(try_code(&application, &fresh, Some("00042")).await?, "ok");
    Ok(())
}

#[tokio::test]
async fn the_fifth_try_may_be_right() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let token = recovery(&application, account, Some("90000")).await?;
    for _ in 0..4 {
        assert_eq!(try_code(&application, &token, Some("09000")).await?, "wrong_code");
    }
    let answer = application.redeem(&token.secret, RECOVERY, Some("90000")).await?;
    assert_eq!(answer, Redemption::ok(account));
    assert_eq!(application.attempts(token.id).await?, 5);
    Ok(())
}

#[tokio::test]
async fn whatever_is_not_the_code_is_wrong_and_counted() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let ten_megabytes = "01234".repeat(2 << 20);
    for code in [
        Some(""),
        Some("1234"),
        Some("001234"),
        Some("012345"),
        Some(" 01234"),
        Some("01234 "),
        Some("01234\n"),
        Some("0123\u{200b}4"),
        Some("٠١٢٣٤"),
        Some("０１２３４"),
        Some("0123_"),
        Some("%"),
        Some("_____"),
        Some("' OR ''='"),
        Some("01234'; DROP TABLE tokens; --"),
        Some(ten_megabytes.as_str()),
        None,
    ] {
        let token = recovery(&application, account, Some("01234")).await?;
        let shown = code.map(|code| code.chars().take(40).collect::<String>());
        assert_eq!(try_code(&application, &token, code).await?, "wrong_code", "{shown:?}");
        assert_eq!(application.attempts(token.id).await?, 1, "{shown:?}");
        assert!(!application.is_used(token.id).await?, "{shown:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_recovery_without_a_code_cannot_be_redeemed() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let token = recovery(&application, account, None).await?;
    for code in [None, Some(""), Some("00000"), Some("null"), None] {
        assert_eq!(try_code(&application, &token, code).await?, "wrong_code", "{code:?}");
    }
    assert_eq!(try_code(&application, &token, None).await?, "too_many_attempts");
    Ok(())
}

#[tokio::test]
async fn a_rolled_back_try_is_not_counted_as_the_documentation_warns() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let token = recovery(&application, account, Some("01234")).await?;
    for (begin, end) in [("BEGIN", "ROLLBACK"), ("BEGIN; SAVEPOINT s", "ROLLBACK TO s; COMMIT")] {
        application.client.batch_execute(begin).await?;
        assert_eq!(try_code(&application, &token, Some("11111")).await?, "wrong_code");
        application.client.batch_execute(end).await?;
        assert_eq!(application.attempts(token.id).await?, 0);
    }
    application.client.batch_execute("BEGIN").await?;
    assert_eq!(try_code(&application, &token, Some("11111")).await?, "wrong_code");
    application.client.batch_execute("COMMIT").await?;
    assert_eq!(application.attempts(token.id).await?, 1);
    Ok(())
}

#[tokio::test]
async fn the_table_itself_holds_five_tries_at_most() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let token = recovery(&application, account, None).await?;
    for (ordinal, expected) in [
        (0_i16, SqlState::CHECK_VIOLATION),
        (6, SqlState::CHECK_VIOLATION),
        (1, SqlState::UNIQUE_VIOLATION),
    ] {
        let insert = "INSERT INTO mailroom.code_attempts VALUES ($1, 1, 0), ($1, $2, 0)";
        let error = application
            .client
            .execute(insert, &[&token.id, &ordinal])
            .await
            .expect_err("no such try");
        assert_eq!(error.code(), Some(&expected), "{ordinal}");
    }
    Ok(())
}
