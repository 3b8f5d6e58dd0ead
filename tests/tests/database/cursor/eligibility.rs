//! Which tokens are sent, and when.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::{self, Collector, Lines, read_one_line};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{cursor, logins, register};

use super::{eager, wait_for_cursor};

#[tokio::test]
async fn tokens_that_were_used_while_the_reader_slept_are_not_sent() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=20_000).await?;
    let mut collector = Collector::start(eager(&database)?.args(["--log-level", "debug"]))?;
    // A fast reader gets much at a time. When it stops, most of that finds no room in the pipe, and
    // is cancelled after a second. A reader on a slow machine gets little at a time, and there is
    // less to cancel.
    let mut output = collector.output()?;
    for _ in 0..1_000 {
        read_one_line(&mut output)?;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    // The pipe holds not even a thousand of them.
    client
        .execute("UPDATE tokens SET consumed_at = 1 WHERE id BETWEEN 11001 AND 19990", &[])
        .await?;
    let lines = Lines::of(output.into());
    let mut seen = Vec::new();
    while !seen.contains(&"user20000".to_owned()) {
        seen.extend(lines.next_batch()?.into_iter().map(|item| item.login));
    }
    assert_eq!(seen, [logins(10_001..=11_000), logins(19_991..=20_000)].concat());
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn only_eligible_tokens_are_sent() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=8).await?;
    client
        .batch_execute(
            "UPDATE tokens SET expires_at = extract(epoch FROM now()) - 1 WHERE id = 1;
             UPDATE tokens SET consumed_at = 1 WHERE id = 2;
             UPDATE accounts SET status = 'suspended' WHERE login = 'user3';
             UPDATE accounts SET status = 'active' WHERE login = 'user4';
             UPDATE accounts SET status = 'active' WHERE login = 'user5'",
        )
        .await?;
    client.token().recovery().insert_for_each(&[3, 4, 5, 6]).await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let items = collector.lines()?.next_items(5)?;
    let sent: Vec<_> = items.iter().map(|item| format!("{} {}", item.action, item.login)).collect();
    // Activations of 1 to 5 are expired, used or not for this status; so are recoveries of 3 and 6.
    assert_eq!(sent, ["1 user6", "1 user7", "1 user8", "2 user4", "2 user5"]);
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_token_goes_out_when_its_account_gets_the_right_status_again() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=3).await?;
    client
        .batch_execute("UPDATE accounts SET status = 'suspended' WHERE login IN ('user1', 'user3')")
        .await?;
    // Between two polls, what was read grows stale before it goes out.
    let mut command = collector::on_base_schema(database.url())?;
    command.args(["--batch-timeout", "1500", "--poll-interval", "3s"]);
    let mut collector = Collector::start(&mut command)?;
    let lines = collector.lines()?;
    assert_eq!(lines.next_batch()?[0].login, "user2");
    // user1 lies before the cursor by now, user3 behind it. Neither was ever activated, so both
    // return to provisioned.
    wait_for_cursor(&client, 2).await?;
    client.batch_execute("UPDATE accounts SET status = 'active' WHERE login = 'user1'").await?;
    assert_eq!(lines.next_batch()?[0].login, "user1");
    client.batch_execute("UPDATE accounts SET status = 'active' WHERE login = 'user3'").await?;
    assert_eq!(lines.next_batch()?[0].login, "user3");
    lines.expect_none(Duration::from_secs(2))?;
    collector.stop()?;
    assert_eq!(cursor(&client).await?, 3);
    Ok(())
}

#[tokio::test]
async fn a_token_committed_late_is_found_while_nothing_behind_it_was_sent() -> Result<()> {
    let database = Database::with_base_schema()?;
    let mut slow = database.connect().await?;
    let client = database.connect().await?;
    let transaction = slow.transaction().await?;
    transaction.account("late").insert().await?;
    register(&client, 1..=1).await?;
    client.batch_execute("UPDATE tokens SET consumed_at = 1").await?;
    let mut collector = Collector::start(&mut eager(&database)?)?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    lines.expect_none(Duration::from_secs(1))?;
    transaction.commit().await?;
    assert_eq!(lines.next_batch()?[0].login, "late");
    collector.stop()?;
    Ok(())
}
