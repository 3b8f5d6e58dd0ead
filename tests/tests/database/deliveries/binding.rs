//! A queue is sent from one cluster: a restored copy mails nobody until somebody says so.

use anyhow::Result;
use mailroom::queue::{Queue, QueueError};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;

use super::{all, at, ids, queue, state, token};

/// As in a dump of another cluster.
const ELSEWHERE: &str =
    "UPDATE mailroom.installation SET system_identifier = system_identifier + 1";

#[tokio::test]
async fn a_queue_that_was_restored_elsewhere_is_not_sent_until_it_is_bound_again() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let waiting = token(&client, "password_recovery").await?;
    client.batch_execute(ELSEWHERE).await?;
    let error = queue(&database)
        .await
        .expect_err("it belongs to another cluster")
        .downcast::<QueueError>()?;
    let said = error.to_string();
    assert!(said.contains("belongs to another PostgreSQL cluster"), "{said}");
    assert!(said.contains("`mailroom migrate bind`"), "{said}");
    assert_eq!(state(&client, waiting).await?, at("queued", 0));

    let output = program::mailroom()?
        .args(["migrate", "bind"])
        .env("MAILROOM_DATABASE_URL", database.url())
        .output()?;
    assert!(output.status.success(), "{output:?}");
    let mut queue = queue(&database).await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [waiting]);
    Ok(())
}

#[tokio::test]
async fn where_the_cluster_may_not_be_asked_for_the_queue_is_bound_to_none() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let waiting = token(&client, "password_recovery").await?;
    client.batch_execute("UPDATE mailroom.installation SET system_identifier = NULL").await?;
    let mut queue = queue(&database).await?;
    assert_eq!(ids(&queue.settle_and_claim(Vec::new(), all(10)).await?.batches), [waiting]);
    Ok(())
}
