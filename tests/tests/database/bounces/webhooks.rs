use std::collections::VecDeque;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use base64ct::{Base64, Encoding as _};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;

use super::{Bounces, PASSWORD, bounced, drop_role, role, suppressed};

const OK: (u16, &str) = (200, "ok\n");

fn status(answer: &(u16, String)) -> (u16, &str) {
    (answer.0, &answer.1)
}

#[tokio::test]
async fn hard_bounces_and_complaints_suppress_once_and_soft_bounces_never() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let bounces = Bounces::listen(&role(&database, &client).await?)?;
    for kind in ["Transient", "Undetermined", "", "permanent"] {
        assert_eq!(status(&bounces.resend(&bounced(kind, "\"soft@x.test\""))?), OK, "{kind}");
    }
    for body in [
        r#"{"type":"email.delivered","data":{"to":["a@x.test"]}}"#,
        r#"{"type":"domain.created","data":[1]}"#,
        r#"{"type":"email.delivery_delayed"}"#,
        // It does not say who of them.
        r#"{"type":"email.complained","data":{"to":["a@x.test","b@x.test"]}}"#,
    ] {
        assert_eq!(status(&bounces.resend(body)?), OK, "{body}");
    }
    let soft = r#"{"RecordType":"Bounce","Type":"SoftBounce","Email":"soft@x.test"}"#;
    assert_eq!(status(&bounces.postmark(soft)?), OK);
    assert!(suppressed(&client).await?.is_empty());

    // The same twice, and in other letters; an address in Unicode gets mails in ASCII.
    for to in ["\"Ada@X.test\"", "\"Ada@X.test\"", "\"ada@x.test\"", "\"eve@xn--bcher-kva.test\""] {
        assert_eq!(status(&bounces.resend(&bounced("Permanent", to))?), OK);
    }
    let complained = r#"{"type":"email.complained","data":{"to":["Bob <bob@x.test>"]}}"#;
    assert_eq!(status(&bounces.resend(complained)?), OK);
    let hard = r#"{"RecordType":"Bounce","Type":"HardBounce","Email":"hard@x.test",
        "Description":"no <hard@x.test> here","Details":null}"#;
    assert_eq!(status(&bounces.postmark(hard)?), OK);
    let said = "Permanent: Suppressed: The recipient's email address is on the suppression \
                list of [address]";
    let expected = [
        ["ada@x.test", "bounce", "resend", said],
        ["bob@x.test", "complaint", "resend", ""],
        ["eve@xn--bcher-kva.test", "bounce", "resend", said],
        ["hard@x.test", "bounce", "postmark", "HardBounce: no [address] here"],
    ];
    assert_eq!(suppressed(&client).await?, expected);
    let log = bounces.program.stop()?;
    assert!(!log.contains("x.test") && !log.contains("ada"), "{log}");
    drop_role(&database, &client).await
}

#[tokio::test]
async fn bounces_are_suppressed_in_a_schema_of_another_name_and_refused_while_it_is_not_there()
-> Result<()> {
    let database = Database::create()?;
    let client = database.connect().await?;
    let bounces = Bounces::listen_for(database.url(), "letters")?;
    let hard = r#"{"RecordType":"Bounce","Type":"HardBounce","Email":"hard@x.test"}"#;
    assert_eq!(bounces.postmark(hard)?.0, 503);
    let mut migrate = program::mailroom()?;
    migrate
        .args(["migrate", "up", "--schema", "letters"])
        .env("MAILROOM_DATABASE_URL", database.url());
    assert!(migrate.output()?.status.success());
    assert_eq!(status(&bounces.postmark(hard)?), OK);
    let row = client.query_one("SELECT address FROM letters.suppressed_addresses", &[]).await?;
    assert_eq!(row.get::<_, &str>(0), "hard@x.test");
    Ok(())
}

