//! What `mailroom dev` refuses, and who refuses its databases.

use anyhow::Result;
use mailroom_tests::collector::{self, Collector};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;

use super::Dev;

#[tokio::test]
async fn other_hosts_names_and_pages_of_other_sites_get_nothing() -> Result<()> {
    let database = Database::create()?;
    let dev = Dev::start(database.url())?;
    assert!(dev.address.starts_with("127.0.0.1:"), "{}", dev.address);
    let own = format!("http://{}", dev.address);
    for (first, headers, expected) in [
        ("GET /", &[][..], 200),
        ("GET /", &[("origin", own.as_str())], 200),
        ("GET /", &[("host", "evil.test")], 403),
        ("GET http://evil.test/mails", &[], 403),
        ("GET /mails", &[("origin", "http://evil.test")], 403),
        ("GET /mails", &[("origin", "null")], 403),
        ("GET /mails", &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], 403),
        ("DELETE /mails", &[("origin", "http://evil.test")], 403),
        ("POST /mails/1/again", &[("origin", "http://evil.test")], 403),
        ("POST /mails", &[], 404),
        ("GET /mails/1", &[], 404),
        ("GET /mails?form=x", &[], 400),
        ("GET /../../etc/passwd", &[], 404),
    ] {
        let (status, head, body) = dev.request(first, headers)?;
        assert_eq!(status, expected, "{first} {headers:?}: {body}");
        assert!(head.contains("frame-ancestors 'none'"), "{head}");
    }
    Ok(())
}

#[tokio::test]
async fn a_mail_runs_no_script_and_loads_nothing() -> Result<()> {
    let database = Database::create()?;
    let dev = Dev::start(database.url())?;
    let client = database.connect().await?;
    client.mail("activate").to("a@example.test").subject("7").enqueue().await?;
    let id = dev.mail("a@example.test")?["id"].clone();
    let (status, head, _) = dev.request(&format!("GET /mails/{id}/html"), &[])?;
    assert_eq!(status, 200);
    for part in [
        "policy: sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; ",
        "; style-src 'unsafe-inline'; img-src data:; ",
        "nosniff",
    ] {
        assert!(head.contains(part), "{head}");
    }
    let (_, head, source) = dev.request(&format!("GET /mails/{id}/source"), &[])?;
    assert!(head.contains("content-type: text/plain") && source.contains("MIME-Version: 1.0"));
    assert_eq!(dev.request("DELETE /mails", &[])?.0, 200);
    assert_eq!(dev.request(&format!("GET /mails/{id}"), &[])?.0, 404);
    Ok(())
}

#[tokio::test]
async fn a_database_of_mailroom_dev_is_collected_from_only_when_that_is_asked_for() -> Result<()> {
    let database = Database::create()?;
    Dev::start(database.url())?.program.stop()?;
    let mut command = collector::command(database.url())?;
    let (status, log) = Collector::start(command.env("MAILROOM_MISSING_SCHEMA", "exit"))?.wait()?;
    assert!(!status.success() && log.contains("the database belongs to `mailroom dev`"), "{log}");

    let mut command = collector::command(database.url())?;
    let collector = Collector::start(command.arg("--dev"))?;
    collector.wait_until_it_collects()?;
    collector.stop()?;
    // And `mailroom dev` goes on with its own, also with tokens.
    let client = database.connect().await?;
    client.mail("activate").to("a@example.test").subject("7").enqueue().await?;
    Dev::start(database.url())?.mail("a@example.test")?;
    Ok(())
}

#[tokio::test]
async fn a_database_with_tokens_that_is_not_marked_is_refused_and_left_as_it_was() -> Result<()> {
    for options in [&["--without-accounts"][..], &["--with-accounts"]] {
        let database = Database::create()?.migrate_with(options)?;
        let client = database.connect().await?;
        client.mail("activate").to("a@example.test").subject("7").enqueue().await?;
        let folder = tempfile::tempdir()?;
        let mut command = program::mailroom()?;
        command.args(["dev", "--port", "0"]).current_dir(&folder);
        let output = command.env("MAILROOM_DATABASE_URL", database.url()).output()?;
        let said = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("in use (mailroom.issued_tokens has rows)"), "{said}");
        let collector = Collector::start(&mut collector::command(database.url())?)?;
        collector.wait_until_it_collects()?;
    }
    Ok(())
}

#[tokio::test]
async fn an_installation_whose_tokens_were_pruned_is_refused_too() -> Result<()> {
    let database = Database::create()?.migrate_with(&["--without-accounts"])?;
    let collector = Collector::start(&mut collector::command(database.url())?)?;
    collector.wait_until_it_collects()?;
    let folder = tempfile::tempdir()?;
    let mut command = program::mailroom()?;
    command.args(["dev", "--port", "0"]).current_dir(&folder);
    let output = command.env("MAILROOM_DATABASE_URL", database.url()).output()?;
    let said = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("in use (mailroom.collectors has rows)"), "{said}");
    Ok(())
}
