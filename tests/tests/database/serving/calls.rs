use std::fs;

use anyhow::{Context, Result};
use mailroom_tests::collector::wait_until;
use mailroom_tests::fixtures::{Fixtures, eligible};
use mailroom_tests::postgres::Database;
use mailroom_tests::tools;
use serde_json::{Value, json};

use super::{FUNCTIONS, Serve, drop_role, enqueue, hexadecimal, queued, role, table_of_all};
use crate::spans::Receiver;

#[tokio::test]
async fn mails_belong_to_the_trace_of_their_request_unless_they_name_another() -> Result<()> {
    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const MEMBER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let functions = format!("{FUNCTIONS}, mailroom.request");
    let url = role(&database, &client, &functions).await?;
    let serve = Serve::start(&url)?;
    client.account("a").at("x.test").insert().await?;
    client.batch_execute("UPDATE mailroom.actions SET cooldown = '0'").await?;
    let newest = "SELECT traceparent FROM mailroom.issued_tokens ORDER BY id DESC LIMIT 1";
    let long = "x".repeat(9_000);
    for (header, member, expected) in [
        (None, json!(null), None),
        (Some(HEADER), json!(null), Some(HEADER)),
        (Some(HEADER), json!(MEMBER), Some(MEMBER)),
        (None, json!(MEMBER), Some(MEMBER)),
        (Some(HEADER), json!("00-0\u{0}"), Some(HEADER)),
        (Some(HEADER), json!([1]), Some(HEADER)),
        (Some("00-no"), json!(7), None),
        (Some(&long), json!(long), None),
    ] {
        let asked = [
            ("/v1/enqueue", json!({ "action": "invite", "recipient_email": "a@x.test" })),
            (
                "/v1/request",
                json!({ "action": "activate", "email_or_login": "a", "cooldown": 0,
                "at_most": 100 }),
            ),
        ];
        for (path, mut body) in asked {
            body["traceparent"] = member.clone();
            let answer = serve.post_traced(path, &body.to_string(), header)?;
            assert_eq!(answer.status, 202, "{answer:?}");
            let found: Option<String> = client.query_one(newest, &[]).await?.get(0);
            assert_eq!(found.as_deref(), expected, "{path} {header:?} {member}");
        }
    }
    // A notice of a link that was used, and a new link in place of an old one.
    let notice = "UPDATE mailroom.actions SET notice = 'notice', eligibility = NULL \
                  WHERE name = 'invite'";
    client.batch_execute(notice).await?;
    let body = json!({ "action": "invite", "recipient_email": "a@x.test",
        "notice_recipient": "b@x.test" });
    let made = serve.post("/v1/enqueue", &body.to_string())?;
    let (secret, _) = queued(&client, made.body["token"].as_str().context("a token")?).await?;
    let body = json!({ "action": "invite", "secret": hexadecimal(&secret) }).to_string();
    let used = serve.post_traced("/v1/redeem", &body, Some(HEADER))?;
    assert_eq!(used.body["verdict"], "ok", "{used:?}");
    let found: Option<String> = client.query_one(newest, &[]).await?.get(0);
    assert_eq!(found.as_deref(), Some(HEADER));
    let again = serve.post_traced("/v1/redeem", &body, Some("x"))?;
    assert_eq!(again.body["verdict"], "used", "{again:?}");
    Ok(())
}

#[tokio::test]
async fn a_call_is_a_span_of_the_trace_of_its_request() -> Result<()> {
    let receiver = Receiver::start()?;
    let database = Database::migrated()?;
    let endpoint = format!("http://127.0.0.1:{}", receiver.port);
    let serve = Serve::start_exporting(database.url(), &table_of_all(), &[], &endpoint)?;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let body = json!({ "action": "invite", "secret": "00".repeat(32) }).to_string();
    serve.post_traced("/v1/redeem", &body, None)?;
    let answer = serve.post_traced("/v1/redeem", &body, Some(trace))?;
    assert_eq!(answer.body["verdict"], "unknown", "{answer:?}");
    wait_until(|| receiver.names() == ["redeem"])?;
    let span = receiver.spans().remove(0);
    assert_eq!(hexadecimal(&span.trace_id), trace[3..35]);
    assert_eq!(hexadecimal(&span.parent_span_id), trace[36..52]);
    let outcome = span.attributes.iter().find(|attribute| attribute.key == "mailroom.outcome");
    assert!(format!("{outcome:?}").contains("unknown"), "{outcome:?}");
    Ok(())
}

