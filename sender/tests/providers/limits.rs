//! Limits by provider and by the domain of the recipient.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::sending::{Configuration, Sending, Verdict};
use crate::stand_in::{Reply, StandIn};

fn server() -> StandIn {
    StandIn::start(|_| Reply::status(200))
}

fn configuration(server: &StandIn, rate: &str, domains: &str) -> Configuration {
    let table = format!(
        "[resend]\nkey_file = \"key\"\nconnections = 8\nurl = \"{}\"\n{rate}\n{domains}",
        server.url()
    );
    Configuration::new("", &table)
}

fn send(
    sending: &mut Sending,
    batch: &str,
    ids: std::ops::Range<i64>,
    email: &str,
) -> Vec<Verdict> {
    let people: Vec<_> = ids.map(|id| (id, email)).collect();
    sending.verdicts(batch, &people)
}

fn count(verdicts: &[Verdict], kind: &str) -> usize {
    verdicts.iter().filter(|verdict| verdict.kind == kind).count()
}

#[test]
fn a_provider_gets_no_more_than_its_rate_and_every_mail() {
    let server = server();
    let configuration = configuration(&server, "rate = \"20/s\"", "");
    let start = Instant::now();
    let mut sending = Sending::start(&configuration);
    for batch in 0..3 {
        let verdicts =
            send(&mut sending, &batch.to_string(), batch * 10..batch * 10 + 10, "ada@x.test");
        assert_eq!(count(&verdicts, "ok"), 10);
    }
    assert!(start.elapsed() >= Duration::from_millis(29 * 50), "{:?}", start.elapsed());
    sending.finish();
    assert_eq!(server.requests().len(), 30);
}

#[test]
fn a_limit_that_is_told_over_one_recipient_keeps_the_others_waiting_once() {
    let server = StandIn::start(|request| {
        if String::from_utf8_lossy(&request.body).contains("limited@") {
            Reply::Answer(429, vec![("Retry-After", "1".to_owned())], "{}".to_owned())
        } else {
            Reply::status(200)
        }
    });
    let table = format!("[postmark]\nkey_file = \"key\"\nurl = \"{}\"\n", server.url());
    let configuration = Configuration::new("", &table);
    let mut sending = Sending::start(&configuration);
    // The same mail is the first one each time, also where a collector tries one alone.
    let first = sending.verdict(1, "limited@x.test");
    assert_eq!((first.kind.as_str(), first.after), ("unavailable", Some(1_000)));
    sleep(Duration::from_millis(1_100));
    let second = sending.verdict(1, "limited@x.test");
    assert_eq!((second.kind.as_str(), second.after), ("untried", Some(15_000)), "{second:?}");
    assert_eq!(sending.verdict(2, "ada@x.test").kind, "ok");
    // Since then its limit is its own.
    for id in 3..6 {
        let verdicts = sending.verdicts("b", &[(1, "limited@x.test"), (id, "ada@x.test")]);
        let kinds: Vec<_> = verdicts.iter().map(|verdict| verdict.kind.as_str()).collect();
        assert_eq!(kinds, ["untried", "ok"], "{verdicts:?}");
    }
    sending.finish();
}

