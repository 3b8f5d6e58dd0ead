//! A queue is sent from one cluster, and by collectors of one installation: a copy mails nobody
//! until somebody says so.

use std::process::Output;

use anyhow::{Result, ensure};
use mailroom::queue::{Queue, QueueError};
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use serde_json::Value;

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

    let said = mailroom(&database, &["status"], None)?;
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.code() == Some(2), "{said:?}");
    assert!(text.contains("warning   the queue belongs to another PostgreSQL cluster"), "{text}");
    let output = mailroom(&database, &["migrate", "bind"], None)?;
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

fn mailroom(database: &Database, arguments: &[&str], installation: Option<&str>) -> Result<Output> {
    let mut command = program::mailroom()?;
    command.args(arguments).env("MAILROOM_DATABASE_URL", database.url());
    command.envs(installation.map(|name| ("MAILROOM_INSTALLATION", name)));
    Ok(command.output()?)
}

fn bind(database: &Database, arguments: &[&str]) -> Result<String> {
    let output = mailroom(database, &[&["migrate", "bind"], arguments].concat(), None)?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

fn start(database: &Database, installation: Option<&str>) -> Result<Collector> {
    let mut command = collector::command(database.url())?;
    command
        .args(["--batch-timeout", "0"])
        .envs(installation.map(|name| ("MAILROOM_INSTALLATION", name)));
    Collector::start(&mut command)
}

/// A physical copy has the identifier of its cluster: what tells it from the original is who
/// collects.
#[tokio::test]
async fn an_installation_with_a_name_is_sent_from_by_collectors_of_that_name_alone() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    // Before it has a name, one that has is let in: so collectors are told first.
    let told = start(&database, Some("production"))?;
    let mut untold = start(&database, None)?;
    told.wait_until_it_collects()?;
    untold.wait_until_it_collects()?;
    let said = bind(&database, &["--name", "production"])?;
    assert!(said.contains("started with MAILROOM_INSTALLATION=production"), "{said}");

    // What runs goes on, since it may have mails on their way; the status says that it will not be
    // let in again.
    told.stop()?;
    token(&client, "password_recovery").await?;
    untold.lines()?.next_line()?;
    let output = mailroom(&database, &["status"], None)?;
    let text = String::from_utf8(output.stdout)?;
    assert!(
        text.contains("warning   1 collector runs without the name of this installation"),
        "{text}"
    );
    assert!(
        text.contains(
            "name      production, which collectors have to name by MAILROOM_INSTALLATION\n"
        ),
        "{text}"
    );
    untold.stop()?;

    let waiting = token(&client, "password_recovery").await?;
    for name in [None, Some("staging"), Some("Production")] {
        let refused = start(&database, name)?;
        refused.wait_for_log("this queue is that of the installation \"production\"", 1)?;
        let log = refused.stop()?;
        assert!(log.contains("set MAILROOM_INSTALLATION=production"), "{log}");
        assert!(log.contains("run `mailroom migrate bind --name`"), "{log}");
        assert!(!log.contains("queue_opened"), "{log}");
    }
    assert_eq!(state(&client, waiting).await?, at("queued", 0));
    let mut right = start(&database, Some("production"))?;
    right.lines()?.next_line()?;
    right.stop()?;

    // A clone gets a name of its own, keeps it, and loses it only on request.
    assert!(bind(&database, &["--name", "clone-2"])?.contains("MAILROOM_INSTALLATION=clone-2"));
    assert!(bind(&database, &[])?.contains("MAILROOM_INSTALLATION=clone-2"));
    assert_eq!(bind(&database, &["--without-name"])?.trim(), "the queue is sent from this cluster");
    Ok(())
}

#[tokio::test]
async fn status_tells_the_installation_and_warns_of_another_than_was_meant() -> Result<()> {
    let database = Database::migrated()?;
    let status = |installation| -> Result<_> {
        let output = mailroom(&database, &["status", "--json"], installation)?;
        Ok((output.status.code(), serde_json::from_slice::<Value>(&output.stdout)?))
    };
    let text = String::from_utf8(mailroom(&database, &["status"], None)?.stdout)?;
    assert!(
        text.contains("name      none, so that collectors would also send from a copy"),
        "{text}"
    );
    let (code, json) = status(None)?;
    assert_eq!((code, &json["installation"]["name"]), (Some(0), &Value::Null));
    let (code, json) = status(Some("production"))?;
    assert!(
        json["warnings"][0].as_str().is_some_and(|said| said.contains("bind --name production")),
        "{json}"
    );
    assert_eq!(code, Some(2));
    bind(&database, &["--name", "production"])?;
    assert_eq!(status(Some("production"))?.0, Some(0));
    assert_eq!(status(None)?.0, Some(0));
    let (code, json) = status(Some("staging"))?;
    let warning = json["warnings"][0].as_str().unwrap_or_default();
    assert!(
        code == Some(2) && warning.contains("of the installation production, and not of staging"),
        "{json}"
    );
    Ok(())
}

#[test]
fn a_name_that_no_variable_carries_well_is_refused_where_it_is_given() -> Result<()> {
    let database = Database::migrated()?;
    for name in ["", "two words", "-first", "a/b", &"a".repeat(64)] {
        let output = mailroom(&database, &["migrate", "bind", "--name", name], None)?;
        assert_eq!(output.status.code(), Some(2), "{name:?}");
    }
    assert!(bind(&database, &["--name", &"a".repeat(63)])?.contains("MAILROOM_INSTALLATION=aaa"));
    let output = mailroom(&database, &["migrate", "bind", "--name", "a", "--without-name"], None)?;
    assert_eq!(output.status.code(), Some(2));
    Ok(())
}