#[tokio::test]
async fn what_is_not_proven_or_understood_is_refused_and_changes_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let bounces = Bounces::listen(database.url())?;
    let hard = bounced("Permanent", "\"ada@x.test\"");
    let basic = [("authorization", "Basic cG9zdG1hcms6aHVudGVyMg==")];
    let forged = [
        ("svix-id", "1"),
        ("svix-timestamp", "1614265330"),
        ("svix-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
    ];
    let xml = [("content-type", "text/xml")];
    let untyped = [("content-type", "")];
    let by_postmark = r#"{"RecordType":"Bounce","Type":"HardBounce","Email":"ada@x.test"}"#;
    for (answer, code) in [
        (bounces.post("/resend", &[], &hard)?, 401),
        (bounces.post("/resend", &forged, &hard)?, 401),
        (bounces.resend_at(&hard, 600)?, 401),
        (bounces.post("/postmark", &basic, by_postmark)?, 401),
        (bounces.post("/postmark", &[], &hard)?, 401),
        (bounces.post("/", &[], &hard)?, 404),
        (bounces.post("/resend/x", &[], &hard)?, 404),
        (bounces.post("/resend//", &[], &hard)?, 404),
        (bounces.post("/healthz", &[], &hard)?, 404),
        (bounces.exchange(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")?, 404),
        // As without the slash: not signed.
        (bounces.post("/resend/", &[], &hard)?, 401),
        (bounces.post("/ses", &[], &hard)?, 404),
        (bounces.post("/resend", &xml, &hard)?, 415),
        (bounces.post("/resend", &untyped, &hard)?, 415),
        (bounces.exchange(b"GET /resend HTTP/1.1\r\nhost: x\r\n\r\n")?, 405),
    ] {
        assert_eq!(answer.0, code, "{answer:?}");
    }
    // Proven, but not what the provider documents.
    let deep = format!(
        r#"{{"type":"email.bounced","data":{}{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let many = format!(
        r#"{{"type":"email.bounced","data":{{"to":"","{}":1}}}}"#,
        "a\":1,\"".repeat(20_000)
    );
    for body in [
        "",
        "null",
        "[]",
        "{",
        "\u{0}",
        &deep,
        &many,
        r#"{"type":"email.bounced"}"#,
        r#"{"type":"email.bounced","type":"email.complained","data":{"to":["ada@x.test"]}}"#,
        r#"{"type":["email.bounced"],"data":{"to":["ada@x.test"]}}"#,
        r#"{"type":"email.complained","data":{"to":"ada@x.test"}}"#,
        r#"{"type":"email.complained","data":{"to":["bob@x.test"],"to":["ada@x.test"]}}"#,
        r#"{"type":"email.complained","data":[["ada@x.test"]]}"#,
        r#"["email.complained",{"to":["ada@x.test"]}]"#,
        r#"{"type":"email.complained","data":{"to":[]}}"#,
        r#"{"type":"email.complained","data":{"to":["ada@x.test\nbob@x.test"]}}"#,
        r#"{"type":"email.complained","data":{"to":["nobody"]}}"#,
        r#"{"type":"email.complained","data":{"to":["ada@x.test\u0000"]}}"#,
        &bounced("Permanent", "\"ada@x.test, bob@x.test\""),
        &bounced("Permanent", "1"),
    ] {
        let answer = bounces.resend(body)?;
        assert_eq!(answer.0, 400, "{answer:?} {body:.80}");
    }
    for body in [
        r#"{"Type":"HardBounce"}"#,
        r#"{"RecordType":"SpamComplaint"}"#,
        r#"["SpamComplaint","","ada@x.test",null,null]"#,
        r#"{"RecordType":"Bounce","Type":"HardBounce","Email":null}"#,
    ] {
        assert_eq!(bounces.postmark(body)?.0, 400, "{body}");
    }
    // Too much, said at once, in chunks or without an end.
    assert_eq!(bounces.resend(&"x".repeat(1_048_576))?.0, 413);
    let chunked = "POST /resend HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
                   transfer-encoding: chunked\r\n\r\n";
    let chunks = format!("{chunked}{}", format!("8000\r\n{}\r\n", "x".repeat(0x8000)).repeat(32));
    assert_eq!(bounces.exchange(chunks.as_bytes())?.0, 413);
    assert!(
        bounces
            .exchange(
                format!("POST /resend HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(50_000)).as_bytes()
            )
            .map_or(431, |answer| answer.0)
            == 431
    );
    assert!(suppressed(&client).await?.is_empty());
    assert_eq!(bounces.resend(&hard)?.0, 200);
    assert_eq!(suppressed(&client).await?.len(), 1);
    let log = bounces.program.stop()?;
    assert!(log.contains("a notification was refused") && log.len() < 10_000, "{log}");
    assert!(
        !log.contains("x.test") && !log.contains("hunter2") && !log.contains("panicked"),
        "{log}"
    );
    Ok(())
}

#[tokio::test]
async fn a_notification_comes_again_while_the_database_is_away_or_refuses_it() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let url = role(&database, &client).await?;
    let bounces = Bounces::listen(&url)?;
    let hard = |name: &str| bounced("Permanent", &format!("\"{name}@x.test\""));
    assert_eq!(bounces.resend(&hard("a"))?.0, 200);
    // The connection has ended: another one is made.
    let end = format!(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE usename = '{}'",
        database.name()
    );
    client.batch_execute(&end).await?;
    assert_eq!(bounces.resend(&hard("b"))?.0, 200);
    let role = database.name();
    client
        .batch_execute(&format!("REVOKE EXECUTE ON FUNCTION mailroom.suppress FROM {role}"))
        .await?;
    assert_eq!(status(&bounces.resend(&hard("c"))?), (503, "the database cannot be used now\n"));
    client.batch_execute(&format!("ALTER ROLE {role} NOLOGIN; {end}")).await?;
    assert_eq!(bounces.resend(&hard("c"))?.0, 503);
    // A bounce that is not to be suppressed needs no database.
    assert_eq!(bounces.resend(&bounced("Transient", "\"c@x.test\""))?.0, 200);
    client
        .batch_execute(&format!(
            "ALTER ROLE {role} LOGIN; GRANT EXECUTE ON FUNCTION mailroom.suppress TO {role}"
        ))
        .await?;
    // A table that is locked is waited for, but not for ever.
    client.batch_execute("BEGIN; LOCK TABLE mailroom.suppressions").await?;
    assert_eq!(bounces.resend(&hard("c"))?.0, 503);
    client.batch_execute("ROLLBACK").await?;
    assert_eq!(bounces.resend(&hard("c"))?.0, 200);
    let addresses: Vec<_> =
        suppressed(&client).await?.into_iter().map(|[address, ..]| address).collect();
    assert_eq!(addresses, ["a@x.test", "b@x.test", "c@x.test"]);
    let log = bounces.program.stop()?;
    assert!(log.contains("permission denied") && !log.contains("x.test"), "{log}");
    drop_role(&database, &client).await
}

#[tokio::test]
async fn clients_that_say_nothing_keep_no_others_out() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let bounces = Bounces::listen(database.url())?;
    let mut silent: Vec<_> = (0..100)
        .map(|_| std::net::TcpStream::connect(&bounces.address))
        .collect::<Result<_, _>>()?;
    // Half of them begin a notification.
    let head = "POST /resend HTTP/1.1\r\nHost: x.test\r\nContent-Type: application/json\r\n\
                Content-Length: 1000\r\n\r\n{";
    for stream in silent.iter_mut().step_by(2) {
        stream.write_all(head.as_bytes())?;
    }
    let answer = bounces.resend(&bounced("Permanent", "\"ada@x.test\""))?;
    assert_eq!(status(&answer), OK);
    assert_eq!(suppressed(&client).await?.len(), 1);
    drop(silent);
    // Its end does not wait for a client either.
    let begun = std::time::Instant::now();
    bounces.program.stop()?;
    assert!(begun.elapsed() < Duration::from_secs(60));
    Ok(())
}

#[tokio::test]
async fn slow_clients_that_come_again_and_again_keep_no_notification_out() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let bounces = Bounces::listen(database.url())?;
    let head = "POST /resend HTTP/1.1\r\nHost: x.test\r\nContent-Type: application/json\r\n\
                Content-Length: 1000\r\n\r\n{";
    let is_over = AtomicBool::new(false);
    let answers: Result<Vec<_>> = thread::scope(|scope| {
        for thread in 0..8 {
            let (address, is_over) = (&bounces.address, &is_over);
            scope.spawn(move || {
                let mut slow = VecDeque::new();
                while !is_over.load(Ordering::Relaxed) {
                    if let Ok(mut stream) = TcpStream::connect(address) {
                        // Of some the head has come, of others nothing.
                        stream
                            .write_all(
                                head.as_bytes()
                                    .get(..head.len() * (thread % 2))
                                    .unwrap_or_default(),
                            )
                            .ok();
                        slow.push_back(stream);
                    }
                    if slow.len() > 60 {
                        slow.pop_front();
                        thread::sleep(Duration::from_millis(20));
                    }
                }
            });
        }
        thread::sleep(Duration::from_secs(2));
        let begun = Instant::now();
        let answers = (0..20)
            .map(|name| bounces.resend(&bounced("Permanent", &format!("\"{name}@x.test\""))))
            .collect();
        is_over.store(true, Ordering::Relaxed);
        anyhow::ensure!(
            begun.elapsed() < Duration::from_secs(400),
            "they took {:?}",
            begun.elapsed()
        );
        answers
    });
    for answer in answers? {
        assert_eq!(status(&answer), OK);
    }
    assert_eq!(suppressed(&client).await?.len(), 20);
    bounces.program.stop()?;
    Ok(())
}

