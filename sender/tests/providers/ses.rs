//! Amazon SES, against a stand-in that computes every signature again and gives the answers that
//! the API reference lists.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use base64ct::{Base64, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::sending::{Configuration, Sending, VARIABLE, token};
use crate::stand_in::{Reply, Request, StandIn};

const KEY_ID: &str = "AKIDEXAMPLE";

/// The session token that belongs to the temporary key `ASIAEXAMPLE`.
const TOKEN: &str = "FwoGZXIvYXdzEXAMPLE//+token==";

fn start() -> StandIn {
    StandIn::start(|request| answer(request, || true))
}

/// SES whose sending rate is reached after every five mails, until it has said so.
fn start_with_rate() -> StandIn {
    let recent = AtomicUsize::new(0);
    StandIn::start(move |request| {
        answer(request, || {
            let has_place = |count| Some(if count < 5 { count + 1 } else { 0 });
            recent
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, has_place)
                .is_ok_and(|count| count < 5)
        })
    })
}

fn answer(request: &Request, has_place: impl Fn() -> bool) -> Reply {
    if let Err(kind) = authenticate(request) {
        return refusal(403, kind, "The request is not signed as it must be.");
    }
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("POST", "/v2/email/outbound-emails")
    );
    let body = request.json();
    let (Some(to), Some(data)) =
        (body["Destination"]["ToAddresses"][0].as_str(), body["Content"]["Raw"]["Data"].as_str())
    else {
        return refusal(400, "BadRequestException", "1 validation error detected");
    };
    if !has_place() {
        return refusal(429, "TooManyRequestsException", "Maximum sending rate exceeded.");
    }
    let mail = String::from_utf8(Base64::decode_vec(data).expect("the mail is base64")).unwrap();
    assert!(mail.contains("\r\nTo: ") || mail.starts_with("To: "), "{mail}");
    let words: Vec<&str> = to.split('@').next().unwrap().split('-').collect();
    match words[..] {
        ["status", status] => Reply::status(status.parse().unwrap()),
        ["cut"] => Reply::Nothing,
        ["anonymous"] => Reply::Answer(200, Vec::new(), "{}".to_owned()),
        ["unverified"] => {
            let message = format!(
                "Email address is not verified. The following identities failed the check: {to}"
            );
            refusal(400, "MessageRejected", &message)
        }
        ["error", status, kind] => refusal(status.parse().unwrap(), kind, "about the mail"),
        _ => Reply::Answer(200, Vec::new(), r#"{"MessageId":"0102"}"#.to_owned()),
    }
}

/// As the API writes errors: the name in a header, with a place after it.
fn refusal(status: u16, kind: &str, message: &str) -> Reply {
    let header =
        format!("{kind}:http://internal.amazon.com/coral/com.amazonaws.services.simpleemail/");
    let body = serde_json::json!({"message": message}).to_string();
    Reply::Answer(status, vec![("x-amzn-ErrorType", header)], body)
}

