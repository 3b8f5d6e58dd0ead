//! Collectors of neighbouring versions: a line says which answers its collector understands.

use anyhow::{Context, Result};
use mailroom_tests::mail_server::MailServer;
use mailroom_tests::sending::{Configuration, KNOWS, Sending, item};
use serde_json::{Value, json};

/// What a collector of every version understands.
const ALWAYS: [&str; 4] = ["batch", "ok", "retry", "dead"];

/// One mail is sent, one refused, of one nobody knows, and one address is not there.
fn line(name: &str, first: i64, knows: Option<Vec<&str>>, further: bool) -> String {
    let emails = ["fine", "content-451-busy", "cut", "rcpt-550-5.1.1-unknown"];
    let items = emails.iter().zip(first..).map(|(email, id)| {
        let mut item = item(id, &format!("{email}{name}@x.test"));
        if further {
            item["further"] = json!({ "of": ["a", "later", "version"] });
        }
        item
    });
    let mut line = json!({ "v": 1, "batch": name, "items": items.collect::<Vec<_>>() });
    if let Some(knows) = knows {
        line["knows"] = json!(knows);
    }
    if further {
        line["further"] = json!(true);
    }
    line.to_string()
}

/// The ids in an answer, whatever they are in.
fn ids(answer: &Value) -> Vec<i64> {
    let lists = answer.as_object().into_iter().flatten();
    let lists = lists.filter(|(name, _)| !["receipts", "working", "slow"].contains(&name.as_str()));
    let entries = lists.filter_map(|(_, list)| list.as_array()).flatten();
    entries.filter_map(|entry| entry.as_i64().or_else(|| entry["id"].as_i64())).collect()
}

#[test]
fn a_collector_of_a_neighbouring_version_gets_answers_that_it_understands() -> Result<()> {
    let Some(server) = MailServer::start(&[])? else { return Ok(()) };
    let configuration = Configuration::smtp(server.port, "")?;
    let mut sending = Sending::start(&configuration, &[])?;
    let mut older: Vec<_> = (0..=KNOWS.len()).map(|count| Some(KNOWS[..count].to_vec())).collect();
    older.push(None);
    let newer = Some([&KNOWS[..], &["a_later_word"]].concat());
    let neighbours = older.into_iter().map(|knows| (knows, false)).chain([(newer, true)]);
    for (first, (knows, is_newer)) in (1..).step_by(4).zip(neighbours) {
        let name = format!("batch{first}");
        sending.write(&line(&name, first, knows.clone(), is_newer))?;
        let known = knows.unwrap_or_default();
        let mut answered = Vec::new();
        while answered.len() < 4 {
            let answer = sending.answer()?;
            let members = answer.as_object().context("an object")?;
            for member in members.keys().map(String::as_str) {
                assert!(
                    ALWAYS.contains(&member) || known.contains(&member),
                    "{member} for a collector that knows {known:?}: {answer}"
                );
            }
            let marks_unknown = answer.to_string().contains("unknown_address");
            assert!(!marks_unknown || known.contains(&"unknown_address"), "{answer}");
            answered.extend(ids(&answer));
        }
        answered.sort_unstable();
        assert_eq!(answered, (first..first + 4).collect::<Vec<_>>(), "{known:?}");
        let sent = format!("fine{name}@x.test");
        assert_eq!(server.mails().iter().filter(|mail| mail.to == sent).count(), 1);
    }
    Ok(())
}
