//! Tokens that the application ends.

use std::time::Duration;

use anyhow::Result;
use mailroom::queue::{Nack, Queue, Settlement};
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::rows::wait_for;
use mailroom_verifier_core::Version;
use tokio_postgres::Client;

use super::{claim, clock, count, give_up, ids, number, product, queue, redeem, send, state};

/// Uses the token with this secret.
const USE: &str = "SELECT verdict::text FROM mailroom.redeem($1, 'activate')";

/// Cancels the tokens of the subject of the token with this secret.
const CANCEL: &str = "SELECT mailroom.cancel_subject(subject_id)::text FROM mailroom.issued_tokens
    WHERE consumed_id = mailroom.consumed_id($1)";

#[tokio::test]
async fn a_cancelled_token_is_not_sent_and_its_link_is_no_longer_good() -> Result<()> {
    let (database, client) = product().await?;
    let mut collector = queue(&database, Version::V2).await?;
    let waiting = client.mail("invite").enqueue().await?;
    let later = client.mail("invite").deliver_in(Duration::from_secs(86_400)).enqueue().await?;
    for token in [waiting, later] {
        assert_eq!(number(&client, &format!("SELECT mailroom.cancel({token})::int")).await?, 1);
        assert_eq!(number(&client, &format!("SELECT mailroom.cancel({token})::int")).await?, 0);
        assert_eq!(state(&client, token).await?, "cancelled");
    }
    assert!(send(&mut collector).await?.is_empty());

    let sent = client.mail("invite").enqueue().await?;
    let token = send(&mut collector).await?.remove(0);
    assert_eq!(number(&client, &format!("SELECT mailroom.cancel({sent})::int")).await?, 1);
    assert_eq!(redeem(&client, &token, "invite", None).await?, "expired");
    assert_eq!(state(&client, sent).await?, "sent");
    for nobody in ["0", "-1", "9223372036854775807", "NULL"] {
        assert_eq!(
            number(&client, &format!("SELECT mailroom.cancel({nobody})::int")).await?,
            0,
            "{nobody}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn what_is_cancelled_while_a_collector_has_it_does_not_come_back() -> Result<()> {
    let (database, client) = product().await?;
    clock::stop(&client).await?;
    let mut collector = queue(&database, Version::V2).await?;
    let (refused, dead) = (
        client.mail("invite").enqueue().await?,
        client.mail("invite").to("eve@example.test").enqueue().await?,
    );
    let Some(batch) = claim(&mut collector).await? else { panic!("nothing is due") };
    client.batch_execute("SELECT mailroom.cancel(id) FROM mailroom.issued_tokens").await?;
    let nacks = vec![
        (refused, Nack::Retry { reason: "later".to_owned(), after: None }),
        (dead, Nack::Dead { reason: "never".to_owned() }),
    ];
    collector.settle_and_claim(vec![Settlement::of(batch.id, nacks)], None).await?;
    assert_eq!(count(&client, "mailroom.dead_letters WHERE secret IS NOT NULL").await?, 0);
    clock::forward(&client, Duration::from_secs(5)).await?;
    assert!(send(&mut collector).await?.is_empty());
    assert_eq!(count(&client, "mailroom.queue").await?, 0);
    Ok(())
}

#[tokio::test]
async fn cancelling_a_subject_ends_all_its_tokens_or_those_that_prove_its_address() -> Result<()> {
    let (database, client) = product().await?;
    let mut collector = queue(&database, Version::V2).await?;
    let mut enqueue_all = Vec::new();
    for (action, subject) in
        [("activate", "7"), ("recover", "7"), ("sign_in", "7"), ("invite", "7"), ("activate", "8")]
    {
        enqueue_all.push(client.mail(action).subject(subject).enqueue().await?);
    }
    let anybody = client.mail("notice").enqueue().await?;
    for nobody in ["'9'", "''", "NULL", "repeat('7', 1000000)", "'7'' OR true'"] {
        assert_eq!(number(&client, &format!("SELECT mailroom.cancel_subject({nobody})")).await?, 0);
    }
    assert_eq!(number(&client, "SELECT mailroom.cancel_subject('7', true)").await?, 3);
    assert_eq!(number(&client, "SELECT mailroom.cancel_subject('7', true)").await?, 0);
    assert_eq!(number(&client, "SELECT mailroom.cancel_subject('7')").await?, 1);
    let mut sent = ids(&send(&mut collector).await?);
    sent.sort_unstable();
    assert_eq!(sent, [enqueue_all[4], anybody]);
    assert_eq!(number(&client, "SELECT mailroom.cancel_subject('8', true)").await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_change_of_address_that_is_open_ends_with_a_recovery_and_with_another_change()
-> Result<()> {
    let (_database, client) = product().await?;
    let made = async |action: &str, subject: &str| -> Result<(i64, Vec<u8>, Option<String>)> {
        let mail = client.mail(action).to(format!("{action}@example.test")).subject(subject);
        let token = mail.enqueue().await?;
        let query = "SELECT secret, code::text FROM mailroom.queue WHERE token = $1";
        let row = client.query_one(query, &[&token]).await?;
        Ok((token, row.get(0), row.get(1)))
    };
    let used = async |link: &(i64, Vec<u8>, Option<String>), action: &str| -> Result<String> {
        let query = "SELECT verdict::text FROM mailroom.redeem($1, $2, $3)";
        Ok(client.query_one(query, &[&link.1, &action, &link.2]).await?.get(0))
    };

    // Whoever knew the password has asked for an address of their own.
    let (theirs, other) = (made("change_email", "7").await?, made("change_email", "8").await?);
    assert_eq!(used(&made("recover", "7").await?, "recover").await?, "ok");
    assert_eq!(state(&client, theirs.0).await?, "cancelled");
    assert_eq!(used(&theirs, "change_email").await?, "expired");
    assert_eq!(used(&other, "change_email").await?, "ok");

    // An activation proves the address and takes nothing from anybody.
    let own = made("change_email", "9").await?;
    assert_eq!(used(&made("activate", "9").await?, "activate").await?, "ok");
    assert_eq!(used(&own, "change_email").await?, "ok");

    // As triggers and applications do when an address has changed.
    let mistyped = made("change_email", "10").await?;
    assert_eq!(used(&made("change_email", "10").await?, "change_email").await?, "ok");
    assert_eq!(number(&client, "SELECT mailroom.cancel_subject('10', true)").await?, 1);
    assert_eq!(used(&mistyped, "change_email").await?, "expired");
    Ok(())
}

/// A dead letter whose time is over gets a new token, whose link works.
#[tokio::test]
async fn no_new_link_is_made_of_what_ended_before_it_was_put_back() -> Result<()> {
    let recovery = "SELECT mailroom.redeem(secret, 'recover', code)::text
        FROM mailroom.queue JOIN mailroom.issued_tokens ON id = token
        WHERE recipient_email = 'owner@example.test'";
    for (how, action) in [
        (recovery, "change_email"),
        ("SELECT mailroom.cancel_subject('7')::text", "invite"),
        ("SELECT mailroom.cancel_subject('7', true)::text", "change_email"),
        ("SELECT mailroom.cancel(min(id))::text FROM mailroom.issued_tokens", "invite"),
    ] {
        for is_ended in [true, false] {
            let (database, client) = product().await?;
            let mut collector = queue(&database, Version::V2).await?;
            let mail = client.mail(action).to("eve@example.test").subject(7);
            let token = mail.enqueue().await?;
            assert_eq!(ids(&give_up(&mut collector).await?), [token], "{how}");
            let over = "UPDATE mailroom.issued_tokens SET expires_at = expires_at - 864000,
                    created_at = created_at - 864000;
                UPDATE mailroom.dead_letters SET expires_at = expires_at - 864000";
            client.batch_execute(over).await?;
            if is_ended {
                let owner = client.mail("recover").to("owner@example.test").subject(7);
                owner.enqueue().await?;
                client.query_one(how, &[]).await?;
            }
            client.batch_execute("SELECT mailroom.retry_all()").await?;
            let sent = send(&mut collector).await?;
            let to_eve = sent.iter().filter(|token| token.email == b"eve@example.test").count();
            assert_eq!(to_eve, usize::from(!is_ended), "{how}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_cancellation_that_is_rolled_back_cancels_nothing() -> Result<()> {
    let (database, client) = product().await?;
    let token = client.mail("invite").subject("7").payload("1").enqueue().await?;
    client.batch_execute("BEGIN; SELECT mailroom.cancel_subject('7'); ROLLBACK").await?;
    let sent = send(&mut queue(&database, Version::V2).await?).await?;
    assert_eq!((ids(&sent), sent[0].payload.is_some()), (vec![token], true));
    Ok(())
}

#[tokio::test]
async fn two_calls_for_the_tokens_of_one_subject_lock_them_in_the_same_order() -> Result<()> {
    let (database, client) = product().await?;
    let mut holder = database.connect().await?;
    for (subject, held_first) in [("early", true), ("late", false)] {
        for other in [USE, CANCEL] {
            let tokens = client.mail("activate").subject(subject).enqueue_times(2).await?;
            let held = tokens[usize::from(!held_first)];
            let free = tokens[usize::from(held_first)];
            let secret = async |token: i64| -> Result<Vec<u8>> {
                let query = "SELECT secret FROM mailroom.queue WHERE token = $1";
                Ok(client.query_one(query, &[&token]).await?.get(0))
            };
            let (of_held, of_free) = (secret(held).await?, secret(free).await?);
            let holding = holder.transaction().await?;
            let lock = "SELECT FROM mailroom.issued_tokens WHERE id = $1 FOR UPDATE";
            holding.query(lock, &[&held]).await?;
            let first = database.connect().await?;
            let first = tokio::spawn(async move {
                first.query_one(USE, &[&of_held]).await.map(|row| row.get::<_, String>(0))
            });
            waiting(&client, 1).await?;
            let second = database.connect().await?;
            let second = tokio::spawn(async move {
                second.query_one(other, &[&of_free]).await.map(|row| row.get::<_, String>(0))
            });
            waiting(&client, 2).await?;
            holding.commit().await?;
            let answers = [first.await??, second.await??];
            let expected = if other == CANCEL { ["ok", "0"] } else { ["ok", "used"] };
            assert_eq!(answers, expected, "{subject}, {other}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_change_of_address_has_the_others_locked_that_it_ends() -> Result<()> {
    let (database, client) = product().await?;
    client.mail("recover").to("old@example.test").subject("7").enqueue().await?;
    let token = client.mail("change_email").to("new@example.test").subject("7").enqueue().await?;
    let mut application = database.connect().await?;
    let changing = application.transaction().await?;
    let redeem = "SELECT verdict::text FROM mailroom.queue,
        mailroom.redeem(secret, 'change_email') WHERE queue.token = $1";
    assert_eq!(changing.query_one(redeem, &[&token]).await?.get::<_, String>(0), "ok");
    let other = database.connect().await?;
    let cancelling =
        tokio::spawn(
            async move { other.query_one("SELECT mailroom.cancel_subject('7')", &[]).await },
        );
    waiting(&client, 1).await?;
    // What the trigger of a changed address does.
    let ended = changing.query_one("SELECT mailroom.cancel_subject('7', true)", &[]).await?;
    assert_eq!(ended.get::<_, i32>(0), 1);
    changing.commit().await?;
    assert_eq!(cancelling.await??.get::<_, i32>(0), 0);
    Ok(())
}

/// Waits until so many sessions wait for a lock.
async fn waiting(client: &Client, sessions: i64) -> Result<()> {
    let query = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    wait_for(client, query, sessions).await
}
