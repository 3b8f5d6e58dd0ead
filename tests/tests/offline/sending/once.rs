//! A mail is sent once, and always as it was at first.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::machine::is_full;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::sending::{Configuration, Sending, batch, item, key, token};
use serde_json::json;

use super::{answer_after_a_doubt, answer_for};

#[test]
fn another_key_template_or_sender_does_not_change_a_mail_that_was_tried() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let answer = answer_for(&configuration, "cut@x.test")?;
    assert!(answer.get("retry").is_some(), "{answer}");
    configuration.write(
        &configuration
            .text()?
            .replace("us@x.test", "them@x.test")
            .replace("\"Example\"", "\"Other\""),
    )?;
    let mut sending = Sending::start(&configuration, &[])?;
    let mut again = item(1, "cut@x.test");
    again["token"] = json!("a-token-of-another-signing-key");
    (again["attempt"], again["doubts"]) = (json!(2), json!(1));
    let line = json!({"v": 1, "batch": "again", "knows": ["in_doubt"], "items": [again]});
    sending.write(&line.to_string())?;
    assert_eq!(sending.answer()?, json!({"batch": "again", "ok": [1]}));
    let mails = server.mails();
    assert_eq!(mails.len(), 2);
    assert_eq!(mails[0], mails[1]);
    Ok(())
}

#[test]
fn the_sender_of_the_envelope_is_that_of_the_first_attempt_whatever_the_configuration_says_later()
-> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let setting = |address: &str| {
        format!("return_path = \"{address}\"\nreturn_path_secret_file = \"secret\"")
    };
    let (before, after) = (setting("bounces@x.test"), setting("other@y.test"));
    for (number, (before, after, has_path)) in
        [(before.as_str(), after.as_str(), true), (&before, "", true), ("", &after, false)]
            .into_iter()
            .enumerate()
    {
        // The first one is deferred; the content of the second one arrives at both attempts.
        for (email, attempts) in
            [(format!("content-451-first{number}@x.test"), 1), (format!("cut{number}@x.test"), 2)]
        {
            let configuration = Configuration::smtp(server.port, before)?;
            fs::write(configuration.path("secret"), "0123456789abcdef0123456789abcdef")?;
            let answer = answer_for(&configuration, &email)?;
            assert!(answer.get("retry").is_some(), "{answer}");
            let text = configuration.text()?.replace(before, "");
            configuration
                .write(&format!("{}\n{after}", text.replace("us@x.test", "them@x.test")))?;
            assert_eq!(answer_after_a_doubt(&configuration, &email)?["ok"], json!([1]));
            let expected = if has_path { "bounces+" } else { "us" };
            let is_first =
                |sender: &str| sender.starts_with(expected) && sender.ends_with("@x.test");
            let mails: Vec<_> =
                server.mails().into_iter().filter(|mail| mail.to == email).collect();
            assert_eq!(mails.len(), attempts, "{email}");
            assert!(mails.iter().all(|mail| is_first(&mail.sender)), "{before} {after} {mails:?}");
            assert!(mails.iter().all(
                |mail| mail.content == mails[0].content && mail.content.contains("<us@x.test>")
            ));
        }
    }
    Ok(())
}

#[test]
fn a_token_that_comes_again_is_answered_and_not_sent_again() -> Result<()> {
    let Some(server) = MailServer::start(&["--delay", "0.3"])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let mut sending = Sending::start(&configuration, &[])?;
    // While it is on its way, twice in one batch and in two, and after it was accepted.
    sending.write(&batch("one", &[(1, "ada@x.test"), (1, "ada@x.test")]))?;
    sending.write(&batch("two", &[(1, "ada@x.test")]))?;
    let mut answers = [sending.answer()?, sending.answer()?];
    answers.sort_by_key(|answer| answer["batch"].as_str().map(str::to_owned));
    assert_eq!(
        answers,
        [json!({"batch": "one", "ok": [1, 1]}), json!({"batch": "two", "ok": [1]})]
    );
    sending.write(&batch("three", &[(1, "ada@x.test")]))?;
    assert_eq!(sending.answer()?, json!({"batch": "three", "ok": [1]}));
    sending.kill()?;
    assert_eq!(answer_for(&configuration, "ada@x.test")?["ok"], json!([1]));
    assert_eq!(server.mails().len(), 1);
    Ok(())
}

#[test]
fn the_journal_is_for_its_owner_and_holds_no_token_that_was_sent_or_given_up() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let mut sending = Sending::start(&configuration, &[])?;
    sending.write(&batch("b", &[(1, "ada@x.test"), (2, "rcpt-550@x.test")]))?;
    let mut settled = 0;
    while settled < 2 {
        let answer = sending.answer()?;
        settled += ["ok", "dead"]
            .iter()
            .filter_map(|name| answer[name].as_array())
            .map(Vec::len)
            .sum::<usize>();
    }
    let journal = configuration.path("journal");
    assert_eq!(fs::metadata(&journal)?.permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&journal)?;
    assert!(text.contains(&format!("accepted {}", key(1))), "{text}");
    // Whatever is left of a mail is dots.
    let mails: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("tried ")?.split(' ').nth(2)).collect();
    assert_eq!(mails.len(), 2);
    assert!(
        mails.iter().all(|mail| mail.len() > 1_000 && mail.bytes().all(|byte| byte == b'.')),
        "{text}"
    );
    assert!(!text.contains(&token(1)));
    Ok(())
}

/// The record of a mail that the journal has no space for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Mail,
    Doubt,
    Acceptance,
}