/// Computes the signature of what came, from the headers that the request says it signed.
fn authenticate(request: &Request) -> Result<(), &'static str> {
    let authorization =
        request.header("Authorization").ok_or("MissingAuthenticationTokenException")?;
    let rest =
        authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or("IncompleteSignatureException")?;
    let part =
        |name: &str| rest.split(", ").find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let credential: Vec<&str> = part("Credential").unwrap().split('/').collect();
    let [id, day, region, service, end] = credential[..] else {
        return Err("IncompleteSignatureException");
    };
    // A temporary key without its token, or another one, is as unknown as any other; so is a
    // permanent one with a token.
    let mut secret = "a-key";
    let (token, names) = (request.header("X-Amz-Security-Token"), part("SignedHeaders").unwrap());
    match (id, token) {
        (KEY_ID, None) => {}
        ("ASIAEXAMPLE", Some(TOKEN))
            if names.split(';').any(|name| name == "x-amz-security-token") => {}
        ("ASIAEXAMPLE", Some(TOKEN)) => return Err("InvalidSignatureException"),
        ("ASIAVARIABLE", Some(env!("CARGO_PKG_VERSION"))) => secret = VARIABLE.1,
        _ => return Err("UnrecognizedClientException"),
    }
    assert_eq!((region, service, end), ("eu-central-1", "ses", "aws4_request"));
    let date = request.header("X-Amz-Date").unwrap();
    let hours = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 3600;
    assert!(date.starts_with(day) && date.ends_with('Z') && date.len() == 16 && hours > 400_000);
    for required in ["host", "x-amz-date", "content-type"] {
        assert!(names.split(';').any(|name| name == required), "{names}");
    }
    let headers =
        names.split(';').map(|name| format!("{name}:{}\n", request.header(name).unwrap()));
    let headers = headers.collect::<Vec<_>>().concat();
    let hex = |bytes: &[u8]| base16ct::lower::encode_string(bytes);
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let body = hex(&Sha256::digest(&request.body));
    let canonical = format!("{}\n{path}\n{query}\n{headers}\n{names}\n{body}", request.method);
    let canonical = hex(&Sha256::digest(canonical.as_bytes()));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{day}/{region}/{service}/{end}\n{canonical}");
    let mut key = format!("AWS4{secret}").into_bytes();
    for part in [day, region, service, end, &text] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(part.as_bytes());
        key = mac.finalize().into_bytes().to_vec();
    }
    if part("Signature") == Some(&hex(&key)) { Ok(()) } else { Err("InvalidSignatureException") }
}

fn configuration(server: &StandIn, further: &str) -> Configuration {
    let table = format!(
        "[ses]\nregion = \"eu-central-1\"\nkey_id = \"{KEY_ID}\"\nkey_file = \"key\"\nurl = \
         \"{}\"\n{further}",
        server.url()
    );
    Configuration::new("", &table)
}

#[test]
fn a_mail_goes_out_as_mime_with_a_signature_that_fits() {
    let server = start();
    let configuration = configuration(&server, "configuration_set = \"reports\"");
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
    sending.finish();
    let requests = server.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    let body = request.json();
    assert_eq!(body["Destination"], serde_json::json!({"ToAddresses": ["ada@x.test"]}));
    assert_eq!(body["ConfigurationSetName"], "reports");
    let mail = Base64::decode_vec(body["Content"]["Raw"]["Data"].as_str().unwrap()).unwrap();
    let mail = String::from_utf8(mail).unwrap();
    for line in [
        "From: Example <us@x.test>\r\n",
        "To: ada@x.test\r\n",
        "Auto-Submitted: auto-generated\r\n",
    ] {
        assert!(mail.contains(line), "{mail}");
    }
    assert!(mail.replace("=\r\n", "").contains(&token(1)), "{mail}");
}

#[test]
fn what_the_api_answers_is_a_verdict_on_the_mail_or_on_the_account() {
    let server = start();
    let configuration = configuration(&server, "timeout_seconds = 60");
    for (id, (name, expected)) in (1..).zip([
        ("error-400-MessageRejected", "retry"),
        ("error-400-BadRequestException", "retry"),
        ("status-413", "retry"),
        ("unverified", "unavailable"),
        ("error-400-AccountSuspendedException", "unavailable"),
        ("error-400-SendingPausedException", "unavailable"),
        ("error-400-MailFromDomainNotVerifiedException", "unavailable"),
        ("error-400-LimitExceededException", "unavailable"),
        ("error-400-ThrottlingException", "unavailable"),
        ("error-429-TooManyRequestsException", "unavailable"),
        ("error-404-NotFoundException", "unavailable"),
        ("error-403-AccessDeniedException", "unavailable"),
        ("error-403-ExpiredTokenException", "unavailable"),
        ("status-503", "in_doubt"),
        ("error-400-NobodyKnowsThisException", "retry"),
        ("status-400", "retry"),
        ("error-500-InternalServiceErrorException", "in_doubt"),
        ("status-502", "in_doubt"),
        // Without the id that SES gives to each mail.
        ("anonymous", "in_doubt"),
        ("status-204", "in_doubt"),
        ("cut", "in_doubt"),
    ]) {
        let mut sending = Sending::start(&configuration);
        let verdict = sending.verdict(id, &format!("{name}@x.test"));
        assert_eq!(verdict.kind, expected, "{name}: {verdict:?}");
        assert!(!verdict.reason.is_empty() && !verdict.reason.contains("x.test"), "{verdict:?}");
        if let Some(kind) = name.split('-').nth(2) {
            assert!(verdict.reason.contains(kind), "{verdict:?}");
        }
        sending.finish();
    }
}

