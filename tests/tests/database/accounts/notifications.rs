//! What those hear who listen for new tokens.

use std::future::poll_fn;
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::Database;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::{databases, register};

/// A connection that listens; it hears as long as its client is there.
struct Listener {
    client: Client,
    heard: UnboundedReceiver<(String, String)>,
}

impl Listener {
    async fn start(database: &Database) -> Result<Self> {
        let (client, mut connection) = tokio_postgres::connect(database.url(), NoTls).await?;
        let (sender, heard) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(heard) = message {
                    // Nobody may be interested any more.
                    sender.send((heard.channel().to_owned(), heard.payload().to_owned())).ok();
                }
            }
        });
        client.batch_execute("LISTEN token_insert").await?;
        Ok(Self { client, heard })
    }

    /// Waits for a notification: its channel and payload.
    async fn next(&mut self) -> Result<(String, String)> {
        timeout(Duration::from_secs(60), self.heard.recv()).await?.context("the connection ended")
    }
}

/// Has transactions announce tokens, as a collector does before it sleeps.
/// In the base schema they always do.
async fn fall_asleep(client: &Client) -> Result<()> {
    let lock = "SELECT pg_advisory_lock(1835100524, to_regclass('mailroom.queue')::oid::integer)";
    client.batch_execute(lock).await?;
    Ok(())
}

#[tokio::test]
async fn nobody_is_told_anything_while_nobody_sleeps() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let mut listener = Listener::start(&database).await?;
    register(&client, "a").await?;
    client.execute("SELECT pg_notify('token_insert', 'last')", &[]).await?;
    assert_eq!(listener.next().await?.1, "last");
    Ok(())
}

#[tokio::test]
async fn listening_hears_each_transaction_once() -> Result<()> {
    for database in databases()? {
        let mut client = database.connect().await?;
        let mut listener = Listener::start(&database).await?;
        fall_asleep(&listener.client).await?;
        let hint = ("token_insert".to_owned(), String::new());

        let account = register(&client, "a").await?;
        assert_eq!(listener.next().await?, hint, "a registration");

        let recovery = "INSERT INTO tokens (account, action) VALUES ($1, 'password_recovery')";
        client.execute(recovery, &[&account]).await?;
        assert_eq!(listener.next().await?, hint, "a recovery");

        let transaction = client.transaction().await?;
        transaction.accounts(numbered("", 1..=100)).insert().await?;
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