#[tokio::test]
async fn a_role_with_the_functions_and_nothing_else_serves_all_of_them() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let url = role(&database, &client, &format!("{FUNCTIONS}, mailroom.request")).await?;
    let serve = Serve::start(&url)?;

    let mail = json!({
        "action": "invite",
        "recipient_email": "ada@x.test",
        "recipient_name": "Ada \u{e9}",
        "subject_id": "7",
        "payload": { "team": ["a", 1.5, null] },
        "language": "de",
        "deliver_at": "2001-01-31T09:00:00Z",
        "idempotency_key": "k",
        "binding": null,
        "notice_recipient": "old@x.test",
    });
    let made = serve.post("/v1/enqueue", &mail.to_string())?;
    assert_eq!(made.status, 202, "{made:?}");
    assert_eq!(made.header("content-type"), Some("application/json"));
    assert_eq!(made.header("cache-control"), Some("no-store"));
    assert_eq!(serve.post("/v1/enqueue", &mail.to_string())?.body, made.body);
    let mut other = mail.clone();
    other["payload"] = json!(1);
    let refused = serve.post("/v1/enqueue", &other.to_string())?;
    assert_eq!((refused.status, refused.code()), (409, "23505"), "{refused:?}");
    let recipient = "SELECT notice_recipient FROM mailroom.issued_tokens";
    let recipient: String = client.query_one(recipient, &[]).await?.get(0);
    assert_eq!(recipient, "old@x.test");
    let payload = "SELECT payload::text FROM mailroom.payloads";
    let payload: String = client.query_one(payload, &[]).await?.get(0);
    assert_eq!(payload, r#"{"team": ["a", 1.5, null]}"#);

    let token = made.body["token"].as_str().context("a token")?;
    let (secret, _) = queued(&client, token).await?;
    let used = serve.redeem("invite", &secret, None)?;
    assert_eq!(used.status, 200, "{used:?}");
    assert_eq!(used.body, json!({ "verdict": "ok", "token": token, "subject_id": "7" }));
    assert_eq!(serve.redeem("invite", &secret, None)?.body, json!({ "verdict": "used" }));

    // With accounts it asks for one.
    client.batch_execute(&eligible(&["sign_in"])).await?;
    let coded = enqueue(&serve, "sign_in", "8")?;
    let (secret, code) = queued(&client, &coded).await?;
    let wrong = serve.redeem("sign_in", &secret, Some("x"))?;
    assert_eq!(wrong.body, json!({ "verdict": "wrong_code" }));
    let right = serve.redeem("sign_in", &secret, code.as_deref())?;
    assert_eq!(right.body["verdict"], "ok");
    // Used, and so renewed; the answer is the same where it is not.
    client.batch_execute("UPDATE mailroom.actions SET cooldown = '0'").await?;
    for secret in [hexadecimal(&secret), "00".repeat(32)] {
        let body = json!({ "action": "sign_in", "secret": secret }).to_string();
        let renewed = serve.post("/v1/renew-link", &body)?;
        assert_eq!((renewed.status, renewed.body), (202, json!({})));
    }
    let made = "SELECT count(*) FROM mailroom.issued_tokens WHERE subject_id = '8'";
    assert_eq!(client.query_one(made, &[]).await?.get::<_, i64>(0), 2, "one of the two");
    client.account("a").at("x.test").insert().await?;
    for somebody in ["a", "nobody"] {
        let body = json!({
            "action": "activate",
            "email_or_login": somebody,
            "cooldown": 0,
            "at_most": 7,
            "per": 60.5,
        });
        let asked = serve.post("/v1/request", &body.to_string())?;
        assert_eq!((asked.status, asked.body), (202, json!({})));
    }

    let digits = |binding: &str| {
        let body = json!({ "binding": binding }).to_string();
        serve.post("/v1/browser-code", &body)
    };
    let shown = digits(&"0f".repeat(16))?;
    assert_eq!(shown.body["browser_code"].as_str().map(str::len), Some(5), "{shown:?}");
    assert_eq!(digits(&"0F".repeat(16))?.body, shown.body);

    let again = enqueue(&serve, "invite", "9")?;
    let cancel = json!({ "token": again }).to_string();
    assert_eq!(serve.post("/v1/cancel", &cancel)?.body, json!({ "cancelled": true }));
    assert_eq!(serve.post("/v1/cancel", &cancel)?.body, json!({ "cancelled": false }));
    enqueue(&serve, "invite", "9")?;
    for (proofs, count) in [(true, 0), (false, 1)] {
        let body = json!({ "subject_id": "9", "only_proofs": proofs }).to_string();
        let cancelled = serve.post("/v1/cancel-subject", &body)?;
        assert_eq!(cancelled.body, json!({ "cancelled": count }));
    }
    let rechecked = serve.post("/v1/recheck", r#"{"subject_id":"9"}"#)?;
    assert_eq!(rechecked.body, json!({ "rechecked": 0 }));

    let login = database.connect_as(database.name()).await?;
    for statement in [
        "SELECT count(*) FROM mailroom.issued_tokens",
        "SELECT secret FROM mailroom.queue",
        "SELECT count(*) FROM accounts",
        "SELECT mailroom.suppress('ada@x.test', 'manual')",
        "DELETE FROM mailroom.queue",
    ] {
        let error = login.batch_execute(statement).await.err().context("a refusal")?;
        assert_eq!(error.code().map(tokio_postgres::error::SqlState::code), Some("42501"));
    }
    drop(login);
    let log = serve.program.stop()?;
    for told in ["x.test", &hexadecimal(&secret), "mrst_", "of-all"] {
        assert!(!log.contains(told), "{log}");
    }
    drop_role(&database, &client).await
}

/// Otherwise nobody would learn why no new link comes.
#[test]
fn a_link_of_an_action_without_a_predicate_is_a_mistake_of_the_setup() -> Result<()> {
    let database = Database::migrated()?;
    let serve = Serve::start(database.url())?;
    let body = json!({ "action": "invite", "secret": "00".repeat(32) }).to_string();
    let refused = serve.post("/v1/renew-link", &body)?;
    assert_eq!((refused.status, refused.code()), (500, "MAILROOM_SETUP"), "{refused:?}");
    let said = "the function needs what the action lacks, such as a predicate (SQLSTATE 55000)";
    serve.program.wait_for_log(said, 1)
}

#[tokio::test]
async fn the_openapi_file_and_the_server_have_the_arguments_of_each_function() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let serve = Serve::start(database.url())?;
    let file = tools::workspace().join("docs/reference/openapi.json");
    let document: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let paths = document["paths"].as_object().context("paths")?;
    // No function of the database wakes collectors.
    let is_function = |path: &&String| path.starts_with("/v1/") && *path != "/v1/wake";
    let described = paths.keys().filter(is_function);
    let described: Vec<&String> = described.collect();
    assert_eq!(described.len(), 8, "{described:?}");
    for path in described {
        let name = path.replace("/v1/", "").replace('-', "_");
        let query = "SELECT coalesce(array_agg(argument ORDER BY argument), '{}')
            FROM pg_catalog.pg_proc AS functions, unnest(proargnames) WITH ORDINALITY
                AS arguments (argument, place)
            WHERE pronamespace = 'mailroom'::regnamespace AND proname = $1 AND place <= pronargs";
        let arguments: Vec<String> = client.query_one(query, &[&name]).await?.get(0);
        let schema = &paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let members = schema["properties"].as_object().context("members")?;
        let mut named: Vec<&String> = members.keys().collect();
        named.sort();
        assert_eq!(named, arguments.iter().collect::<Vec<_>>(), "{path}");
        // Each is read, as what it must be: none of them is a list of lists.
        // What is no traceparent is ignored.
        let are_any = ["payload", "traceparent"];
        for member in named.into_iter().filter(|member| !are_any.contains(&member.as_str())) {
            let mut body = json!({
                "action": "invite",
                "recipient_email": "ada@x.test",
                "email_or_login": "ada",
                "subject_id": "7",
                "secret": "00".repeat(32),
                "binding": "00".repeat(16),
                "token": "1",
            });
            body.as_object_mut().context("an object")?.retain(|name, _| members.contains_key(name));
            body[member] = json!([[]]);
            let answer = serve.post(path, &body.to_string())?;
            let detail = answer.body["detail"].as_str().unwrap_or_default();
            assert!(detail.starts_with(&format!("`{member}` must be ")), "{path}: {detail}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_a_function_of_the_application_raises_is_in_no_answer_and_no_log() -> Result<()> {
    let database = Database::migrated()?;
    let client = database.connect().await?;
    let serve = Serve::start(database.url())?;
    for (sqlstate, status, code) in [
        ("P0001", 500, "MAILROOM_SETUP"),
        ("ZZ123", 500, "MAILROOM_SETUP"),
        ("42501", 500, "MAILROOM_SETUP"),
        ("22023", 400, "22023"),
        ("23505", 409, "23505"),
        ("40001", 503, "MAILROOM_AWAY"),
        ("57014", 503, "MAILROOM_AWAY"),
        ("25006", 503, "MAILROOM_AWAY"),
        ("08006", 504, "MAILROOM_UNKNOWN"),
    ] {
        let token = enqueue(&serve, "invite", "7")?;
        let (secret, _) = queued(&client, &token).await?;
        let raising = format!(
            "CREATE OR REPLACE FUNCTION nobody(subject_ids text[], is_redemption boolean)
            RETURNS TABLE (subject_id text, email text, name text)
            LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
            $$ BEGIN
                RAISE EXCEPTION 'mailroom has no row for ada@x.test' USING ERRCODE = '{sqlstate}';
            END $$;
            UPDATE mailroom.actions SET eligibility = 'public.nobody(text[], boolean)'
                WHERE name = 'invite'"
        );
        client.batch_execute(&raising).await?;
        let answer = serve.redeem_once("invite", &secret)?;
        assert_eq!((answer.status, answer.code()), (status, code), "{sqlstate}: {answer:?}");
        assert!(!answer.body.to_string().contains("x.test"), "{answer:?}");
        if !matches!(status, 400 | 409) {
            let said = format!("(SQLSTATE {sqlstate})");
            serve.program.wait_for_log(&said, 1)?;
        }
        let none = "UPDATE mailroom.actions SET eligibility = NULL WHERE name = 'invite'";
        client.batch_execute(none).await?;
    }
    let log = serve.program.stop()?;
    assert!(log.contains("redeem: a function of the application has raised an error"), "{log}");
    assert!(!log.contains("x.test"), "{log}");
    Ok(())
}

#[tokio::test]
async fn what_the_database_refuses_says_why_and_repeats_nothing() -> Result<()> {
    let database = Database::migrated()?;
    let serve = Serve::start(database.url())?;
    let mail =
        |more: &str| format!("{{\"action\":\"notice\",\"recipient_email\":\"ada@x.test\"{more}}}");
    let deep = format!(",\"payload\":{}{}", "[".repeat(110), "]".repeat(110));
    for (body, code, said) in [
        (mail("").replace("ada@x.test", "hunter2"), "22023", "recipient_email is not an address"),
        (mail("").replace("notice", "hunter2"), "22023", "no such action"),
        (mail(",\"recipient_name\":\"hunter2\\u0000\""), "22021", "refuses a value"),
        (mail(",\"payload\":\"hunter2\\u0000\""), "22P05", "refuses a value"),
        (mail(",\"deliver_at\":\"2030-02-31T00:00:00Z\""), "22008", "refuses a value"),
        (mail(",\"deliver_at\":\"2999-01-01T00:00:00Z\""), "22023", "more than a year"),
        (mail(&deep), "22023", "100 levels"),
    ] {
        let answer = serve.post("/v1/enqueue", &body)?;
        let detail = answer.body["detail"].as_str().unwrap_or_default();
        assert_eq!((answer.status, answer.code()), (400, code), "{body}: {answer:?}");
        assert!(detail.contains(said) && !detail.contains("hunter2"), "{detail}");
    }
    let log = serve.program.stop()?;
    assert!(!log.contains("hunter2"), "{log}");
    Ok(())
}
