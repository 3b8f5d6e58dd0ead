//! What the database does by itself: tokens at registration, times and states of accounts, notifications.
//!
//! Unless a test is about one of the base schema's faults, it holds for the base schema and for the newest one.

use std::future::poll_fn;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom_tests::postgres::Database;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// A database of each schema whose behaviour is the same.
fn databases() -> Result<[Database; 2]> {
    Ok([Database::with_base_schema()?, Database::migrated()?])
}

async fn register(client: &Client, name: &str) -> Result<i64> {
    let insert = "INSERT INTO accounts (email, login) VALUES ($1 || '@example.test', $1) RETURNING id";
    Ok(client.query_one(insert, &[&name]).await?.get(0))
}

async fn count(client: &Client, table: &str) -> Result<i64> {
    Ok(client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?.get(0))
}

async fn set_status(client: &Client, account: i64, status: &str) -> Result<()> {
    client
        .execute("UPDATE accounts SET status = $2::text::account_status WHERE id = $1", &[&account, &status])
        .await?;
    Ok(())
}

async fn consume(client: &Client, account: i64, action: &str) -> Result<()> {
    let update = "UPDATE tokens SET consumed_at = extract(epoch FROM now())
        WHERE account = $1 AND action = $2::text::token_action AND consumed_at IS NULL";
    ensure!(client.execute(update, &[&account, &action]).await? == 1, "there is not one such token");
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
    let query = "SELECT status::text, status_changed_at::bigint, activated_at::bigint, suspended_at::bigint,
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

/// Sets the times of an account back, so that the next change is seen although it is of the same second.
async fn make_older(client: &Client, account: i64) -> Result<()> {
    let update = "UPDATE accounts SET status_changed_at = status_changed_at - 1000, activated_at = activated_at - 1000,
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
async fn registration_makes_an_activation_token_in_the_same_transaction() -> Result<()> {
    for database in databases()? {
        let mut client = database.connect().await?;
        let observer = database.connect().await?;

        let transaction = client.transaction().await?;
        transaction.execute("INSERT INTO accounts (email, login) VALUES ('a@b.test', 'a')", &[]).await?;
        assert_eq!(transaction.query("SELECT FROM tokens", &[]).await?.len(), 1);
        assert_eq!(count(&observer, "tokens").await?, 0, "seen before the commit");
        transaction.rollback().await?;
        assert_eq!(count(&client, "tokens").await?, 0, "left by a rollback");

        let account = register(&client, "b").await?;
        let row = observer
            .query_one(
                "SELECT action::text, length(secret), code, expires_at - created_at = 900, consumed_at IS NULL,
                    abs(created_at - extract(epoch FROM now())) < 60, account FROM tokens",
                &[],
            )
            .await?;
        assert_eq!(row.get::<_, &str>(0), "activation");
        assert_eq!(row.get::<_, i32>(1), 32);
        assert_eq!(row.get::<_, &str>(2).len(), 5);
        assert_eq!([3, 4, 5].map(|column: usize| row.get::<_, bool>(column)), [true; 3]);
        assert_eq!(row.get::<_, i64>(6), account);
    }
    Ok(())
}

#[tokio::test]
async fn every_account_of_a_statement_gets_a_token_of_its_own() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let insert =
            "INSERT INTO accounts (email, login) SELECT n || '@b.test', n FROM generate_series(1, 500) n";
        client.execute(insert, &[]).await?;
        let query = "SELECT count(*), count(DISTINCT account), count(DISTINCT secret) FROM tokens";
        let row = client.query_one(query, &[]).await?;
        assert_eq!([0, 1, 2].map(|column: usize| row.get::<_, i64>(column)), [500; 3]);
    }
    Ok(())
}

#[tokio::test]
async fn only_provisioned_accounts_get_a_token() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let insert = "INSERT INTO accounts (email, login, status)
            VALUES ('a', 'a', 'active'), ('b', 'b', 'suspended'), ('c', 'c', 'provisioned') RETURNING id";
        let accounts = client.query(insert, &[]).await?;
        let tokens = client.query("SELECT account FROM tokens", &[]).await?;
        assert_eq!(tokens.len(), 1);
        assert_eq!(tokens[0].get::<_, i64>(0), accounts[2].get::<_, i64>(0));
    }
    Ok(())
}

