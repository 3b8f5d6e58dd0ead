//! Settings that every provider has in a form of its own: where its secret is,
//! and where answers go.

use std::fs;

use base64ct::{Base64, Encoding};
use serde_json::{Value, json};

use crate::sending::{Configuration, Sending, VARIABLE};
use crate::stand_in::{Reply, Request, StandIn};

/// A configuration that names the variable, and what a stand-in gets of it.
fn request(settings: &str, table: &str) -> Request {
    let server = StandIn::start(|_| Reply::status(200));
    let configuration =
        Configuration::new(settings, &format!("{table}\nurl = \"{}\"\n", server.url()));
    fs::write(configuration.path("body.json"), r#"{"reply_to": {{ reply_to }}, "to": {{ to }}}"#)
        .unwrap();
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
    sending.finish();
    server.requests().remove(0)
}

#[test]
fn a_key_comes_from_the_variable_that_the_configuration_names() {
    let (variable, value) = VARIABLE;
    for (name, header, expected) in [
        ("resend", "Authorization", format!("Bearer {value}")),
        ("postmark", "X-Postmark-Server-Token", value.to_owned()),
    ] {
        let request = request("", &format!("[{name}]\nkey_variable = \"{variable}\""));
        assert_eq!(request.header(header), Some(expected.as_str()));
    }
    // A table of its own after those of the provider.
    let server = StandIn::start(|_| Reply::status(200));
    let table = format!(
        "[http]\nurl = \"{}\"\nbody_file = \"body.json\"\n[http.secret_headers.X-Key]\nprefix = \
         \"Key \"\nkey_variable = \"{variable}\"\n",
        server.url()
    );
    let configuration = Configuration::new("", &table);
    fs::write(configuration.path("body.json"), r#"{"to": {{ to }}}"#).unwrap();
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
    sending.finish();
    assert_eq!(server.requests()[0].header("X-Key"), Some(format!("Key {value}").as_str()));
}

#[test]
fn a_key_has_one_source_that_holds_something() {
    for (table, further, expected) in [
        ("resend", "", "[resend] key_"),
        ("postmark", "key_variable = \"NO_SUCH_VARIABLE\"", "NO_SUCH_VARIABLE is not set"),
        ("resend", "key_variable = \"MAILROOM_KEY\"", "begins with MAILROOM_"),
        ("postmark", "key_file = \"key\"\nkey_variable = \"CARGO_PKG_NAME\"", "[postmark] key_"),
        // It has blanks.
        ("resend", "key_variable = \"CARGO_PKG_DESCRIPTION\"", "must be ASCII without blanks"),
    ] {
        let configuration = Configuration::new("", &format!("[{table}]\n{further}\n"));
        let fault = configuration.fault();
        assert!(fault.contains(expected) && !fault.contains(VARIABLE.1), "{further}: {fault}");
    }
}

#[test]
fn answers_of_people_go_to_reply_to_and_to_the_sender_without_it() {
    let ses = "[ses]\nregion = \"eu-central-1\"\nkey_id = \"AKIDEXAMPLE\"\nkey_file = \"key\"";
    let of_mime = |request: &Request| {
        let mail =
            Base64::decode_vec(request.json()["Content"]["Raw"]["Data"].as_str().unwrap()).unwrap();
        let mail = String::from_utf8(mail).unwrap();
        mail.lines().find_map(|line| line.strip_prefix("Reply-To: ").map(str::to_owned))
    };
    let of_json = |name: &'static str| {
        move |request: &Request| {
            request.json().get(name).map(|value| value.as_str().unwrap_or_default().to_owned())
        }
    };
    let reply_to = "reply_to = \"Help <help@x.test>\"";
    for (table, read) in [
        (
            "[resend]\nkey_file = \"key\"",
            &of_json("reply_to") as &dyn Fn(&Request) -> Option<String>,
        ),
        ("[postmark]\nkey_file = \"key\"", &of_json("ReplyTo")),
        (ses, &of_mime),
    ] {
        assert_eq!(
            read(&request(reply_to, table)).as_deref(),
            Some("Help <help@x.test>"),
            "{table}"
        );
        assert_eq!(read(&request("", table)), None, "{table}");
    }
    let table = "[http]\nbody_file = \"body.json\"";
    assert_eq!(request(reply_to, table).json()["reply_to"], "Help <help@x.test>");
    assert_eq!(request("", table).json()["reply_to"], "");
    let configuration = Configuration::new("reply_to = \"help\"", "[resend]\nkey_file = \"key\"\n");
    assert!(configuration.fault().starts_with("reply_to must be an address"));
}

/// The tables of the providers that give ids to mails, and what these are called.
const WITH_IDS: [(&str, &str); 3] = [
    ("[postmark]\nkey_file = \"key\"", "MessageID"),
    ("[resend]\nkey_file = \"key\"", "id"),
    ("[ses]\nkey_file = \"key\"\nkey_id = \"AKIDEXAMPLE\"\nregion = \"eu-central-1\"", "MessageId"),
];

/// The answer for a mail by a provider of this table, which replies like that.
fn answer_by(
    table: &str,
    reply: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> (Value, StandIn) {
    let server = StandIn::start(reply);
    let configuration = Configuration::new("", &format!("{table}\nurl = \"{}\"\n", server.url()));
    let mut sending = Sending::start(&configuration);
    sending.write("b", &[(1, "ada@x.test")]);
    let answer = sending.answer();
    sending.finish();
    (answer, server)
}

#[test]
fn a_receipt_has_the_id_that_the_provider_gave_to_the_mail() {
    for (table, name) in WITH_IDS {
        let (answer, server) = answer_by(table, move |_| {
            // A byte order mark is no part of it.
            let body = format!("\u{feff}{{\"{name}\": \"0102018f-0a1b\"}}");
            Reply::Answer(200, Vec::new(), body)
        });
        assert_eq!(answer["receipts"][0]["message_id"], "0102018f-0a1b", "{answer}");
        assert_eq!(server.requests()[0].header("Accept-Encoding"), Some("identity"));
    }
}

/// `{"id": "0102018f-0a1b", "MessageID": "0102018f-0a1b", "MessageId": "0102018f-0a1b"}`, gzipped.
const GZIPPED: &str =
    "H4sIAAAAAAACA6tWykxRslJQMjA0MDIwtEjTNUg0TFLSUVDyTS0uTkxP9XTBK4tFby0ANH/+EVMAAAA=";

#[test]
fn an_acceptance_whose_headers_are_long_or_whose_body_is_compressed_unasked_is_one() {
    let kind = |text: &str| ("Content-Type", text.to_owned());
    let by = |method: &str| ("Content-Encoding", method.to_owned());
    let long = ("X-Trace", "x".repeat(100_000));
    let gzipped = Base64::decode_vec(GZIPPED).unwrap();
    let id = Some("0102018f-0a1b");
    let json = "application/json; charset=utf-8";
    for (headers, body, id) in [
        (vec![kind(json), by("gzip")], gzipped.clone(), id),
        (vec![long, by("gzip")], gzipped, id),
        // What cannot be read is the provider's if that says that it is JSON.
        (vec![kind(json), by("br")], b"\x0b\x02\x80{}\x03".to_vec(), None),
        (vec![kind(json)], format!("\"{}\"", "x".repeat(70_000)).into_bytes(), None),
    ] {
        for (table, _) in WITH_IDS {
            let (headers, body) = (headers.clone(), body.clone());
            let (answer, _) =
                answer_by(table, move |_| Reply::Bytes(200, headers.clone(), body.clone()));
            assert_eq!(answer["receipts"][0]["message_id"].as_str(), id, "{table}: {answer}");
            assert_eq!(answer["ok"], json!([1]));
        }
    }
    for (table, _) in WITH_IDS {
        let headers = vec![kind("text/html"), by("br")];
        let (answer, _) =
            answer_by(table, move |_| Reply::Bytes(200, headers.clone(), b"\x0b".to_vec()));
        // Resend would know it by its key.
        let kind = if table.starts_with("[resend]") { "retry" } else { "in_doubt" };
        assert_eq!(answer[kind][0]["id"], 1, "{table}: {answer}");
    }
}
