//! Two providers: a mail goes to the second one only where the first has certainly not accepted it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::sending::{Configuration, PATIENCE, Sending};
use crate::stand_in::{Reply, Request, StandIn};

/// What a stand-in does, which a test changes while it runs.
#[derive(Clone, Default)]
struct Mood(Arc<(Mutex<&'static str>, Condvar)>);

impl Mood {
    fn of(mood: &'static str) -> Self {
        let found = Self::default();
        found.set(mood);
        found
    }

    fn set(&self, mood: &'static str) {
        *self.0.0.lock().unwrap() = mood;
        self.0.1.notify_all();
    }

    fn answer(&self) -> Reply {
        let held = self.0.1.wait_while(self.0.0.lock().unwrap(), |mood| *mood == "hold");
        match *held.unwrap() {
            "nothing" => Reply::Nothing,
            "ask for an hour" => {
                Reply::Answer(429, vec![("Retry-After", "3600".to_owned())], "{}".to_owned())
            }
            "refuse for ever" => {
                let body = r#"{"name": "invalid_idempotent_request"}"#;
                Reply::Answer(409, Vec::new(), body.to_owned())
            }
            status => Reply::status(status.parse().unwrap()),
        }
    }
}

fn server(mood: &Mood) -> StandIn {
    let mood = mood.clone();
    StandIn::start(move |_| mood.answer())
}

const FALLBACK: &str = "fallback = \"postmark\"";

fn tables(first: &str, second: &str) -> String {
    format!(
        "[resend]\nkey_file = \"key\"\nurl = \"{first}\"\n[postmark]\nkey_file = \"key\"\nurl = \
         \"{second}\"\n"
    )
}

fn configuration(first: &StandIn, second: &StandIn) -> Configuration {
    Configuration::new(FALLBACK, &tables(&first.url(), &second.url()))
}

/// To whom a request brought a mail, whichever of the two APIs it is of.
fn recipient(request: &Request) -> String {
    let body = request.json();
    body["To"].as_str().or_else(|| body["to"][0].as_str()).unwrap().to_owned()
}

/// The requests that carry mails: after a failure a provider is asked without one.
fn mails(server: &StandIn) -> Vec<Request> {
    server.requests().into_iter().filter(|request| request.body != b"{}").collect()
}

fn recipients(server: &StandIn) -> Vec<String> {
    let mut all: Vec<_> = mails(server).iter().map(recipient).collect();
    all.sort();
    all
}

fn people(count: i64) -> Vec<(i64, String)> {
    (1..=count).map(|id| (id, format!("p{id:02}@x.test"))).collect()
}

fn send(sending: &mut Sending, batch: &str, people: &[(i64, String)]) -> Vec<String> {
    let people: Vec<_> = people.iter().map(|(id, email)| (*id, email.as_str())).collect();
    sending.verdicts(batch, &people).into_iter().map(|verdict| verdict.kind).collect()
}

/// Tries until the verdict is this one.
fn insist(sending: &mut Sending, id: i64, email: &str, expected: &str) {
    let start = Instant::now();
    while sending.verdict(id, email).kind != expected {
        assert!(start.elapsed() < PATIENCE, "it never is {expected}");
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn while_the_first_refuses_everything_every_mail_goes_out_once_by_the_fallback() {
    let (first, second) = (server(&Mood::of("429")), server(&Mood::of("200")));
    let configuration = configuration(&first, &second);
    let mut sending = Sending::start(&configuration);
    let people = people(20);
    assert_eq!(send(&mut sending, "b", &people), ["ok"; 20]);
    sending.finish();
    let expected: Vec<_> = people.into_iter().map(|(_, email)| email).collect();
    assert_eq!(recipients(&second), expected);
    assert!(first.requests().len() <= 2, "it gets no more mails than it has connections");
}

#[test]
fn a_first_provider_that_cannot_be_reached_is_replaced_and_used_again_when_it_is_back() {
    let (mood, second) = (Mood::of("200"), server(&Mood::of("200")));
    let first = server(&mood);
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let configuration =
        Configuration::new(FALLBACK, &tables(&format!("http://{away}"), &second.url()));
    let mut sending = Sending::start(&configuration);
    assert_eq!(send(&mut sending, "b", &people(5)), ["ok"; 5]);
    sending.finish();
    assert_eq!(second.requests().len(), 5);
    configuration.write(FALLBACK, &tables(&first.url(), &second.url()));
    mood.set("401");
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(6, "p06@x.test").kind, "ok");
    mood.set("200");
    let start = Instant::now();
    for id in 7.. {
        let before = second.requests().len();
        assert_eq!(sending.verdict(id, "later@x.test").kind, "ok");
        if second.requests().len() == before {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "the first is never tried again");
        sleep(Duration::from_millis(100));
    }
    sending.finish();
}

#[test]
fn after_an_unanswered_attempt_only_the_first_is_tried_also_by_later_processes() {
    for silence in ["nothing", "503", "500"] {
        let (mood, second) = (Mood::of(silence), server(&Mood::of("200")));
        let first = server(&mood);
        let configuration = configuration(&first, &second);
        let mut sending = Sending::start(&configuration);
        assert_eq!(sending.verdict(1, "ada@x.test").kind, "retry", "{silence}");
        // Others need not wait for it.
        assert_eq!(sending.verdict(2, "bob@x.test").kind, "ok");
        sending.finish();
        // A refusal of the second attempt says nothing of the first one.
        mood.set("429");
        for attempts in 2..4 {
            let mut sending = Sending::start(&configuration);
            let verdict = sending.verdict(1, "ada@x.test");
            assert!(["untried", "unavailable"].contains(&verdict.kind.as_str()), "{verdict:?}");
            sending.finish();
            let to_ada = |server: &StandIn| {
                recipients(server).iter().filter(|to| *to == "ada@x.test").count()
            };
            assert_eq!((to_ada(&first), to_ada(&second)), (attempts, 0), "{silence}");
        }
        mood.set("200");
        let mut sending = Sending::start(&configuration);
        assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
        sending.finish();
    }
}

#[test]
fn a_mail_in_doubt_that_the_first_provider_refused_stays_with_it_when_put_back() {
    let (mood, second) = (Mood::of("nothing"), server(&Mood::of("200")));
    let first = server(&mood);
    let configuration = configuration(&first, &second);
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "retry");
    mood.set("refuse for ever");
    insist(&mut sending, 1, "ada@x.test", "dead");
    mood.set("429");
    let verdict = sending.verdict(1, "ada@x.test");
    assert!(["untried", "unavailable"].contains(&verdict.kind.as_str()), "{verdict:?}");
    sending.finish();
    assert_eq!(recipients(&second), [""; 0]);
    let bodies: BTreeSet<_> = mails(&first).into_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 1, "what is sent under a key never changes");
}

#[test]
fn what_a_kill_during_an_attempt_leaves_is_tried_by_the_same_provider() {
    let (mood, second) = (Mood::of("hold"), server(&Mood::of("200")));
    let first = server(&mood);
    let killed = configuration(&first, &second);
    let mut sending = Sending::start(&killed);
    sending.write("b", &[(1, "ada@x.test")]);
    let start = Instant::now();
    while first.requests().is_empty() {
        assert!(start.elapsed() < PATIENCE, "the first is never tried");
        sleep(Duration::from_millis(10));
    }
    // The disk as a kill leaves it now.
    let journal = fs::read(killed.path("journal")).unwrap();
    mood.set("nothing");
    sending.finish();
    let next = configuration(&first, &second);
    fs::write(next.path("journal"), journal).unwrap();
    mood.set("500");
    let mut sending = Sending::start(&next);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "retry");
    mood.set("200");
    insist(&mut sending, 1, "ada@x.test", "ok");
    sending.finish();
    assert!(second.requests().is_empty());
    let bodies: BTreeSet<_> = mails(&first).into_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 1, "what is sent under a key never changes");
}

