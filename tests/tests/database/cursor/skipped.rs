//! Tokens that the cursor has skipped because their account had the wrong status, after the
//! collector that skipped them ended.

use std::time::Duration;

use anyhow::Result;
use mailroom::migrate::{self, MIGRATIONS};
use mailroom_tests::collector::{self, Collector, Lines};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{cursor, logins, register};
use tokio_postgres::Client;

use super::{eager, wait_for_cursor};

fn next_logins(lines: &Lines, count: usize) -> Result<Vec<String>> {
    Ok(lines.next_items(count)?.into_iter().map(|item| item.login).collect())
}

async fn set_status(client: &Client, status: &str, logins: &str) -> Result<()> {
    client
        .batch_execute(&format!(
            "UPDATE accounts SET status = '{status}' WHERE login IN ({logins})"
        ))
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_new_collector_sends_what_the_killed_one_had_passed() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=5).await?;
    set_status(&client, "suspended", "'user1', 'user2', 'user3', 'user4'").await?;
    client
        .batch_execute(
            "UPDATE tokens SET expires_at = 1 WHERE id = 3;
             UPDATE tokens SET consumed_at = 1 WHERE id = 4",
        )
        .await?;
    let recoverer = client.account("recoverer").email("r@b.test").insert().await?;
    client.token().recovery().of(recoverer).insert().await?;
    client.account("last").email("l@b.test").insert().await?;
    let mut first = Collector::start(&mut eager(&database)?)?;
    assert_eq!(next_logins(&first.lines()?, 3)?, ["user5", "recoverer", "last"]);
    wait_for_cursor(&client, 8).await?;
    first.kill()?;

    // None of the four was ever activated, so they return to provisioned: one while nobody
    // collects, one later.
    set_status(&client, "active", "'user1', 'user3', 'user4'").await?;
    // Opening the link of the activation makes the account one that can be recovered.
    client.batch_execute("UPDATE tokens SET consumed_at = 1 WHERE id = 6").await?;
    let mut second = Collector::start(&mut eager(&database)?)?;
    let lines = second.lines()?;
    let items = lines.next_items(2)?;
    let sent: Vec<_> =
        items.iter().map(|item| (item.action.as_str(), item.login.as_str())).collect();
    assert_eq!(sent, [("1", "user1"), ("2", "recoverer")]);
    set_status(&client, "active", "'user2'").await?;
    assert_eq!(next_logins(&lines, 1)?, ["user2"]);
    lines.expect_none(Duration::from_secs(1))?;
    second.stop()?;
    assert_eq!(cursor(&client).await?, 8);
    Ok(())
}

/// An account with one token of a recovery; times are seconds before now.
async fn past_token(
    client: &Client,
    login: &str,
    status: &str,
    changed: i32,
    made: i32,
) -> Result<()> {
    client.batch_execute("SET session_replication_role = replica").await?;
    let insert = "WITH account AS (
            INSERT INTO accounts (email, login, status, status_changed_at)
            VALUES ($1 || '@b.test', $1, $2::text::account_status, extract(epoch
                FROM now()) - $3::int) RETURNING id
        )
        INSERT INTO tokens (action, account, created_at, expires_at)
        SELECT 'password_recovery', id, extract(epoch FROM now()) - $4::int, extract(epoch
            FROM now()) + 600 FROM account";
    client.execute(insert, &[&login, &status, &changed, &made]).await?;
    client.batch_execute("SET session_replication_role = origin").await?;
    Ok(())
}

#[tokio::test]
async fn what_was_sent_for_certain_is_not_sent_again_by_the_next_collector() -> Result<()> {
    for version in [0, 1] {
        let database = Database::create()?;
        let mut client = database.connect().await?;
        migrate::up(&mut client, &MIGRATIONS[..=version], &mut |_| {}).await?;
        for (login, status, changed, made) in [
            ("always active", "active", 900, 600),
            ("activated long before a later token was sent", "active", 300, 600),
            ("activated just before the last token was made", "active", 20, 600),
            ("suspended", "suspended", 300, 600),
            ("made while the change could not be seen", "active", 50, 30),
            ("the last one", "active", 900, 5),
        ] {
            past_token(&client, login, status, changed, made).await?;
        }
        client.batch_execute("UPDATE jobs SET last_seq = (SELECT max(id) FROM tokens)").await?;
        let mut collector = Collector::start(&mut eager(&database)?)?;
        let lines = collector.lines()?;
        let sent = next_logins(&lines, 2)?;
        assert_eq!(
            sent,
            [
                "activated just before the last token was made",
                "made while the change could not be seen"
            ]
        );
        lines.expect_none(Duration::from_secs(1))?;
        set_status(&client, "active", "'suspended'").await?;
        // It was never activated, so that it takes two steps.
        set_status(&client, "active", "'suspended'").await?;
        assert_eq!(next_logins(&lines, 1)?, ["suspended"]);
        collector.stop()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_restart_repeats_no_mail_of_accounts_that_did_not_change() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=5_000).await?;
    let mut first = Collector::start(&mut eager(&database)?)?;
    assert_eq!(first.lines()?.next_items(5_000)?.len(), 5_000);
    wait_for_cursor(&client, 5_000).await?;
    first.kill()?;
    let mut second = Collector::start(&mut eager(&database)?)?;
    let lines = second.lines()?;
    second.wait_until_it_collects()?;
    lines.expect_none(Duration::from_secs(1))?;
    register(&client, 5_001..=5_001).await?;
    assert_eq!(next_logins(&lines, 1)?, logins(5_001..=5_001));
    second.stop()?;
    Ok(())
}

#[tokio::test]
async fn more_skipped_tokens_than_one_statement_reads_go_out_before_newer_ones() -> Result<()> {
    const PASSED: i32 = 10_000;
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    register(&client, 1..=PASSED).await?;
    client.batch_execute("UPDATE accounts SET status = 'suspended' WHERE id % 2 = 0").await?;
    register(&client, PASSED + 1..=PASSED + 1).await?;
    let mut first = Collector::start(eager(&database)?.args(["--batch-limit", "1000"]))?;
    let passed = usize::try_from(PASSED)?;
    assert_eq!(first.lines()?.next_items(passed / 2 + 1)?.len(), passed / 2 + 1);
    wait_for_cursor(&client, i64::from(PASSED) + 1).await?;
    first.kill()?;
    client.batch_execute("UPDATE accounts SET status = 'active' WHERE id % 4 = 0").await?;
    register(&client, PASSED + 2..=PASSED + 11).await?;
    // No poll comes in time; what the first collector skipped is read all the same.
    let mut command = collector::on_base_schema(database.url())?;
    command.args(["--poll-interval", "1h", "--healthcheck-interval", "1h"]);
    let mut second = Collector::start(&mut command)?;
    let expected: Vec<_> = (1..=PASSED / 4).map(|number| format!("user{}", number * 4)).collect();
    let sent = next_logins(&second.lines()?, passed / 4 + 10)?;
    assert_eq!(sent, [expected, logins(PASSED + 2..=PASSED + 11)].concat());
    second.stop()?;
    Ok(())
}