#[tokio::test]
async fn a_failing_token_insert_rolls_the_account_back() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        client
            .batch_execute(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
                    AS $$ BEGIN RAISE EXCEPTION 'no tokens today'; END; $$;
                CREATE TRIGGER refuse BEFORE INSERT ON tokens FOR EACH ROW EXECUTE FUNCTION refuse()",
            )
            .await?;
        let insert = "INSERT INTO accounts (email, login) VALUES ('a', 'a'), ('b', 'b')";
        let error = client.execute(insert, &[]).await.expect_err("the token was refused");
        assert_eq!(error.as_db_error().context("by the server")?.message(), "no tokens today");
        assert_eq!(count(&client, "accounts").await?, 0);
        assert_eq!(count(&client, "tokens").await?, 0);

        client.batch_execute("DROP TRIGGER refuse ON tokens").await?;
        register(&client, "a").await?;
        assert_eq!(count(&client, "tokens").await?, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_second_account_with_the_same_email_or_login_makes_no_token() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        register(&client, "a").await?;
        for values in ["'a@example.test', 'b'", "'b', 'a'"] {
            let insert = format!("INSERT INTO accounts (email, login) VALUES ({values})");
            let error = client.execute(&insert, &[]).await.expect_err("it is there already");
            assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
        }
        assert_eq!(count(&client, "tokens").await?, 1);
    }
    Ok(())
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
        assert!(is_recent(suspended.suspended_at, now) && is_recent(suspended.status_changed_at, now));
        assert_eq!((suspended.activated_at, suspended.unsuspended_at), (active.activated_at, None));

        make_older(&client, account).await?;
        set_status(&client, account, "active").await?;
        let unsuspended = standing(&client, account).await?;
        assert_eq!(unsuspended.status, "active");
        assert!(is_recent(unsuspended.unsuspended_at, now) && is_recent(unsuspended.status_changed_at, now));
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
async fn an_account_that_was_never_activated_is_provisioned_again_after_a_suspension() -> Result<()> {
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
        assert_eq!(standing(&client, provisioned).await?.status, "provisioned", "a recovery activated");
    }
    Ok(())
}

#[tokio::test]
async fn deleting_an_account_deletes_its_tokens_alone() -> Result<()> {
    for database in databases()? {
        let client = database.connect().await?;
        let (account, other) = (register(&client, "a").await?, register(&client, "b").await?);
        client.execute("DELETE FROM accounts WHERE id = $1", &[&account]).await?;
        let left = client.query("SELECT account FROM tokens", &[]).await?;
        assert_eq!(left.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [other]);
    }
    Ok(())
}

#[tokio::test]
async fn a_token_may_precede_its_account_but_not_lack_it() -> Result<()> {
    for database in databases()? {
        let mut client = database.connect().await?;
        let insert = "INSERT INTO tokens (account, action) VALUES (4711, 'password_recovery')";
        let transaction = client.transaction().await?;
        transaction.execute(insert, &[]).await?;
        transaction
            .execute("INSERT INTO accounts (id, email, login, status) VALUES (4711, 'a', 'a', 'active')", &[])
            .await?;
        transaction.commit().await?;
        assert_eq!(count(&client, "tokens").await?, 1);

        let transaction = client.transaction().await?;
        transaction.execute(&insert.replace("4711", "4712"), &[]).await?;
        let error = transaction.commit().await.expect_err("there is no such account");
        assert_eq!(error.code(), Some(&SqlState::FOREIGN_KEY_VIOLATION));
        assert_eq!(count(&client, "tokens").await?, 1);
    }
    Ok(())
}

/// A connection that listens; it hears as long as its client is there.
struct Listener {
    _client: Client,
    heard: UnboundedReceiver<(String, String)>,
}

impl Listener {
    async fn start(database: &Database) -> Result<Self> {
        let (client, mut connection) = tokio_postgres::connect(database.url(), NoTls).await?;
        let (sender, heard) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(heard) = message {
                    // Nobody may be interested any more.
                    sender.send((heard.channel().to_owned(), heard.payload().to_owned())).ok();
                }
            }
        });
        client.batch_execute("LISTEN token_insert").await?;
        Ok(Self { _client: client, heard })
    }

    /// Waits for a notification: its channel and payload.
    async fn next(&mut self) -> Result<(String, String)> {
        timeout(Duration::from_secs(20), self.heard.recv()).await?.context("the connection ended")
    }
}

#[tokio::test]
async fn listening_hears_each_transaction_once() -> Result<()> {
    for database in databases()? {
        let mut client = database.connect().await?;
        let mut listener = Listener::start(&database).await?;
        let hint = ("token_insert".to_owned(), String::new());

        let account = register(&client, "a").await?;
        assert_eq!(listener.next().await?, hint, "a registration");

        let recovery = "INSERT INTO tokens (account, action) VALUES ($1, 'password_recovery')";
        client.execute(recovery, &[&account]).await?;
        assert_eq!(listener.next().await?, hint, "a recovery");

        let transaction = client.transaction().await?;
        let many = "INSERT INTO accounts (email, login) SELECT n, n FROM generate_series(1, 100) n";
        transaction.execute(many, &[]).await?;
        transaction.execute(recovery, &[&account]).await?;
        transaction.commit().await?;
        assert_eq!(listener.next().await?, hint, "a hundred registrations");

        let transaction = client.transaction().await?;
        transaction.execute(recovery, &[&account]).await?;
        transaction.rollback().await?;
        // Whatever was sent before this one is heard before it.
        client.execute("SELECT pg_notify('token_insert', 'last')", &[]).await?;
        assert_eq!(listener.next().await?.1, "last", "something was heard twice, or of a rollback");
    }
    Ok(())
}
