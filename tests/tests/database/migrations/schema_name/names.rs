//! Names that cannot be, and schemas that are somebody else's.

use std::fs;

use anyhow::{Context, Result};
use mailroom_connect::Schema;
use mailroom_tests::collector::{self, KEY};
use mailroom_tests::postgres::Database;
use mailroom_tests::{program, tools};

use super::super::schema::description;
use super::super::{Outcome, count, fail, run, succeed};

use super::{UP, WITHOUT_ACCOUNTS};

#[tokio::test]
async fn a_wrong_name_is_refused_with_the_right_one_and_installs_nothing() -> Result<()> {
    for up in [UP, WITHOUT_ACCOUNTS] {
        let database = Database::create()?;
        let client = database.connect().await?;
        succeed(&database, up)?;
        let objects = async || -> Result<_> {
            let described = description(&client).await?;
            Ok((
                described,
                count(&client, "pg_class").await?,
                count(&client, "pg_namespace").await?,
            ))
        };
        let before = objects().await?;
        for arguments in [
            &["status"][..],
            &["up"],
            &["up", "--without-accounts"],
            &["up", "--drop-secrets"],
            &["up", "--baseline", "0"],
            &["down", "--yes"],
            &["up", "--schema", "other"],
            &["up", "--without-accounts", "--schema", "other"],
        ] {
            let complaint = fail(&database, arguments)?;
            let advice = "; name that schema by --schema or MAILROOM_SCHEMA\n";
            assert!(
                complaint.contains("the database has Mailroom in the schema letters and not in ")
            );
            assert!(complaint.ends_with(advice), "{complaint}");
        }
        let mut wrong = collector::command(database.url())?;
        let output = wrong.args(["--missing-schema", "exit"]).output()?;
        let log = String::from_utf8(output.stderr)?;
        assert!(output.status.code() == Some(1) && log.contains("MAILROOM_SCHEMA"), "{log}");
        for arguments in [&["status"][..], &["retry", "--all-dead"], &["migrate", "bind"]] {
            let mut command = program::mailroom()?;
            let outcome =
                command.args(arguments).env("MAILROOM_DATABASE_URL", database.url()).output()?;
            let complaint = String::from_utf8(outcome.stderr)?;
            let words = "no schema of the database has the function mailroom.";
            let code = if arguments[0] == "status" { 3 } else { 1 };
            assert!(
                outcome.status.code() == Some(code) && complaint.contains(words),
                "{complaint}"
            );
            assert!(complaint.contains("the right schema in MAILROOM_SCHEMA"), "{complaint}");
        }
        assert_eq!(objects().await?, before);
    }
    Ok(())
}

#[tokio::test]
async fn a_schema_with_tables_of_somebody_else_is_refused_and_left_as_it_is() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    client
        .batch_execute(
            "CREATE SCHEMA letters; CREATE TABLE letters.mine (id integer); CREATE SCHEMA mailroom",
        )
        .await?;
    let before = description(&client).await?;
    let with_accounts = ["up", "--with-accounts", "--schema", "letters"];
    for up in [&with_accounts[..], WITHOUT_ACCOUNTS] {
        let complaint = fail(&database, up)?;
        assert!(
            complaint.contains("the schema letters has tables already; name one of Mailroom's own"),
            "{complaint}"
        );
    }
    // Where the tables of accounts would be.
    for (home, up) in [("letters", &with_accounts[..]), ("mailroom", &with_accounts[..2])] {
        client
            .batch_execute(&format!("ALTER DATABASE {} SET search_path = {home}", database.name()))
            .await?;
        let complaint = fail(&database, up)?;
        let words =
            format!("the schema {home} would have the tables of accounts, too; name another one");
        assert!(complaint.contains(&words), "{complaint}");
    }
    assert_eq!(description(&client).await?, before);
    Ok(())
}

/// What the rule does not find would look into another schema.
#[test]
fn no_statement_in_a_file_names_the_schema_in_a_way_that_stays() -> Result<()> {
    let schema = Schema::parse("letters").context("it is a name")?;
    let mut folders = vec![tools::workspace().join("collector/src")];
    let mut statements = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "sql") {
                let text = fs::read_to_string(&path)?;
                let lines = text.lines().filter(|line| !line.trim_start().starts_with("--"));
                let sent = schema
                    .sql(&lines.collect::<Vec<_>>().join("\n"))
                    .replace("'mailroom queue %s in %s'", "");
                assert!(!sent.contains("mailroom"), "{}: {sent}", path.display());
                statements += 1;
            }
        }
    }
    assert!(statements > 30);
    Ok(())
}

#[tokio::test]
async fn a_name_that_postgresql_would_quote_is_refused_whatever_its_version() -> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    let rows =
        client.query("SELECT word, quote_ident(word) = word FROM pg_get_keywords()", &[]).await?;
    assert!(rows.len() > 400);
    for row in rows {
        let (word, is_plain): (&str, bool) = (row.get(0), row.get(1));
        if !is_plain {
            assert_eq!(Schema::parse(word), None, "{word}");
        }
    }
    Ok(())
}

#[test]
fn a_name_that_cannot_be_used_is_one_sentence_before_anything_is_done() -> Result<()> {
    let database = Database::create()?;
    for name in [
        "Letters",
        "pg_letters",
        "public",
        "accounts",
        "user",
        "a b",
        "a\";DROP",
        "ä",
        &"m".repeat(64),
    ] {
        let outcome = run(&database, &["up", "--schema", name])?;
        assert_eq!(
            (outcome.code, outcome.stderr.matches('\n').count()),
            (Some(2), 1),
            "{}",
            outcome.stderr
        );
        assert!(outcome.stderr.starts_with("mailroom: --schema is "), "{}", outcome.stderr);
        for command in [
            &["migrate", "up"][..],
            &["collect"],
            &["status"],
            &["retry", "--all-dead"],
            &["prune", "--older-than", "30d"],
            &["suppress", "list"],
        ] {
            let mut named = program::mailroom()?;
            named
                .args(command)
                .env("MAILROOM_DATABASE_URL", database.url())
                .env("MAILROOM_SCHEMA", name);
            let outcome = Outcome::from(named.env("MAILROOM_SECRET_KEY", KEY).output()?);
            let code = if command[0] == "status" { 3 } else { 2 };
            assert_eq!((outcome.code, &*outcome.stdout), (Some(code), ""), "{}", outcome.stderr);
            let sentence = "mailroom: MAILROOM_SCHEMA is ";
            assert!(outcome.stderr.starts_with(sentence), "{command:?}: {}", outcome.stderr);
        }
    }
    // The flag wins; an empty variable is unset.
    for (variable, flag) in [("Wrong", &["--schema", "letters"][..]), ("", &[])] {
        let mut command = program::mailroom()?;
        command
            .args(["migrate"])
            .args(flag)
            .arg("status")
            .env("MAILROOM_DATABASE_URL", database.url());
        assert_eq!(Outcome::from(command.env("MAILROOM_SCHEMA", variable).output()?).code, Some(0));
    }
    Ok(())
}

#[test]
fn the_record_of_an_installation_without_accounts_is_no_table_for_one_with_them() -> Result<()> {
    let database = Database::create()?;
    let outcome =
        run(&database, &["up", "--schema", "letters", "--migrations-table", "letters.migrations"])?;
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""));
    assert!(
        outcome.stderr.starts_with("mailroom: letters.migrations is what"),
        "{}",
        outcome.stderr
    );
    Ok(())
}
