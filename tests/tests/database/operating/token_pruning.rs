//! Tokens that expired long ago are deleted, in steps.

use anyhow::Result;
use mailroom_tests::postgres::Database;

use super::{count, run};

#[tokio::test]
async fn tokens_that_expired_long_ago_go_and_all_others_stay() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    // Used ones, unused ones, and such as live for a year;
    // every fourth still waits for a collector.
    client
        .batch_execute(
            "INSERT INTO accounts (email, login, status) SELECT n, n, 'active'
            FROM generate_series(1, 100) n;
            INSERT INTO tokens (account, action, created_at, expires_at)
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
            "pruned 0 delivery attempts, 0 dead letters and {gone} expired tokens, all older than \
             30d\n"
        )
    );
    assert_eq!((count(&client, "tokens").await?, count(&client, stays).await?), (kept, kept));
    Ok(())
}

#[tokio::test]
async fn what_others_have_locked_is_left_for_the_next_time() -> Result<()> {
    let database = Database::migrated()?;
    let (client, application) = (database.connect().await?, database.connect().await?);
    client
        .batch_execute(
            "INSERT INTO accounts (email, login) VALUES ('a', 'a');
            INSERT INTO tokens (account, action, expires_at) SELECT 1, 'activation', 900
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