/// How large the journal becomes with the records of one more mail, until just before the end of
/// this one.
fn too_small_for(missing: Missing, journal: &str) -> Result<usize> {
    let last = journal.rfind("\ntried ").context("a mail was sent")? + 1;
    let records = journal[last..].split_inclusive('\n');
    let mut length = journal.len() + "synced 12345 12345678\n".len();
    let last_kind = match missing {
        Missing::Mail => "tried",
        Missing::Doubt => "doubt",
        Missing::Acceptance => "accepted",
    };
    for record in records {
        length += record.len();
        if record.starts_with(last_kind) {
            return Ok(length - 30);
        }
    }
    anyhow::bail!("the journal has no {last_kind}")
}

/// The mail whose acceptance has no space is said to be sent; after a kill it is in doubt.
#[test]
fn where_the_journal_cannot_grow_no_mail_is_sent_twice_and_none_is_lost() -> Result<()> {
    for missing in [Missing::Mail, Missing::Doubt, Missing::Acceptance] {
        let Some(server) = MailServer::start(&[])? else { return Ok(()) };
        let configuration = Configuration::smtp(server.port, "connections = 1")?;
        let mut sending = Sending::start_short_of_space(&configuration)?;
        let person = |id: i64| format!("p{id}@x.test");
        for id in 1..=3 {
            sending.write(&batch("b", &[(id, &person(id))]))?;
            assert_eq!(sending.answer()?["ok"], json!([id]));
        }
        let journal = fs::read_to_string(configuration.path("journal"))?;
        sending.limit_files(too_small_for(missing, &journal)?)?;
        let mut sent = 3;
        let refusal = loop {
            sending.write(&batch("b", &[(sent + 1, &person(sent + 1))]))?;
            let answer = sending.answer()?;
            if answer["ok"] != json!([sent + 1]) {
                break answer;
            }
            sent += 1;
        };
        assert_eq!(sent, if missing == Missing::Acceptance { 4 } else { 3 }, "{refusal}");
        let reason = refusal["unavailable"]["reason"].as_str().unwrap_or_default();
        assert!(
            reason.starts_with("the journal ") && reason.contains("cannot be used: "),
            "{refusal}"
        );
        assert_eq!(
            i64::try_from(server.mails().len())?,
            sent,
            "what is not in the journal is not sent"
        );
        sending.kill()?;
        let mut sending = Sending::start(&configuration, &[])?;
        for id in 1..=sent + 1 {
            sending.write(&batch("b", &[(id, &person(id))]))?;
            let answer = sending.answer()?;
            if missing == Missing::Acceptance && id == 4 {
                let said = answer["retry"][0]["reason"].as_str();
                assert_eq!(said, Some("an earlier attempt ended without an answer"), "{answer}");
            } else {
                assert_eq!(answer, json!({"batch": "b", "ok": [id]}));
            }
        }
        assert_eq!(i64::try_from(server.mails().len())?, sent + 1);
    }
    Ok(())
}

/// The sender is killed at any moment; what the collector would give it again, it gets again.
#[test]
fn kills_of_the_sender_lose_no_mail_and_repeat_only_what_was_on_its_way() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let (people, kills) = if is_full() { (10_000, 1_000) } else { (100, 10) };
    let configuration = Configuration::smtp(server.port, "connections = 2")?;
    let mut owed: Vec<i64> = (1..=people).collect();
    let mut random = fastrand::Rng::with_seed(17);
    let mut killed = 0;
    // As the database counts them.
    let mut doubts: BTreeMap<i64, u32> = BTreeMap::new();
    while !owed.is_empty() {
        let few = 2 * usize::try_from(people / kills)?;
        let wanted = if killed < kills { random.usize(0..few) } else { owed.len() };
        let wanted = wanted.min(owed.len());
        random.shuffle(&mut owed);
        let mut sending = Sending::start(&configuration, &[])?;
        // As many as it is to answer, and enough that it is never without work at the kill: it
        // would cost a run the square of its mails to give it all of them after each.
        for ids in owed[..owed.len().min(wanted + 100)].chunks(10) {
            let items: Vec<_> = ids
                .iter()
                .map(|id| {
                    let mut item = item(*id, &format!("p{id}@x.test"));
                    if let Some(doubts) = doubts.get(id) {
                        item["doubts"] = json!(doubts);
                    }
                    item
                })
                .collect();
            let line =
                json!({"v": 1, "batch": ids[0].to_string(), "knows": ["in_doubt"], "items": items});
            sending.write(&line.to_string())?;
        }
        let mut answered = 0;
        while answered < wanted {
            let answer = sending.answer()?;
            let ids = answer["ok"].as_array().cloned().unwrap_or_default();
            let in_doubt = answer["in_doubt"].as_array().cloned().unwrap_or_default();
            anyhow::ensure!(!ids.is_empty() || !in_doubt.is_empty(), "{answer}");
            answered += ids.len() + in_doubt.len();
            for entry in in_doubt {
                *doubts.entry(entry["id"].as_i64().context("an id")?).or_default() += 1;
            }
            // Some answers do not reach the database before a kill of the collector.
            if random.u8(0..10) > 0 || killed >= kills {
                owed.retain(|id| !ids.contains(&json!(id)));
            }
        }
        std::thread::sleep(Duration::from_micros(random.u64(0..3_000)));
        sending.kill()?;
        killed += 1;
    }
    let mut mails: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for mail in server.mails() {
        mails.entry(mail.to).or_default().push(mail.content);
    }
    assert_eq!(mails.len(), usize::try_from(people)?, "mails are lost");
    let doubled = mails.values().filter(|contents| contents.len() > 1).count();
    // At a kill, at most one mail is on its way on each of two connections.
    assert!(doubled <= 2 * usize::try_from(killed)?, "{doubled} of {killed} kills");
    assert!(mails.values().all(|contents| contents.iter().all(|content| *content == contents[0])));
    println!("{people} mails, {killed} kills, {doubled} doubled");
    Ok(())
}
