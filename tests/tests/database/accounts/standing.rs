//! Status and times of accounts: activation, suspension, recovery.

use anyhow::Result;
use mailroom::migrate::{self, MIGRATIONS};
use mailroom_tests::postgres::Database;
use tokio_postgres::Client;

use super::{consume, databases, register};

async fn set_status(client: &Client, account: i64, status: &str) -> Result<()> {
    client
        .execute(
            "UPDATE accounts SET status = $2::text::account_status WHERE id = $1",
            &[&account, &status],
        )
        .await?;
    Ok(())
}

/// Status and times of an account.
#[derive(Debug, PartialEq, Eq)]
struct Standing {
    status: String,
    status_changed_at: Option<i64>,
    activated_at: Option<i64>,
    suspended_at: Option<i64>,
    unsuspended_at: Option<i64>,
}

async fn standing(client: &Client, account: i64) -> Result<Standing> {
    let query = "SELECT status::text, status_changed_at::bigint, activated_at::bigint,
        suspended_at::bigint,
        unsuspended_at::bigint FROM accounts WHERE id = $1";
    let row = client.query_one(query, &[&account]).await?;
    Ok(Standing {
        status: row.get(0),
        status_changed_at: row.get(1),
        activated_at: row.get(2),
        suspended_at: row.get(3),
        unsuspended_at: row.get(4),
    })
}

/// Sets the times of an account back, so that the next change is seen although it
/// is of the same second.
async fn make_older(client: &Client, account: i64) -> Result<()> {
    let update = "UPDATE accounts SET status_changed_at = status_changed_at - 1000, activated_at
        = activated_at - 1000,
        suspended_at = suspended_at - 1000, unsuspended_at = unsuspended_at - 1000 WHERE id = $1";
    client.execute(update, &[&account]).await?;
    Ok(())
}

async fn now(client: &Client) -> Result<i64> {
    Ok(client.query_one("SELECT extract(epoch FROM now())::bigint", &[]).await?.get(0))
}

fn is_recent(time: Option<i64>, now: i64) -> bool {
    time.is_some_and(|time| (now - 60..=now + 60).contains(&time))
}

#[tokio::test]
async fn consuming_the_activation_token_activates() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let (account, other) = (register(&client, "a").await?, register(&client, "b").await?);
        let before = standing(&client, other).await?;
        consume(&client, account, "activation").await?;

        let now = now(&client).await?;
        let after = standing(&client, account).await?;
        assert_eq!(after.status, "active");
        assert!(is_recent(after.activated_at, now) && is_recent(after.status_changed_at, now));
        assert_eq!((after.suspended_at, after.unsuspended_at), (None, None));
        assert_eq!(standing(&client, other).await?, before, "another account changed");
    }
    Ok(())
}

#[tokio::test]
async fn consuming_again_changes_nothing() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let account = register(&client, "a").await?;
        consume(&client, account, "activation").await?;
        set_status(&client, account, "suspended").await?;
        let before = standing(&client, account).await?;
        client.execute("UPDATE tokens SET consumed_at = consumed_at", &[]).await?;
        assert_eq!(standing(&client, account).await?, before);
    }
    Ok(())
}

#[tokio::test]
async fn suspending_and_unsuspending_an_active_account_keeps_its_times() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let account = register(&client, "a").await?;
        consume(&client, account, "activation").await?;
        make_older(&client, account).await?;
        let active = standing(&client, account).await?;

        set_status(&client, account, "suspended").await?;
        let now = now(&client).await?;
        let suspended = standing(&client, account).await?;
        assert_eq!(suspended.status, "suspended");
        assert!(
            is_recent(suspended.suspended_at, now) && is_recent(suspended.status_changed_at, now)
        );
        assert_eq!((suspended.activated_at, suspended.unsuspended_at), (active.activated_at, None));

        make_older(&client, account).await?;
        set_status(&client, account, "active").await?;
        let unsuspended = standing(&client, account).await?;
        assert_eq!(unsuspended.status, "active");
        assert!(
            is_recent(unsuspended.unsuspended_at, now)
                && is_recent(unsuspended.status_changed_at, now)
        );
        assert_eq!(unsuspended.suspended_at, None);
        assert_eq!(unsuspended.activated_at, active.activated_at.map(|time| time - 1000));

        set_status(&client, account, "suspended").await?;
        let again = standing(&client, account).await?;
        assert!(is_recent(again.suspended_at, now));
        assert_eq!(again.unsuspended_at, None);
    }
    Ok(())
}

