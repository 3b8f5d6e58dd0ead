//! Addresses and names that strangers chose, and lines that are none.

use anyhow::Result;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::sending::{Configuration, Sending, batch, item};
use serde_json::json;

use super::remarks;

#[test]
fn addresses_reach_exactly_one_mailbox_or_none() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "connections = 1")?;
    let mut sending = Sending::start(&configuration, &[])?;
    let domain = vec!["b".repeat(61); 3].join(".");
    let long = format!("{}@{domain}.test", "a".repeat(64));
    let longest = format!("{}@{domain}.test", "a".repeat(63));
    let addresses = [
        ("o'neill+tag@x.test", Some("o'neill+tag@x.test")),
        ("ada@b\u{fc}cher.test", Some("ada@xn--bcher-kva.test")),
        (&longest, Some(longest.as_str())),
        (&long, None),
        ("", None),
        ("two@x.test, victim@x.test", None),
        ("a@x.test\r\nBcc: victim@x.test", None),
        ("a@x.test>\r\nRCPT TO:<victim@x.test", None),
        ("\"a\r\nb\"@x.test", None),
        ("\u{fc}@x.test", None),
        ("a\0@x.test", None),
        ("a@x.test\u{2028}", None),
    ];
    for (number, (address, expected)) in (1..).zip(addresses) {
        sending.write(&batch("b", &[(number, address)]))?;
        let answer = sending.answer()?;
        match expected {
            Some(_) => assert_eq!(answer, json!({"batch": "b", "ok": [number]}), "{address}"),
            None => assert_eq!(answer["dead"][0]["id"], number, "{address}: {answer}"),
        }
        assert!(!answer.to_string().contains("victim"), "{answer}");
    }
    let received: Vec<_> = server.mails().into_iter().map(|mail| mail.to).collect();
    let expected: Vec<_> = addresses.iter().filter_map(|(_, expected)| *expected).collect();
    assert_eq!(received, expected);
    Ok(())
}

#[test]
fn names_with_marks_and_symbols_get_mails_where_the_server_takes_more_than_ascii() -> Result<()> {
    let Some(server) = MailServer::start(&["--utf8"])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "connections = 1")?;
    let mut sending = Sending::start(&configuration, &[])?;
    // Hindi, Tamil, Thai, Burmese, Vietnamese, Arabic, Japanese, and an emoji.
    let names = [
        "\u{938}\u{902}\u{92a}\u{930}\u{94d}\u{915}",
        "\u{bae}\u{bbf}\u{ba9}\u{bcd}",
        "\u{e1c}\u{e39}\u{e49}\u{e43}\u{e0a}\u{e49}",
        "\u{1019}\u{103c}\u{1014}\u{103a}\u{1019}\u{102c}",
        "nguy\u{1ec5}n",
        "\u{645}\u{62d}\u{645}\u{62f}",
        "\u{30e6}\u{30fc}\u{30b6}\u{30fc}",
        "ada\u{1f4a9}",
    ];
    for (number, name) in (1..).zip(names) {
        sending.write(&batch(
            "b",
            &[(number, &format!("{name}@\u{92d}\u{93e}\u{930}\u{924}.test"))],
        ))?;
        assert_eq!(sending.answer()?, json!({"batch": "b", "ok": [number]}), "{name}");
    }
    let mails = server.mails();
    assert_eq!(mails.len(), names.len());
    for (mail, name) in mails.iter().zip(names) {
        assert_eq!(mail.to, format!("{name}@xn--h2brj9c.test"));
        assert_eq!(mail.header("To"), Some(mail.to.as_str()));
    }
    Ok(())
}

#[test]
fn a_line_that_is_no_batch_ends_nothing() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let mut sending = Sending::start(&configuration, &[])?;
    for line in ["", "ada@x.test", "[]", "\u{0}", &"[".repeat(100_000), &"x".repeat(3_000_000)] {
        sending.write(line)?;
    }
    sending.write(r#"{"v":2,"batch":"later","items":[]}"#)?;
    let answer = sending.answer()?;
    assert_eq!(answer["batch"], "later");
    assert!(
        answer["unavailable"]["reason"].as_str().is_some_and(|reason| reason.contains("version 2")),
        "{answer}"
    );
    let mut bad = item(1, "ada@x.test");
    bad["key"] = json!("ada@x.test");
    sending.write(&json!({"v": 1, "batch": "bad", "items": [bad]}).to_string())?;
    assert_eq!(sending.answer()?["dead"][0]["id"], json!(1));
    sending.write(&json!({"v": 1, "batch": "empty", "items": []}).to_string())?;
    let mut unknown = item(2, "ada@x.test");
    unknown["action"] = json!("vote");
    let mut odd = item(3, "ada@x.test");
    odd["path"] = json!("@evil.test/");
    sending.write(&json!({"v": 1, "batch": "odd", "items": [unknown, odd]}).to_string())?;
    let answer = sending.answer()?;
    assert_eq!(answer["dead"].as_array().map(Vec::len), Some(2), "{answer}");
    sending.write(&batch("good", &[(4, "ada@x.test")]))?;
    assert_eq!(sending.answer()?, json!({"batch": "good", "ok": [4]}));
    let (status, errors) = sending.finish()?;
    assert!(status.success(), "{errors}");
    assert_eq!(remarks(&errors).lines().count(), 7, "a sentence for each:\n{errors}");
    assert!(!errors.contains("ada"), "{errors}");
    Ok(())
}

const PEOPLE: [(i64, &str); 6] = [
    (1, "ada@x.test"),
    (2, "bob@x.test"),
    (3, "cyd@x.test"),
    (4, "dan@x.test"),
    (5, "eve@x.test"),
    (6, "fay@x.test"),
];

#[test]
fn an_answer_that_nobody_reads_ends_the_program_and_the_mail_is_not_sent_again() -> Result<()> {
    let Some(server) = MailServer::start(&["--delay", "0.2"])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let mut command = mailroom_tests::program::mailroom()?;
    command.args(["send", "--config"]).arg(configuration.file());
    command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full")?);
    let mut child = command.spawn()?;
    let mut input = child.stdin.take().expect("it is a pipe");
    std::io::Write::write_all(&mut input, format!("{}\n", batch("b", &PEOPLE)).as_bytes())?;
    let output = child.wait_with_output()?;
    let errors = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("an answer cannot be written") && errors.lines().count() == 1,
        "{errors}"
    );
    drop(input);
    let sent = server.mails().len();
    assert!(sent > 0);
    let mut sending = Sending::start(&configuration, &[])?;
    sending.write(&batch("b", &PEOPLE))?;
    let mut answered = 0;
    while answered < PEOPLE.len() {
        answered += sending.answer()?["ok"].as_array().map_or(0, Vec::len);
    }
    assert_eq!(server.mails().len(), PEOPLE.len(), "{sent} were sent at first");
    Ok(())
}
