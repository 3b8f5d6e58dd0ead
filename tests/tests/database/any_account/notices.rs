//! Notices: mails that say what has happened, in the transaction in which it happens.

use anyhow::{Context, Result};
use mailroom_tests::fixtures::{Fixtures, NewMail};
use mailroom_verifier_core::Version;
use tokio::task::JoinSet;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::{count, number, product, queue, refused, send};

/// A link that was mailed.
struct Link {
    secret: Vec<u8>,
    code: Option<String>,
}

impl Link {
    /// The link of a token that waits.
    async fn of(client: &Client, token: i64) -> Result<Self> {
        let query = "SELECT secret, code FROM mailroom.queue WHERE token = $1";
        let row = client.query_one(query, &[&token]).await?;
        Ok(Self { secret: row.get(0), code: row.get(1) })
    }

    async fn made(client: &Client, mail: NewMail<'_>) -> Result<Self> {
        Self::of(client, mail.enqueue().await?).await
    }

    fn wrong_code(&self) -> Option<String> {
        let digits = |digit| if digit == '9' { '0' } else { '9' };
        self.code.as_deref().map(|code| code.chars().map(digits).collect())
    }

    async fn enter(&self, client: &Client, action: &str, code: Option<&str>) -> Result<String> {
        let query = "SELECT verdict::text FROM mailroom.redeem($1, $2, $3)";
        Ok(client.query_one(query, &[&self.secret, &action, &code]).await?.get(0))
    }

    async fn redeem(&self, client: &Client, action: &str) -> Result<String> {
        self.enter(client, action, self.code.as_deref()).await
    }
}

fn recovery(client: &Client) -> NewMail<'_> {
    client.mail("recover").name("Ada").subject(7).language("de")
}

/// A change of the address of a subject.
fn change(client: &Client) -> NewMail<'_> {
    client.mail("change_email").to("new@example.test").subject(7)
}

/// Whom notices go to, and what about, in their order.
async fn notices(client: &Client) -> Result<Vec<String>> {
    let query = "SELECT recipient_email || ' ' || (payload ->> 'about')
        FROM mailroom.issued_tokens AS tokens JOIN mailroom.payloads ON token = tokens.id
        JOIN mailroom.actions ON number = action
        WHERE name = 'notice' ORDER BY tokens.id";
    Ok(client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect())
}

