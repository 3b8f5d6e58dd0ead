//! Mail servers that accept, refuse, fall silent and vanish, in every phase.

use std::fs;
use std::net::TcpListener;

use anyhow::{Context, Result};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::program;
use mailroom_tests::sending::{Configuration, Sending, batch, key, token};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;

use super::{answer_after_a_doubt, answer_and_errors_to, answer_for, remarks, run};

#[test]
fn a_mail_has_the_link_and_the_same_id_at_every_attempt() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let mut sending = Sending::start(&configuration, &[])?;
    sending.write(&batch("one", &[(1, "ada@x.test"), (2, "rcpt-451-first@x.test")]))?;
    sending.write(&batch("two", &[(3, "bob@x.test")]))?;
    let mut answers = [sending.answer()?, sending.answer()?];
    while !answers.iter().any(|answer| answer.get("retry").is_some()) {
        answers.rotate_left(1);
        answers[1] = sending.answer()?;
    }
    sending.write(&batch("three", &[(2, "rcpt-451-first@x.test")]))?;
    while sending.answer()? != json!({"batch": "three", "ok": [2]}) {}
    let (status, errors) = sending.finish()?;
    assert!(status.success() && remarks(&errors).is_empty(), "{status}: {errors}");
    let mails = server.mails();
    assert_eq!(mails.len(), 3);
    for (id, to) in [(1, "ada@x.test"), (2, "rcpt-451-first@x.test"), (3, "bob@x.test")] {
        let mail = mails.iter().find(|mail| mail.to == to).context(to)?;
        assert_eq!(mail.sender, "us@x.test");
        assert_eq!(mail.header("Message-ID"), Some(format!("<{}@x.test>", key(id)).as_str()));
        assert_eq!(mail.header("Auto-Submitted"), Some("auto-generated"));
        let link = format!("https://example.test/activate?token={}", token(id));
        assert!(mail.text.contains(&link) && mail.html.contains(&link), "{}", mail.content);
    }
    Ok(())
}

#[test]
fn a_server_is_greeted_by_the_configured_name() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    for (further, email) in [("hello = \"mta.example.test\"", "ada@x.test"), ("", "bob@x.test")] {
        let answer = answer_for(&Configuration::smtp(server.port, further)?, email)?;
        assert_eq!(answer["ok"], json!([1]));
        let mails = server.mails();
        let hello = &mails.iter().find(|mail| mail.to == email).context("no mail came")?.hello;
        assert_eq!(hello == "mta.example.test", !further.is_empty(), "{hello}");
        assert!(!hello.is_empty());
    }
    for hello in ["", "a b", "a\\r\\nMAIL FROM:<>", "\u{fc}.test"] {
        let configuration = Configuration::smtp(server.port, &format!("hello = \"{hello}\""))?;
        let (code, _, errors) = run(&configuration, &[])?;
        assert!(
            code == Some(2) && errors.contains("server and hello must be names"),
            "{hello}: {errors}"
        );
    }
    Ok(())
}

#[test]
fn a_password_comes_from_the_variable_that_the_configuration_names() -> Result<()> {
    let Some(server) = MailServer::start(&["--login", "us:hunter2"])? else { return Ok(()) };
    let further = "username = \"us\"\npassword_variable = \"SMTP_PASSWORD\"";
    let configuration = Configuration::smtp(server.port, further)?;
    for (password, code, expected) in [
        (Some("hunter2"), 0, "the provider smtp answers and accepts"),
        (Some("hunter3"), 1, "the login is refused: 535 "),
        (Some("hunter2\n"), 2, "the variable SMTP_PASSWORD must hold one line"),
        (Some(""), 2, "the variable SMTP_PASSWORD must hold one line"),
        (None, 2, "the variable SMTP_PASSWORD is not set"),
    ] {
        let mut command = program::mailroom()?;
        command
            .args(["send", "--check", "--config"])
            .arg(configuration.file())
            .envs(password.map(|text| ("SMTP_PASSWORD", text)));
        let output = command.output()?;
        let said = String::from_utf8([output.stdout, output.stderr].concat())?;
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(expected) && !said.contains("hunter"), "{said}");
    }
    Ok(())
}

