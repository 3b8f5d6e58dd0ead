use std::io::Write as _;
use std::net::Shutdown;

use anyhow::Result;
use mailroom_tests::postgres::Database;

use super::{ALL, Serve, answer, enqueue, queued, request, rest};

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test]
async fn requests_that_cannot_be_understood_are_refused_and_the_next_is_served() -> Result<()> {
    let database = Database::migrated()?;
    let serve = Serve::start(database.url())?;
    let bearer = format!("authorization: Bearer {ALL}\r\n");
    let head = |start: &str, more: &str| format!("{start} HTTP/1.1\r\nhost: x\r\n{more}\r\n");
    let post = |more: &str| head("POST /v1/recheck", &format!("{bearer}{more}"));
    let large = format!("{{\"subject_id\":\"{}\"}}", "a".repeat(70_000));
    for (text, status) in [
        (head("GET /v1/redeem", &bearer), 405),
        (head("HEAD /v1/redeem", &bearer), 405),
        (head("OPTIONS /v1/redeem", "origin: https://evil.test\r\n"), 405),
        (head("PUT /v1/redeem", &bearer), 405),
        (head("POST /v1%2fredeem", &bearer), 404),
        (head("POST /v1/redeem%2f..%2fenqueue", &bearer), 404),
        (head("POST /v1/../v1/redeem", &bearer), 404),
        (head("POST /v1/browser_code", &bearer), 404),
        (head("POST /v1/redeem?action=recover", &bearer), 404),
        (head("POST /", &bearer), 404),
        (head("GET /healthz", ""), 200),
        (head("POST /healthz", &bearer), 405),
        (post(""), 415),
        (post("content-type: text/plain\r\n"), 415),
        (post("content-type: application/x-www-form-urlencoded\r\n"), 415),
        (post(&format!("{JSON}content-length: 70000\r\n")), 413),
        (request(ALL, "/v1/recheck", &large), 413),
        (
            format!(
                "{}{:x}\r\n{large}\r\n0\r\n\r\n",
                post(&format!("{JSON}transfer-encoding: chunked\r\n")),
                large.len()
            ),
            413,
        ),
        (post(JSON), 400),
        (post(&format!("{JSON}x: {}\r\n", "a".repeat(100_000))), 431),
        ("POST /v1/recheck HTTP/9.9\r\n\r\n".to_owned(), 400),
        ("\0\0\0\r\n\r\n".to_owned(), 400),
    ] {
        let told = serve.exchange(text.as_bytes())?;
        // It may be reset where the server has not read all that was sent.
        if !told.is_empty() || status != 413 && status != 431 {
            let shown = text.lines().next().unwrap_or_default();
            assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {told}");
            assert!(!told.to_ascii_lowercase().contains("access-control-"), "{told}");
        }
        assert_eq!(serve.post("/v1/recheck", r#"{"subject_id":"7"}"#)?.status, 200);
    }
    Ok(())
}

#[tokio::test]
async fn a_body_has_what_its_function_takes_and_nothing_else() -> Result<()> {
    let database = Database::migrated()?;
    let serve = Serve::start(database.url())?;
    let secret = "ab".repeat(32);
    let link = |more: &str| format!("{{\"action\":\"invite\",\"secret\":\"{secret}\"{more}}}");
    for (path, body, said) in [
        ("/v1/redeem", String::new(), "is not JSON"),
        ("/v1/redeem", "[]".to_owned(), "must be a JSON object"),
        ("/v1/redeem", link("}"), "is not JSON"),
        ("/v1/redeem", link(",\"codes\":\"1\""), "`codes` is no member"),
        ("/v1/redeem", link(",\"secret\":\"\""), "`secret` is there twice"),
        ("/v1/redeem", link(",\"code\":12345"), "`code` must be a text"),
        ("/v1/redeem", link(",\"binding_proven\":\"true\""), "`binding_proven` must be true"),
        ("/v1/redeem", link("").replace("ab", "abz"), "`secret` must be 64 hexadecimal"),
        ("/v1/redeem", link("").replace("abab", "ab"), "`secret` must be 64 hexadecimal"),
        ("/v1/redeem", "{\"action\":\"invite\"}".to_owned(), "`secret` is missing"),
        ("/v1/browser-code", "{\"binding\":null}".to_owned(), "`binding` is missing"),
        ("/v1/cancel", "{\"token\":7}".to_owned(), "`token` must be a decimal text"),
        ("/v1/cancel", "{\"token\":\"+7\"}".to_owned(), "`token` must be a decimal text"),
        ("/v1/cancel", "{\"token\":\"9223372036854775808\"}".to_owned(), "`token` must be"),
        ("/v1/recheck", "{\"subject_id\":\"7\",\"schema\":\"x\"}".to_owned(), "`schema` is no"),
        ("/v1/enqueue", format!("{{\"payload\":{}", "[".repeat(60_000)), "is not JSON"),
        (
            "/v1/enqueue",
            "{\"action\":\"notice\",\"recipient_email\":\"a@x.test\",\"payload\":1e400}".to_owned(),
            "`payload` must be JSON",
        ),
        (
            "/v1/request",
            "{\"action\":\"recover\",\"email_or_login\":\"a\",\"at_most\":1.5}".to_owned(),
            "`at_most` must be a whole number",
        ),
        (
            "/v1/request",
            "{\"action\":\"recover\",\"email_or_login\":\"a\",\"per\":1e99}".to_owned(),
            "`per` must be a number of seconds",
        ),
    ] {
        let answer = serve.post(path, &body)?;
        let detail = answer.body["detail"].as_str().unwrap_or_default();
        assert_eq!((answer.status, answer.code()), (400, "MAILROOM_REQUEST"), "{answer:?}");
        assert!(detail.contains(said) && !detail.contains(&secret), "{detail}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
    let log = serve.program.stop()?;
    assert!(!log.contains("abab"), "{log}");
    Ok(())
}

#[tokio::test]
async fn a_connection_has_one_request_whatever_stands_behind_it() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let serve = Serve::start(database.url())?;
    let token = enqueue(&serve, "invite", "7")?;
    let hidden = request(ALL, "/v1/cancel", &format!("{{\"token\":\"{token}\"}}"));
    let body = r#"{"subject_id":"7"}"#;
    let head = format!(
        "POST /v1/recheck HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ALL}\r\n\
         content-type: application/json\r\n"
    );
    let length = body.len();
    let chunk = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    for text in [
        format!("{}{hidden}", request(ALL, "/v1/recheck", body)),
        format!(
            "{head}content-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n{chunk}{hidden}"
        ),
        format!("{head}transfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n{chunk}{hidden}"),
        format!("{head}content-length: {length}\r\ncontent-length: 0\r\n\r\n{body}{hidden}"),
        format!("{head}content-length: +{length}\r\n\r\n{body}{hidden}"),
        format!("{head}transfer-encoding: xchunked\r\n\r\n{chunk}{hidden}"),
        format!("{head}transfer-encoding : chunked\r\n\r\n{chunk}{hidden}"),
        format!("{head}transfer-encoding:\u{b}chunked\r\n\r\n{chunk}{hidden}"),
        format!("{head}connection: keep-alive\r\ncontent-length: {length}\r\n\r\n{body}{hidden}"),
        format!("{head}content-length: {length}\n\n{body}{hidden}"),
        format!("{head}upgrade: h2c\r\ncontent-length: {length}\r\n\r\n{body}{hidden}"),
    ] {
        let told = serve.exchange(text.as_bytes())?;
        assert!(told.matches("HTTP/1.1 ").count() <= 1, "{told}");
        assert!(!told.contains("cancelled"), "{told}");
    }
    // It is there still.
    queued(&client, &token).await?;
    Ok(())
}

#[tokio::test]
async fn slow_and_idle_connections_keep_nobody_out() -> Result<()> {
    let database = Database::migrated()?;
    let serve = Serve::start(database.url())?;
    let mut silent = Vec::new();
    for number in 0..1_000 {
        let mut stream = serve.connect()?;
        match number % 3 {
            0 => {}
            1 => stream.write_all(b"POST /v1/redeem HTTP/1.1\r\nhost:").ok().unwrap_or_default(),
            // A body that does not come.
            _ => {
                let whole = request(ALL, "/v1/recheck", r#"{"subject_id":"7"}"#);
                stream.write_all(&whole.as_bytes()[..whole.len() - 5]).ok().unwrap_or_default();
            }
        }
        silent.push(stream);
    }
    assert_eq!(serve.post("/v1/recheck", r#"{"subject_id":"7"}"#)?.status, 200);
    drop(silent);
    let whole = request(ALL, "/v1/recheck", r#"{"subject_id":"7"}"#);
    let mut slow = serve.connect()?;
    slow.write_all(&whole.as_bytes()[..whole.len() - 5])?;
    assert_eq!(answer(&rest(&mut slow)?)?.status, 408);
    let mut ended = serve.connect()?;
    ended.write_all(&whole.as_bytes()[..whole.len() - 5])?;
    ended.shutdown(Shutdown::Write)?;
    let told = rest(&mut ended)?;
    assert!(told.is_empty() || answer(&told)?.status == 400, "{told}");
    Ok(())
}
