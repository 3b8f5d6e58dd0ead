//! A link confirms the address that it was sent to, and no other.

use anyhow::Result;
use mailroom::migrate::{self, MIGRATIONS};
use mailroom_tests::application::{Application, Redemption};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio_postgres::error::SqlState;

const ACTIVATION: &str = "activation";
const RECOVERY: &str = "password_recovery";

/// How applications of the base schema use a token.
const CONSUME: &str = "UPDATE tokens SET consumed_at = extract(epoch FROM now()) WHERE id = $1 \
                       AND consumed_at IS NULL";

async fn change_email(application: &Application, account: i64, email: &str) -> Result<()> {
    application
        .client
        .execute("UPDATE accounts SET email = $2 WHERE id = $1", &[&account, &email])
        .await?;
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
    for changes in
        [&["b@example.test"][..], &["A@example.test"], &["b@example.test", "a@example.test"]]
    {
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
    other
        .client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM accounts")
        .await?;
    let token = application.insert_token(account, RECOVERY).await?;
    change_email(&other, account, "b@example.test").await?;
    other.client.batch_execute("COMMIT").await?;
    let usable = "SELECT FROM mailroom.issued_tokens WHERE id = $1 AND consumed_at IS NULL \
                  AND cancelled_at IS NULL";
    assert_eq!(application.client.query(usable, &[&token.id]).await?.len(), 1);
    let answer = application.redeem(&token.secret, RECOVERY, token.code.as_deref()).await?;
    assert_eq!(answer, Redemption::refused("expired"));
    assert_eq!(application.client.execute(CONSUME, &[&token.id]).await?, 0);
    Ok(())
}

#[tokio::test]
async fn tokens_that_are_taken_over_keep_the_address_found_then() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    migrate::up(&mut client, &MIGRATIONS[..=0], &mut |_| {}).await?;
    client
        .accounts(["usable", "used", "expired"])
        .emails(["a@x.test", "b@x.test", "c@x.test"])
        .insert()
        .await?;
    client
        .batch_execute(
            "UPDATE jobs SET last_seq = 3;
            UPDATE tokens SET consumed_at = 1 WHERE id = 2;
            UPDATE tokens SET expires_at = 1 WHERE id = 3",
        )
        .await?;
    migrate::up(&mut client, MIGRATIONS, &mut |_| {}).await?;
    let rows = client.query("SELECT id, recipient_email FROM mailroom.issued_tokens", &[]).await?;
    let recipients: Vec<(i64, Option<&str>)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(recipients, [(1, Some("a@x.test"))]);
    Ok(())
}

#[tokio::test]
async fn whoever_may_write_accounts_and_tokens_changes_neither_the_address_nor_the_end_of_a_token()
-> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register("a").await?;
    let token = application.newest_token(account, ACTIVATION).await?;
    let role = format!("{}_application", database.name());
    let (grant, revoke) = (
        format!("CREATE ROLE {role}; GRANT ALL ON accounts, tokens TO {role}; SET ROLE {role}"),
        format!("RESET ROLE; DROP OWNED BY {role}; DROP ROLE {role}"),
    );
    application.client.batch_execute(&grant).await?;
    for update in [
        "mailroom.issued_tokens SET recipient_email = 'b'",
        "mailroom.issued_tokens SET cancelled_at = NULL",
        "mailroom.adopted_tokens SET expires_at = 9223372036854775807",
    ] {
        let error =
            application.client.batch_execute(&format!("UPDATE {update}")).await.expect_err(update);
        assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{update}");
    }
    assert!(
        application.client.execute(CONSUME, &[&token.id]).await? == 1,
        "the role can use tokens"
    );
    application.client.batch_execute(&revoke).await?;
    Ok(())
}
