//! Transactions that are prepared for a commit in two phases, which may notify nobody.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::application::Application;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::{Cluster, Database};
use tokio::time::sleep;

#[tokio::test]
async fn registrations_can_be_prepared_where_no_collector_is_to_be_notified() -> Result<()> {
    let cluster = Cluster::builder().setting("max_prepared_transactions", "2").start()?;
    let database = Database::create_on(&cluster.url("postgres"))?.migrate()?;
    let application = Application::connect(&database).await?;
    // As docs/operate/rights.md says.
    application
        .client
        .batch_execute("ALTER TABLE mailroom.queue DISABLE TRIGGER after_queue_insert")
        .await?;
    let mut command = collector::command(database.url())?;
    let mut collector = Collector::start(command.args([
        "--wake",
        "poll",
        "--poll-interval",
        "200ms",
        "--batch-timeout",
        "0",
    ]))?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    for login in ["a", "b", "c"] {
        sleep(Duration::from_millis(300)).await;
        application.client.batch_execute("BEGIN").await?;
        application.register(login).await?;
        application.client.batch_execute("PREPARE TRANSACTION 'registration'").await?;
        application.client.batch_execute("COMMIT PREPARED 'registration'").await?;
        assert_eq!(lines.next_items(1)?.swap_remove(0).login, login);
    }
    collector.stop()?;
    Ok(())
}
