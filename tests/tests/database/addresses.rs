//! A link confirms the address that it was sent to, and no other.

use anyhow::Result;
use mailroom::migrate::{self, MIGRATIONS};
use mailroom_tests::application::{Application, Redemption};
use mailroom_tests::postgres::Database;

const ACTIVATION: &str = "activation";
const RECOVERY: &str = "password_recovery";

/// How applications of the base schema use a token.
const CONSUME: &str =
    "UPDATE tokens SET consumed_at = extract(epoch FROM now()) WHERE id = $1 AND consumed_at IS NULL";

async fn change_email(application: &Application, account: i64, email: &str) -> Result<()> {
    application.client.execute("UPDATE accounts SET email = $2 WHERE id = $1", &[&account, &email]).await?;
    Ok(())
}

#[tokio::test]
async fn a_link_does_not_confirm_an_address_that_it_was_never_sent_to() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("mallory").await?;
    let token = application.newest_token(account, ACTIVATION).await?;
    change_email(&application, account, "victim@example.test").await?;
    let answer = application.redeem(&token.secret, ACTIVATION, None).await?;
    assert_eq!(
        (answer, application.status(account).await?.as_str()),
        (Redemption::refused("expired"), "provisioned")
    );

    // Nor by the statement with which applications of the base schema use a token.
    assert_eq!(application.client.execute(CONSUME, &[&token.id]).await?, 0);
    assert_eq!(application.status(account).await?, "provisioned");

    // A new link goes to the new address, and confirms it.
    let token = application.insert_token(account, ACTIVATION).await?;
    assert_eq!(application.redeem(&token.secret, ACTIVATION, None).await?, Redemption::ok(account));
    Ok(())
}

#[tokio::test]
async fn a_change_of_the_address_ends_all_links_to_the_former_one_for_good() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    for changes in [&["b@example.test"][..], &["A@example.test"], &["b@example.test", "a@example.test"]] {
        application.client.batch_execute("DELETE FROM accounts").await?;
        let account = application.register_and_activate("a").await?;
        let token = application.insert_token(account, RECOVERY).await?;
        for email in changes {
            change_email(&application, account, email).await?;
        }
        let answer = application.redeem(&token.secret, RECOVERY, token.code.as_deref()).await?;
        assert_eq!(answer, Redemption::refused("expired"), "{changes:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_change_that_does_not_see_a_new_link_ends_it_all_the_same() -> Result<()> {
    let database = Database::migrated()?;
    let (application, other) =
        (Application::connect(&database).await?, Application::connect(&database).await?);
    let account = application.register_and_activate("a").await?;
    other.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM accounts").await?;
    let token = application.insert_token(account, RECOVERY).await?;
    change_email(&other, account, "b@example.test").await?;
    other.client.batch_execute("COMMIT").await?;
    assert_eq!(application.count_tokens("WHERE consumed_at IS NULL AND cancelled_at IS NULL").await?, 1);
    let answer = application.redeem(&token.secret, RECOVERY, token.code.as_deref()).await?;
    assert_eq!(answer, Redemption::refused("expired"));
    assert_eq!(application.client.execute(CONSUME, &[&token.id]).await?, 0);
    Ok(())
}

#[tokio::test]
async fn tokens_that_are_taken_over_keep_the_address_found_then() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    migrate::up(&mut client, &MIGRATIONS[..8], &mut |_| {}).await?;
    client
        .batch_execute(
            "INSERT INTO accounts (email, login) VALUES ('a', 'usable'), ('b', 'used'), ('c', 'expired');
            UPDATE tokens SET consumed_at = 1 WHERE id = 2;
            UPDATE tokens SET expires_at = 1 WHERE id = 3",
        )
        .await?;
    migrate::up(&mut client, MIGRATIONS, &mut |_| {}).await?;
    let rows = client.query("SELECT recipient FROM tokens ORDER BY id", &[]).await?;
    let recipients: Vec<Option<&str>> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(recipients, [Some("a"), None, None]);
    Ok(())
}

#[tokio::test]
async fn neither_the_address_nor_the_end_of_a_token_can_be_changed() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let update = async |set: &str| {
        let update = format!("UPDATE tokens SET {set} WHERE account = {account}");
        application.client.batch_execute(&update).await.err().map(|error| {
            error.as_db_error().expect("the server answered").column().unwrap_or_default().to_owned()
        })
    };
    assert_eq!(update("recipient = 'b'").await.as_deref(), Some("recipient"));
    assert_eq!(update("recipient = NULL").await.as_deref(), Some("recipient"));
    assert_eq!(update("cancelled_at = 1").await, None);
    assert_eq!(update("cancelled_at = NULL").await.as_deref(), Some("cancelled_at"));
    assert_eq!(update("cancelled_at = 2").await.as_deref(), Some("cancelled_at"));
    Ok(())
}