#[test]
fn an_unanswered_attempt_of_the_fallback_binds_to_it() {
    let (one, two) = (Mood::of("429"), Mood::of("nothing"));
    let (first, second) = (server(&one), server(&two));
    let configuration = configuration(&first, &second);
    let mut sending = Sending::start(&configuration);
    let verdict = sending.verdict(1, "ada@x.test");
    assert!(verdict.kind == "in_doubt" && verdict.reason.contains("no answer"), "{verdict:?}");
    sending.finish();
    one.set("200");
    two.set("500");
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "in_doubt");
    two.set("200");
    insist(&mut sending, 1, "ada@x.test", "ok");
    sending.finish();
    assert_eq!((first.requests().len(), mails(&second).len()), (1, 3));
}

#[test]
fn what_both_have_refused_is_free_for_both_also_by_later_processes() {
    let (one, two) = (Mood::of("429"), Mood::of("429"));
    let (first, second) = (server(&one), server(&two));
    let configuration = configuration(&first, &second);
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "unavailable");
    sending.finish();
    assert_eq!((first.requests().len(), second.requests().len()), (1, 1));
    two.set("200");
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
    sending.finish();
    let bodies: BTreeSet<_> = second.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 1, "what is sent under a key never changes");
}

#[test]
fn a_pause_that_one_provider_asks_for_is_its_own() {
    let (first, second) = (server(&Mood::of("ask for an hour")), server(&Mood::of("200")));
    let both = configuration(&first, &second);
    let mut sending = Sending::start(&both);
    for id in 1..=5 {
        assert_eq!(sending.verdict(id, "ada@x.test").kind, "ok");
    }
    sending.finish();
    assert_eq!((first.requests().len(), second.requests().len()), (1, 5));
    let alone = Configuration::new(
        "",
        &format!("[resend]\nkey_file = \"key\"\nurl = \"{}\"\n", first.url()),
    );
    let mut sending = Sending::start(&alone);
    for id in 1..=3 {
        let verdict = sending.verdict(id, "ada@x.test");
        let is_asked = verdict.after.is_some_and(|after| (1_000_000..=3_600_000).contains(&after));
        assert!(verdict.kind == "unavailable" && is_asked, "{verdict:?}");
    }
    sending.finish();
    assert_eq!(first.requests().len(), 2, "once by each process");
}

