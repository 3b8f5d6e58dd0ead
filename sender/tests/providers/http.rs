//! A provider that the configuration describes,
//! against a stand-in of an API that is like none of the others.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::sending::{Configuration, Sending, key, token};
use crate::stand_in::{Reply, Request, StandIn};

const BODY: &str = r#"{"message": {"recipient": {{ to }},
    "sender": {"name": {{ from_name }}, "address": {{ from_address }}},
    "title": {{ subject }}, "parts": [{"plain": {{ text }}}, {"html": {{ html }}}]}}"#;

const RULES: &str = r#"
[[http.answers]]
status = "409"
pointer = "/error/code"
equals = "already_taken"
means = "ok"
[[http.answers]]
status = "409"
means = "retry"
[[http.answers]]
status = "200"
pointer = "/accepted"
equals = "false"
means = "dead"
[[http.answers]]
status = "402"
means = "unavailable"
[[http.answers]]
status = "5xx"
pointer = "/error/code"
equals = "maintenance"
means = "unavailable"
"#;

/// An API that wants PUT, two secrets and a key for each mail,
/// of which it says when it has it already.
fn start() -> StandIn {
    let taken = Mutex::new(BTreeSet::new());
    StandIn::start(move |request| {
        if request.method == "HEAD" {
            let is_known = request.header("Authorization") == Some("Token a-key");
            return Reply::Answer(if is_known { 405 } else { 401 }, Vec::new(), String::new());
        }
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("PUT", "/v3/mails?region=eu")
        );
        assert_eq!(request.header("Content-Type"), Some("application/vnd.mails+json"));
        let is_known = request.header("Authorization") == Some("Token a-key")
            && request.header("X-Account-Key") == Some("a-key");
        if !is_known {
            return Reply::Answer(401, Vec::new(), "{}".to_owned());
        }
        let body = request.json();
        let to = body["message"]["recipient"].as_str().unwrap().to_owned();
        let is_new = taken.lock().unwrap().insert(request.header("X-Once").unwrap().to_owned());
        answer(&to, is_new)
    })
}

fn answer(to: &str, is_new: bool) -> Reply {
    let words: Vec<&str> = to.split('@').next().unwrap().split('-').collect();
    let code = |status, code: &str| {
        Reply::Answer(status, Vec::new(), json!({"error": {"code": code, "about": to}}).to_string())
    };
    match words[..] {
        ["later", status, seconds] => {
            let header = vec![("Retry-After", seconds.to_owned())];
            Reply::Answer(status.parse().unwrap(), header, "{}".to_owned())
        }
        ["date"] => {
            let until = httpdate(SystemTime::now() + Duration::from_secs(3_000));
            Reply::Answer(429, vec![("Retry-After", until)], "{}".to_owned())
        }
        ["code", status, name] => code(status.parse().unwrap(), name),
        ["status", status] => Reply::status(status.parse().unwrap()),
        ["cut", status] => Reply::Cut(status.parse().unwrap(), "{\"accepted\": fal".to_owned()),
        ["html", status] => {
            Reply::Answer(status.parse().unwrap(), Vec::new(), "<p>busy</p>".to_owned())
        }
        ["empty", status] => Reply::Answer(status.parse().unwrap(), Vec::new(), String::new()),
        ["long"] => Reply::Answer(200, Vec::new(), format!("\"{}\"", "x".repeat(70_000))),
        ["noise"] => Reply::Answer(500, Vec::new(), "{".repeat(200_000)),
        ["refused"] => Reply::Answer(200, Vec::new(), json!({"accepted": false}).to_string()),
        ["lost"] if is_new => Reply::Nothing,
        _ if !is_new => code(409, "already_taken"),
        _ => Reply::Answer(200, Vec::new(), json!({"accepted": true}).to_string()),
    }
}

fn httpdate(time: SystemTime) -> String {
    httpdate::fmt_http_date(time)
}

