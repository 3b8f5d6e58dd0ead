use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::Database;

use super::{command, count, give_up, run};

#[tokio::test]
async fn named_tokens_go_out_again_with_all_their_attempts() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 5).await?;
    assert_eq!(run(&database, &["retry", "2", "4", "2"])?.success()?, "2 tokens wait again\n");
    assert_eq!(run(&database, &["retry", "5"])?.success()?, "1 token waits again\n");
    assert_eq!(count(&client, "mailroom.dead_letters").await?, 2);
    assert_eq!(
        count(&client, "mailroom.queue WHERE failures = 0 AND attempts = 8 AND due_at <= now()")
            .await?,
        3
    );
    let mut collector =
        Collector::start(collector::command(database.url())?.args(["--batch-timeout", "0"]))?;
    let came: BTreeSet<_> =
        collector.lines()?.next_items(3)?.into_iter().map(|item| item.login).collect();
    assert_eq!(came, ["user2", "user4", "user5"].map(str::to_owned).into());
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_sleeping_collector_is_woken_for_tokens_that_are_put_back() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 3).await?;
    let mut collector = Collector::start(collector::command(database.url())?.args([
        "--batch-timeout",
        "0",
        "--poll-interval",
        "24h",
        "--healthcheck-interval",
        "24h",
    ]))?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    lines.expect_none(Duration::from_secs(1))?;
    run(&database, &["retry", "--all-dead"])?.success()?;
    assert_eq!(lines.next_items(3)?.len(), 3);
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn tokens_that_are_not_dead_are_named() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 2).await?;
    let said = run(&database, &["retry", "1", "77"])?;
    assert_eq!((said.code, said.output.as_str()), (Some(1), "1 token waits again\n"));
    assert_eq!(said.errors, "mailroom: token 77 is no dead letter\n");
    let said = run(&database, &["retry", "1"])?;
    assert_eq!((said.code, said.output.as_str()), (Some(1), "0 tokens wait again\n"));
    assert_eq!(count(&client, "mailroom.queue").await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_account_whose_dead_letter_has_expired_gets_a_new_token() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 2).await?;
    client.batch_execute("UPDATE tokens SET consumed_at = 1 WHERE id = 2").await?;
    client.batch_execute("UPDATE mailroom.issued_tokens SET expires_at = 1").await?;
    assert_eq!(run(&database, &["retry", "--all-dead"])?.success()?, "2 tokens wait again\n");
    let mut collector =
        Collector::start(collector::command(database.url())?.args(["--batch-timeout", "0"]))?;
    let lines = collector.lines()?;
    assert_eq!(lines.next_items(1)?[0].login, "user1");
    lines.expect_none(Duration::from_secs(1))?;
    collector.stop()?;
    assert_eq!(
        count(&client, "tokens WHERE id > 2 AND account = 1 AND consumed_at IS NULL").await?,
        1
    );
    Ok(())
}

#[tokio::test]
async fn two_operators_at_once_put_each_token_back_once() -> Result<()> {
    const DEAD: usize = 2_000;
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, i32::try_from(DEAD)?).await?;
    let mut collector =
        Collector::start(collector::command(database.url())?.args(["--batch-timeout", "0"]))?;
    let lines = collector.lines()?;
    collector.wait_until_it_collects()?;
    let mut operators = Vec::new();
    for _ in 0..4 {
        let mut command = command(database.url(), &["retry", "--all-dead"])?;
        operators.push(command.stdout(Stdio::piped()).spawn()?);
    }
    let mut back = 0;
    for operator in operators {
        let output = String::from_utf8(operator.wait_with_output()?.stdout)?;
        back += output.split(' ').next().unwrap_or_default().parse::<usize>()?;
    }
    assert_eq!(back, DEAD);
    let mut came = BTreeSet::new();
    for item in lines.next_items(DEAD)? {
        assert!(came.insert(item.login.clone()), "{} came twice", item.login);
    }
    lines.expect_none(Duration::from_secs(1))?;
    collector.stop()?;
    assert_eq!(
        count(&client, "mailroom.delivery_attempts WHERE outcome = 'sent'").await?,
        i64::try_from(DEAD)?
    );
    Ok(())
}

#[tokio::test]
async fn what_may_have_been_delivered_is_put_back_only_on_demand_and_the_command_says_so()
-> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 4).await?;
    client
        .execute("UPDATE mailroom.dead_letters SET doubts = 3 WHERE token IN (2, 3)", &[])
        .await?;
    assert_eq!(run(&database, &["retry", "--all-dead"])?.success()?, "2 tokens wait again\n");
    assert_eq!(count(&client, "mailroom.dead_letters WHERE is_in_doubt").await?, 2);
    let said = run(&database, &["retry", "2"])?;
    assert_eq!((said.code, said.output.as_str()), (Some(0), "1 token waits again\n"));
    let warning = "may have been delivered: its recipient may get the mail a second time\n";
    assert_eq!(said.errors, format!("mailroom: token 2 {warning}"));
    let said = run(&database, &["retry", "--all-dead", "--in-doubt"])?;
    assert_eq!((said.code, said.errors), (Some(0), format!("mailroom: token 3 {warning}")));
    assert_eq!(count(&client, "mailroom.queue WHERE doubts = 3").await?, 2);
    assert_eq!(run(&database, &["retry", "--in-doubt"])?.code, Some(2));
    Ok(())
}
