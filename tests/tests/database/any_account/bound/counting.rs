//! Codes that are entered in another browser are counted apart,
//! and lock nobody out of the bound one.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use mailroom_tests::application::at_once;
use mailroom_tests::fixtures::Fixtures;
use tokio_postgres::Client;

use super::{
    NONCE, binding, elsewhere, enqueue_bound, mailed, number, other_than, product, redeem, shown,
};

/// Enters what an action needs, in the bound browser or in another one.
async fn enter(
    client: &Client,
    secret: &[u8],
    action: &str,
    code: &str,
    is_proven: bool,
) -> Result<String> {
    Ok(match (action, is_proven) {
        (_, true) => redeem(client, secret, action, Some(code), Some(true)).await?,
        ("sign_in", false) => elsewhere(client, secret, action, Some(code), Some(code)).await?,
        (_, false) => elsewhere(client, secret, action, None, Some(code)).await?,
    })
}

/// Enters a code until it is answered otherwise than as a wrong one;
/// how often it was, and with what.
async fn guess(
    client: &Client,
    secret: &[u8],
    action: &str,
    code: &str,
    is_proven: bool,
) -> Result<(usize, String)> {
    for wrong in 0..20 {
        let verdict = enter(client, secret, action, code, is_proven).await?;
        if verdict != "wrong_code" {
            return Ok((wrong, verdict));
        }
    }
    anyhow::bail!("it goes on for ever")
}

const FIVE: usize = 5;

fn five() -> (usize, String) {
    (FIVE, "too_many_attempts".to_owned())
}

#[tokio::test]
async fn after_five_wrong_digits_the_bound_browser_gets_in_and_another_one_by_new_digits()
-> Result<()> {
    let (_database, client) = product().await?;
    for (subject, is_proven) in [("7", true), ("8", false)] {
        let (_, secret) = enqueue_bound(&client, "invite", subject).await?;
        let code = shown(&client, &binding(NONCE)).await?;
        assert_eq!(guess(&client, &secret, "invite", &other_than(&code), false).await?, five());
        // The right ones do not help any more.
        let verdict = enter(&client, &secret, "invite", &code, false).await?;
        assert_eq!(verdict, "too_many_attempts");
        let renewed = shown(&client, &binding(NONCE)).await?;
        let verdict = if is_proven {
            redeem(&client, &secret, "invite", None, Some(true)).await?
        } else {
            enter(&client, &secret, "invite", &renewed, false).await?
        };
        assert_eq!(verdict, "ok");
    }
    Ok(())
}

#[tokio::test]
async fn all_links_of_a_browser_share_the_five_tries_of_its_digits() -> Result<()> {
    let (_database, client) = product().await?;
    let (_, first) = enqueue_bound(&client, "invite", "7").await?;
    let (_, second) = enqueue_bound(&client, "change_email", "7").await?;
    let wrong = other_than(&shown(&client, &binding(NONCE)).await?);
    for _ in 0..3 {
        assert_eq!(enter(&client, &first, "invite", &wrong, false).await?, "wrong_code");
    }
    let left = (2, "too_many_attempts".to_owned());
    assert_eq!(guess(&client, &second, "change_email", &wrong, false).await?, left);
    Ok(())
}

#[tokio::test]
async fn each_side_has_five_tries_of_the_code_in_the_mail() -> Result<()> {
    let (_database, client) = product().await?;
    for (subject, first) in [("7", true), ("8", false)] {
        let (token, secret) = enqueue_bound(&client, "sign_in", subject).await?;
        let code = mailed(&client, token).await?;
        shown(&client, &binding(NONCE)).await?;
        assert_eq!(guess(&client, &secret, "sign_in", &other_than(&code), first).await?, five());
        assert_eq!(enter(&client, &secret, "sign_in", &code, first).await?, "too_many_attempts");
        // The other side knows nothing of it.
        let digits = shown(&client, &binding(NONCE)).await?;
        for _ in 1..FIVE {
            let verdict = enter(&client, &secret, "sign_in", &other_than(&code), !first).await?;
            assert_eq!(verdict, "wrong_code");
        }
        let verdict = if first {
            elsewhere(&client, &secret, "sign_in", Some(&code), Some(&digits)).await?
        } else {
            redeem(&client, &secret, "sign_in", Some(&code), Some(true)).await?
        };
        assert_eq!(verdict, "ok");
    }
    Ok(())
}

