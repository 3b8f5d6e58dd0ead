//! Wrong codes are counted for an account over all of its tokens.

use anyhow::Result;
use mailroom_tests::application::{Application, Token};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;

const RECOVERY: &str = "password_recovery";

/// In seconds.
const HOUR: i64 = 3_600;

/// The time by which everything is judged, in seconds since the Unix epoch.
async fn set_clock(application: &Application, epoch: i64) -> Result<()> {
    let clock = format!(
        "CREATE OR REPLACE FUNCTION mailroom.clock() RETURNS timestamptz
        LANGUAGE sql RETURN to_timestamp({epoch});
        ALTER TABLE tokens ALTER COLUMN expires_at SET DEFAULT {epoch} + 900"
    );
    Ok(application.client.batch_execute(&clock).await?)
}

fn wrong_code(token: &Token) -> String {
    let code: u32 =
        token.code.as_deref().and_then(|code| code.parse().ok()).expect("the token has a code");
    format!("{:05}", (code + 1) % 100_000)
}

async fn active_account(application: &Application, login: &str) -> Result<i64> {
    application.account(login).active().insert().await
}

/// The token that a request makes, if it makes one.
async fn requested(application: &Application, account: i64) -> Result<Option<Token>> {
    application.client.execute("DELETE FROM tokens WHERE account = $1", &[&account]).await?;
    application.request("a", RECOVERY).await?;
    Ok(application.newest_token(account, RECOVERY).await.ok())
}

#[tokio::test]
async fn somebody_who_reads_the_mails_guesses_at_most_some_hundred_codes_a_week() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = active_account(&application, "a").await?;
    let began = 2_000_000_000;
    let (mut guesses, mut pauses, mut was_made) = (0, Vec::new(), true);
    // Asks for a link as often as one is made, here every quarter of an hour, and tries all codes
    // that it allows. Tokens are deleted meanwhile, which gives no more tries.
    for quarter in 0..7 * 24 * 4 {
        let now = began + quarter * HOUR / 4;
        set_clock(&application, now).await?;
        let token = requested(&application, account).await?;
        if token.is_some() != was_made {
            was_made = token.is_some();
            pauses.push((quarter, was_made));
        }
        let Some(token) = token else { continue };
        loop {
            let answer =
                application.redeem(&token.secret, RECOVERY, Some(&wrong_code(&token))).await?;
            match answer.verdict.as_str() {
                "wrong_code" => guesses += 1,
                "too_many_attempts" => break,
                verdict => anyhow::bail!("{verdict}"),
            }
        }
    }
    // A hundred in five hours, then one after each pause: of 1, 2, 4, 8, 16 and then 24 hours.
    assert!((100..=112).contains(&guesses), "{guesses} guesses");
    let rests: Vec<i64> = pauses.chunks_exact(2).map(|rest| rest[1].0 - rest[0].0).collect();
    assert_eq!(rests[..6], [4, 8, 16, 32, 64, 96].map(|quarters| quarters - 1), "{pauses:?}");
    Ok(())
}

#[tokio::test]
async fn while_an_account_rests_its_right_code_is_refused_and_others_are_not() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let (account, other) =
        (active_account(&application, "a").await?, active_account(&application, "b").await?);
    let insert = "INSERT INTO mailroom.code_failures (subject, failures, rests_until)
        VALUES ($1::bigint::text, 100, extract(epoch FROM now())::bigint + 60)";
    application.client.execute(insert, &[&account]).await?;
    for (account, verdict) in [(account, "too_many_attempts"), (other, "ok")] {
        let token = application.insert_token(account, RECOVERY).await?;
        let answer = application.redeem(&token.secret, RECOVERY, token.code.as_deref()).await?;
        assert_eq!(answer.verdict, verdict);
    }
    assert_eq!(application.status(account).await?, "active", "nobody is locked out of a session");
    // Nobody is told by the request either: it answers as ever.
    application.request("a", RECOVERY).await?;
    Ok(())
}

#[tokio::test]
async fn a_right_code_ends_the_row_of_wrong_ones() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = active_account(&application, "a").await?;
    let failures = "SELECT coalesce(max(failures), 0) FROM mailroom.code_failures";
    for _ in 0..2 {
        let token = application.insert_token(account, RECOVERY).await?;
        for expected in 1..=3 {
            application.redeem(&token.secret, RECOVERY, Some(&wrong_code(&token))).await?;
            assert_eq!(
                application.client.query_one(failures, &[]).await?.get::<_, i32>(0),
                expected
            );
        }
        let answer = application.redeem(&token.secret, RECOVERY, token.code.as_deref()).await?;
        assert_eq!(answer.verdict, "ok");
        assert_eq!(application.client.query_one(failures, &[]).await?.get::<_, i32>(0), 0);
    }
    Ok(())
}
