//! A bound link is used by one click in its browser, and by a code in another one.

use anyhow::Result;
use mailroom_tests::application::{Application, Redemption};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::hex::hexadecimal;
use mailroom_tests::postgres::Database;

use super::{
    NONCE, OTHER_NONCE, binding, count, elsewhere, enqueue_bound, mailed, other_than, product,
    redeem, refused, shown,
};

#[tokio::test]
async fn in_the_bound_browser_one_click_is_enough() -> Result<()> {
    let (_database, client) = product().await?;
    let (_, secret) = enqueue_bound(&client, "invite", "7").await?;
    // Nothing covers a code there.
    assert_eq!(redeem(&client, &secret, "invite", Some("12345"), Some(true)).await?, "wrong_code");
    assert_eq!(redeem(&client, &secret, "invite", None, Some(true)).await?, "ok");
    assert_eq!(redeem(&client, &secret, "invite", None, Some(true)).await?, "used");
    Ok(())
}

#[tokio::test]
async fn in_another_browser_only_the_digits_of_the_bound_one_help() -> Result<()> {
    let (_database, client) = product().await?;
    let (_, secret) = enqueue_bound(&client, "invite", "7").await?;
    // Whoever says nothing of the browser has not proven it.
    for is_proven in [None, Some(false)] {
        assert_eq!(redeem(&client, &secret, "invite", None, is_proven).await?, "wrong_code");
    }
    let query = "SELECT verdict::text FROM mailroom.redeem($1, 'invite')";
    assert_eq!(client.query_one(query, &[&secret]).await?.get::<_, &str>(0), "wrong_code");
    // The browser shows none yet, so that none can be right.
    assert_eq!(
        elsewhere(&client, &secret, "invite", None, Some("00000")).await?,
        "too_many_attempts"
    );

    let code = shown(&client, &binding(NONCE)).await?;
    let others = shown(&client, &binding(OTHER_NONCE)).await?;
    let wrong = if others == code { other_than(&code) } else { others };
    for wrong in [&*wrong, "", &code[1..], &format!("{code}0")] {
        assert_eq!(
            elsewhere(&client, &secret, "invite", None, Some(wrong)).await?,
            "wrong_code",
            "{wrong}"
        );
    }
    // As a code of the mail, which has none, they are not looked at.
    assert_eq!(redeem(&client, &secret, "invite", Some(&code), None).await?, "wrong_code");
    assert_eq!(elsewhere(&client, &secret, "activate", None, Some(&code)).await?, "unknown");
    assert_eq!(elsewhere(&client, &secret, "invite", None, Some(&code)).await?, "ok");
    assert_eq!(elsewhere(&client, &secret, "invite", None, Some(&code)).await?, "used");
    Ok(())
}

