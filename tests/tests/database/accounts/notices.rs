//! Notices to the people of Mailroom's own accounts, where somebody has switched them on.

use anyhow::Result;
use mailroom_tests::application::{Application, Redemption};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

const RECOVERY: &str = "password_recovery";

/// As the guide says.
const ON: &str = "UPDATE mailroom.actions SET notice = 'notice'
    WHERE name IN ('recover', 'change_email')";

async fn notices(client: &Client) -> Result<Vec<String>> {
    let query = "SELECT recipient_email || ' ' || (payload ->> 'about')
        FROM mailroom.issued_tokens AS tokens JOIN mailroom.payloads ON token = tokens.id
        JOIN mailroom.actions ON number = action
        WHERE name = 'notice' ORDER BY tokens.id";
    Ok(client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect())
}

async fn with_notices() -> Result<(Database, Application)> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    application.client.batch_execute(ON).await?;
    Ok((database, application))
}

#[tokio::test]
async fn installations_with_accounts_have_no_notices_until_somebody_wants_them() -> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let account = application.register_and_activate("a").await?;
    let token = application.insert_token(account, RECOVERY).await?;
    let code = token.code.as_deref();
    assert_eq!(application.redeem(&token.secret, RECOVERY, code).await?, Redemption::ok(account));
    application.client.batch_execute("UPDATE accounts SET email = 'new@example.test'").await?;
    assert!(notices(&application.client).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_recovery_is_told_once_however_the_token_is_used() -> Result<()> {
    let (_database, application) = with_notices().await?;
    let account = application.register_and_activate("a").await?;
    let token = application.insert_token(account, RECOVERY).await?;
    application.insert_token(account, RECOVERY).await?;
    let code = token.code.as_deref();
    assert_eq!(application.redeem(&token.secret, RECOVERY, code).await?, Redemption::ok(account));
    let told = "a@example.test recovered";
    assert_eq!(notices(&application.client).await?, [told]);

    // Applications of the base schema do it by themselves, and may use up all of an account at
    // once.
    for _ in 0..2 {
        application.insert_token(account, RECOVERY).await?;
    }
    let used = "UPDATE tokens SET consumed_at = extract(epoch FROM now())
        WHERE consumed_at IS NULL AND action = 'password_recovery'";
    application.client.batch_execute(&format!("BEGIN; {used}; ROLLBACK")).await?;
    assert_eq!(notices(&application.client).await?, [told]);
    application.client.batch_execute(used).await?;
    assert_eq!(notices(&application.client).await?, [told, told]);
    Ok(())
}

#[tokio::test]
async fn a_changed_address_is_told_to_the_old_one_once() -> Result<()> {
    let (_database, application) = with_notices().await?;
    let client = &application.client;
    application.register("p").await?;
    client.batch_execute("UPDATE accounts SET email = 'q@example.test'").await?;
    assert!(notices(client).await?.is_empty(), "nobody had confirmed that address");

    let account = application.register_and_activate("a").await?;
    let set = |email: &str| format!("UPDATE accounts SET email = '{email}' WHERE id = {account}");
    client.batch_execute(&set("A@Example.test")).await?;
    assert!(notices(client).await?.is_empty(), "it is the same mailbox");
    client.batch_execute(&format!("BEGIN; {}; ROLLBACK", set("b@example.test"))).await?;
    assert!(notices(client).await?.is_empty(), "nothing was changed");

    // The token tells of it, too.
    let change = client.mail("change_email").to("b@example.test").subject(account);
    change.notice_to("a@example.test").enqueue().await?;
    client
        .batch_execute(&format!(
            "BEGIN;
            SAVEPOINT redeemed;
            SELECT mailroom.redeem(secret, 'change_email') FROM mailroom.queue
                JOIN mailroom.issued_tokens ON id = token AND action = 3;
            RELEASE redeemed;
            {};
            COMMIT",
            set("b@example.test")
        ))
        .await?;
    assert_eq!(notices(client).await?, ["a@example.test email_changed"]);
    client.batch_execute(&set("c@example.test")).await?;
    client.batch_execute(&set("a@example.test")).await?;
    assert_eq!(notices(client).await?.len(), 3);

    // Whoever takes an account over and deletes it must not silence the notice by it.
    client.batch_execute("DELETE FROM accounts").await?;
    assert_eq!(notices(client).await?.len(), 3);
    Ok(())
}
