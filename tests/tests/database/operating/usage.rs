use anyhow::Result;
use mailroom_tests::postgres::Database;

use super::{command, count, give_up, run, said};

const COMMANDS: [&[&str]; 6] = [
    &["status"],
    &["retry", "--all-dead"],
    &["discard", "--all-dead"],
    &["prune", "--older-than", "30d"],
    &["suppress", "list"],
    &["dead"],
];

/// What a command ends with if it cannot do what it is asked for, or is called in the wrong way.
#[allow(clippy::unnecessary_wraps, reason = "it is compared with what may be none")]
fn failure(arguments: &[&str], is_usage: bool) -> Option<i32> {
    Some(match (arguments[0], is_usage) {
        ("status", _) => 3,
        (_, true) => 2,
        (_, false) => 1,
    })
}

const ID: &str = "an id is a whole number from 1 to 9223372036854775807";
const AGE: &str = "but must be a whole number with the unit h or d, from 24h to 36500d";

#[tokio::test]
async fn nonsense_is_refused_in_one_sentence_and_changes_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    give_up(&client, 2).await?;
    for (arguments, sentence) in [
        (&["retry"][..], "the command needs "),
        (&["retry", "one"], ID),
        (&["retry", "0"], ID),
        (&["retry", "-1"], ID),
        (&["retry", "1.5"], ID),
        (&["retry", "1", "9223372036854775808"], ID),
        (&["retry", "1", "--all-dead"], "cannot be given together with"),
        (&["retry", "--all-dead", "--all-dead"], "--all-dead can be given only once"),
        (&["retry", "--all"], "is not known to this command"),
        (&["prune"], "the command needs "),
        (&["prune", "--older-than", "30"], AGE),
        (&["prune", "--older-than", "-30d"], AGE),
        (&["prune", "--older-than", "0d"], AGE),
        (&["prune", "--older-than", "23h"], AGE),
        (&["prune", "--older-than", "5m"], AGE),
        (&["prune", "--older-than", "a month"], AGE),
        (&["prune", "--older-than", "99999999999999999999d"], AGE),
        (&["discard"], "the command needs "),
        (&["discard", "0"], ID),
        (&["discard", "1", "--all-dead"], "cannot be given together with"),
        (&["discard", "1", "--older-than", "1d"], "cannot be given together with"),
        (
            &["discard", "--all-dead", "--older-than", "-1d"],
            "a whole number with the unit m, h or d",
        ),
        (&["status", "--json", "--nagios"], "cannot be given together with"),
        (&["status", "--max-dead", "-1"], "a whole number from 0"),
        (&["status", "--yaml"], "is not known to this command"),
        (&["status", "now"], "is not known to this command"),
    ] {
        let said = run(&database, arguments)?;
        assert_eq!(said.code, failure(arguments, true), "{arguments:?}: {}", said.errors);
        assert!(said.errors.contains(sentence), "{arguments:?}: {}", said.errors);
        assert_eq!(said.output.is_empty(), !arguments.contains(&"--nagios"), "{}", said.output);
    }
    assert_eq!(count(&client, "mailroom.dead_letters").await?, 2);
    Ok(())
}

#[tokio::test]
async fn a_database_without_the_queue_is_told_to_be_migrated() -> Result<()> {
    for database in [Database::create()?, Database::with_base_schema()?] {
        for arguments in COMMANDS {
            let said = run(&database, arguments)?;
            assert_eq!(said.code, failure(arguments, false), "{arguments:?}");
            assert!(
                said.errors.contains("run `mailroom migrate up`"),
                "{arguments:?}: {}",
                said.errors
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_role_needs_its_function_and_no_table() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let role = database.name();
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN")).await?;
    let url = database.url_of(role);
    for arguments in COMMANDS {
        let said = said(command(&url, arguments)?)?;
        assert_eq!(said.code, failure(arguments, false), "{arguments:?}");
        let grant = match arguments[0] {
            "suppress" => "GRANT SELECT ON mailroom.suppressed_addresses",
            "dead" => "GRANT SELECT ON mailroom.waiting",
            _ => "GRANT EXECUTE ON FUNCTION mailroom.",
        };
        assert!(said.errors.contains(grant), "{}", said.errors);
    }
    // As the documents say it, and as they said it when the log could not be read.
    let document = std::fs::read_to_string(
        mailroom_tests::tools::workspace().join("docs/operate/monitor.md"),
    )?;
    let grants: Vec<_> = document.lines().filter(|line| line.ends_with(" TO operator;")).collect();
    assert_eq!(grants.len(), 3, "{grants:?}");
    let (first, second) = (grants[..2].concat(), grants[2].to_owned());
    for (grant, sent) in [(first, false), (second, true)] {
        client.batch_execute(&grant.replace("operator", role)).await?;
        for arguments in COMMANDS {
            said(command(&url, arguments)?)?.success()?;
        }
        let status = said(command(&url, &["status"])?)?.success()?;
        assert_eq!(status.contains("sent      0 tokens"), sent, "{status}");
    }
    let (operator, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    operator.query("SELECT state, reason FROM mailroom.deliveries", &[]).await?;
    operator.query("SELECT secret FROM tokens", &[]).await.expect_err("secrets are nobody's");
    drop(operator);
    connection.await??;
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    Ok(())
}

#[test]
fn without_a_usable_database_url_the_commands_are_used_wrongly() -> Result<()> {
    for arguments in COMMANDS {
        for (url, sentence) in [
            ("", "MAILROOM_DATABASE_URL is not set"),
            ("postgresql://%zz@host/", "MAILROOM_DATABASE_URL cannot be used: "),
        ] {
            let said = said(command(url, arguments)?)?;
            assert_eq!(said.code, failure(arguments, true), "{arguments:?} {url}");
            assert!(said.errors.contains(sentence), "{}", said.errors);
        }
        let mut misspelt = command("", arguments)?;
        misspelt.env("MAILROOM_DATABASE_URI", "postgresql://u:s3cret@127.0.0.1:1/x");
        let misspelt = super::said(misspelt)?.errors;
        assert!(
            misspelt.contains(
                "MAILROOM_DATABASE_URI is set, which is no setting; \
                 did you mean MAILROOM_DATABASE_URL?"
            ),
            "{misspelt}"
        );
        let said = said(command("postgresql://u:s3cret@127.0.0.1:1/x", arguments)?)?;
        assert_eq!(said.code, failure(arguments, false));
        assert!(!said.errors.contains("s3cret"), "{}", said.errors);
    }
    Ok(())
}