fn table(server: &StandIn) -> String {
    format!(
        "[http]\nurl = \"{}/v3/mails?region=eu\"\nmethod = \"PUT\"\nbody_file = \"body.json\"\n\
         idempotency_header = \"X-Once\"\n[http.headers]\nContent-Type = \
         \"application/vnd.mails+json\"\n\
         [http.secret_headers.Authorization]\nprefix = \"Token \"\nkey_file = \"key\"\n\
         [http.secret_headers.X-Account-Key]\nkey_file = \"key\"\n{RULES}",
        server.url()
    )
}

fn configuration(server: &StandIn) -> Configuration {
    let configuration = Configuration::new("", &table(server));
    fs::write(configuration.path("body.json"), BODY).unwrap();
    configuration
}

/// The requests that carry mails.
fn mails(server: &StandIn) -> Vec<Request> {
    server.requests().into_iter().filter(|request| request.method != "HEAD").collect()
}

#[test]
fn a_mail_goes_out_in_the_form_that_the_template_gives_it() {
    let server = start();
    let configuration = configuration(&server);
    assert!(mailroom_sender::check(&configuration.file(), &[]).is_ok());
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "foo..bar@x.test").kind, "ok");
    sending.finish();
    let requests = mails(&server);
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(request.header("X-Once"), Some(key(1).as_str()));
    let body = request.json();
    let message = &body["message"];
    assert_eq!(message["recipient"], "\"foo..bar\"@x.test");
    assert_eq!(message["sender"], json!({"name": "Example", "address": "us@x.test"}));
    for part in [&message["parts"][0]["plain"], &message["parts"][1]["html"]] {
        assert!(part.as_str().unwrap().contains(&token(1)), "{part}");
    }
}

#[test]
fn the_example_of_the_documents_works() {
    let document = include_str!("../../../docs/guides/send/http-api.md");
    let (_, example) = document.split_once("```toml\n[http]\n").unwrap();
    let (table, text) = example.split_once("```").unwrap();
    let body = text.split('`').find(|part| part.starts_with("{\"")).unwrap();
    let server = StandIn::start(|request| {
        assert_eq!(request.header("Authorization"), Some("Bearer a-key"));
        assert_eq!(request.header("Idempotency-Key"), Some(key(1).as_str()));
        assert!(request.json()["text"].as_str().unwrap().contains(&token(1)));
        Reply::Answer(409, Vec::new(), json!({"error": {"code": "duplicate"}}).to_string())
    });
    let table = format!("[http]\n{}", table.replace("https://api.example.com", &server.url()));
    let configuration = Configuration::new("", &table);
    fs::write(configuration.path("body.json"), body).unwrap();
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
    sending.finish();
}

#[test]
fn answers_mean_what_the_rules_say_and_otherwise_what_their_status_says() {
    let server = start();
    let configuration = configuration(&server);
    for (id, (name, expected, after)) in (1..).zip([
        ("code-409-already_taken", "ok", None),
        ("code-409-in_progress", "retry", None),
        ("refused", "dead", None),
        ("code-402-no_credit", "unavailable", None),
        ("code-503-maintenance", "unavailable", None),
        ("status-201", "ok", None),
        ("status-302", "unavailable", None),
        ("status-401", "unavailable", None),
        ("status-410", "unavailable", None),
        ("status-418", "unavailable", None),
        ("status-421", "unavailable", None),
        ("status-408", "in_doubt", None),
        ("status-423", "in_doubt", None),
        ("status-400", "retry", Some(15_000)),
        ("status-500", "in_doubt", None),
        ("noise", "in_doubt", None),
        ("later-429-7", "unavailable", Some(7_000)),
        ("later-503-0", "in_doubt", None),
        ("later-409-20", "retry", Some(20_000)),
        ("later-401-86400", "unavailable", Some(3_600_000)),
        ("later-401-18446744073709551615", "unavailable", Some(3_600_000)),
        ("later-429-99999999999999999999999", "unavailable", None),
        ("later-429-soon", "unavailable", None),
        ("lost", "in_doubt", None),
    ]) {
        let mut sending = Sending::start(&configuration);
        let verdict = sending.verdict(id, &format!("{name}@x.test"));
        assert_eq!(
            (verdict.kind.as_str(), verdict.after),
            (expected, after),
            "{name}: {verdict:?}"
        );
        assert!(!verdict.reason.contains("x.test"), "{verdict:?}");
        sending.finish();
    }
    let mut sending = Sending::start(&configuration);
    let after = sending.verdict(100, "date@x.test").after.unwrap();
    assert!((1..=60_000).contains(&after), "{after}");
}

