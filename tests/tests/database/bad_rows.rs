//! Each row that no line can carry is named with its reason, and holds up no other.

use anyhow::Result;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::fixtures::{Fixtures, numbered};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{cursor, wait_for};

/// As many addresses, which a log must not have.
fn addresses(count: i64) -> impl Iterator<Item = String> {
    (1..=count).map(|number| format!("user{number}@example.test"))
}

#[tokio::test]
async fn a_bad_row_is_passed_with_its_id_and_reason_and_the_others_go_out() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    let accounts = client.accounts(numbered("user", 1..=15)).active().insert().await?;
    client.token().recovery().code(Some("12345")).insert_for_each(&accounts).await?;
    client
        .batch_execute(
            "UPDATE tokens SET secret = decode(repeat('ab', 31), 'hex') WHERE id = 1;
             UPDATE tokens SET secret = decode(repeat('ab', 33), 'hex') WHERE id = 2;
             UPDATE tokens SET code = '#####' WHERE id = 3;
             UPDATE tokens SET code = '1234' WHERE id = 4;
             UPDATE tokens SET code = NULL WHERE id = 5;
             UPDATE accounts SET login = 'a,b' WHERE id = 6;
             UPDATE accounts SET email = 'a\"b@example.test' WHERE id = 7;
             UPDATE accounts SET login = E'a\\nb' WHERE id = 8;
             UPDATE accounts SET email = E'a\\r@example.test' WHERE id = 9;
             UPDATE accounts SET login = E'a\\tb' WHERE id = 10;
             UPDATE accounts SET login = E'1\\n1,victim@example.test,victim' WHERE id = 11;
             UPDATE accounts SET email = E'a\\u2028b@example.test' WHERE id = 12",
        )
        .await?;
    let mut collector = Collector::start(
        collector::on_base_schema(database.url())?.args(["--batch-timeout", "0"]),
    )?;
    let sent: Vec<_> =
        collector.lines()?.next_items(3)?.into_iter().map(|item| item.login).collect();
    assert_eq!(sent, ["user13", "user14", "user15"]);
    let log = collector.stop()?;
    for (id, reason) in [
        (1, "its secret has 31 bytes instead of 32"),
        (2, "its secret has 33 bytes instead of 32"),
        (3, "its code is not of 5 digits"),
        (4, "its code is not of 5 digits"),
        (5, "its code is not of 5 digits"),
        (6, "its login contains a comma"),
        (7, "its email contains a quote"),
        (8, "its login contains a line feed"),
        (9, "its email contains a carriage return"),
        (10, "its login contains a control character"),
        (11, "its login contains a line feed"),
        (12, "its email contains a line separator"),
    ] {
        let named = format!("token {id}: {reason}");
        let lines = log.lines().filter(|line| line.contains(" no mail: "));
        assert_eq!(lines.filter(|line| line.contains(&named)).count(), 1, "{named}\n{log}");
    }
    assert!(!log.contains("victim"), "{log}");
    assert_eq!(cursor(&client).await?, 15);
    Ok(())
}

#[tokio::test]
async fn many_bad_rows_are_few_lines_of_the_log_where_the_database_has_the_reasons() -> Result<()> {
    const ROWS: i64 = 1_000;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.accounts(numbered("a,", 1..=ROWS)).emails(addresses(ROWS)).insert().await?;
    let mut command = collector::command(database.url())?;
    let collector =
        Collector::start(command.args(["--batch-timeout", "0", "--batch-limit", "20"]))?;
    let dead =
        "SELECT count(*) FROM mailroom.dead_letters WHERE reason = 'its login contains a comma'";
    wait_for(&client, dead, ROWS).await?;
    let log = collector.stop()?;
    let lines: Vec<_> = log.lines().filter(|line| line.contains("WARN")).collect();
    // Ten within ten seconds.
    assert!((1..=30).contains(&lines.len()), "{} lines", lines.len());
    let line = lines[0];
    let reason = ": its login contains a comma (after 1 attempt); ";
    assert!(
        line.contains(" tokens are given up and get no mail: token ") && line.contains(reason),
        "{line}"
    );
    let rest = "] attempts=1 put_back=\"mailroom retry --all-dead\" event=tokens_dead";
    assert!(line.contains("; and 10 others count=20 ids=[") && line.ends_with(rest), "{line}");
    assert!(!log.contains("a,1") && !log.contains("example.test"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_batch_of_bad_rows_is_no_line_and_does_not_stop_the_queue() -> Result<()> {
    let database = Database::with_base_schema()?;
    let client = database.connect().await?;
    client.accounts(numbered("a,", 1..=50)).emails(addresses(50)).insert().await?;
    client.account("good").insert().await?;
    let mut collector = Collector::start(
        collector::on_base_schema(database.url())?.args(["--batch-timeout", "0"]),
    )?;
    let batch = collector.lines()?.next_batch()?;
    assert_eq!(batch.len(), 1);
    assert_eq!(batch[0].login, "good");
    collector.stop()?;
    assert_eq!(cursor(&client).await?, 51);
    Ok(())
}