#[tokio::test]
async fn a_used_recovery_is_told_once_and_only_if_it_was_used() -> Result<()> {
    let (database, client) = product().await?;
    let link = Link::made(&client, recovery(&client)).await?;
    let second = Link::made(&client, recovery(&client)).await?;
    assert_eq!(link.enter(&client, "recover", link.wrong_code().as_deref()).await?, "wrong_code");
    assert_eq!(link.enter(&client, "activate", None).await?, "unknown");
    client.batch_execute("BEGIN").await?;
    assert_eq!(link.redeem(&client, "recover").await?, "ok");
    assert_eq!(notices(&client).await?, ["ada@example.test recovered"]);
    client.batch_execute("ROLLBACK").await?;
    assert!(notices(&client).await?.is_empty(), "nothing was used");

    assert_eq!(link.redeem(&client, "recover").await?, "ok");
    for link in [&link, &second] {
        assert_eq!(link.redeem(&client, "recover").await?, "used");
    }
    assert_eq!(notices(&client).await?, ["ada@example.test recovered"]);
    let sent = send(&mut queue(&database, Version::V2).await?).await?;
    let [sent] = &sent[..] else { panic!("{} mails", sent.len()) };
    assert_eq!((sent.action.name(), sent.action.path()), ("notice", ""));
    assert_eq!((&sent.email[..], &sent.login[..]), (&b"ada@example.test"[..], &b"Ada"[..]));
    assert_eq!(sent.language.as_deref(), Some("de"));
    assert_eq!(sent.payload.as_deref(), Some(&br#"{"about": "recovered"}"#[..]));

    // Whoever signs in by a link every day is not told so every day.
    let link = Link::made(&client, client.mail("sign_in").subject(7)).await?;
    assert_eq!(link.redeem(&client, "sign_in").await?, "ok");
    assert!(notices(&client).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_changed_address_is_told_to_the_one_that_the_application_names() -> Result<()> {
    let (_database, client) = product().await?;
    let link = Link::made(&client, change(&client)).await?;
    assert_eq!(link.redeem(&client, "change_email").await?, "ok");
    assert!(notices(&client).await?.is_empty(), "nobody tells a new address of itself");

    let link = Link::made(&client, change(&client).notice_to("Old@example.test")).await?;
    assert_eq!(link.redeem(&client, "change_email").await?, "ok");
    assert_eq!(notices(&client).await?, ["Old@example.test email_changed"]);

    let (code, message) = refused(
        &client,
        "SELECT mailroom.enqueue('change_email', 'a@x.test', notice_recipient => 'b x@y')",
    )
    .await?;
    assert_eq!(code, SqlState::INVALID_PARAMETER_VALUE);
    assert!(message.contains("notice_recipient is not an address") && !message.contains("b x@y"));
    // It is one of the arguments that a key stands for.
    let keyed = |other: &str| change(&client).key("k").notice_to(other);
    keyed("Old@example.test").enqueue().await?;
    let error = keyed("other@example.test").enqueue().await.expect_err("the key is known");
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
    Ok(())
}

#[tokio::test]
async fn a_hundred_wrong_codes_are_told_once_a_day() -> Result<()> {
    let (_database, client) = product().await?;
    let told = "7@example.test wrong_codes";
    let mail = client.mail("sign_in").to("7@example.test").subject(7);
    let set = "INSERT INTO mailroom.code_failures (subject, failures, rests_until)
        VALUES ('7', 98, 0)";
    client.batch_execute(set).await?;
    let link = Link::made(&client, mail.clone()).await?;
    let wrong = link.wrong_code();
    assert_eq!(link.enter(&client, "sign_in", wrong.as_deref()).await?, "wrong_code");
    assert!(notices(&client).await?.is_empty(), "the 99th");
    client.batch_execute("BEGIN").await?;
    assert_eq!(link.enter(&client, "sign_in", wrong.as_deref()).await?, "wrong_code");
    assert_eq!(notices(&client).await?, [told]);
    client.batch_execute("ROLLBACK").await?;
    assert!(notices(&client).await?.is_empty(), "it was taken back");
    assert_eq!(link.enter(&client, "sign_in", wrong.as_deref()).await?, "wrong_code");
    assert_eq!(link.redeem(&client, "sign_in").await?, "too_many_attempts");
    assert_eq!(notices(&client).await?, [told]);

    // The subject rests no more, and goes on.
    let rested = "UPDATE mailroom.code_failures SET rests_until = 0";
    client.batch_execute(rested).await?;
    assert_eq!(link.enter(&client, "sign_in", wrong.as_deref()).await?, "wrong_code");
    client.batch_execute(rested).await?;
    assert_eq!(link.redeem(&client, "sign_in").await?, "ok");
    assert_eq!(number(&client, "SELECT failures FROM mailroom.code_failures").await?, 0);
    client.batch_execute("UPDATE mailroom.code_failures SET failures = 99").await?;
    let link = Link::made(&client, mail).await?;
    let wrong = link.wrong_code();
    assert_eq!(link.enter(&client, "sign_in", wrong.as_deref()).await?, "wrong_code");
    assert_eq!(notices(&client).await?, [told], "a right code begins no new day");

    client
        .batch_execute(
            "UPDATE mailroom.code_failures SET rests_until = 0, noticed_at = noticed_at - 86401",
        )
        .await?;
    assert_eq!(link.enter(&client, "sign_in", wrong.as_deref()).await?, "wrong_code");
    assert_eq!(notices(&client).await?, [told, told]);

    // A day later a right code leaves nothing.
    client
        .batch_execute(
            "UPDATE mailroom.code_failures SET rests_until = 0, noticed_at = noticed_at - 86401",
        )
        .await?;
    assert_eq!(link.redeem(&client, "sign_in").await?, "ok");
    assert_eq!(count(&client, "mailroom.code_failures").await?, 0);
    Ok(())
}

#[tokio::test]
async fn wrong_codes_in_two_browsers_are_told_once() -> Result<()> {
    let (database, client) = product().await?;
    let set =
        "INSERT INTO mailroom.code_failures (subject, is_other_browser, failures, rests_until)
        VALUES ('7', false, 99, 0), ('7', true, 99, 0);
        SELECT mailroom.browser_code(decode(repeat('07', 16), 'hex'))";
    client.batch_execute(set).await?;
    let mail = client.mail("sign_in").subject(7).bound_to([7; 16]);
    let mut guesses = Vec::new();
    for (proven, digits) in [(true, None), (false, Some("x"))] {
        let link = Link::made(&client, mail.clone()).await?;
        let other = database.connect().await?;
        guesses.push(tokio::spawn(async move {
            let query = "SELECT verdict::text FROM mailroom.redeem($1, 'sign_in', $2, $3, $4)";
            let code = link.wrong_code();
            let row = other.query_one(query, &[&link.secret, &code, &proven, &digits]).await?;
            anyhow::Ok(row.get::<_, String>(0))
        }));
    }
    for guess in guesses {
        assert_eq!(guess.await??, "wrong_code");
    }
    assert_eq!(notices(&client).await?, ["ada@example.test wrong_codes"]);
    Ok(())
}

/// Redeems a link in a transaction of an isolation level; `failed` where it cannot be serialized.
async fn redeem_in(client: &Client, level: &str, secret: &[u8], code: &str) -> Result<String> {
    client
        .batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT FROM mailroom.actions"))
        .await?;
    let query = "SELECT verdict::text FROM mailroom.redeem($1, 'recover', $2)";
    let answer = client.query_one(query, &[&secret, &code]).await;
    let verdict = match answer {
        Ok(row) => row.get(0),
        Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {
            client.batch_execute("ROLLBACK").await?;
            return Ok("failed".to_owned());
        }
        Err(error) => return Err(error.into()),
    };
    match client.batch_execute("COMMIT").await {
        Err(error) if error.code() != Some(&SqlState::T_R_SERIALIZATION_FAILURE) => {
            Err(error.into())
        }
        Err(_) => Ok("failed".to_owned()),
        Ok(()) => Ok(verdict),
    }
}

#[tokio::test]
async fn of_redemptions_at_once_one_is_told_at_every_isolation_level() -> Result<()> {
    let (database, client) = product().await?;
    for (nth, level) in
        (1..).zip(["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "SERIALIZABLE"])
    {
        let link = Link::made(&client, recovery(&client)).await?;
        let code = link.code.clone().context("it has a code")?;
        let mut calls = JoinSet::new();
        for _ in 0..10 {
            let (client, secret, code) =
                (database.connect().await?, link.secret.clone(), code.clone());
            calls.spawn(async move { redeem_in(&client, level, &secret, &code).await });
        }
        let verdicts = calls.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
        let ok = verdicts.iter().filter(|verdict| *verdict == "ok").count();
        assert!(ok <= 1, "{level}: {verdicts:?}");
        if ok == 0 {
            // Where all of them stood in each other's way the application tries again.
            assert_eq!(redeem_in(&client, level, &link.secret, &code).await?, "ok");
        }
        assert_eq!(notices(&client).await?.len(), nth, "{level}: {verdicts:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_session_leaves_neither_the_use_nor_its_notice() -> Result<()> {
    let (database, client) = product().await?;
    let link = Link::made(&client, recovery(&client)).await?;
    let killed = database.connect().await?;
    killed.batch_execute("BEGIN").await?;
    assert_eq!(link.redeem(&killed, "recover").await?, "ok");
    let pid: i32 = killed.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    client.execute("SELECT pg_terminate_backend($1, 60000)", &[&pid]).await?;
    assert!(notices(&client).await?.is_empty());
    assert_eq!(link.redeem(&client, "recover").await?, "ok");
    assert_eq!(notices(&client).await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn one_update_ends_notices_and_what_cannot_be_one_is_refused() -> Result<()> {
    let (_database, client) = product().await?;
    let refused_notices = [
        ("notice = 'activate'", "the notice of the action recover is not an action without a path"),
        ("code_notice = 'other'", "is not an action without a path"),
    ];
    for (set, expected) in refused_notices {
        let update = format!("UPDATE mailroom.actions SET {set} WHERE name = 'recover'");
        let (code, message) = refused(&client, &update).await?;
        assert_eq!(code, SqlState::INVALID_PARAMETER_VALUE);
        assert!(message.contains(expected), "{message}");
    }
    for change in [
        "UPDATE mailroom.actions SET path = '/n' WHERE name = 'notice'",
        "DELETE FROM mailroom.actions WHERE name = 'notice'",
    ] {
        let (_, message) = refused(&client, change).await?;
        assert!(message.ends_with("it is the notice of another action"), "{message}");
    }

    client.batch_execute("UPDATE mailroom.actions SET is_retired = true WHERE number = 6").await?;
    let link = Link::made(&client, recovery(&client)).await?;
    assert_eq!(link.redeem(&client, "recover").await?, "ok", "no notice keeps a link from its use");
    client
        .batch_execute(
            "UPDATE mailroom.actions SET is_retired = false WHERE number = 6;
            UPDATE mailroom.actions SET notice = NULL, code_notice = NULL",
        )
        .await?;
    let link = Link::made(&client, recovery(&client)).await?;
    assert_eq!(link.redeem(&client, "recover").await?, "ok");
    assert!(notices(&client).await?.is_empty());

    // An action of the application's own says its name.
    client
        .batch_execute(
            "INSERT INTO mailroom.actions (number, name, path, proves_address, notice)
            VALUES (100, 'close_account', '/close', true, 'notice')",
        )
        .await?;
    let link = Link::made(&client, client.mail("close_account")).await?;
    assert_eq!(link.redeem(&client, "close_account").await?, "ok");
    assert_eq!(notices(&client).await?, ["ada@example.test close_account"]);
    Ok(())
}

#[tokio::test]
async fn a_suppressed_address_gets_no_notice_and_a_forgotten_subject_none() -> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute("SELECT mailroom.suppress('old@example.test', 'manual')").await?;
    let link = Link::made(&client, change(&client).notice_to("old@example.test")).await?;
    assert_eq!(link.redeem(&client, "change_email").await?, "ok");
    let mut collector = queue(&database, Version::V2).await?;
    assert!(send(&mut collector).await?.is_empty());
    assert_eq!(count(&client, "mailroom.dead_letters WHERE is_suppressed").await?, 1);

    let link = Link::made(&client, change(&client).notice_to("other@example.test")).await?;
    let exported: String =
        client.query_one("SELECT mailroom.export_subject('7')::text", &[]).await?.get(0);
    assert!(exported.contains("\"notice_recipient\": \"other@example.test\""), "{exported}");
    assert_eq!(link.redeem(&client, "change_email").await?, "ok");
    client.batch_execute("SELECT mailroom.forget('7')").await?;
    assert!(send(&mut collector).await?.is_empty());
    for table in ["issued_tokens", "queue", "payloads", "dead_letters"] {
        assert_eq!(count(&client, &format!("mailroom.{table}")).await?, 0, "{table}");
    }
    Ok(())
}

#[tokio::test]
async fn whoever_may_redeem_needs_no_further_right_for_notices() -> Result<()> {
    let (database, client) = product().await?;
    let role = format!("app_{}", database.name().replace(|c: char| !c.is_alphanumeric(), "_"));
    client
        .batch_execute(&format!(
            "CREATE ROLE {role} LOGIN;
            GRANT EXECUTE ON FUNCTION mailroom.enqueue, mailroom.redeem TO {role}"
        ))
        .await?;
    let application = database.connect_as(&role).await?;
    let link = Link::of(&client, recovery(&application).enqueue().await?).await?;
    application
        .batch_execute("SET search_path = pg_temp; CREATE TEMPORARY TABLE actions (name text)")
        .await?;
    assert_eq!(link.redeem(&application, "recover").await?, "ok");
    let forged = "SELECT mailroom.notify('notice', 'a@x.test', 'a', '7', 'en', 'recovered')";
    assert_eq!(refused(&application, forged).await?.0, SqlState::INSUFFICIENT_PRIVILEGE);
    drop(application);
    assert_eq!(notices(&client).await?.len(), 1);
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    Ok(())
}
