//! What the inbox has of a mail.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use mailroom_tests::collector::PATIENCE;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::postgres::Database;
use mailroom_tests::rows::wait_for;
use serde_json::Value;
use tokio::time::sleep;

use super::Dev;

#[tokio::test]
async fn accounts_that_are_asked_for_are_made_and_who_registers_gets_a_mail() -> Result<()> {
    let database = Database::create()?;
    let variables = [("MAILROOM_DATABASE_URL", database.url())];
    let dev = Dev::start_with(&variables, &["--with-accounts"])?;
    let client = database.connect().await?;
    client.account("ada").insert().await?;
    assert_eq!(dev.mail("ada@example.test")?["action"], "activate");
    Ok(())
}

#[tokio::test]
async fn who_shares_a_database_with_another_one_is_told() -> Result<()> {
    const SHARED: &str = "each mail goes to one of them alone";
    let database = Database::create()?;
    let first = Dev::start(database.url())?;
    // It shows its inbox a moment before it collects.
    let collects = "SELECT count(*) > 0 FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'mailroom collect%'";
    wait_for(&database.connect().await?, collects, true).await?;
    let second = Dev::start(database.url())?;
    let [first, second] = [first.program.stop()?, second.program.stop()?];
    assert!(!first.contains(SHARED) && second.contains(SHARED), "{first}\n{second}");
    Ok(())
}

#[tokio::test]
async fn a_mail_that_is_waited_for_comes_as_json_with_its_link_and_code() -> Result<()> {
    let database = Database::create()?;
    let dev = Dev::start(database.url())?;
    let client = database.connect().await?;
    assert_eq!(dev.json("GET /mails")?, Value::Array(Vec::new()));
    client.mail("activate").to("ada+1@example.test").subject(7).enqueue().await?;
    client.mail("sign_in").to("bob@example.test").subject(8).enqueue().await?;
    let mail = dev.mail("Ada%2B1@example.test")?;
    let text = |name: &str| mail[name].as_str().map(str::to_owned).context(name.to_owned());
    assert_eq!((text("action")?.as_str(), text("code")?.as_str()), ("activate", ""));
    assert_eq!(text("subject")?, "Activate your Example account");
    let link = text("link")?;
    assert!(link.starts_with("http://localhost:3000/activate?token="), "{link}");
    assert!(text("text")?.contains(&link) && text("html")?.contains(&link));
    assert_eq!(mail["fault"], Value::Null);

    let code = dev.mail("bob@example.test")?["code"].as_str().context("a code")?.to_owned();
    assert!(code.len() == 6 && code.bytes().all(|byte| byte.is_ascii_digit()), "{code}");
    assert_eq!(dev.json("GET /mails?action=activate")?.as_array().map(Vec::len), Some(1));
    assert_eq!(dev.json("GET /mails?action=recover&wait=10ms")?, Value::Array(Vec::new()));
    // As sent: they do not come a second time, and the story of the mail says where it went.
    let query = "SELECT count(*) FROM mailroom.waiting";
    let begun = Instant::now();
    while client.query_one(query, &[]).await?.get::<_, i64>(0) > 0 {
        ensure!(begun.elapsed() < PATIENCE, "the mails are not recorded as sent");
        sleep(Duration::from_millis(50)).await;
    }

    let log = dev.program.stop()?;
    let token = link.split_once("token=").context("a token")?.1;
    let token = token.split('&').next().unwrap_or_default();
    for secret in [token, "ada+1", &code] {
        assert!(!log.contains(secret) && !dev.said.contains(secret), "{log}{}", dev.said);
    }
    Ok(())
}

#[tokio::test]
async fn templates_are_read_again_for_each_mail_and_a_fault_of_theirs_is_shown() -> Result<()> {
    let database = Database::create()?;
    let dev = Dev::start(database.url())?;
    let client = database.connect().await?;
    let english = dev.files().join("templates/en");
    fs::create_dir_all(&english)?;
    for action in ["activate", "recover"] {
        for (ending, text) in [("subject.txt", "One"), ("txt", "-"), ("html", "<p>-</p>")] {
            fs::write(english.join(format!("{action}.{ending}")), text)?;
        }
    }
    let config = dev.files().join("send.toml");
    let changed = fs::read_to_string(&config)?
        .replace("# templates = \"../templates\"", "templates = \"templates\"");
    fs::write(&config, changed)?;
    let enqueue = async |action: &str, to: &str| {
        client.mail(action).to(to).subject(7).enqueue().await.map(drop)
    };
    enqueue("activate", "a@example.test").await?;
    assert_eq!(dev.mail("a@example.test")?["subject"], "One");
    fs::write(english.join("activate.subject.txt"), "Two")?;
    enqueue("activate", "b@example.test").await?;
    assert_eq!(dev.mail("b@example.test")?["subject"], "Two");

    enqueue("invite", "c@example.test").await?;
    let mail = dev.mail("c@example.test")?;
    let fault = mail["fault"].as_str().context("a fault")?;
    assert!(fault.contains("en/invite.subject.txt"), "{fault}");
    for (ending, text) in [("subject.txt", "Three"), ("txt", "-"), ("html", "-")] {
        fs::write(english.join(format!("invite.{ending}")), text)?;
    }
    let again = dev.json(&format!("POST /mails/{}/again", mail["id"]))?;
    assert_eq!((&again["subject"], &again["fault"]), (&"Three".into(), &Value::Null));
    Ok(())
}

#[tokio::test]
async fn links_lead_where_the_developers_application_runs() -> Result<()> {
    let database = Database::create()?;
    let url = [("MAILROOM_DATABASE_URL", database.url())];
    let dev = Dev::start_with(&url, &["--links", "http://127.0.0.1:4000"])?;
    let client = database.connect().await?;
    client.mail("activate").to("a@example.test").subject("7").enqueue().await?;
    let mail = dev.mail("a@example.test")?;
    let link = mail["link"].as_str().context("a link")?;
    assert!(link.starts_with("http://127.0.0.1:4000/activate?token="), "{link}");
    Ok(())
}