#[test]
fn a_status_that_an_api_has_for_one_recipient_only_is_nobody_elses_fault() {
    let server = start();
    let configuration = configuration(&server);
    // A firewall and a place that was moved say so, too.
    for status in ["451", "403", "404", "405", "302"] {
        let mut sending = Sending::start(&configuration);
        let refused = format!("status-{status}@x.test");
        for (id, (email, expected)) in (1..).zip([
            (refused.as_str(), "unavailable"),
            ("good@x.test", "ok"),
            (&refused, "retry"),
            (&refused, "retry"),
        ]) {
            let id = id + 10 * status.parse::<i64>().unwrap();
            let verdict = sending.verdict(id, email);
            assert_eq!(verdict.kind, expected, "{verdict:?}");
        }
        sending.finish();
    }
    let mut sending = Sending::start(&configuration);
    for (id, (name, expected)) in
        (1..).zip([("code-402", "unavailable"), ("good-b", "ok"), ("code-402", "unavailable")])
    {
        let verdict = sending.verdict(id, &format!("{name}-x@x.test"));
        assert_eq!(verdict.kind, expected, "{verdict:?}");
    }
    sending.finish();
}

#[test]
fn an_answer_that_cannot_be_read_counts_only_where_no_rule_could_contradict_its_status() {
    let server = start();
    let configuration = configuration(&server);
    let further = "[[http.answers]]\nstatus = \"422\"\npointer = \"/error/code\"\n\
                   equals = \"wait\"\nmeans = \"retry\"\n[[http.answers]]\nstatus = \"422\"\n\
                   means = \"dead\"\n[[http.answers]]\nstatus = \"201\"\n\
                   pointer = \"/state\"\nequals = \"known\"\nmeans = \"ok\"\n";
    configuration.write("", &(table(&server) + further));
    for (id, (name, expected)) in (1..).zip([
        // A rule might have said that it is no acceptance.
        ("cut-200", "in_doubt"),
        ("html-200", "in_doubt"),
        ("long", "in_doubt"),
        ("empty-200", "ok"),
        // A rule might have said that it is one.
        ("cut-409", "in_doubt"),
        ("html-409", "in_doubt"),
        ("empty-409", "retry"),
        // Not accepted in any case, and not for ever.
        ("cut-422", "retry"),
        ("html-422", "retry"),
        ("empty-422", "dead"),
        // An acceptance in any case.
        ("cut-201", "ok"),
        ("html-202", "ok"),
        ("cut-402", "unavailable"),
        ("cut-400", "retry"),
    ]) {
        let mut sending = Sending::start(&configuration);
        let verdict = sending.verdict(id, &format!("{name}@x.test"));
        assert_eq!(verdict.kind, expected, "{name}: {verdict:?}");
        sending.finish();
    }
}

#[test]
fn a_receipt_has_the_id_that_the_configuration_points_to() {
    for (pointer, body, id) in [
        ("/message/id", json!({"message": {"id": "m-1"}}), Some("m-1")),
        ("/messages/0/id", json!({"messages": [{"id": 17}]}), Some("17")),
        ("/id", json!({"id": null}), None),
        ("/id", json!({}), None),
    ] {
        let server =
            StandIn::start(move |_| Reply::Answer(200, Vec::new(), body.clone().to_string()));
        let table = format!(
            "[http]\nurl = \"{}\"\nbody_file = \"body.json\"\nid_pointer = \"{pointer}\"\n",
            server.url()
        );
        let configuration = Configuration::new("", &table);
        fs::write(configuration.path("body.json"), BODY).unwrap();
        let mut sending = Sending::start(&configuration);
        sending.write("b", &[(1, "ada@x.test")]);
        let answer = sending.answer();
        assert_eq!(answer["receipts"][0]["message_id"].as_str(), id, "{answer}");
        sending.finish();
    }
}