#[test]
fn a_provider_that_fails_gets_one_try_at_a_time_until_it_succeeds() {
    let (running, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let (asked, seen) = (AtomicUsize::new(0), Arc::clone(&most));
    let first = StandIn::start(move |_| {
        let number = asked.fetch_add(1, Ordering::SeqCst);
        let together = running.fetch_add(1, Ordering::SeqCst) + 1;
        // The first request fails, and the next nine take their time for it.
        if (1..10).contains(&number) {
            seen.fetch_max(together, Ordering::SeqCst);
            sleep(Duration::from_millis(50));
        }
        running.fetch_sub(1, Ordering::SeqCst);
        match number {
            0 => Reply::status(429),
            1..10 => Reply::status(500),
            _ => Reply::status(200),
        }
    });
    let table =
        format!("[resend]\nkey_file = \"key\"\nurl = \"{}\"\nconnections = 8\n", first.url());
    let configuration = Configuration::new("", &table);
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(100, "ada@x.test").kind, "unavailable");
    let mut kinds = Vec::new();
    while kinds.iter().filter(|kind| *kind == "ok").count() < 30 {
        kinds.extend(send(&mut sending, "b", &people(30)));
        assert!(first.requests().len() < 100, "each is sent again and again");
    }
    sending.finish();
    // The mails that were tried: the first one, and three before the provider had ever answered
    // well without one, which it was asked for before each other mail.
    assert_eq!(kinds.iter().filter(|kind| *kind == "retry").count(), 4);
    assert_eq!(first.requests().iter().filter(|request| request.body == b"{}").count(), 6);
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[test]
fn whatever_two_providers_do_no_mail_is_accepted_by_both_and_none_is_lost() {
    /// Who accepted which mail.
    type Accepted = Arc<Mutex<BTreeMap<String, BTreeSet<&'static str>>>>;
    fn fickle(
        name: &'static str,
        accepted: &Accepted,
        calm: &Arc<AtomicUsize>,
        seed: u64,
    ) -> StandIn {
        let (accepted, calm) = (Arc::clone(accepted), Arc::clone(calm));
        let random = Mutex::new(seed);
        StandIn::start(move |request| {
            let mut state = random.lock().unwrap();
            *state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let number = if calm.load(Ordering::SeqCst) > 0 { 9 } else { (*state >> 33) % 10 };
            let accept = || {
                accepted.lock().unwrap().entry(recipient(request)).or_default().insert(name);
            };
            match number {
                0 => Reply::status(429),
                1 => Reply::status(401),
                2 => Reply::Nothing,
                3 => Reply::status(503),
                4..6 => {
                    accept();
                    Reply::Nothing
                }
                6 => {
                    accept();
                    Reply::status(503)
                }
                _ => {
                    accept();
                    Reply::status(200)
                }
            }
        })
    }
    let accepted = Accepted::default();
    let calm = Arc::new(AtomicUsize::new(0));
    let (first, second) =
        (fickle("first", &accepted, &calm, 1), fickle("second", &accepted, &calm, 2));
    let configuration = configuration(&first, &second);
    let mut owed = people(60);
    for round in 0..40 {
        // What is left is taken when both work.
        calm.store(usize::from(round >= 20), Ordering::SeqCst);
        let mut sending = Sending::start(&configuration);
        let verdicts = send(&mut sending, &round.to_string(), &owed);
        sending.finish();
        let mut verdicts = verdicts.iter();
        owed.retain(|_| verdicts.next().is_some_and(|kind| kind != "ok"));
        if owed.is_empty() {
            break;
        }
    }
    assert!(owed.is_empty(), "{owed:?}");
    let accepted = accepted.lock().unwrap();
    assert_eq!(accepted.len(), 60);
    assert!(accepted.values().all(|by| by.len() == 1), "{accepted:?}");
    assert!(accepted.values().any(|by| by.contains("second")), "the fallback is never used");
}

/// A mail server that accepts everything, and the contents of the mails.
fn mail_server() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mails = Arc::new(Mutex::new(Vec::new()));
    let found = Arc::clone(&mails);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mails = Arc::clone(&mails);
            thread::spawn(move || converse(stream, &mails));
        }
    });
    (port, found)
}