#[tokio::test]
async fn the_digits_are_in_no_row_of_the_queue() -> Result<()> {
    let (_database, client) = product().await?;
    let (token, _) = enqueue_bound(&client, "invite", "7").await?;
    shown(&client, &binding(NONCE)).await?;
    let without_code = format!(
        "mailroom.queue JOIN mailroom.issued_tokens ON id = token WHERE token = {token} AND code \
         IS NULL AND code_hash IS NULL"
    );
    assert_eq!(count(&client, &without_code).await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_action_with_a_code_needs_that_of_its_mail_in_its_browser() -> Result<()> {
    let (_database, client) = product().await?;
    let (token, secret) = enqueue_bound(&client, "sign_in", "7").await?;
    let code = mailed(&client, token).await?;
    let shown = shown(&client, &binding(NONCE)).await?;
    for wrong in [None, Some(other_than(&code)), Some(shown)] {
        let verdict = redeem(&client, &secret, "sign_in", wrong.as_deref(), Some(true)).await?;
        assert_eq!(verdict, "wrong_code");
    }
    assert_eq!(redeem(&client, &secret, "sign_in", Some(&code), Some(true)).await?, "ok");
    Ok(())
}

/// Who reads the mail has the link and its code, and must not get in with these alone.
#[tokio::test]
async fn in_another_browser_an_action_with_a_code_needs_that_and_the_digits_of_the_bound_one()
-> Result<()> {
    let (_database, client) = product().await?;
    let (token, secret) = enqueue_bound(&client, "recover", "7").await?;
    let code = mailed(&client, token).await?;
    let digits = shown(&client, &binding(NONCE)).await?;
    let attempts = format!("mailroom.code_attempts WHERE token = {token} AND is_other_browser");
    // A scanner that enters one of them, or none, takes no try away.
    for (code, digits) in [(None, None), (Some(&*code), None), (None, Some(&*digits))] {
        assert_eq!(elsewhere(&client, &secret, "recover", code, digits).await?, "wrong_code");
    }
    assert_eq!(count(&client, &attempts).await?, 0);
    // One verdict and one try for both: nobody learns which of them was wrong.
    let (no_code, no_digits) = (other_than(&code), other_than(&digits));
    for (code, digits) in
        [(&code, &no_digits), (&no_code, &digits), (&no_code, &no_digits), (&digits, &code)]
    {
        assert_eq!(
            elsewhere(&client, &secret, "recover", Some(code), Some(digits)).await?,
            "wrong_code"
        );
    }
    assert_eq!(count(&client, &attempts).await?, 4);
    assert_eq!(elsewhere(&client, &secret, "recover", Some(&code), Some(&digits)).await?, "ok");
    assert_eq!(elsewhere(&client, &secret, "recover", Some(&code), Some(&digits)).await?, "used");
    Ok(())
}

#[tokio::test]
async fn a_link_that_is_not_bound_takes_no_notice_of_the_browser() -> Result<()> {
    let (_database, client) = product().await?;
    for is_proven in [None, Some(false), Some(true)] {
        let token = client.mail("invite").enqueue().await?;
        let row = client
            .query_one("SELECT secret FROM mailroom.queue WHERE token = $1", &[&token])
            .await?;
        let secret: Vec<u8> = row.get(0);
        assert_eq!(
            redeem(&client, &secret, "invite", Some("12345"), is_proven).await?,
            "wrong_code"
        );
        assert_eq!(redeem(&client, &secret, "invite", None, is_proven).await?, "ok");
    }
    Ok(())
}

#[tokio::test]
async fn a_bound_registration_is_activated_by_redeeming_and_by_no_update_of_an_application()
-> Result<()> {
    let database = Database::migrated()?;
    let application = Application::connect(&database).await?;
    let client = &application.client;
    let setting = hexadecimal(&binding(NONCE));
    client.batch_execute(&format!("BEGIN; SET LOCAL mailroom.binding = '{setting}'")).await?;
    let account = application.register("ada").await?;
    client.batch_execute("COMMIT").await?;
    let token = application.newest_token(account, "activation").await?;
    let update = "UPDATE tokens SET consumed_at = 1 WHERE secret = $1 AND consumed_at IS NULL";
    assert_eq!(client.execute(update, &[&token.secret]).await?, 0);
    assert_eq!(
        application.redeem(&token.secret, "activation", None).await?,
        Redemption::refused("wrong_code")
    );
    assert_eq!(application.status(account).await?, "provisioned");

    assert_eq!(redeem(client, &token.secret, "activate", None, Some(true)).await?, "ok");
    assert!(application.is_used(token.id).await?);
    assert_eq!(application.status(account).await?, "active");
    Ok(())
}

#[tokio::test]
async fn an_application_needs_no_right_on_what_a_browser_shows() -> Result<()> {
    let (database, client) = product().await?;
    let role = format!("{}_browser", database.name());
    let application = database.connect().await?;
    client.batch_execute(&format!("CREATE ROLE {role}")).await?;
    application.batch_execute(&format!("SET ROLE {role}")).await?;
    assert!(shown(&application, &binding(NONCE)).await.is_err(), "it was not granted");
    client
        .batch_execute(&format!("GRANT EXECUTE ON FUNCTION mailroom.browser_code TO {role}"))
        .await?;
    shown(&application, &binding(NONCE)).await?;
    refused(&application, "SELECT code FROM mailroom.browser_codes").await?;
    drop(application);
    client.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    Ok(())
}