#[test]
fn it_is_said_once_that_a_server_takes_its_time_over_a_domain_and_once_that_it_does_so_no_more()
-> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "connections = 4")?;
    let mut sending = Sending::start(&configuration, &[])?;
    // The server is asked for six seconds about the first one.
    for (id, email) in
        [(1, "slow@away.test"), (2, "ada@x.test"), (3, "slow@away.test"), (4, "ada@away.test")]
    {
        sending.write(&batch("b", &[(id, email)]))?;
        let answer = sending.answer()?;
        assert_eq!(answer.get("ok").is_some(), email.starts_with("ada"), "{answer}");
    }
    // What is to be said is said while something is on its way, once a second.
    sending.write(&batch("b", &[(5, "slow@x.test")]))?;
    sending.answer()?;
    let (status, errors) = sending.finish()?;
    assert!(status.success(), "{status}: {errors}");
    for sentence in [
        "smtp says nothing for seconds about mails to away.test:",
        "smtp answers at once again about mails to away.test",
    ] {
        assert_eq!(errors.matches(sentence).count(), 1, "{errors}");
    }
    assert!(!errors.contains('@'), "{errors}");
    Ok(())
}

#[test]
fn a_refusal_of_the_mail_is_the_mails_alone() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "connections = 1")?;
    let mut sending = Sending::start(&configuration, &[])?;
    let (mut id, mut people) = (0, Vec::new());
    let names: Vec<String> = ["rcpt", "data", "content"]
        .iter()
        .flat_map(|phase| {
            [
                format!("{phase}-451@x.test"),
                format!("{phase}-550@x.test"),
                format!("fine-{phase}@x.test"),
            ]
        })
        .collect();
    for name in &names {
        id += 1;
        people.push((id, name.as_str()));
    }
    sending.write(&batch("b", &people))?;
    let (mut ok, mut retry, mut dead) = (Vec::new(), Vec::new(), Vec::new());
    while ok.len() + retry.len() + dead.len() < people.len() {
        let answer = sending.answer()?;
        assert_eq!(answer.get("unavailable"), None, "{answer}");
        for (list, name) in [(&mut ok, "ok"), (&mut retry, "retry"), (&mut dead, "dead")] {
            list.extend(answer[name].as_array().cloned().unwrap_or_default());
        }
    }
    let ids = |list: &[serde_json::Value]| -> Vec<_> {
        list.iter().filter_map(|item| item["id"].as_i64()).collect()
    };
    assert_eq!(ok, [3, 6, 9]);
    // What is refused for ever with no word of the recipient may be everybody's, until a mail is
    // accepted after it.
    assert_eq!(ids(&retry), [1, 4, 5, 7], "{retry:?}");
    assert_eq!(ids(&dead), [2, 8], "{dead:?}");
    for item in retry.iter().chain(&dead) {
        let code = if matches!(item["id"].as_i64(), Some(1 | 4 | 7)) { "451 " } else { "550 " };
        assert!(item["reason"].as_str().is_some_and(|reason| reason.starts_with(code)), "{item}");
    }
    assert_eq!(server.mails().len(), 3);
    Ok(())
}

