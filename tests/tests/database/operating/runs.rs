//! What `status --runs` tells of collectors that ran.

use anyhow::Result;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::{WITHOUT_VERDICT, register, wait_for};
use serde_json::Value;

use super::run;

fn runs(database: &Database) -> Result<Vec<Value>> {
    Ok(serde_json::from_str(&run(database, &["status", "--runs", "--json"])?.success()?)?)
}

#[tokio::test]
async fn a_run_is_listed_with_its_settings_what_it_did_and_how_it_ended() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    assert_eq!(run(&database, &["status", "--runs"])?.success()?, "no collector has run yet\n");
    register(&client, 1..=7).await?;
    let mut command = collector::command(database.url())?;
    command.args(["--batch-timeout", "0", "--rate", "100/s", "--log-format", "json"]);
    let mut collector = Collector::start(&mut command)?;
    collector.lines()?.next_items(7)?;
    wait_for(&client, WITHOUT_VERDICT, 0_i64).await?;
    let [alive] = &runs(&database)?[..] else { anyhow::bail!("there is one") };
    assert_eq!((&alive["fate"], &alive["version"]), (&"alive".into(), &"0.1.0".into()), "{alive}");
    let log = collector.stop()?;
    let [ended] = &runs(&database)?[..] else { anyhow::bail!("there is one") };
    assert_eq!(
        (&ended["fate"], &ended["reason"]),
        (&"ended".into(), &"it was told to".into()),
        "{ended}"
    );
    let counts = &ended["counts"];
    assert_eq!((&counts["claimed"], &counts["sent"]), (&7.into(), &7.into()), "{ended}");
    // The settings are those that the log has.
    let started = log.lines().find(|line| line.contains("\"event\":\"started\""));
    let started: Value = serde_json::from_str(started.unwrap_or_default())?;
    let logged = match &started["settings"] {
        Value::String(text) => serde_json::from_str(text)?,
        settings => settings.clone(),
    };
    assert_eq!(ended["settings"], logged);
    assert_eq!((&logged["rate"], &logged["lease"]), (&"100/s".into(), &"90s".into()), "{logged}");
    let text = run(&database, &["status", "--runs"])?.success()?;
    assert!(text.contains(": it was told to; 7 claimed, 7 sent\n"), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_run_that_was_killed_is_called_so_and_goes_with_the_log() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let long_ago = "INSERT INTO mailroom.collectors (collector_id, name, started_at, seen_at,
            state_since, state)
        SELECT n, 'host process ' || n, now() - interval '1 day' * (n + 1),
            now() - interval '1 day' * n, now() - interval '1 day' * n,
            CASE WHEN n % 2 = 0 THEN 'ended' ELSE 'ready' END
        FROM generate_series(1, 60) AS n";
    client.batch_execute(long_ago).await?;
    let fates: Vec<_> = runs(&database)?.iter().map(|run| run["fate"].clone()).collect();
    assert_eq!((fates.len(), &fates[0], &fates[1]), (50, &"killed".into(), &"ended".into()));
    let text = run(&database, &["status", "--runs"])?.success()?;
    assert!(text.contains("(unknown version)  killed, last seen 20"), "{text}");
    // Not before the last blocks of the log, and an hour later than what was logged at the end.
    let first_block = "INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome)
        SELECT ARRAY[n], now(), 1, 'sent' FROM generate_series(1, 1000) AS n;
        SELECT mailroom.prune_attempts(now() - interval '30 days', 0, 1)";
    client.batch_execute(first_block).await?;
    let left = "SELECT count(*) FROM mailroom.collectors";
    assert_eq!(client.query_one(left, &[]).await?.get::<_, i64>(0), 60);
    run(&database, &["prune", "--older-than", "30d"])?.success()?;
    assert_eq!(client.query_one(left, &[]).await?.get::<_, i64>(0), 30);
    // The last one may still be missed, however old it is.
    client.batch_execute("DELETE FROM mailroom.collectors WHERE collector_id < 20").await?;
    run(&database, &["prune", "--older-than", "1d"])?.success()?;
    assert_eq!(client.query_one(left, &[]).await?.get::<_, i64>(0), 1);
    Ok(())
}