#[test]
fn the_token_of_temporary_credentials_is_sent_signed_and_never_shown() {
    let server = start();
    let url = server.url();
    let table = |key_id: &str, further: &str| {
        format!(
            "[ses]\nregion = \"eu-central-1\"\nkey_id = {key_id:?}\nkey_file = \"key\"\nurl = \
             {url:?}\n{further}"
        )
    };
    let with_token = table("ASIAEXAMPLE", "session_token_file = \"token\"\n");
    let configuration = Configuration::new("", &with_token);
    std::fs::write(configuration.path("token"), format!("{TOKEN}\n")).unwrap();
    let found = mailroom_sender::check(&configuration.file(), &[]).unwrap();
    assert!(found.iter().all(|sentence| !sentence.contains(TOKEN)), "{found:?}");
    let mut sending = Sending::start(&configuration);
    assert_eq!(sending.verdict(1, "ada@x.test").kind, "ok");
    sending.finish();
    let mut request = server.requests().remove(1);
    assert_eq!(
        (request.header("X-Amz-Security-Token"), authenticate(&request)),
        (Some(TOKEN), Ok(()))
    );
    // The stand-in would notice a token that is not signed.
    let unsigned = |value: &str| value.replace(";x-amz-security-token", "");
    request.headers.iter_mut().for_each(|(_, value)| *value = unsigned(value));
    assert_eq!(authenticate(&request), Err("InvalidSignatureException"));

    let another = "FwoGZXIvYXdzEXAMPLE//+other==";
    std::fs::write(configuration.path("token"), another).unwrap();
    for (number, table) in (2..).zip([
        with_token.clone(),
        table("ASIAEXAMPLE", ""),
        table(KEY_ID, "session_token_file = \"token\"\n"),
    ]) {
        configuration.write("", &table);
        let error = mailroom_sender::check(&configuration.file(), &[]).unwrap_err().to_string();
        assert!(error.contains("403") && !error.contains(another), "{error}");
        let mut sending = Sending::start(&configuration);
        let verdict = sending.verdict(number, "ada@x.test");
        let is_told = verdict.reason.contains("UnrecognizedClientException");
        assert!(
            verdict.kind == "unavailable" && is_told && !verdict.reason.contains(another),
            "{verdict:?}"
        );
        sending.finish();
    }
    for (token, further) in [
        ("hunter2 hunter2", "session_token_file = \"token\"\n"),
        ("hunter2\r\nHost: x", "session_token_file = \"token\"\n"),
        ("hunter2\u{e4}", "session_token_file = \"token\"\n"),
        ("", "session_token_file = \"token\"\n"),
        ("hunter2", "session_token_file = \"nothing\"\n"),
        (
            "hunter2",
            "session_token_file = \"token\"\nsession_token_variable = \"AWS_SESSION_TOKEN\"\n",
        ),
        ("hunter2", "session_token_variable = \"MAILROOM_TOKEN\"\n"),
        ("hunter2", "session_token_variable = \"NO_SUCH_VARIABLE\"\n"),
        ("hunter2", "session_token = \"hunter2\"\n"),
    ] {
        std::fs::write(configuration.path("token"), token).unwrap();
        configuration.write("", &table("ASIAEXAMPLE", further));
        let fault = configuration.fault();
        let is_named = fault.contains("session_token") || fault.contains("/token");
        assert!(is_named && !fault.contains("hunter2"), "{token:?} {further}: {fault}");
    }
}

