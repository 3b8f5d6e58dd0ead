//! A mail is enqueued by a call in the application's own transaction.

use std::time::Duration;

use anyhow::Result;
use mailroom_tests::fixtures::Fixtures;
use mailroom_verifier_core::Version;

use super::{clock, count, enqueue, ids, number, product, queue, redeem, send, state};

#[tokio::test]
async fn a_mail_is_sent_if_the_callers_transaction_commits_and_only_then() -> Result<()> {
    let (database, client) = product().await?;
    client.batch_execute("CREATE TABLE teams (id uuid DEFAULT gen_random_uuid())").await?;
    let mut collector = queue(&database, Version::V2).await?;
    client.batch_execute("BEGIN; INSERT INTO teams DEFAULT VALUES").await?;
    client.mail("invite").payload("{}").key("k").enqueue().await?;
    client.batch_execute("ROLLBACK").await?;
    assert!(send(&mut collector).await?.is_empty());
    for table in ["issued_tokens", "queue", "payloads", "idempotency_keys", "delivery_attempts"] {
        assert_eq!(count(&client, &format!("mailroom.{table}")).await?, 0, "{table}");
    }

    client.batch_execute("BEGIN; INSERT INTO teams DEFAULT VALUES").await?;
    let subject = "subject_id => (SELECT id::text FROM teams)";
    let token =
        enqueue(&client, &format!("'invite', 'ada@example.test', 'Ada', {subject}")).await?;
    let other = database.connect().await?;
    assert_eq!(count(&other, "mailroom.queue").await?, 0);
    client.batch_execute("COMMIT").await?;
    assert_eq!(ids(&send(&mut collector).await?), [token]);
    assert_eq!(state(&client, token).await?, "sent");
    assert_eq!(
        count(&client, "mailroom.issued_tokens JOIN teams ON subject_id = teams.id::text").await?,
        1
    );
    Ok(())
}

