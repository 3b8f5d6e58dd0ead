//! `mailroom trace`.

use anyhow::Result;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use serde_json::Value;

use super::{run, said};

#[tokio::test]
async fn the_story_of_a_mail_is_told_by_its_id_and_its_address() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    client.mail("invite").to("Ada@X.test").enqueue().await?;
    client
        .batch_execute(
            "SELECT mailroom.claim(1, ARRAY[gen_random_uuid()], 10, true, 10, 0, NULL, NULL,
                90000, 30, '{4}', true);
            SELECT mailroom.settle(
                ARRAY[batch], '{}', '{}', '{}', '{}', '{}', 3, 1000, 30,
                ARRAY[batch], tokens, ARRAY['ses'], ARRAY['0102-x'], ARRAY['200 accepted']
            ) FROM mailroom.leases",
        )
        .await?;
    let told = run(&database, &["trace", "1"])?.success()?;
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(lines[0].contains("  token 1  enqueued  invite  its link ends at "), "{told}");
    assert!(
        lines[1].ends_with("  token 1  accepted  invite  attempt 1  ses  0102-x  200 accepted"),
        "{told}"
    );
    assert!(lines[2].ends_with("  token 1  sent  attempt 1"), "{told}");
    assert_eq!(run(&database, &["trace", "ada@x.TEST"])?.success()?, told);
    let told = run(&database, &["trace", "--json", "1"])?.success()?;
    let accepted: Value = serde_json::from_str(told.lines().nth(1).unwrap_or_default())?;
    assert_eq!((&accepted["event"], &accepted["provider"]), (&"accepted".into(), &"ses".into()));
    for unknown in ["3", "nobody@x.test"] {
        let told = run(&database, &["trace", unknown])?;
        assert_eq!((told.code, told.output.as_str()), (Some(1), ""));
        assert!(told.errors.starts_with("mailroom: nothing is known of it in this database: no "));
        assert_eq!(told.errors.lines().count(), 1, "{}", told.errors);
    }
    let told = run(&database, &["trace", "ada"])?;
    assert_eq!((told.code, told.errors.contains("ada")), (Some(2), false));

    // An outage is two lines, and all of it in JSON.
    client.mail("invite").to("eve@x.test").enqueue().await?;
    client
        .batch_execute(
            "INSERT INTO mailroom.delivery_log (tokens, happened_at, attempt, outcome, reason)
        SELECT ARRAY[2], clock_timestamp() - interval '1 minute' * (16 - n), n, 'unanswered',
            'no route'
        FROM generate_series(1, 15) AS n",
        )
        .await?;
    let told = run(&database, &["trace", "eve@x.test"])?.success()?;
    let of_outage = told.lines().filter(|line| line.contains("no route")).count();
    assert_eq!(of_outage, 1, "{told}");
    assert!(told.contains("\n… the same 14 more times until 20"), "{told}");
    let told = run(&database, &["trace", "--json", "eve@x.test"])?.success()?;
    assert_eq!(told.lines().filter(|line| line.contains("no route")).count(), 15, "{told}");

    // A notice has no link, of which there is nothing to say.
    client.mail("notice").to("bob@x.test").enqueue().await?;
    let cancelled = "SELECT mailroom.cancel(token) FROM mailroom.queue";
    client.batch_execute(cancelled).await?;
    let told = run(&database, &["trace", "bob@x.test"])?.success()?;
    assert!(told.contains("enqueued  notice  it can be sent until "), "{told}");
    assert!(told.contains("it was cancelled") && !told.contains("link"), "{told}");

    // A right of its own.
    let role = "CREATE ROLE support LOGIN";
    client.batch_execute(role).await?;
    let mut command =
        super::command(&database.url().replace("//postgres@", "//support@"), &["trace", "1"])?;
    let told = said(std::mem::replace(&mut command, std::process::Command::new("true")))?;
    let granted = "GRANT EXECUTE ON FUNCTION mailroom.trace";
    assert_eq!((told.code, told.errors.contains(granted)), (Some(1), true), "{}", told.errors);
    client.batch_execute(&format!("{granted} TO support")).await?;
    let command =
        super::command(&database.url().replace("//postgres@", "//support@"), &["trace", "1"])?;
    assert_eq!(said(command)?.success()?.lines().count(), 3);
    client.batch_execute("DROP OWNED BY support; DROP ROLE support").await?;
    Ok(())
}