#[test]
fn the_key_and_the_token_come_from_variables() {
    let server = start();
    let table = format!(
        "[ses]\nregion = \"eu-central-1\"\nkey_id = \"ASIAVARIABLE\"\nkey_variable = \"{}\"\n\
         session_token_variable = \"CARGO_PKG_VERSION\"\nurl = \"{}\"\n",
        VARIABLE.0,
        server.url()
    );
    for (table, expected) in [
        (table.clone(), None),
        (table.replace(VARIABLE.0, "CARGO_PKG_VERSION"), Some("InvalidSignatureException")),
        (
            table.replace("\"CARGO_PKG_VERSION\"", "\"CARGO_PKG_NAME\""),
            Some("UnrecognizedClientException"),
        ),
    ] {
        let configuration = Configuration::new("", &table);
        let mut sending = Sending::start(&configuration);
        let verdict = sending.verdict(1, "ada@x.test");
        assert_eq!(
            verdict.kind,
            if expected.is_some() { "unavailable" } else { "ok" },
            "{verdict:?}"
        );
        assert!(expected.is_none_or(|expected| verdict.reason.contains(expected)), "{verdict:?}");
        sending.finish();
    }
}

#[test]
fn above_the_sending_rate_every_mail_goes_out_later_and_once() {
    let server = start_with_rate();
    let configuration = configuration(&server, "");
    let mut sending = Sending::start(&configuration);
    let mut owed: Vec<i64> = (1..=12).collect();
    let mut refusals = 0;
    while !owed.is_empty() {
        let people: Vec<_> = owed.iter().map(|id| (*id, "ada@x.test")).collect();
        let verdicts = sending.verdicts(&format!("b{refusals}"), &people);
        let mut verdicts = verdicts.iter();
        owed.retain(|_| verdicts.next().is_some_and(|verdict| verdict.kind != "ok"));
        if !owed.is_empty() {
            refusals += 1;
        }
    }
    sending.finish();
    assert!(refusals >= 2, "{refusals}");
}

#[test]
fn a_key_that_is_refused_is_said_by_the_check_and_never_shown() {
    let server = start();
    let configuration = configuration(&server, "");
    assert!(mailroom_sender::check(&configuration.file(), &[]).is_ok());
    std::fs::write(configuration.path("key"), "another-key").unwrap();
    let error = mailroom_sender::check(&configuration.file(), &[]).unwrap_err().to_string();
    assert!(error.contains("403") && !error.contains("another-key"), "{error}");
    let mut sending = Sending::start(&configuration);
    let verdict = sending.verdict(1, "ada@x.test");
    assert!(
        verdict.kind == "unavailable" && verdict.reason.contains("InvalidSignature"),
        "{verdict:?}"
    );
}

#[test]
fn settings_that_cannot_be_signed_are_refused_in_one_sentence() {
    let server = start();
    let good = "[ses]\nregion = \"eu-central-1\"\nkey_id = \"AKIDEXAMPLE\"\nkey_file = \"key\"\n";
    let configuration = configuration(&server, "");
    for (table, expected) in [
        (good.replace("eu-central-1", "eu/central"), "[ses] region must consist of"),
        (good.replace("eu-central-1", ""), "[ses] region must consist of"),
        (good.replace("AKIDEXAMPLE", "A\\r\\nHost: x"), "[ses] key_id must consist of"),
        (format!("{good}configuration_set = \"ä\"\n"), "[ses] configuration_set must consist of"),
        (good.replace("key_file = \"key\"\n", ""), "[ses] key_file"),
        (format!("{good}url = \"http://email.example.test\"\n"), "url must begin with https://"),
        (format!("{good}url = \"https://\"\n"), "url must"),
        (format!("{good}url = \"https://me:pass@x.test\"\n"), "url must be an address"),
        (good.replace("region = \"eu-central-1\"\n", ""), "missing field `region`"),
        (format!("{good}secret = \"hunter2\"\n"), "unknown field `secret`"),
        (format!("{good}connections = 65\n"), "connections must be from 1 to 64"),
    ] {
        configuration.write("", &table);
        let fault = configuration.fault();
        assert!(fault.contains(expected) && !fault.contains("hunter2"), "{expected}: {fault}");
    }
}
