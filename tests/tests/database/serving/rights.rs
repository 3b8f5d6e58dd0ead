use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use anyhow::{Context, Result};
use mailroom_tests::postgres::Database;
use mailroom_tests::{program, tools};
use rustix::process::Signal;

use super::{ALL, Serve, request, table, table_of_all};

const RECHECK: &str = r#"{"subject_id":"7"}"#;
const NOTICE: &str = r#"{"action":"notice","recipient_email":"ada@x.test"}"#;

#[tokio::test]
async fn whoever_has_no_token_that_is_known_is_told_that_alone() -> Result<()> {
    let database = Database::migrated()?;
    let serve = Serve::start(database.url())?;
    let whole = request(ALL, "/v1/recheck", RECHECK);
    let with = |header: &str| whole.replace(&format!("authorization: Bearer {ALL}\r\n"), header);
    for header in [
        String::new(),
        "authorization: \r\n".to_owned(),
        "authorization: Bearer\r\n".to_owned(),
        "authorization: Bearer \r\n".to_owned(),
        "authorization: Bearer hunter2\r\n".to_owned(),
        format!("authorization: {ALL}\r\n"),
        format!("authorization: Basic {ALL}\r\n"),
        format!("authorization: Bearer {ALL}x\r\n"),
        format!("authorization: Bearer  {ALL}\r\n"),
        format!("authorization: Bearer {}\r\n", &ALL[..ALL.len() - 1]),
        format!("authorization: Bearer {}\r\n", ALL.to_uppercase()),
        format!("authorization: Bearer {ALL}\r\nauthorization: Bearer {ALL}\r\n"),
        format!("x-authorization: Bearer {ALL}\r\n"),
    ] {
        let answer = serve.ask(&with(&header))?;
        assert_eq!((answer.status, answer.code()), (401, "MAILROOM_TOKEN"), "{header}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let lower = with(&format!("authorization: bearer {ALL}\r\n"));
    assert_eq!(serve.ask(&lower)?.status, 200);
    let log = serve.program.stop()?;
    assert!(log.contains("a request was refused") && !log.contains("hunter2"), "{log}");
    assert!(!log.contains("of-all"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_token_may_call_what_its_rights_name_for_its_actions_and_at_its_rate() -> Result<()> {
    let database = Database::migrated()?;
    let tokens = [
        table("redeemer", "edge", "rights = [\"redeem\"]\nactions = [\"invite\"]"),
        table("sender", "shop", "rights = [\"enqueue\"]\nrate = \"2/d\"\nactions = [\"notice\"]"),
    ];
    let serve = Serve::start_with(database.url(), &tokens.concat(), &[])?;
    let link =
        |action: &str| format!("{{\"action\":\"{action}\",\"secret\":\"{}\"}}", "00".repeat(32));
    for (token, path, body, status) in [
        ("redeemer", "/v1/redeem", link("invite"), 200),
        ("redeemer", "/v1/redeem", link("recover"), 403),
        ("redeemer", "/v1/renew-link", link("invite"), 403),
        ("redeemer", "/v1/enqueue", NOTICE.to_owned(), 403),
        ("sender", "/v1/redeem", link("invite"), 403),
        ("sender", "/v1/enqueue", NOTICE.replace("notice", "invite"), 403),
        ("sender", "/v1/enqueue", NOTICE.to_owned(), 202),
        ("sender", "/v1/enqueue", NOTICE.to_owned(), 202),
        ("sender", "/v1/enqueue", NOTICE.to_owned(), 429),
        ("redeemer", "/v1/redeem", link("invite"), 200),
    ] {
        let answer = serve.post_as(token, path, &body)?;
        assert_eq!(answer.status, status, "{token} {path}: {answer:?}");
        if status == 429 {
            assert_eq!(answer.code(), "MAILROOM_RATE");
            let pause: u64 = answer.header("retry-after").context("a pause")?.parse()?;
            assert!((40_000..=43_200).contains(&pause), "{pause}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn tokens_are_rotated_by_sighup_and_a_file_with_a_fault_changes_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let serve = Serve::start(database.url())?;
    let status =
        |token: &str| Ok::<_, anyhow::Error>(serve.post_as(token, "/v1/recheck", RECHECK)?.status);
    assert_eq!((status(ALL)?, status("next")?), (200, 401));
    let next = table("next", "next", "rights = [\"recheck\"]");
    fs::write(&serve.tokens, format!("{}{next}", table_of_all()))?;
    serve.program.signal(Signal::HUP)?;
    serve.program.wait_for_log("the bearer tokens were read again", 1)?;
    assert_eq!((status(ALL)?, status("next")?), (200, 200));
    fs::write(&serve.tokens, "hunter2")?;
    serve.program.signal(Signal::HUP)?;
    serve.program.wait_for_log("are used further", 1)?;
    assert_eq!((status(ALL)?, status("next")?), (200, 200));
    fs::write(&serve.tokens, &next)?;
    fs::set_permissions(&serve.tokens, Permissions::from_mode(0o620))?;
    serve.program.signal(Signal::HUP)?;
    serve.program.wait_for_log("are used further", 2)?;
    assert_eq!(status(ALL)?, 200);
    fs::set_permissions(&serve.tokens, Permissions::from_mode(0o640))?;
    serve.program.signal(Signal::HUP)?;
    serve.program.wait_for_log("the bearer tokens were read again", 2)?;
    assert_eq!((status(ALL)?, status("next")?), (401, 200));
    let log = serve.program.stop()?;
    assert!(log.contains("chmod go-w") && !log.contains("hunter2"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_renewed_certificate_is_read_by_sighup_and_the_log_says_so() -> Result<()> {
    let database = Database::migrated()?;
    let folder = tempfile::tempdir()?;
    let [certificate, key] =
        ["certificate", "key"].map(|name| folder.path().join(name).display().to_string());
    let renew = || {
        let made = rcgen::generate_simple_self_signed(["serve.test".to_owned()])?;
        fs::write(&certificate, made.cert.pem())?;
        Ok::<_, anyhow::Error>(fs::write(&key, made.signing_key.serialize_pem())?)
    };
    renew()?;
    let files = ["--tls-certificate", &certificate, "--tls-key", &key];
    let serve = Serve::start_with(database.url(), &table_of_all(), &files)?;
    renew()?;
    serve.program.signal(Signal::HUP)?;
    serve.program.wait_for_log("the certificate was read again", 1)?;
    serve.program.wait_for_log("the bearer tokens were read again", 1)?;
    fs::write(&key, "hunter2")?;
    serve.program.signal(Signal::HUP)?;
    serve.program.wait_for_log("the certificate from before is used further", 1)?;
    let log = serve.program.stop()?;
    assert!(!log.contains("hunter2"), "{log}");
    Ok(())
}

#[tokio::test]
async fn the_sample_of_the_packages_is_read_once_its_settings_are_no_comments() -> Result<()> {
    let sample = fs::read_to_string(tools::workspace().join("packaging/examples/serve.toml"))?;
    let settings = sample.lines().map(|line| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting,
        _ => line,
    });
    let settings = settings.collect::<Vec<_>>().join("\n");
    let database = Database::migrated()?;
    let serve = Serve::start_with(database.url(), &settings, &[])?;
    assert!(serve.program.stop()?.contains("bearer_tokens=1"));
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("serve.toml");
    fs::write(&path, sample)?;
    let (status, _, log) = run(&["--tokens", path.to_str().context("a path of text")?])?;
    assert!(status == Some(2) && log.contains("it has no [[token]]"), "{log}");
    Ok(())
}

/// Runs `mailroom serve` with these arguments; returns its status, output and log.
fn run(arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
    let mut command: Command = program::mailroom()?;
    command.arg("serve").args(arguments);
    command.env("MAILROOM_DATABASE_URL", "postgresql://127.0.0.1:1/none");
    let output = command.output()?;
    let (out, log) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    Ok((output.status.code(), out, log))
}

#[test]
fn a_new_token_is_printed_once_and_its_table_beside_it() -> Result<()> {
    let (status, token, table) =
        run(&["token", "--name", "shop", "--rights", "redeem,renew_link"])?;
    assert_eq!(status, Some(0), "{table}");
    let token = token.strip_suffix('\n').context("one line")?;
    assert!(token.len() == 48 && token.starts_with("mrst_"), "a token of another form");
    let settings = "rights = [\"redeem\", \"renew_link\"]\nrate = \"60/min\"";
    assert_eq!(table, super::table(token, "shop", settings));
    assert_ne!(run(&["token"])?.1, run(&["token"])?.1);
    Ok(())
}

#[test]
fn other_machines_are_listened_to_with_tls_or_behind_it_alone() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("serve.toml");
    fs::write(&path, table_of_all())?;
    let tokens = path.to_str().context("a path of text")?;
    let missing = folder.path().join("missing.pem");
    let missing = missing.to_str().context("a path of text")?;
    for (arguments, said) in [
        (&["--listen", "0.0.0.0:0"][..], "--behind-tls"),
        (&["--listen", "[::]:0"], "--behind-tls"),
        (&["--listen", "0.0.0.0:0", "--tls-certificate", missing], "--tls-key"),
        (&["--tls-certificate", missing, "--tls-key", missing], "cannot be used"),
        (&["--listen", "unix:relative"], "begins with /"),
        (&["--listen", "host:1"], "ADDRESS:PORT"),
        (&["--connections", "0"], "--connections"),
    ] {
        let (status, _, log) = run(&[&["--tokens", tokens], arguments].concat())?;
        assert!(status == Some(2) && log.contains(said), "{arguments:?}: {log}");
    }
    let (status, _, log) = run(&[])?;
    assert!(status == Some(2) && log.contains("--tokens"), "{log}");
    Ok(())
}