#[test]
fn where_turns_are_rare_mails_are_given_back_until_the_next_one() {
    let server = server();
    let configuration = configuration(&server, "rate = \"1/h\"", "");
    let mut sending = Sending::start(&configuration);
    for (batch, expected) in [(0, 1), (1, 0)] {
        let verdicts =
            send(&mut sending, &batch.to_string(), batch * 10..batch * 10 + 5, "ada@x.test");
        assert_eq!(
            (count(&verdicts, "ok"), count(&verdicts, "unavailable")),
            (expected, 5 - expected)
        );
        let given_back = verdicts.iter().find(|verdict| verdict.kind == "unavailable").unwrap();
        let is_next_turn =
            given_back.after.is_some_and(|after| (1_000_000..=3_600_001).contains(&after));
        assert!(is_next_turn && given_back.reason.contains("the rate of resend"), "{given_back:?}");
    }
    sending.finish();
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn mails_to_a_limited_domain_hold_up_no_others() {
    let server = server();
    let domains = "[domain_rates]\n\"Slow.test\" = \"1/h\"\n\"b\u{fc}cher.test\" = \"1/h\"\n\
                   \"brisk.test\" = \"20/s\"\n";
    let configuration = configuration(&server, "", domains);
    let mut sending = Sending::start(&configuration);
    for (name, ids, email) in
        [("slow", 0..5, "ada@slow.TEST"), ("idn", 10..15, "ada@b\u{fc}cher.test")]
    {
        let verdicts = send(&mut sending, name, ids, email);
        assert_eq!((count(&verdicts, "ok"), count(&verdicts, "untried")), (1, 4), "{verdicts:?}");
        let refused = verdicts.iter().find(|verdict| verdict.kind == "untried").unwrap();
        assert!(refused.after.is_some_and(|after| after > 1_000_000), "{refused:?}");
        assert!(
            refused.reason.contains("domain") && !refused.reason.contains("test"),
            "{refused:?}"
        );
    }
    let start = Instant::now();
    let brisk = send(&mut sending, "brisk", 20..40, "ada@brisk.test");
    assert_eq!(count(&brisk, "ok"), 20);
    assert!(start.elapsed() >= Duration::from_millis(19 * 50), "{:?}", start.elapsed());
    let mut people: Vec<_> = (50..60).map(|id| (id, "ada@slow.test")).collect();
    people.extend((60..100).map(|id| (id, "ada@x.test")));
    let verdicts = sending.verdicts("both", &people);
    assert_eq!((count(&verdicts, "ok"), count(&verdicts, "untried")), (40, 10));
    // An older collector does not understand that none was tried.
    sending.forget("untried");
    assert_eq!(sending.verdict(50, "ada@slow.test").kind, "retry");
    sending.finish();
    assert_eq!(server.requests().len(), 1 + 1 + 20 + 40);
}

#[test]
fn a_mail_that_had_to_wait_is_the_same_when_its_turn_comes() {
    let server = server();
    let before = configuration(&server, "", "[domain_rates]\n\"slow.test\" = \"1/h\"\n");
    let mut sending = Sending::start(&before);
    assert_eq!(sending.verdict(1, "ada@slow.test").kind, "ok");
    assert_eq!(sending.verdict(2, "bob@slow.test").kind, "untried");
    sending.finish();
    let text = std::fs::read_to_string(before.file()).unwrap();
    std::fs::write(before.file(), text.replace("1/h", "9/s").replace("Example", "Renamed"))
        .unwrap();
    let mut sending = Sending::start(&before);
    assert_eq!(sending.verdict(2, "bob@slow.test").kind, "ok");
    sending.finish();
    let requests = server.requests();
    assert!(
        requests.len() == 2 && requests[1].json()["from"].as_str().unwrap().starts_with("Example")
    );
}

#[test]
fn limits_that_are_none_are_refused_in_one_sentence() {
    let server = server();
    let limited = |rate: &str| format!("rate = \"{rate}\"");
    let a_rate = "a rate must be like 14/s,";
    for (rate, domains, expected) in [
        (limited("0/s"), "", a_rate),
        (limited("14"), "", a_rate),
        (limited("14/week"), "", a_rate),
        (limited("-1/s"), "", a_rate),
        ("rate = 14".to_owned(), "", "rate"),
        (String::new(), "[domain_rates]\n\"x.test\" = \"fast\"", a_rate),
        (
            String::new(),
            "[domain_rates]\n\"ada@x.test\" = \"1/s\"",
            "[domain_rates] must have domains",
        ),
        (String::new(), "[domain_rates]\n\"\" = \"1/s\"", "[domain_rates] must have domains"),
        (String::new(), "[domain_rates]\n\"x.test\" = \"1/s\"\n\"X.test\" = \"2/s\"", "each once"),
    ] {
        let fault = configuration(&server, &rate, domains).fault();
        assert!(fault.contains(expected) && !fault.contains('\n'), "{expected}: {fault}");
    }
}
