use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::wait_for;
use tokio_postgres::Client;

use super::{command, count, run};

const OLD: &str = "mailroom.delivery_attempts WHERE happened_at < now() - interval '30 days'";

/// A log of many steps: every other row is old.
async fn write_log(client: &Client, rows: i32) -> Result<()> {
    let insert = "INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
        SELECT ARRAY[n], now() - interval '1 day' * (n % 2 * 40 + 1), 1, 'sent'
            FROM generate_series(1, $1::int) AS n";
    client.execute(insert, &[&rows]).await?;
    client
        .batch_execute(
            "UPDATE mailroom.installation SET log_complete_since = now() - interval '1 year'",
        )
        .await?;
    Ok(())
}

#[tokio::test]
async fn what_is_old_goes_and_the_rest_stays() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    write_log(&client, 60_000).await?;
    let said = run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(
        said,
        "pruned 30000 delivery attempts, 0 dead letters and 0 expired tokens; older than 30d, the \
         tokens expired for longer than 2d\n"
    );
    assert_eq!(
        (count(&client, OLD).await?, count(&client, "mailroom.delivery_attempts").await?),
        (0, 30_000)
    );
    let since = "SELECT log_complete_since BETWEEN now() - interval '31 days' \
                 AND now() - interval '30 days' FROM mailroom.installation";
    assert!(client.query_one(since, &[]).await?.get::<_, bool>(0));
    // What took the place of pruned rows is found, too.
    client.batch_execute("VACUUM mailroom.delivery_log").await?;
    write_log(&client, 20_000).await?;
    let said = run(&database, &["prune", "--older-than", "720h"])?.success()?;
    assert_eq!(
        said,
        "pruned 10000 delivery attempts, 0 dead letters and 0 expired tokens; older than 30d, the \
         tokens expired for longer than 2d\n"
    );
    let said = run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(
        said,
        "pruned 0 delivery attempts, 0 dead letters and 0 expired tokens; older than 30d, the \
         tokens expired for longer than 2d\n"
    );
    Ok(())
}

#[tokio::test]
async fn dead_tokens_go_once_nobody_could_use_them() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    mailroom_tests::rows::register(&client, 1..=4).await?;
    client
        .batch_execute(
            "INSERT INTO tokens (account, action, expires_at)
                SELECT 1, 'password_recovery', extract(epoch FROM now()) + years
                    FROM (VALUES (-1), (31536000)) AS v (years);
            INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures,
                priority, secret, code, reason)
                SELECT token, now() - interval '40 days', expires_at, 8, 8, priority, secret,
                    code, ''
                FROM mailroom.queue JOIN mailroom.issued_tokens ON id = token;
            INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures,
                priority, reason)
                VALUES (1000, now() - interval '40 days', 0, 8, 8, 1, ''), (1001, now(), 0, 8, 8,
                    1, '');
            UPDATE tokens SET consumed_at = extract(epoch FROM now()) WHERE id = 1;
            DELETE FROM accounts WHERE id = 2",
        )
        .await?;
    // Used, deleted with its account, expired, never there.
    let said = run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(
        said,
        "pruned 0 delivery attempts, 4 dead letters and 0 expired tokens; older than 30d, the \
         tokens expired for longer than 2d\n"
    );
    let left: Vec<i64> = client
        .query("SELECT token FROM mailroom.dead_letters ORDER BY token", &[])
        .await?
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(left, [3, 4, 6, 1001]);
    Ok(())
}

#[tokio::test]
async fn all_that_was_handed_over_and_had_no_verdict_goes_by_its_age() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    // Two steps and one row; and what is younger.
    client
        .batch_execute(
            "INSERT INTO mailroom.handed_over (token, handed_over_at, expires_at, attempts,
                failures, priority, is_expired)
                SELECT token, now() - days * interval '1 day', extract(epoch FROM now())
                    - days * 86400, 1, 0, 1, days > 0
                FROM (SELECT n, CASE n WHEN 20002 THEN 29 WHEN 20003 THEN -1 ELSE 31 END
                    FROM generate_series(1, 20003) AS n) AS rows (token, days)",
        )
        .await?;
    let said = run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert!(said.contains(", 0 dead letters and "), "{said}");
    assert_eq!(count(&client, "mailroom.handed_over").await?, 2);
    let mut tokens = Vec::new();
    for row in client.query("SELECT token FROM mailroom.handed_over ORDER BY 1", &[]).await? {
        tokens.push(row.get::<_, i64>(0));
    }
    assert_eq!(tokens, [20_002, 20_003]);
    Ok(())
}

