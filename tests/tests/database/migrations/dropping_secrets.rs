//! The step that takes the secrets out of the table of the accounts' tokens, when the operator asks for it.

use anyhow::Result;
use mailroom_tests::application::{Application, Redemption};
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::postgres::Database;

use super::schema::description;
use super::{fail, newest, succeed};

/// The secrets and codes that wait to be sent, with the actions' names in the base schema.
async fn waiting(application: &Application) -> Result<Vec<(String, Vec<u8>, Option<String>)>> {
    let query = "SELECT tokens.action::text, queue.secret, queue.code
        FROM mailroom.queue JOIN tokens ON tokens.id = queue.token ORDER BY tokens.id";
    let rows = application.client.query(query, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
}

/// The rows of all tables as text, as a backup has them.
async fn all_rows(application: &Application) -> Result<String> {
    let tables = "SELECT pg_class.oid::regclass::text FROM pg_class
        WHERE relkind = 'r' AND relnamespace IN ('public'::regnamespace, 'mailroom'::regnamespace)";
    let mut rows = String::new();
    for table in application.client.query(tables, &[]).await? {
        let table: &str = table.get(0);
        let query = format!("SELECT coalesce(string_agg(row::text, ' '), '') FROM {table} AS row");
        rows += application.client.query_one(&query, &[]).await?.get(0);
    }
    Ok(rows)
}

#[tokio::test]
async fn it_is_taken_only_when_asked_for_and_does_not_go_back() -> Result<()> {
    let database = Database::create()?;
    succeed(&database, &["up"])?;
    assert!(succeed(&database, &["status"])?.ends_with(&format!("version {}\n", newest())));
    succeed(&database, &["up", "--drop-secrets"])?;
    assert_eq!(succeed(&database, &["up"])?, "no migration is missing\n");
    assert!(succeed(&database, &["status"])?.contains("applied  20_drop_secrets"));
    let refusal = fail(&database, &["down", "--yes"])?;
    assert!(refusal.contains("secrets that were dropped do not come back"), "{refusal}");
    Ok(())
}

#[tokio::test]
async fn a_database_that_was_taken_over_and_an_empty_one_end_with_the_same_schema() -> Result<()> {
    let (old, empty) = (Database::with_base_schema()?, Database::create()?);
    succeed(&old, &["up", "--baseline", "0", "--drop-secrets"])?;
    succeed(&empty, &["up", "--drop-secrets"])?;
    let (old, empty) = (old.connect().await?, empty.connect().await?);
    assert_eq!(description(&old).await?, description(&empty).await?);
    Ok(())
}

#[tokio::test]
async fn afterwards_accounts_are_registered_and_recovered_and_no_backup_has_what_was_sent() -> Result<()> {
    let database = Database::create()?;
    succeed(&database, &["up", "--drop-secrets"])?;
    let application = Application::connect(&database).await?;
    let insert = "INSERT INTO accounts (email, login, status) VALUES ('a@example.test', 'a', 'provisioned'),
        ('b@example.test', 'b', 'active')";
    application.client.batch_execute(insert).await?;
    application.request("b", "password_recovery").await?;
    let secrets = waiting(&application).await?;
    let backup = all_rows(&application).await?;
    assert!(secrets.len() == 2 && secrets.iter().all(|(_, secret, _)| backup.contains(&hexadecimal(secret))));
    let claim = "SELECT mailroom.claim(1, ARRAY[gen_random_uuid()], 10, true, 10, 0, NULL, NULL, 90000, 30, '{1,2}', true);
        SELECT mailroom.settle(ARRAY(SELECT batch FROM mailroom.leases), '{}', '{}', '{}', '{}', '{}', 3, 1000, 30)";
    application.client.batch_execute(claim).await?;
    let backup = all_rows(&application).await?;
    assert!(secrets.iter().all(|(_, secret, _)| !backup.contains(&hexadecimal(secret))));
    for (account, (action, secret, code)) in (1..).zip(secrets) {
        assert_eq!(application.redeem(&secret, &action, code.as_deref()).await?, Redemption::ok(account));
    }
    let used = "SELECT count(*) FROM tokens WHERE consumed_at IS NOT NULL";
    assert_eq!(application.client.query_one(used, &[]).await?.get::<_, i64>(0), 2);
    let active = "SELECT count(*) FROM accounts WHERE status = 'active'";
    assert_eq!(application.client.query_one(active, &[]).await?.get::<_, i64>(0), 2);
    Ok(())
}

#[tokio::test]
async fn it_waits_until_no_link_of_old_can_be_used() -> Result<()> {
    let database = Database::with_base_schema()?;
    succeed(&database, &["up", "--baseline", "0"])?;
    let client = database.connect().await?;
    // As one that a collector of old had sent, and that migration 17 did not see.
    client
        .batch_execute(
            "INSERT INTO accounts (email, login) VALUES ('a@example.test', 'a');
            DELETE FROM mailroom.queue; DELETE FROM mailroom.issued_tokens",
        )
        .await?;
    let refusal = fail(&database, &["up", "--drop-secrets"])?;
    assert!(refusal.contains("a token from before migration 17 can still be used"), "{refusal}");
    client.batch_execute("UPDATE tokens SET consumed_at = 1").await?;
    succeed(&database, &["up", "--drop-secrets"])?;
    Ok(())
}