fn converse(stream: TcpStream, mails: &Mutex<Vec<String>>) -> Option<()> {
    let mut output = stream.try_clone().ok()?;
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    output.write_all(b"220 x\r\n").ok()?;
    while let Some(line) = lines.next() {
        let answer: &[u8] = if line == "DATA" { b"354 x\r\n" } else { b"250 x\r\n" };
        output.write_all(answer).ok()?;
        if line == "DATA" {
            let content: Vec<String> = lines.by_ref().take_while(|line| line != ".").collect();
            mails.lock().unwrap().push(content.join("\n"));
            output.write_all(b"250 x\r\n").ok()?;
        }
    }
    Some(())
}

#[test]
fn a_mail_server_stands_in_for_an_http_api() {
    let mood = Mood::of("429");
    let (first, (port, mails)) = (server(&mood), mail_server());
    let table = format!(
        "[resend]\nkey_file = \"key\"\nurl = \"{}\"\n[smtp]\nserver = \"127.0.0.1\"\nport = \
         {port}\ntls = \"none\"\n",
        first.url()
    );
    let configuration = Configuration::new("fallback = \"smtp\"", &table);
    let mut sending = Sending::start(&configuration);
    assert_eq!(send(&mut sending, "b", &people(5)), ["ok"; 5]);
    sending.finish();
    let mails = mails.lock().unwrap();
    assert_eq!(mails.len(), 5);
    assert!(
        mails.iter().all(|mail| mail.contains("Message-ID: <") && mail.contains("@x.test")),
        "{mails:?}"
    );
}

#[test]
fn the_check_tries_both() {
    let (one, two) = (Mood::of("422"), Mood::of("422"));
    let (first, second) = (server(&one), server(&two));
    let configuration = configuration(&first, &second);
    let found = mailroom_sender::check(&configuration.file(), &[]).unwrap();
    assert!(
        found.iter().filter(|line| line.contains("answers and accepts")).count() == 2,
        "{found:?}"
    );
    for (mood, name) in [(&two, "postmark"), (&one, "resend")] {
        mood.set("401");
        let error = mailroom_sender::check(&configuration.file(), &[]).unwrap_err().to_string();
        assert!(error.starts_with(name), "{error}");
    }
}

#[test]
fn a_fallback_is_the_second_of_two_tables() {
    let two = tables("https://x.test", "https://y.test");
    let one = two.split("[postmark]").next().unwrap().to_owned();
    let smtp = format!("{two}[smtp]\nserver = \"localhost\"\n");
    let configuration = Configuration::new("", &two);
    for (settings, tables, expected) in [
        ("", &two, "exactly one table of a provider"),
        ("fallback = \"postmark\"", &one, "fallback must name one of exactly two tables"),
        ("fallback = \"resend\"", &one, "fallback must name one of exactly two tables"),
        ("fallback = \"smtp\"", &two, "fallback must name one of exactly two tables"),
        ("fallback = \"\"", &two, "fallback must name one of exactly two tables"),
        ("fallback = \"smtp\"", &smtp, "fallback must name one of exactly two tables"),
        ("fallback = [\"smtp\"]", &two, "fallback"),
    ] {
        configuration.write(settings, tables);
        let fault = configuration.fault();
        assert!(fault.contains(expected), "{fault}");
    }
}

#[test]
fn an_acceptance_without_the_providers_id_is_in_doubt() {
    for (table, body, expected) in [
        ("resend", "<p>Please log in</p>", "retry"),
        ("resend", "{}", "retry"),
        ("resend", "{\"id\":\"1\"}", "ok"),
        ("postmark", "<p>Please log in</p>", "in_doubt"),
        ("postmark", "[]", "in_doubt"),
        ("postmark", "{\"ErrorCode\":0}", "ok"),
        ("postmark", "{\"MessageID\":\"1\"}", "ok"),
    ] {
        let server = StandIn::start(move |_| Reply::Answer(200, Vec::new(), body.to_owned()));
        let table = format!("[{table}]\nkey_file = \"key\"\nurl = \"{}\"\n", server.url());
        let configuration = Configuration::new("", &table);
        let mut sending = Sending::start(&configuration);
        let verdict = sending.verdict(1, "ada@x.test");
        assert_eq!(verdict.kind, expected, "{body}: {verdict:?}");
        sending.finish();
    }
}
