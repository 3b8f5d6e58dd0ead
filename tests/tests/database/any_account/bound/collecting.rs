//! A bound row is signed for its browser, or not at all.

use std::time::Duration;

use anyhow::{Context, Result};
use mailroom::queue::{DeliveriesQueue, Nack, Queue, Settlement, Token};
use mailroom_tests::collector::KEY;
use mailroom_tests::fixtures::Fixtures;
use mailroom_verifier_core::{
    Action, Binding, Browser, Expected, KeyRing, Moment, UntrustedToken, VerifyError, VerifyingKey,
    Version,
};
use serde_json::Value;
use tokio_postgres::Client;

use super::{
    NONCE, OTHER_NONCE, binding, claim, clock, enqueue_bound, give_up, only_item, product, queue,
    redeem, send, start, state,
};

/// That of the collector's private key.
const PUBLIC_KEY: &str = "mrpk_A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";

const NOW: Moment = Moment::at(1_700_000_000);

fn ring(key: &str) -> Result<KeyRing> {
    Ok(KeyRing::of(VerifyingKey::parse(key).ok().context("the key of the tests is one")?))
}

fn text<'a>(item: &'a Value, field: &str) -> Result<&'a str> {
    item[field].as_str().with_context(|| field.to_owned())
}

#[tokio::test]
async fn a_bound_mail_is_verified_with_the_nonce_alone_and_redeemed_as_proven() -> Result<()> {
    for (format, key) in [("v2", KEY), ("v3", PUBLIC_KEY)] {
        let (database, client) = product().await?;
        let mut collector = start(&database, format)?;
        let lines = collector.lines()?;
        for (name, action) in [("activate", Action::Activate), ("recover", Action::Recover)] {
            client.mail(name).bound_to(binding(NONCE)).enqueue().await?;
            let item = only_item(&lines.next_line()?)?;
            let token = UntrustedToken::parse(text(&item, "token")?)?;
            let code = text(&item, "code")?;
            assert_eq!(
                code.len(),
                if name == "recover" { 5 } else { 0 },
                "no digits that a browser shows"
            );
            let ring = ring(key)?;
            let link = token.verify_link(&ring, action, NOW)?;
            let (here, elsewhere) = (Binding::of_nonce(NONCE), Binding::of_nonce(OTHER_NONCE));
            assert_eq!(link.browser(here.as_ref()), Browser::Same);
            assert_eq!(link.browser(elsewhere.as_ref()), Browser::Other);
            assert_eq!(link.browser(None), Browser::Other);

            // v3 covers no code.
            let covered = (name == "recover" && format == "v2").then_some(code.as_bytes());
            let expected = |binding| Expected { action, code: covered, binding };
            for visitor in [None, elsewhere.as_ref()] {
                let refused = token.verify(&ring, expected(visitor), NOW).err();
                assert_eq!(refused, Some(VerifyError::OtherBrowser), "{format} {name}");
            }
            let verified = token.verify(&ring, expected(here.as_ref()), NOW)?;
            let secret = verified.secret().as_bytes();
            let code = (name == "recover").then_some(code);
            assert_eq!(redeem(&client, secret, name, None, None).await?, "wrong_code");
            assert_eq!(
                redeem(&client, secret, name, code, Some(true)).await?,
                "ok",
                "{format} {name}"
            );
        }
        collector.stop()?;
    }
    Ok(())
}

#[tokio::test]
async fn a_collector_of_v1_leaves_bound_rows_to_one_that_can_bind_and_warns() -> Result<()> {
    let (database, client) = product().await?;
    let (left, _) = enqueue_bound(&client, "activate", "7").await?;
    let mut collector = start(&database, "v1")?;
    let lines = collector.lines()?;
    collector.wait_for_log("tokens wait because this collector cannot sign them", 1)?;
    client.mail("activate").to("eve@example.test").enqueue().await?;
    assert_eq!(only_item(&lines.next_line()?)?["email"], "eve@example.test");
    lines.expect_none(Duration::from_secs(1))?;
    collector.stop()?;
    assert_eq!(state(&client, left).await?, "deferred");
    let reason = "SELECT reason FROM mailroom.deliveries WHERE token = $1";
    let reason: String = client.query_one(reason, &[&left]).await?.get(0);
    assert_eq!(reason, "its subject is not eligible for it, or collectors cannot sign it");

    let mut collector = start(&database, "v2")?;
    let item = only_item(&collector.lines()?.next_line()?)?;
    let token = UntrustedToken::parse(text(&item, "token")?)?;
    let ring = ring(KEY)?;
    let link = token.verify_link(&ring, Action::Activate, NOW)?;
    assert_eq!(link.browser(Binding::of_nonce(NONCE).as_ref()), Browser::Same);
    collector.stop()?;
    Ok(())
}

async fn only_token(queue: &mut DeliveriesQueue) -> Result<Token> {
    let mut tokens = send(queue).await?;
    assert_eq!(tokens.len(), 1);
    tokens.pop().context("it is one")
}

/// Hands a token over, and has it come back as `how` says.
async fn come_back(client: &Client, queue: &mut DeliveriesQueue, how: &str) -> Result<()> {
    if how == "given up" {
        give_up(queue).await?;
        client.batch_execute("SELECT mailroom.retry_all()").await?;
        return Ok(());
    }
    let batch = claim(queue).await?.context("it is due")?;
    let nack = match how {
        "released" => {
            queue.release(&[batch.id]);
            queue.settle_and_claim(Vec::new(), None).await?;
            return Ok(());
        }
        "lapsed" => {
            clock::forward(client, Duration::from_secs(91)).await?;
            client.batch_execute("SELECT mailroom.return_lapsed_leases('-infinity')").await?;
            return Ok(());
        }
        "refused" => Nack::Retry { after: Some(Duration::from_secs(1)), reason: "busy".to_owned() },
        _ => Nack::Unanswered,
    };
    let nacks = batch.tokens.iter().map(|token| (token.id, nack.clone())).collect();
    queue.settle_and_claim(vec![Settlement::of(batch.id, nacks)], None).await?;
    clock::forward(client, Duration::from_secs(1)).await
}

#[tokio::test]
async fn a_token_that_comes_back_is_still_for_its_browser() -> Result<()> {
    for how in ["given up", "released", "lapsed", "refused", "abandoned"] {
        let (database, client) = product().await?;
        clock::stop(&client).await?;
        let mut queue = queue(&database, Version::V2).await?;
        enqueue_bound(&client, "sign_in", "7").await?;
        come_back(&client, &mut queue, how).await?;
        assert_eq!(only_token(&mut queue).await?.binding, Some(binding(NONCE)), "{how}");
        client.mail("sign_in").enqueue().await?;
        assert_eq!(only_token(&mut queue).await?.binding, None, "{how}");
    }
    Ok(())
}

#[tokio::test]
async fn a_recheck_signs_nothing_that_the_key_cannot_bind() -> Result<()> {
    let (database, client) = product().await?;
    let (token, _) = enqueue_bound(&client, "activate", "7").await?;
    let mut v1 = queue(&database, Version::V1).await?;
    assert!(send(&mut v1).await?.is_empty());
    client.batch_execute("SELECT mailroom.recheck('7')").await?;
    assert!(send(&mut v1).await?.is_empty());
    assert_eq!(state(&client, token).await?, "deferred");
    client.batch_execute("SELECT mailroom.recheck('7')").await?;
    let sent = only_token(&mut queue(&database, Version::V2).await?).await?;
    assert_eq!((sent.id, sent.binding), (token, Some(binding(NONCE))));
    Ok(())
}