#[test]
fn what_is_about_the_server_gives_the_whole_batch_back() -> Result<()> {
    for (options, email, expected) in [
        (&["--greeting", "421"][..], "ada@x.test", "421 "),
        (&["--greeting", "554"], "ada@x.test", "554 "),
        (&["--refuse", "EHLO=421"], "ada@x.test", "421 "),
        (&["--refuse", "MAIL=451"], "ada@x.test", "MAIL FROM: 451 "),
        (&["--refuse", "MAIL=550"], "ada@x.test", "MAIL FROM: 550 "),
        (&["--refuse", "MAIL=421"], "ada@x.test", "MAIL FROM: 421 "),
        (&[], "rcpt-421@x.test", "421 "),
        (&[], "data-421@x.test", "421 "),
        (&[], "content-421@x.test", "421 "),
    ] {
        let Some(server) = MailServer::start(options)? else { return Ok(()) };
        let answer = answer_for(&Configuration::smtp(server.port, "")?, email)?;
        let reason = answer["unavailable"]["reason"]
            .as_str()
            .with_context(|| format!("{options:?} {answer}"))?;
        assert!(reason.contains(expected), "{options:?} {email}: {reason}");
        assert_eq!(
            (answer.get("ok"), answer.get("retry"), answer.get("dead")),
            (None, None, None),
            "{answer}"
        );
    }
    Ok(())
}

#[test]
fn a_server_that_does_not_take_the_extended_greeting_gets_the_old_one() -> Result<()> {
    let Some(server) = MailServer::start(&["--refuse", "EHLO=550"])? else { return Ok(()) };
    let answer = answer_for(&Configuration::smtp(server.port, "")?, "ada@x.test")?;
    assert_eq!(answer["ok"], json!([1]), "{answer}");
    Ok(())
}

#[test]
fn no_server_is_no_fault_of_the_tokens() -> Result<()> {
    // No server listens on the first port.
    let configuration = Configuration::smtp(1, "")?;
    let mut sending = Sending::start(&configuration, &[])?;
    sending.write(&batch("b", &[(1, "ada@x.test"), (2, "bob@x.test"), (3, "eve@x.test")]))?;
    let answer = sending.answer()?;
    assert!(
        answer["unavailable"]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("no mail server listens there")),
        "{answer}"
    );
    // A server that accepts connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let configuration = Configuration::smtp(silent.local_addr()?.port(), "timeout_seconds = 1")?;
    let answer = answer_for(&configuration, "ada@x.test")?;
    assert!(
        answer["unavailable"]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("no answer in time")),
        "{answer}"
    );
    Ok(())
}

#[test]
fn a_connection_cut_after_the_content_is_a_retry_with_the_same_id() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let answer = answer_for(&configuration, "cut@x.test")?;
    let reason = answer["retry"][0]["reason"].as_str().with_context(|| answer.to_string())?;
    assert!(reason.starts_with("no answer to the content"), "{reason}");
    let answer = answer_after_a_doubt(&configuration, "cut@x.test")?;
    assert_eq!(answer["ok"], json!([1]), "{answer}");
    let mails = server.mails();
    assert_eq!(mails.len(), 2);
    assert_eq!(mails[0], mails[1], "the same mail, to the byte");
    let answer = answer_for(&configuration, "silent@x.test");
    // The same id was accepted: it is not sent again, whatever else the line says.
    assert_eq!(answer?["ok"], json!([1]));
    let configuration = Configuration::smtp(server.port, "final_timeout_seconds = 1")?;
    let answer = answer_for(&configuration, "silent@x.test")?;
    assert_eq!(answer["retry"][0]["reason"], "no answer to the content: no answer in time");
    Ok(())
}

#[test]
fn a_server_that_takes_few_mails_a_connection_gets_them_all() -> Result<()> {
    for (further, code) in [
        ("", "421"),
        ("mails_per_connection = 2", "421"),
        ("", "452"),
        ("", "451"),
        ("", "503"),
        ("", "530"),
    ] {
        let options = ["--mails", "3", "--mails-code", code];
        let Some(server) = MailServer::start(&options)? else { return Ok(()) };
        let further = format!("connections = 1\n{further}");
        let configuration = Configuration::smtp(server.port, &further)?;
        let mut sending = Sending::start(&configuration, &[])?;
        let people: Vec<_> = (1..=10).map(|id| (id, "ada@x.test")).collect();
        sending.write(&batch("b", &people))?;
        let mut sent = 0;
        while sent < 10 {
            let answer = sending.answer()?;
            sent += answer["ok"].as_array().with_context(|| format!("{code}: {answer}"))?.len();
        }
        assert_eq!(server.mails().len(), 10);
    }
    Ok(())
}