#[tokio::test]
async fn an_account_that_was_never_activated_is_provisioned_again_after_a_suspension() -> Result<()>
{
    for database in databases()? {
        let client = database.connect().await?;
        let account = register(&client, "a").await?;
        set_status(&client, account, "suspended").await?;
        set_status(&client, account, "active").await?;
        let unsuspended = standing(&client, account).await?;
        assert_eq!(unsuspended.status, "provisioned");
        assert_eq!((unsuspended.activated_at, unsuspended.suspended_at), (None, None));
        assert!(is_recent(unsuspended.unsuspended_at, now(&client).await?));

        consume(&client, account, "activation").await?;
        assert_eq!(standing(&client, account).await?.status, "active");
    }
    Ok(())
}

#[tokio::test]
async fn consuming_the_activation_token_of_a_suspended_account_leaves_it_suspended() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let account = register(&client, "a").await?;
        set_status(&client, account, "suspended").await?;
        let before = standing(&client, account).await?;
        consume(&client, account, "activation").await?;
        assert_eq!(standing(&client, account).await?, before);
    }
    Ok(())
}

#[tokio::test]
async fn writing_the_same_status_again_changes_no_time() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let account = register(&client, "a").await?;
        consume(&client, account, "activation").await?;
        make_older(&client, account).await?;
        let before = standing(&client, account).await?;
        set_status(&client, account, "active").await?;
        assert_eq!(standing(&client, account).await?, before);
    }
    Ok(())
}

#[tokio::test]
async fn recovery_tokens_are_made_on_request_and_change_no_status() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let account = register(&client, "a").await?;
        consume(&client, account, "activation").await?;
        let before = standing(&client, account).await?;
        let insert = "INSERT INTO tokens (account, action) VALUES ($1, 'password_recovery')
            RETURNING code, length(secret), expires_at - created_at = 900";
        let row = client.query_one(insert, &[&account]).await?;
        assert_eq!((row.get::<_, &str>(0).len(), row.get(1), row.get(2)), (5, 32, true));
        consume(&client, account, "password_recovery").await?;
        assert_eq!(standing(&client, account).await?, before);

        let provisioned = register(&client, "b").await?;
        client.query_one(insert, &[&provisioned]).await?;
        consume(&client, provisioned, "password_recovery").await?;
        assert_eq!(
            standing(&client, provisioned).await?.status,
            "provisioned",
            "a recovery activated"
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_account_that_is_imported_as_active_stays_so_after_a_suspension() -> Result<()> {
    let database = Database::create()?;
    let mut client = database.connect().await?;
    let import =
        "INSERT INTO accounts (email, login, status, created_at, status_changed_at, activated_at)
        VALUES
        ($1 || 'a', $1 || 'a', 'active', 5, NULL, NULL), ($1 || 'b', $1 || 'b', 'active', 5, 6,
            NULL),
        ($1 || 'c', $1 || 'c', 'active', 5, 6, 7), ($1 || 'd', $1 || 'd', 'suspended', 5, 6, NULL)";
    migrate::up(&mut client, &MIGRATIONS[..=0], &mut |_| {}).await?;
    client.execute(import, &[&"before"]).await?;
    migrate::up(&mut client, MIGRATIONS, &mut |_| {}).await?;
    client.execute(import, &[&"after"]).await?;
    for (number, login) in ["before", "after"]
        .into_iter()
        .flat_map(|when| (0..).zip(["a", "b", "c", "d"].map(|name| format!("{when}{name}"))))
    {
        let account =
            client.query_one("SELECT id FROM accounts WHERE login = $1", &[&login]).await?.get(0);
        set_status(&client, account, "suspended").await?;
        set_status(&client, account, "active").await?;
        let after = standing(&client, account).await?;
        // Nobody knows whether one that is imported as suspended was ever active.
        let expected =
            [("active", Some(5)), ("active", Some(6)), ("active", Some(7)), ("provisioned", None)]
                [number];
        assert_eq!((&*after.status, after.activated_at), expected, "{login}");
    }
    Ok(())
}
