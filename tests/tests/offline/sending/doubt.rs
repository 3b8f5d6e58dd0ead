//! Attempts that may have delivered their mail: what collectors are told that understand doubts,
//! and what older ones are told.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom_tests::collector::wait_until;
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::sending::{Configuration, KNOWS, Sending, batch, batch_knowing};
use serde_json::{Value, json};

use super::{answer_for, answer_to};

/// The next answer that is more than a sign of life: those come each second while one is missing.
fn verdicts(sending: &Sending) -> Result<Value> {
    loop {
        let answer = sending.answer()?;
        if answer.get("working").is_none() {
            return Ok(answer);
        }
    }
}

#[test]
fn a_lost_answer_is_in_doubt_and_is_counted_by_the_collector_before_the_mail_goes_out_again()
-> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let people = [(1, "cut@x.test")];
    let line = |doubts| batch_knowing("b", &KNOWS, &people, doubts);
    let answer = answer_to(&configuration, &line(0))?;
    assert_eq!(
        (&answer["exact"], &answer["in_doubt"][0]["id"]),
        (&json!(true), &json!(1)),
        "{answer}"
    );
    let reason = answer["in_doubt"][0]["reason"].as_str().context("a reason")?;
    assert!(reason.starts_with("no answer to the content"), "{reason}");
    // Its answer may have been lost: it is given again, by later processes, too,
    // and nothing is sent.
    for _ in 0..2 {
        let answer = answer_to(&configuration, &line(0))?;
        assert_eq!(answer["in_doubt"][0]["id"], json!(1), "{answer}");
        assert_eq!(server.mails().len(), 1);
    }
    let answer = answer_to(&configuration, &line(1))?;
    assert_eq!(answer["ok"], json!([1]), "{answer}");
    assert_eq!(answer["receipts"][0]["provider"], json!("smtp"), "{answer}");
    assert!(
        answer["receipts"][0]["answer"].as_str().is_some_and(|said| said.starts_with("250")),
        "{answer}"
    );
    assert_eq!(server.mails().len(), 2);
    Ok(())
}

#[test]
fn an_older_collector_is_told_to_wait_and_gets_no_word_that_it_does_not_know() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let answer = answer_for(&configuration, "cut@x.test")?;
    assert_eq!(answer["retry"][0]["after_ms"], json!(60_000), "{answer}");
    assert_eq!(answer.as_object().map(serde_json::Map::len), Some(2), "{answer}");
    // Whoever does not wait is told again, and nothing is sent.
    let answer = answer_for(&configuration, "cut@x.test")?;
    let left = answer["retry"][0]["after_ms"].as_u64().with_context(|| answer.to_string())?;
    assert!((1..=60_000).contains(&left), "{left}");
    assert_eq!(server.mails().len(), 1);
    Ok(())
}

#[test]
fn what_a_kill_leaves_is_in_doubt_only_where_the_content_had_begun() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "connections = 2")?;
    let mut sending = Sending::start(&configuration, &[])?;
    sending.write(&batch_knowing("b", &KNOWS, &[(1, "silent@x.test"), (2, "bob@x.test")], 0))?;
    wait_until(|| server.mails().len() == 2)?;
    assert_eq!(verdicts(&sending)?["ok"], json!([2]));
    sending.kill()?;
    let mut sending = Sending::start(&configuration, &[])?;
    sending.write(&batch_knowing("c", &KNOWS, &[(1, "silent@x.test"), (3, "ada@x.test")], 0))?;
    let (mut in_doubt, mut ok) = (Vec::new(), Vec::new());
    while in_doubt.len() + ok.len() < 2 {
        let answer = sending.answer()?;
        in_doubt.extend(
            answer["in_doubt"].as_array().into_iter().flatten().map(|found| found["id"].clone()),
        );
        ok.extend(answer["ok"].as_array().into_iter().flatten().cloned());
    }
    assert_eq!((in_doubt, ok), (vec![json!(1)], vec![json!(3)]));
    Ok(())
}

#[test]
fn while_an_answer_is_waited_for_the_batch_is_said_to_be_worked_on_where_that_is_understood()
-> Result<()> {
    let Some(server) = MailServer::start(&["--delay", "4"])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let mut sending = Sending::start(&configuration, &[])?;
    sending.write(&batch_knowing("new", &KNOWS, &[(1, "ada@x.test")], 0))?;
    sending.write(&batch("old", &[(2, "bob@x.test")]))?;
    let (mut beats, mut settled) = (0, 0);
    while settled < 2 {
        let answer = sending.answer()?;
        if let Some(batches) = answer.get("working") {
            assert_eq!(batches, &json!(["new"]), "{answer}");
            beats += 1;
        } else {
            settled += 1;
        }
    }
    assert!(beats >= 1, "nothing was said meanwhile");
    Ok(())
}

#[test]
fn when_the_input_ends_a_mail_without_an_answer_is_left_in_doubt() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "timeout_seconds = 300")?;
    let mut sending = Sending::start(&configuration, &[])?;
    sending.write(&batch_knowing("b", &KNOWS, &[(1, "silent@x.test")], 0))?;
    wait_until(|| !server.mails().is_empty())?;
    let answers = sending.end_input()?;
    let last = answers.last().context("nothing is answered")?;
    assert_eq!(last["in_doubt"][0]["id"], json!(1), "{last}");
    Ok(())
}

#[test]
fn what_cannot_be_read_of_a_batch_costs_no_other_mail() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let mut sending = Sending::start(&configuration, &[])?;
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    for (number, payload) in (1..).zip(["1e400", &deep, r#""\ud800""#, "NaN", "{\"a\":}"]) {
        let people = [(10 * number, "ada@x.test"), (10 * number + 1, "bob@x.test")];
        let line = batch("b", &people).replacen(
            "\"token\":",
            &format!("\"payload\":{payload},\"token\":"),
            1,
        );
        sending.write(&line)?;
        let (mut dead, mut ok) = (Vec::new(), Vec::new());
        while dead.len() + ok.len() < 2 {
            let answer = sending.answer()?;
            assert!(answer.get("unavailable").is_none(), "{answer}");
            dead.extend(
                answer["dead"].as_array().into_iter().flatten().map(|found| found["id"].clone()),
            );
            ok.extend(answer["ok"].as_array().into_iter().flatten().cloned());
        }
        assert_eq!(
            (dead, ok),
            (vec![json!(10 * number)], vec![json!(10 * number + 1)]),
            "{payload:.80}"
        );
    }
    // Neither is a line that is no batch an outage.
    for line in ["{\"v\":1,\"batch\":\"b\"}", "{\"v\":1", "[]", "\u{0}"] {
        sending.write(line)?;
        assert_eq!(sending.answer_within(Duration::from_millis(50)), None);
    }
    let (status, _) = sending.finish()?;
    assert!(status.success());
    Ok(())
}
