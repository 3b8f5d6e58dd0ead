use anyhow::Result;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use serde_json::{Value, json};

use super::{count, run};

#[tokio::test]
async fn an_operator_suppresses_an_address_sees_it_and_lifts_it() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    assert_eq!(run(&database, &["suppress", "list"])?.success()?, "no address is suppressed\n");
    assert_eq!(
        run(&database, &["suppress", "add", "User1@x.test"])?.success()?,
        "the address is now suppressed\n"
    );
    assert_eq!(
        run(&database, &["suppress", "add", "user1@X.test"])?.success()?,
        "the address was already suppressed\n"
    );
    client
        .batch_execute(
            "SELECT mailroom.suppress('b@x.test', 'bounce', 'ses', '5.1.1 b@x.test unknown')",
        )
        .await?;
    client
        .batch_execute(
            "UPDATE mailroom.suppressions SET suppressed_at = '2026-11-23 08:00+02' \
             WHERE reason = 'bounce'",
        )
        .await?;
    let listed = run(&database, &["suppress", "list"])?.success()?;
    assert!(
        listed
            .starts_with("2026-11-23T06:00:00Z  b@x.test  bounce (ses)  5.1.1 [address] unknown\n"),
        "{listed}"
    );
    assert!(listed.ends_with("  user1@x.test  manual\n"), "{listed}");
    let listed = run(&database, &["suppress", "list", "--json"])?.success()?;
    let first: Value = serde_json::from_str(listed.lines().next().unwrap_or_default())?;
    assert_eq!((&first["address"], &first["reason"]), (&"b@x.test".into(), &"bounce".into()));

    client.accounts(["one", "two"]).emails(["user1@x.test", "user2@x.test"]).insert().await?;
    let mut collector =
        Collector::start(collector::command(database.url())?.args(["--batch-timeout", "0"]))?;
    let lines = collector.lines()?;
    assert_eq!(lines.next_items(1)?[0].login, "two");
    assert_eq!(count(&client, "mailroom.dead_letters WHERE reason LIKE '%(manual)'").await?, 1);
    // That was meant: nothing is wrong.
    let status: Value = serde_json::from_str(&run(&database, &["status", "--json"])?.success()?)?;
    let counts = ["dead_letters", "suppressed", "alarms"].map(|field| &status[field]);
    assert_eq!(counts, [&json!(0), &json!(1), &json!([])]);
    let text = run(&database, &["status"])?.success()?;
    assert!(
        text.contains(
            "dead      0 tokens, 0 of them within the last hour; 1 to suppressed addresses\n"
        ),
        "{text}"
    );
    assert_eq!(
        run(&database, &["suppress", "remove", "USER1@x.test"])?.success()?,
        "the address is no longer suppressed\n"
    );
    run(&database, &["retry", "--all-dead"])?.success()?;
    assert_eq!(lines.next_items(1)?[0].login, "one");
    let log = collector.stop()?;
    assert!(
        log.contains("given up because their address is suppressed") && !log.contains("user1"),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn nonsense_is_refused_and_an_address_is_not_repeated() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    for (arguments, code, sentence) in [
        (&["suppress", "add"][..], 2, "the command needs"),
        (&["suppress", "add", "a@x.test", "b@x.test"], 2, "one too many"),
        (&["suppress", "lift", "a@x.test"], 2, "there is no command"),
        (&["suppress", "add", "ada"], 1, "is no address"),
        (&["suppress", "add", "ada@x.test\nb@x.test"], 1, "is no address"),
    ] {
        let said = run(&database, arguments)?;
        assert_eq!(said.code, Some(code), "{arguments:?}: {}", said.errors);
        assert!(
            said.errors.contains(sentence) && !said.errors.contains("ada"),
            "{arguments:?}: {}",
            said.errors
        );
    }
    assert_eq!(
        run(&database, &["suppress", "remove", "ada@x.test"])?.success()?,
        "the address was not suppressed\n"
    );
    assert_eq!(count(&client, "mailroom.suppressions").await?, 0);
    Ok(())
}