#[tokio::test]
async fn steps_are_small_and_what_is_done_is_done() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    write_log(&client, 60_000).await?;
    // Somebody has a row of the last step.
    let other = database.connect().await?;
    other
        .batch_execute(
            "BEGIN; SELECT FROM mailroom.delivery_log WHERE tokens = '{59999}' FOR UPDATE",
        )
        .await?;
    let mut pruning = command(database.url(), &["prune", "--older-than", "30d"])?
        .stdout(Stdio::null())
        .spawn()?;
    wait_for(&client, &format!("SELECT count(*) BETWEEN 1 AND 15000 FROM {OLD}"), true).await?;
    // Nobody waits meanwhile.
    client.batch_execute("SET lock_timeout = '80s'").await?;
    write_log(&client, 10).await?;
    mailroom_tests::rows::register(&client, 1..=10).await?;
    pruning.kill()?;
    pruning.wait()?;
    other.batch_execute("ROLLBACK").await?;
    assert!(count(&client, OLD).await? < 15_010);
    run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(count(&client, OLD).await?, 0);
    Ok(())
}

#[tokio::test]
async fn one_process_prunes_at_a_time() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    write_log(&client, 1_000).await?;
    client.batch_execute("BEGIN; LOCK TABLE mailroom.prune_lock IN EXCLUSIVE MODE").await?;
    let reader = database.connect().await?;
    // The collector comes to it within five seconds and leaves it to the other; the command waits.
    let mut collector = Collector::start(&mut collector::command(database.url())?)?;
    let lines = collector.lines()?;
    let mut command = command(database.url(), &["prune", "--older-than", "30d"])?;
    let pruning = thread::spawn(move || command.output());
    lines.expect_none(Duration::from_secs(7))?;
    assert_eq!(count(&reader, OLD).await?, 500);
    client.batch_execute("COMMIT").await?;
    let output = pruning.join().map_err(|_| anyhow::anyhow!("the command panicked"))??;
    // On a slow machine lines about its progress follow.
    let said = String::from_utf8(output.stderr)?;
    assert!(said.starts_with("another process is pruning; waiting for it to end\n"), "{said}");
    assert_eq!(count(&client, OLD).await?, 0);
    collector.stop()?;
    Ok(())
}

#[tokio::test]
async fn no_other_role_can_keep_anybody_from_pruning() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let role = database.name();
    client.batch_execute(&format!("CREATE ROLE {role}; SET ROLE {role}")).await?;
    let lock =
        client.batch_execute("BEGIN; LOCK TABLE mailroom.prune_lock IN ACCESS SHARE MODE").await;
    let error = lock.expect_err("it may not lock it");
    assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE));
    client.batch_execute(&format!("ROLLBACK; RESET ROLE; DROP ROLE {role}")).await?;
    Ok(())
}

#[tokio::test]
async fn each_function_is_named_that_a_role_may_not_execute() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let role = database.name();
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await?;
    let url = database.url_of(role);
    let said = super::said(command(&url, &["prune", "--older-than", "30d"])?)?;
    for function in ["prune_attempts", "prune_dead_letters", "prune_tokens", "prune_account_tokens"]
    {
        assert!(said.errors.contains(&format!("mailroom.{function}")), "{}", said.errors);
    }
    client.batch_execute(&format!("DROP ROLE {role}")).await?;
    Ok(())
}

#[tokio::test]
async fn collectors_prune_by_themselves_unless_it_is_switched_off() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    write_log(&client, 60_000).await?;
    let off = Collector::start(collector::command(database.url())?.args(["--retention", "off"]))?;
    off.wait_until_it_collects()?;
    let more = Collector::start(collector::command(database.url())?.args(["--retention", "41d"]))?;
    // What is 41 days old and a moment.
    more.wait_for_log("are pruned attempts=30000", 1)?;
    more.stop()?;
    let log = off.stop()?;
    assert!(!log.contains("prun"), "{log}");
    write_log(&client, 1_000).await?;
    let two = [
        Collector::start(&mut collector::command(database.url())?)?,
        Collector::start(&mut collector::command(database.url())?)?,
    ];
    wait_for(&client, &format!("SELECT count(*) FROM {OLD}"), 0_i64).await?;
    let log = two.map(Collector::stop).into_iter().collect::<Result<String>>()?;
    assert!(!log.contains("WARN"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_collector_that_may_not_prune_says_so_and_collects() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let role = database.name();
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN;
            GRANT EXECUTE ON FUNCTION mailroom.settle, mailroom.release, mailroom.claim,
                mailroom.heartbeat, mailroom.sweep,
                mailroom.peek, mailroom.list_actions TO {role}"
        ))
        .await?;
    write_log(&client, 10).await?;
    let url = database.url_of(role);
    let mut collector = Collector::start(collector::command(&url)?.args(["--batch-timeout", "0"]))?;
    let lines = collector.lines()?;
    collector.wait_for_log("permission denied for function prune_", 1)?;
    mailroom_tests::rows::register(&client, 1..=3).await?;
    assert_eq!(lines.next_items(3)?.len(), 3);
    collector.stop()?;
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    Ok(())
}
