//! Providers with an HTTP API, against a stand-in that does what they document.
//! No account was at hand.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use mailroom_tests::clock::WrongClock;
use mailroom_tests::machine::is_full;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::sending::{Configuration, Sending, batch, item, key, token};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use super::{answer_for, remarks};

fn configuration(provider: &str, url: &str, further: &str) -> Result<Configuration> {
    let configuration = Configuration::new(&format!(
        "[{provider}]\nkey_file = \"key\"\nurl = \"{url}\"\n{further}"
    ))?;
    fs::write(configuration.path("key"), "re_test\n")?;
    Ok(configuration)
}

fn local(provider: &str, server: &MailServer) -> Result<Configuration> {
    configuration(provider, &format!("http://127.0.0.1:{}", server.port), "")
}

/// The verdict on the one token of an answer, and its words.
fn verdict(answer: &Value) -> (&'static str, String) {
    for name in ["retry", "dead"] {
        if let Some(reason) = answer[name][0]["reason"].as_str() {
            return (name, reason.to_owned());
        }
    }
    match answer["unavailable"]["reason"].as_str() {
        Some(reason) => ("unavailable", reason.to_owned()),
        None => ("ok", String::new()),
    }
}

#[test]
fn a_mail_has_the_link_both_bodies_and_the_key() -> Result<()> {
    for provider in ["resend", "postmark"] {
        let Some(server) = MailServer::start_api(&[])? else { return Ok(()) };
        let configuration = local(provider, &server)?;
        assert_eq!(verdict(&answer_for(&configuration, "ada@x.test")?).0, "ok", "{provider}");
        let mails = server.mails();
        let mail = mails.first().context("no mail came")?;
        assert_eq!((mail.to.as_str(), mail.sender.as_str()), ("ada@x.test", "Example <us@x.test>"));
        let link = format!("https://example.test/activate?token={}", token(1));
        assert!(mail.text.contains(&link) && mail.html.contains(&link), "{}", mail.content);
        assert!(mail.content.contains("Auto-Submitted"), "{}", mail.content);
        let expected = if provider == "resend" { key(1) } else { String::new() };
        assert_eq!(mail.header("Idempotency-Key"), Some(expected.as_str()));
    }
    Ok(())
}

#[test]
fn answers_of_the_providers_are_verdicts_on_the_mail_or_on_the_provider() -> Result<()> {
    let Some(server) = MailServer::start_api(&[])? else { return Ok(()) };
    let resend = local("resend", &server)?;
    let postmark = local("postmark", &server)?;
    for (number, (configuration, email, expected)) in (1..).zip([
        (&resend, "name-validation_error@x.test", "retry"),
        (&resend, "name-security_error@x.test", "retry"),
        (&resend, "name-invalid_idempotent_request@x.test", "dead"),
        (&resend, "name-concurrent_idempotent_requests@x.test", "retry"),
        (&resend, "name-application_error@x.test", "retry"),
        (&resend, "name-invalid_from_address@x.test", "unavailable"),
        (&resend, "name-daily_quota_exceeded@x.test", "unavailable"),
        (&resend, "status-401@x.test", "unavailable"),
        (&resend, "status-403@x.test", "unavailable"),
        (&resend, "status-302@x.test", "unavailable"),
        (&resend, "status-418@x.test", "unavailable"),
        (&resend, "status-425@x.test", "retry"),
        (&resend, "status-502@x.test", "retry"),
        (&postmark, "code-300@x.test", "retry"),
        (&postmark, "code-406@x.test", "dead"),
        (&postmark, "code-400@x.test", "unavailable"),
        (&postmark, "code-405@x.test", "unavailable"),
        (&postmark, "code-999@x.test", "retry"),
        (&postmark, "status-401@x.test", "unavailable"),
        (&postmark, "status-413@x.test", "retry"),
        (&postmark, "status-500@x.test", "retry"),
        (&postmark, "cut@x.test", "retry"),
    ]) {
        let mut sending = Sending::start(configuration, &[])?;
        sending.write(&batch("b", &[(number, email)]))?;
        let answer = sending.answer()?;
        let (found, reason) = verdict(&answer);
        assert_eq!(found, expected, "{email}: {answer}");
        assert!(!reason.is_empty() && !answer.to_string().contains("@x.test"), "{answer}");
    }
    // Of a gateway nobody knows whether it has passed the mail on,
    // which says nothing against the pause.
    for (configuration, status) in
        [(&resend, 429), (&resend, 503), (&postmark, 429), (&postmark, 503)]
    {
        let mut sending = Sending::start(configuration, &[])?;
        sending.write(&batch("b", &[(status, &format!("status-{status}@x.test"))]))?;
        let answer = sending.answer()?;
        assert_eq!(answer["unavailable"]["after_ms"], 7_000, "{answer}");
    }
    assert_eq!(server.mails(), []);
    Ok(())
}