#[test]
fn a_key_that_the_api_has_already_is_a_mail_that_went_out_once() {
    let server = start();
    let configuration = configuration(&server);
    for expected in ["in_doubt", "ok"] {
        let mut sending = Sending::start(&configuration);
        assert_eq!(sending.verdict(1, "lost@x.test").kind, expected);
        sending.finish();
    }
    let requests = mails(&server);
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body);
}

#[test]
fn a_wrong_secret_is_said_by_the_check_and_never_shown() {
    let server = start();
    let configuration = configuration(&server);
    fs::write(configuration.path("key"), "hunter2").unwrap();
    let error = mailroom_sender::check(&configuration.file(), &[]).unwrap_err().to_string();
    assert!(error.contains("401") && !error.contains("hunter2"), "{error}");
}

#[test]
fn each_fault_of_a_description_is_one_sentence() {
    let server = start();
    let configuration = configuration(&server);
    let good = table(&server);
    fs::write(configuration.path("bad.json"), "{\"to\": \"{{ to }}\"}").unwrap();
    fs::write(configuration.path("bad key"), "a b").unwrap();
    let rule = |text: &str| format!("{good}[[http.answers]]\n{text}\n");
    for (table, expected) in [
        (good.replace("\"PUT\"", "\"GET\""), "[http] method must be POST, PUT or PATCH"),
        (good.replace("http://127.0.0.1", "http://x.test"), "url must begin with https://"),
        (good.replace("/v3/mails", "/v3 mails"), "url must be an address"),
        (good.replace("body.json", "nothing.json"), "nothing.json cannot be read"),
        (good.replace("body.json", "bad.json"), "bad.json makes no JSON"),
        (good.replace("body_file = \"body.json\"\n", ""), "missing field `body_file`"),
        (good.replace("X-Once", "X Once"), "`X Once` is no name of a header"),
        (good.replace("X-Once", "X-Once\\r\\nHost: x"), "is no name of a header"),
        (good.replace("X-Once", "content-type"), "the header content-type is set twice"),
        (
            good.replace("X-Once", "Content-Length"),
            "the header content-length belongs to the connection",
        ),
        (
            good.replace("\nContent-Type = \"", "\nContent-Type = \"hunter2\\r\\n"),
            "must be one line of ASCII",
        ),
        (good.replace("\nContent-Type =", "\nx-api-key ="), "the header x-api-key holds a secret"),
        (
            good.replace("\"Token \"", "\"Token \\u00e4\""),
            "Authorization must be one line of ASCII",
        ),
        (
            good.replacen("key_file = \"key\"", "", 1),
            "[http.secret_headers.Authorization] key_file",
        ),
        (good.replacen("\"key\"", "\"bad key\"", 1), "ASCII without blanks"),
        (good.replacen("key_file", "key", 1), "unknown field `key`"),
        (rule("status = \"6xx\"\nmeans = \"ok\""), "a status of answers must be like"),
        (rule("status = \"+40\"\nmeans = \"ok\""), "a status of answers must be like"),
        (rule("status = \"40\"\nmeans = \"ok\""), "a status of answers must be like"),
        (rule("status = \"4xx\"\nmeans = \"hunter2\""), "unknown variant"),
        (rule("status = \"4xx\"\nmeans = \"ok\"\nequals = \"x\""), "both pointer and equals"),
        (
            rule("status = \"4xx\"\nmeans = \"ok\"\nequals = \"x\"\npointer = \"x\""),
            "a pointer of answers",
        ),
        (
            rule("status = \"4xx\"\nmeans = \"ok\"\nequals = \"x\"\npointer = \"/~2\""),
            "a pointer of answers",
        ),
        (rule("status = \"4xx\""), "missing field `means`"),
        (
            good.replacen("method", "id_pointer = \"id\"\nmethod", 1),
            "[http] id_pointer must be like",
        ),
    ] {
        configuration.write("", &table);
        let fault = configuration.fault();
        assert!(
            fault.contains(expected) && !fault.contains("hunter2") && !fault.contains('\n'),
            "{expected}: {fault}"
        );
    }
}