#[test]
fn passwords_go_to_servers_that_prove_who_they_are_and_wrong_ones_are_no_fault_of_the_tokens()
-> Result<()> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("ca.pem"), authority.pem())?;
    for name in ["localhost", "other.test"] {
        let key = KeyPair::generate()?;
        let certificate =
            CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &authority)?;
        fs::write(path(name), certificate.pem())?;
        fs::write(path(&format!("{name}.key")), key.serialize_pem())?;
    }
    fs::write(path("password"), "hunter2\n")?;
    fs::write(path("wrong"), "hunter3\n")?;
    for mode in ["starttls", "implicit"] {
        for (name, ca, password, refused, expected) in [
            ("localhost", "ca.pem", "password", "HELP=502", None),
            ("localhost", "ca.pem", "wrong", "HELP=502", Some("the login is refused: 535 ")),
            ("localhost", "ca.pem", "password", "AUTH=454", Some("the login is refused: 454 ")),
            ("localhost", "ca.pem", "password", "STARTTLS=454", Some("STARTTLS failed: 454 ")),
            (
                "other.test",
                "ca.pem",
                "password",
                "HELP=502",
                Some("certificate not valid for name"),
            ),
            ("localhost", "other.test", "password", "HELP=502", Some("invalid peer certificate")),
        ] {
            if mode == "implicit" && refused.starts_with("STARTTLS") {
                continue;
            }
            let (certificate, key) = (path(name), path(&format!("{name}.key")));
            let options = [
                "--tls",
                mode,
                "--certificate",
                &certificate,
                "--key",
                &key,
                "--login",
                "us:hunter2",
            ];
            let options = [&options[..], &["--refuse", refused]].concat();
            let Some(server) = MailServer::start(&options)? else { return Ok(()) };
            let configuration = Configuration::new(&format!(
                "[smtp]\nserver = \"localhost\"\nport = {}\ntls = \"{mode}\"\nca_file = \"{}\"\n\
                 username = \"us\"\n\
                 password_file = \"{}\"",
                server.port,
                path(ca),
                path(password)
            ))?;
            let line = batch("b", &[(1, "ada@x.test")]);
            let (answer, errors) = answer_and_errors_to(&configuration, &line)?;
            // What to do is said where the password is wrong.
            let advice = "refuses the username or the password of [smtp]";
            assert_eq!(errors.matches(advice).count(), usize::from(password == "wrong"));
            assert_eq!(errors.lines().count(), usize::from(password == "wrong"), "{errors}");
            assert!(!errors.contains("hunter"), "{errors}");
            let reason = answer["unavailable"]["reason"].as_str();
            match expected {
                None => assert_eq!(answer["ok"], json!([1]), "{answer}"),
                Some(expected) => {
                    assert!(
                        reason.is_some_and(|reason| reason.contains(expected)),
                        "{mode} {name}: {answer}"
                    );
                }
            }
            assert!(!answer.to_string().contains("hunter"), "{answer}");
        }
    }
    // A server that offers no encryption gets no password.
    let Some(server) = MailServer::start(&["--login", "us:hunter2"])? else { return Ok(()) };
    let configuration = Configuration::new(&format!(
        "[smtp]\nserver = \"localhost\"\nport = {}\ntls = \"starttls\"\nusername = \"us\"\n\
         password_file = \"{}\"",
        server.port,
        path("password")
    ))?;
    let answer = answer_for(&configuration, "ada@x.test")?;
    assert!(
        answer["unavailable"]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("no STARTTLS")),
        "{answer}"
    );
    Ok(())
}