#[test]
fn a_lost_answer_doubles_no_mail_where_the_provider_keeps_keys() -> Result<()> {
    let Some(server) = MailServer::start_api(&[])? else { return Ok(()) };
    for (provider, mails) in [("resend", 1), ("postmark", 3)] {
        let configuration = local(provider, &server)?;
        let email = format!("lost-{provider}@x.test");
        let (found, reason) = verdict(&answer_for(&configuration, &email)?);
        assert!(found == "retry" && reason.contains("no answer"), "{found} {reason}");
        // Another token of the row, as after a rotation of the signing key: the mail is the one of
        // the first attempt.
        let mut again = item(1, &email);
        again["token"] = json!("a-token-of-another-signing-key");
        let is_counted = provider == "postmark";
        again["doubts"] = json!(u32::from(is_counted));
        let mut sending = Sending::start(&configuration, &[])?;
        let line = json!({"v": 1, "batch": "b", "knows": ["in_doubt"], "items": [again]});
        sending.write(&line.to_string())?;
        assert_eq!(sending.answer()?, json!({"batch": "b", "ok": [1]}));
        assert_eq!(server.mails().len(), mails);
        assert!(server.mails().iter().all(|mail| mail.text.contains(&token(1))));
    }
    Ok(())
}

#[test]
fn after_the_time_for_which_resend_keeps_keys_a_mail_is_not_lost_and_may_be_doubled_which_is_said()
-> Result<()> {
    let Some(server) = MailServer::start_api(&[])? else { return Ok(()) };
    let clock = WrongClock::build()?;
    let configuration = local("resend", &server)?;
    for (id, hours, count) in [(1, 23, 1), (2, 25, 2)] {
        let email = format!("lost-{id}@x.test");
        let people = [(id, email.as_str())];
        let mut sending = Sending::start(&configuration, &[])?;
        sending.write(&batch("first", &people))?;
        assert_eq!(verdict(&sending.answer()?).0, "retry");
        drop(sending.finish()?);
        if hours >= 24 {
            server.forget_keys();
        }
        let mut sending = Sending::start_ahead(&configuration, &clock, hours * 3_600)?;
        sending.write(&batch("later", &people))?;
        assert_eq!(sending.answer()?, json!({"batch": "later", "ok": [id]}));
        let (status, errors) = sending.finish()?;
        assert!(status.success());
        let errors = remarks(&errors);
        let is_said = errors.contains(
            "token 2 is tried again 25 hours after its first attempt, and resend keeps keys for 24",
        );
        assert_eq!(
            (is_said, errors.lines().count()),
            (hours >= 24, usize::from(hours >= 24)),
            "{errors}"
        );
        let mails: Vec<_> = server.mails().into_iter().filter(|mail| mail.to == email).collect();
        assert_eq!(mails.len(), count);
        assert!(
            mails.iter().all(|mail| *mail == mails[0]),
            "what is sent under a key never changes"
        );
    }
    Ok(())
}

