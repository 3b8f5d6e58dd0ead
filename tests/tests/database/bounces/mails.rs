use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context, Result};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use mailroom_tests::sending::{Configuration, Sending, batch};

use super::{drop_role, role, suppressed};

const SECRET: &str = "0f862c4759ca9b15561201f52e295c592b2a985d6459589ae61d3e68eb137814";

/// Hands a mail to the program as a mail server does.
fn pipe(folder: &Path, url: &str, mail: &[u8]) -> Result<Output> {
    let config = "[mail]\nreturn_path = \"bounces@x.test\"\nreturn_path_secret_file = \"secret\"\n";
    fs::write(folder.join("bounces.toml"), config)?;
    let mut command = program::mailroom()?;
    command.args(["bounces", "--mail", "--config"]).arg(folder.join("bounces.toml"));
    command
        .env("MAILROOM_DATABASE_URL", url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    // It need not read what is too much.
    child.stdin.take().context("a pipe")?.write_all(mail).ok();
    Ok(child.wait_with_output()?)
}

fn notification(to: &str, recipient: &str, status: &str) -> String {
    format!(
        "From: MAILER-DAEMON@mx.test\nTo: {to}\nMIME-Version: 1.0\nContent-Type: multipart/report; \
         report-type=delivery-status; boundary=b\n\n\
         --b\nContent-Type: text/plain\n\nIt could not be delivered.\n\n--b\nContent-Type: \
         message/delivery-status\n\nReporting-MTA: dns; mx.test\n\n\
         Final-Recipient: rfc822; {recipient}\nAction: failed\nStatus: {status}\nDiagnostic-Code: \
         smtp; 550 <{recipient}> unknown\n\n--b--\n"
    )
}

fn complaint(sender: &str) -> String {
    format!(
        "From: feedback@isp.test\nTo: fbl@x.test\nMIME-Version: 1.0\nContent-Type: \
         multipart/report; report-type=feedback-report; boundary=b\n\n--b\nContent-Type: \
         message/feedback-report\n\nFeedback-Type: abuse\nUser-Agent: X/1\nVersion: 1\n\
         Original-Mail-From: <{sender}>\nOriginal-Rcpt-To: <ada@x.test>\n\n--b--\n"
    )
}

#[tokio::test]
async fn the_return_address_of_a_sent_mail_proves_its_bounce_and_no_other() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let secret = folder.path().join("secret");
    fs::write(&secret, format!("{SECRET}\n"))?;
    let smtp = format!("return_path = \"bounces@x.test\"\nreturn_path_secret_file = {secret:?}");
    let configuration = Configuration::smtp(server.port, &smtp)?;
    let mut sending = Sending::start(&configuration, &[])?;
    sending.write(&batch("one", &[(1, "Ada@x.test"), (2, "bob@x.test")]))?;
    sending.answer()?;
    sending.finish()?;
    let mails = server.mails();
    let sender = |to: &str| {
        Ok::<_, anyhow::Error>(
            mails.iter().find(|mail| mail.to == to).context("a mail")?.sender.clone(),
        )
    };
    let (ada, bob) = (sender("Ada@x.test")?, sender("bob@x.test")?);
    assert!(
        ada != bob && ada.starts_with("bounces+") && ada.ends_with("@x.test") && ada.len() == 47,
        "{ada}"
    );
    assert!(
        mails.iter().all(|mail| mail.header("From").is_some_and(|from| !from.contains("bounces")))
    );

    let database = Database::migrated()?;
    let client = database.connect().await?;
    let url = role(&database, &client).await?;
    let mail = notification(&ada, "ada@x.test", "5.1.1");
    for (mail, code) in [
        (notification(&bob, "ada@x.test", "5.1.1"), 65),
        (notification("us@x.test", "ada@x.test", "5.1.1"), 65),
        (
            notification("bounces+00000000000000000000000000000000@x.test", "ada@x.test", "5.1.1"),
            65,
        ),
        (String::new(), 65),
        (format!("{mail}{}", "x".repeat(1 << 21)), 65),
        // Its author would get the refusal.
        (format!("From: ada@x.test\nTo: {ada}\nAuto-Submitted: auto-replied\n\nI am away.\n"), 0),
        (format!("From: ada@x.test\nTo: us@x.test\n\nHello{}\n", "x".repeat(1 << 21)), 0),
        (
            mail.replace("rfc822; ada@x.test", "rfc822; a.l@elsewhere.test") + "\nTo: ada@x.test\n",
            0,
        ),
        (complaint("bounces+00000000000000000000000000000000@x.test"), 0),
        (notification(&ada, "ada@x.test", "4.4.1"), 0),
        (notification(&ada, "ada@x.test", "5.2.2"), 0),
    ] {
        let output = pipe(folder.path(), &url, mail.as_bytes())?;
        let errors = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(code), "{errors} {mail:.300}");
        let is_quiet = code == 0 && !mail.contains("feedback-report");
        assert!(errors.is_empty() == is_quiet && !errors.contains("ada@"), "{errors}");
    }
    assert!(suppressed(&client).await?.is_empty());
    // A complaint is proven by the return address that it names.
    let output = pipe(folder.path(), &url, complaint(&bob).replace("ada@", "bob@").as_bytes())?;
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(suppressed(&client).await?, [["bob@x.test", "complaint", "mail", "abuse"]]);
    client.execute("SELECT mailroom.lift_suppression('bob@x.test')", &[]).await?;
    // Away, and then back; the same twice.
    let output = pipe(folder.path(), "postgresql://u:hunter2@127.0.0.1:1/x", mail.as_bytes())?;
    let errors = String::from_utf8(output.stderr)?;
    assert!(
        output.status.code() == Some(75) && !errors.contains("hunter2") && !errors.contains("ada@"),
        "{errors}"
    );
    for _ in 0..2 {
        let output = pipe(folder.path(), &url, mail.as_bytes())?;
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let detail = "5.1.1: smtp; 550 [address] unknown";
    assert_eq!(suppressed(&client).await?, [["ada@x.test", "bounce", "mail", detail]]);
    // A mail is not given up because of a configuration that can be mended.
    for url in ["", "postgresql://u:hunter2@127.0.0.1:port/x"] {
        let output = pipe(folder.path(), url, mail.as_bytes())?;
        let errors = String::from_utf8(output.stderr)?;
        assert!(output.status.code() == Some(75) && !errors.contains("hunter2"), "{errors}");
        assert!(errors.contains("MAILROOM_DATABASE_URL"), "{errors}");
    }
    fs::remove_file(&secret)?;
    assert_eq!(pipe(folder.path(), &url, mail.as_bytes())?.status.code(), Some(75));
    drop_role(&database, &client).await
}

/// The most memory that a process has used, in kilobytes.
#[cfg(target_os = "linux")]
fn peak(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")).context("a peak")?;
    Ok(number.parse()?)
}

#[cfg(target_os = "linux")]
#[test]
fn a_mail_of_hundreds_of_megabytes_takes_no_memory_and_is_done_with() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("secret"), format!("{SECRET}\n"))?;
    let config = "[mail]\nreturn_path = \"bounces@x.test\"\nreturn_path_secret_file = \"secret\"\n";
    fs::write(folder.path().join("bounces.toml"), config)?;
    let mut command = program::mailroom()?;
    command.args(["bounces", "--mail", "--config"]).arg(folder.path().join("bounces.toml"));
    command.env("MAILROOM_DATABASE_URL", "host=127.0.0.1 port=1 user=u dbname=d");
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("a pipe")?;
    input.write_all(b"From: ada@x.test\nTo: bounces@x.test\nSubject: large\n\n")?;
    let text = vec![b'x'; 1 << 20];
    for _ in 0..700 {
        input.write_all(&text)?;
    }
    let peak = peak(child.id())?;
    drop(input);
    assert_eq!(child.wait()?.code(), Some(0));
    assert!(peak < 100_000, "{peak} kB");
    Ok(())
}