#[tokio::test]
async fn the_collector_gets_what_was_given_and_its_token_can_be_used_once() -> Result<()> {
    let (database, client) = product().await?;
    let token = enqueue(
        &client,
        r#"action => 'invite', recipient_email => 'ada@example.test', recipient_name => 'Ada',
            subject_id => 'team 7', payload => '{"team": "Compilers"}', language => 'pt-BR'"#,
    )
    .await?;
    let sent = send(&mut queue(&database, Version::V2).await?).await?;
    let [sent] = &sent[..] else { panic!("{} tokens", sent.len()) };
    assert_eq!(
        (sent.id, sent.attempt, sent.action.name(), sent.action.path()),
        (token, 1, "invite", "/invite")
    );
    assert_eq!((&sent.email[..], &sent.login[..]), (&b"ada@example.test"[..], &b"Ada"[..]));
    assert_eq!((sent.language.as_deref(), &sent.code), (Some("pt-BR"), &None));
    assert_eq!(sent.payload.as_deref(), Some(&br#"{"team": "Compilers"}"#[..]));

    assert_eq!(redeem(&client, sent, "activate", None).await?, "unknown");
    let query = "SELECT verdict::text, token, subject_id FROM mailroom.redeem($1, 'invite')";
    let row = client.query_one(query, &[&sent.secret]).await?;
    let answer: (&str, i64, &str) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(answer, ("ok", token, "team 7"));
    assert_eq!(redeem(&client, sent, "invite", None).await?, "used");
    Ok(())
}

#[tokio::test]
async fn a_time_in_the_past_is_now_and_the_lifetime_begins_at_a_later_one() -> Result<()> {
    let (database, client) = product().await?;
    clock::stop(&client).await?;
    let now = clock::now(&client).await?;
    let at = |when: &str| {
        format!("'sign_in', 'ada@example.test', deliver_at => mailroom.clock() + interval '{when}'")
    };
    let mut tokens = Vec::new();
    for when in ["-100 years", "0", "1 day", "1 year"] {
        tokens.push(enqueue(&client, &at(when)).await?);
    }
    tokens
        .push(enqueue(&client, "'sign_in', 'ada@example.test', deliver_at => '-infinity'").await?);
    let lifetimes =
        "SELECT array_agg(expires_at ORDER BY id) FROM mailroom.issued_tokens WHERE id <> ALL ($1)";
    let expiries: Vec<i64> = client.query_one(lifetimes, &[&vec![tokens[3]]]).await?.get(0);
    assert_eq!(expiries, [now + 900, now + 900, now + 86_400 + 900, now + 900]);

    let mut collector = queue(&database, Version::V2).await?;
    let mut sent = ids(&send(&mut collector).await?);
    sent.sort_unstable();
    assert_eq!(sent, [tokens[0], tokens[1], tokens[4]]);
    clock::forward(&client, Duration::from_secs(86_399)).await?;
    // Also the sweep of a collector that comes leaves it where it is.
    let mut collector = queue(&database, Version::V2).await?;
    assert!(send(&mut collector).await?.is_empty());
    // Mails for one time are spread over the second that begins then.
    clock::forward(&client, Duration::from_secs(2)).await?;
    let sent = send(&mut collector).await?;
    assert_eq!(ids(&sent), [tokens[2]]);
    clock::forward(&client, Duration::from_secs(898)).await?;
    let code = sent[0].code.as_deref().map(String::from_utf8_lossy);
    assert_eq!(redeem(&client, &sent[0], "sign_in", code.as_deref()).await?, "ok");
    Ok(())
}

#[tokio::test]
async fn a_payload_has_8_kilobytes_at_most_and_is_gone_when_the_mail_is() -> Result<()> {
    let (database, client) = product().await?;
    // In its text form, with two quotes.
    let mail = |length: usize| client.mail("notice").payload(format!("\"{}\"", "x".repeat(length)));
    assert!(mail(8_191).enqueue().await.is_err());
    assert!(mail(1 << 20).enqueue().await.is_err());
    assert_eq!(count(&client, "mailroom.issued_tokens").await?, 0);
    for _ in 0..2 {
        mail(8_190).enqueue().await?;
    }
    assert_eq!(count(&client, "mailroom.payloads").await?, 2);
    let mut collector = queue(&database, Version::V2).await?;
    let sent = send(&mut collector).await?;
    assert_eq!(
        sent.iter().map(|token| token.payload.as_ref().map_or(0, Vec::len)).sum::<usize>(),
        2 * 8_192
    );
    assert_eq!(count(&client, "mailroom.payloads").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_payload_stays_while_its_mail_may_be_sent_and_goes_when_it_cannot() -> Result<()> {
    let (database, client) = product().await?;
    clock::stop(&client).await?;
    let mail = client.mail("notice").payload("1");
    let mut collector = queue(&database, Version::V2).await?;
    mail.clone().enqueue().await?;
    super::give_up(&mut collector).await?;
    assert_eq!(count(&client, "mailroom.payloads").await?, 1);
    client.batch_execute("SELECT mailroom.retry_all()").await?;
    assert_eq!(send(&mut collector).await?[0].payload.as_deref(), Some(&b"1"[..]));

    let cancelled = mail.clone().enqueue().await?;
    assert_eq!(number(&client, &format!("SELECT mailroom.cancel({cancelled})::int")).await?, 1);
    assert_eq!(count(&client, "mailroom.payloads").await?, 0);

    mail.enqueue().await?;
    clock::forward(&client, Duration::from_secs(86_400)).await?;
    assert!(send(&mut collector).await?.is_empty());
    assert_eq!(count(&client, "mailroom.payloads").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_dead_letter_that_has_expired_comes_back_as_a_new_token_unless_it_was_cancelled()
-> Result<()> {
    let (database, client) = product().await?;
    clock::stop(&client).await?;
    let mail = client
        .mail("invite")
        .name("Ada")
        .subject("member 7")
        .payload(r#"{"team": 1}"#)
        .language("de")
        .bound_to([0xb1; 16])
        .notice_to("old@example.test");
    let mut collector = queue(&database, Version::V2).await?;
    let old = mail.clone().enqueue().await?;
    super::give_up(&mut collector).await?;
    let cancelled = mail.enqueue().await?;
    super::give_up(&mut collector).await?;
    assert_eq!(number(&client, &format!("SELECT mailroom.cancel({cancelled})::int")).await?, 1);

    clock::forward(&client, Duration::from_secs(8 * 86_400)).await?;
    assert_eq!(count(&client, "mailroom.retry_all()").await?, 2);
    assert_eq!(count(&client, "mailroom.dead_letters").await?, 0);
    let sent = send(&mut collector).await?;
    assert!(sent.len() == 1 && sent[0].id > cancelled, "{sent:?}");
    assert_eq!(
        (sent[0].email.as_slice(), sent[0].language.as_deref()),
        (&b"ada@example.test"[..], Some("de"))
    );
    assert_eq!(sent[0].binding, Some(vec![0xb1; 16]));
    let told = "mailroom.issued_tokens WHERE notice_recipient = 'old@example.test'";
    assert_eq!(count(&client, told).await?, 3, "the old address is told of the new link, too");
    for (token, state) in [(old, "expired"), (cancelled, "cancelled")] {
        assert_eq!(
            count(
                &client,
                &format!("mailroom.deliveries WHERE token = {token} AND state = '{state}'")
            )
            .await?,
            1
        );
    }
    Ok(())
}
