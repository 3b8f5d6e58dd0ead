//! Outages in which a provider answers, but so that nobody knows what became of a mail.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sending::{Configuration, Sending};
use crate::stand_in::{Reply, Request, StandIn};

/// How the provider answers during the outage to a request without a mail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Front {
    /// Like to one with a mail: nothing of it works.
    Away,
    /// As it should: only what is behind it fails.
    Works,
}

const POSTMARK: &str = "[postmark]\nkey_file = \"key\"\nurl = \"URL\"\n";
const RESEND: &str = "[resend]\nkey_file = \"key\"\nurl = \"URL\"\n";
const HTTP: &str = "[http]\nbody_file = \"body.json\"\nurl = \"URL\"\n";

const PEOPLE: i64 = 40;

fn is_mail(request: &Request) -> bool {
    request.method != "HEAD" && request.body != b"{}"
}

/// A provider that fails until it is told to work.
fn provider(front: Front, failure: Option<u16>) -> (StandIn, Arc<AtomicBool>) {
    let works = Arc::new(AtomicBool::new(false));
    let is_back = Arc::clone(&works);
    let server = StandIn::start(move |request| {
        let is_fine =
            is_back.load(Ordering::SeqCst) || (front == Front::Works && !is_mail(request));
        match (is_fine, failure) {
            (true, _) if request.method == "HEAD" => Reply::Answer(405, Vec::new(), String::new()),
            (true, _) => Reply::status(if is_mail(request) { 200 } else { 422 }),
            (false, Some(_)) if request.method == "HEAD" => Reply::Nothing,
            (false, Some(status)) => Reply::status(status),
            (false, None) => Reply::Nothing,
        }
    });
    (server, works)
}

fn configuration(table: &str, server: &StandIn) -> Configuration {
    let configuration = Configuration::new("", &table.replace("URL", &server.url()));
    let body = "{\"to\": {{ to }}, \"text\": {{ text }}}";
    fs::write(configuration.path("body.json"), body).unwrap();
    configuration
}

/// How often each mail was sent.
fn copies(server: &StandIn) -> BTreeMap<String, usize> {
    let mut copies = BTreeMap::new();
    for request in server.requests().iter().filter(|request| is_mail(request)) {
        let body = request.json();
        let texts = [&body["To"], &body["to"][0], &body["to"]];
        let to = texts.into_iter().find_map(|to| to.as_str()).unwrap();
        *copies.entry(to.to_owned()).or_default() += 1;
    }
    copies
}

/// Gives the sender all mails that are not sent yet, again and again, as in an outage of hours.
/// Each time they may be tried at once: the pauses of a collector have passed.
fn insist(sending: &mut Sending, owed: &mut Vec<(i64, String)>, rounds: usize) {
    for _ in 0..rounds {
        let people: Vec<_> = owed.iter().map(|(id, email)| (*id, email.as_str())).collect();
        let verdicts = sending.verdicts("b", &people);
        let mut verdicts = verdicts.iter();
        owed.retain(|_| verdicts.next().is_some_and(|verdict| verdict.kind != "ok"));
        if owed.is_empty() {
            break;
        }
    }
}

#[test]
fn an_outage_costs_few_trials_and_no_mail_is_in_doubt_more_than_once() {
    for (table, front, failure, most) in [
        (POSTMARK, Front::Away, Some(500), 5),
        (POSTMARK, Front::Away, Some(502), 5),
        (POSTMARK, Front::Away, Some(503), 5),
        (POSTMARK, Front::Away, Some(504), 5),
        (POSTMARK, Front::Away, Some(521), 5),
        (POSTMARK, Front::Away, None, 5),
        (HTTP, Front::Away, Some(504), 5),
        (RESEND, Front::Away, Some(502), 5),
        (POSTMARK, Front::Works, Some(500), 24),
        (HTTP, Front::Works, Some(504), 24),
        (HTTP, Front::Works, None, 24),
    ] {
        let name = format!("{table} {front:?} {failure:?}");
        let (server, works) = provider(front, failure);
        let configuration = configuration(table, &server);
        let mut owed: Vec<_> = (1..=PEOPLE).map(|id| (id, format!("p{id}@x.test"))).collect();
        let mut sending = Sending::start(&configuration);
        insist(&mut sending, &mut owed, 30);
        let tried = copies(&server);
        assert!(tried.values().all(|copies| *copies == 1), "{name}: {tried:?}");
        assert!((1..=most).contains(&tried.len()), "{name}: {} mails were tried", tried.len());
        assert_eq!(owed.len(), usize::try_from(PEOPLE).unwrap(), "{name}");
        works.store(true, Ordering::SeqCst);
        insist(&mut sending, &mut owed, 1_000);
        sending.finish();
        assert!(owed.is_empty(), "{name}: {owed:?}");
        let tried = copies(&server);
        assert_eq!(tried.len(), usize::try_from(PEOPLE).unwrap(), "{name}");
        assert!(tried.values().all(|copies| *copies <= 2), "{name}: {tried:?}");
    }
}

#[test]
fn a_mail_that_a_provider_cannot_process_is_in_doubt_alone() {
    let server = StandIn::start(|request| {
        let is_odd = String::from_utf8_lossy(&request.body).contains("odd");
        Reply::status(if is_odd {
            500
        } else if is_mail(request) {
            200
        } else {
            422
        })
    });
    let configuration = configuration(POSTMARK, &server);
    let mut sending = Sending::start(&configuration);
    // So that none is given back meanwhile.
    sending.forget("untried");
    let people: Vec<_> = (1..=30)
        .map(|id| {
            (id, if id % 3 == 0 { format!("odd{id}@x.test") } else { format!("p{id}@x.test") })
        })
        .collect();
    let people: Vec<_> = people.iter().map(|(id, email)| (*id, email.as_str())).collect();
    for ((id, email), verdict) in people.iter().zip(sending.verdicts("b", &people)) {
        let expected = if id % 3 == 0 { "in_doubt" } else { "ok" };
        assert_eq!(verdict.kind, expected, "{email}: {verdict:?}");
    }
    sending.finish();
}

#[test]
fn a_mail_that_cannot_be_processed_holds_up_no_other_where_every_answer_without_one_is_bad() {
    let server = StandIn::start(|request| {
        let is_odd = String::from_utf8_lossy(&request.body).contains("odd");
        Reply::status(if is_odd || request.method == "HEAD" { 502 } else { 200 })
    });
    let configuration = configuration(HTTP, &server);
    let mut sending = Sending::start(&configuration);
    for round in 0..3 {
        let odd = format!("odd{round}@x.test");
        let good = format!("p{round}@x.test");
        let people = [(2 * round + 1, odd.as_str()), (2 * round + 2, good.as_str())];
        let verdicts = sending.verdicts("b", &people);
        let kinds: Vec<_> = verdicts.iter().map(|verdict| verdict.kind.as_str()).collect();
        assert_eq!(kinds, ["in_doubt", "ok"], "{verdicts:?}");
    }
    sending.finish();
}

#[test]
fn a_server_that_drops_the_second_request_of_a_connection_leaves_one_mail_in_doubt() {
    let server = StandIn::start(|request| {
        if request.before > 0 {
            Reply::Nothing
        } else {
            Reply::status(if is_mail(request) { 200 } else { 422 })
        }
    });
    let configuration = configuration(POSTMARK, &server);
    let mut sending = Sending::start(&configuration);
    let kinds = (1..8).map(|id| sending.verdict(id, "ada@x.test").kind);
    let doubts = kinds.filter(|kind| kind != "ok").count();
    assert!(doubts <= 1, "{doubts}");
    sending.finish();
}