#[tokio::test]
async fn of_many_guesses_at_the_same_time_five_are_looked_at() -> Result<()> {
    let (database, client) = product().await?;
    for action in ["invite", "sign_in"] {
        let (token, secret) = enqueue_bound(&client, action, "7").await?;
        let digits = shown(&client, &binding(NONCE)).await?;
        let code = if action == "invite" { digits } else { mailed(&client, token).await? };
        let verdicts = at_once(&database, 20, |_, application| {
            let (secret, wrong, action) = (secret.clone(), other_than(&code), action);
            async move { enter(&application.client, &secret, action, &wrong, false).await }
        });
        let mut tally = BTreeMap::<String, usize>::new();
        for verdict in verdicts.await? {
            *tally.entry(verdict).or_default() += 1;
        }
        let expected = [("too_many_attempts", 15), ("wrong_code", FIVE)];
        assert_eq!(
            tally,
            expected.map(|(verdict, times)| (verdict.to_owned(), times)).into(),
            "{action}"
        );
        let in_the_bound_one = (action == "sign_in").then_some(&*code);
        assert_eq!(redeem(&client, &secret, action, in_the_bound_one, Some(true)).await?, "ok");
    }
    Ok(())
}

/// What a subject's bound links are answered after a hundred wrong codes on one side: a right code
/// there, and whatever is needed here.
async fn after_a_hundred_wrong_codes(
    client: &Client,
    subject: &str,
    is_proven: bool,
) -> Result<()> {
    let set = "INSERT INTO mailroom.code_failures (subject, is_other_browser, failures, \
               rests_until) VALUES ($1, $2, 99, 0)";
    client.execute(set, &[&subject, &!is_proven]).await?;
    let (token, secret) = enqueue_bound(client, "sign_in", subject).await?;
    let code = mailed(client, token).await?;
    let wrong = other_than(&code);
    let digits = shown(client, &binding(NONCE)).await?;
    assert_eq!(enter(client, &secret, "sign_in", &wrong, is_proven).await?, "wrong_code");
    assert_eq!(enter(client, &secret, "sign_in", &code, is_proven).await?, "too_many_attempts");

    let (_, clicked) = enqueue_bound(client, "invite", subject).await?;
    let there = enter(client, &clicked, "invite", &digits, false).await?;
    assert_eq!(there, if is_proven { "ok" } else { "too_many_attempts" });
    let here = redeem(client, &clicked, "invite", None, Some(true)).await?;
    assert_eq!(here, if is_proven { "used" } else { "ok" });

    let verdict = if is_proven {
        elsewhere(client, &secret, "sign_in", Some(&code), Some(&digits)).await?
    } else {
        redeem(client, &secret, "sign_in", Some(&code), Some(true)).await?
    };
    assert_eq!(verdict, "ok");
    let failures =
        format!("SELECT max(failures) FROM mailroom.code_failures WHERE subject = '{subject}'");
    assert_eq!(
        number(client, &failures).await?,
        100,
        "a right code of one side ends no rest of the other"
    );
    Ok(())
}

#[tokio::test]
async fn a_hundred_wrong_codes_let_only_the_side_rest_where_they_were_entered() -> Result<()> {
    let (_database, client) = product().await?;
    after_a_hundred_wrong_codes(&client, "7", true).await?;
    after_a_hundred_wrong_codes(&client, "8", false).await
}

/// A mail scanner opens every link, presses every button and enters five codes.
#[tokio::test]
async fn a_scanner_uses_up_nothing_and_locks_nobody_out() -> Result<()> {
    const PEOPLE: u8 = 100;
    let (_database, client) = product().await?;
    let browser = |person: u8| [person; 16];
    let mut secrets = Vec::new();
    for person in 0..PEOPLE {
        let mail = client.mail("activate").to(format!("p{person}@example.test")).subject(person);
        let token = mail.bound_to(browser(person)).enqueue().await?;
        let row = client
            .query_one("SELECT secret FROM mailroom.queue WHERE token = $1", &[&token])
            .await?;
        secrets.push(row.get::<_, Vec<u8>>(0));
    }
    for (person, secret) in (0..PEOPLE).zip(&secrets) {
        let code = shown(&client, &browser(person)).await?;
        for _ in 0..3 {
            assert_eq!(redeem(&client, secret, "activate", None, None).await?, "wrong_code");
        }
        assert_eq!(guess(&client, secret, "activate", &other_than(&code), false).await?, five());
    }
    for (person, secret) in (0..PEOPLE).zip(&secrets) {
        let is_proven = person % 2 == 0;
        let digits = shown(&client, &browser(person)).await?;
        let verdict = if is_proven {
            redeem(&client, secret, "activate", None, Some(true)).await?
        } else {
            enter(&client, secret, "activate", &digits, false).await?
        };
        assert_eq!(verdict, "ok", "person {person}");
    }
    let used = "SELECT count(*) FROM mailroom.issued_tokens WHERE consumed_at IS NOT NULL";
    assert_eq!(number(&client, used).await?, i64::from(PEOPLE));
    number(&client, "SELECT count(*) FROM mailroom.code_failures WHERE NOT is_other_browser")
        .await
        .context("nothing is counted for the bound browsers")
        .map(|counted| assert_eq!(counted, 0))
}