#[test]
fn limits_slow_down_and_lose_nothing() -> Result<()> {
    // Few enough that a busy machine sends more.
    let Some(server) = MailServer::start_api(&["--per-second", "3"])? else { return Ok(()) };
    let configuration = local("resend", &server)?;
    let mut sending = Sending::start(&configuration, &[])?;
    let mut owed: Vec<i64> = (1..=25).collect();
    let mut pauses = 0;
    while !owed.is_empty() {
        let items: Vec<_> = owed.iter().map(|id| item(*id, "ada@x.test")).collect();
        sending.write(&json!({"v": 1, "batch": pauses.to_string(), "items": items}).to_string())?;
        loop {
            let answer = sending.answer()?;
            let sent = answer["ok"].as_array().cloned().unwrap_or_default();
            owed.retain(|id| !sent.contains(&json!(id)));
            if let Some(after) = answer["unavailable"]["after_ms"].as_u64() {
                assert_eq!(after, 1_000, "{answer}");
                std::thread::sleep(std::time::Duration::from_millis(after));
                pauses += 1;
                break;
            }
            if owed.is_empty() {
                break;
            }
        }
    }
    assert!(pauses > 0);
    assert_eq!(server.mails().len(), 25);
    Ok(())
}

#[test]
fn a_key_goes_only_to_a_server_that_proves_who_it_is() -> Result<()> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("ca.pem"), authority.pem())?;
    for (name, expected) in [("localhost", "ok"), ("other.test", "unavailable")] {
        let key = KeyPair::generate()?;
        let certificate =
            CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, &authority)?;
        fs::write(path(name), certificate.pem())?;
        fs::write(path("key"), key.serialize_pem())?;
        let Some(server) =
            MailServer::start_api(&["--certificate", &path(name), "--key", &path("key")])?
        else {
            return Ok(());
        };
        let url = format!("https://localhost:{}", server.port);
        let configuration =
            configuration("resend", &url, &format!("ca_file = \"{}\"", path("ca.pem")))?;
        let answer = answer_for(&configuration, "ada@x.test")?;
        assert_eq!(verdict(&answer).0, expected, "{answer}");
        let check = super::run(&configuration, &["--check"])?;
        assert_eq!(check.0, Some(i32::from(expected != "ok")), "{check:?}");
        fs::write(configuration.path("key"), "re_wrong")?;
        let (code, _, errors) = super::run(&configuration, &["--check"])?;
        assert!(code == Some(1) && !errors.contains("re_wrong"), "{errors}");
    }
    let plain = configuration("resend", "http://api.example.test", "")?;
    let (code, _, errors) = super::run(&plain, &[])?;
    assert!(code == Some(2) && errors.contains("https://"), "{errors}");
    Ok(())
}

/// Kills of the sender, lost answers of the provider and of the sender itself: every mail once.
#[test]
fn with_a_provider_that_keeps_keys_kills_double_nothing() -> Result<()> {
    let Some(server) = MailServer::start_api(&["--drop", "0.1"])? else { return Ok(()) };
    let (people, kills) = if is_full() { (10_000, 1_000) } else { (100, 10) };
    let configuration = local("resend", &server)?;
    let mut owed: Vec<i64> = (1..=people).collect();
    let mut random = fastrand::Rng::with_seed(18);
    for killed in 0.. {
        let mut sending = Sending::start(&configuration, &[])?;
        random.shuffle(&mut owed);
        for ids in owed.chunks(10) {
            let items: Vec<_> = ids.iter().map(|id| item(*id, &format!("p{id}@x.test"))).collect();
            sending
                .write(&json!({"v": 1, "batch": ids[0].to_string(), "items": items}).to_string())?;
        }
        let given = owed.len();
        let wanted = if killed < kills {
            random.usize(0..2 * usize::try_from(people / kills)?).min(given)
        } else {
            given
        };
        let mut answered = 0;
        while answered < wanted {
            let answer = sending.answer()?;
            assert!(
                answer.get("unavailable").is_none() && answer.get("dead").is_none(),
                "{answer}"
            );
            let ok = answer["ok"].as_array().cloned().unwrap_or_default();
            answered += ok.len() + answer["retry"].as_array().map_or(0, Vec::len);
            if random.u8(0..10) > 0 {
                owed.retain(|id| !ok.contains(&json!(id)));
            }
        }
        sending.kill()?;
        if owed.is_empty() {
            break;
        }
    }
    let mut mails: BTreeMap<String, usize> = BTreeMap::new();
    for mail in server.mails() {
        *mails.entry(mail.to).or_default() += 1;
    }
    assert_eq!(mails.len(), usize::try_from(people)?, "mails are lost");
    assert!(mails.values().all(|count| *count == 1), "{mails:?}");
    Ok(())
}