#[tokio::test]
async fn a_load_balancer_is_told_that_the_program_listens_and_a_slash_at_the_end_changes_nothing()
-> Result<()> {
    // No database is needed to say so.
    let bounces = Bounces::listen("postgresql://u:hunter2@127.0.0.1:1/x")?;
    for path in ["/healthz", "/healthz/", "/healthz?x=1"] {
        let answer =
            bounces.exchange(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())?;
        assert_eq!(status(&answer), OK, "{path}");
        let answer =
            bounces.exchange(format!("HEAD {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())?;
        assert_eq!(status(&answer), (200, ""), "{path}");
    }
    for path in ["/postmark", "/postmark/"] {
        let credentials = Base64::encode_string(format!("postmark:{PASSWORD}").as_bytes());
        let authorization = format!("Basic {credentials}");
        let answer =
            bounces.post(path, &[("authorization", &authorization)], r#"{"RecordType":"Open"}"#)?;
        assert_eq!(status(&answer), OK, "{path}");
    }
    bounces.program.stop()?;
    Ok(())
}

#[test]
fn what_cannot_be_configured_is_one_sentence() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("bounces.toml");
    for (text, sentence) in
        [("", "names no provider"), ("[mailgun]\nsecret = \"hunter2\"", "unknown field `mailgun`")]
    {
        std::fs::write(&config, text)?;
        let mut command = mailroom_tests::program::mailroom()?;
        command.args(["bounces", "--listen", "127.0.0.1:0", "--config"]).arg(&config);
        let output = command
            .env("MAILROOM_DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/x")
            .output()?;
        let errors = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(sentence) && !errors.contains("hunter2"), "{errors}");
    }
    Ok(())
}
