//! Links for the browser that asked for them.

mod collecting;
mod counting;
mod making;
mod redeeming;

use anyhow::Result;
use mailroom_tests::fixtures::Fixtures;
use mailroom_tests::hex::hexadecimal;
use mailroom_verifier_core::Binding;
use tokio_postgres::{Client, Error};

use super::collecting::{only_item, start};
use super::{claim, clock, count, give_up, number, product, queue, refused, send, state};

/// The value of the cookie of the browser that asks, and of another one.
const NONCE: &str = "fQU-LQos613Hcm3alseAB486Ma1qcSriU0Lhj1UvvuE";
const OTHER_NONCE: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

fn binding(nonce: &str) -> Vec<u8> {
    Binding::of_nonce(nonce).expect("it is one").as_bytes().to_vec()
}

/// A binding as an argument in SQL.
fn literal(binding: &[u8]) -> String {
    format!("'\\x{}'", hexadecimal(binding))
}

/// Enqueues a mail for the browser with `NONCE`; answers the token's id and its secret.
async fn enqueue_bound(client: &Client, action: &str, subject: &str) -> Result<(i64, Vec<u8>)> {
    let mail = client.mail(action).subject(subject).bound_to(binding(NONCE));
    let token = mail.enqueue().await?;
    let row =
        client.query_one("SELECT secret FROM mailroom.queue WHERE token = $1", &[&token]).await?;
    Ok((token, row.get(0)))
}

/// The digits that the browser shows.
async fn shown(client: &Client, binding: &[u8]) -> Result<String, Error> {
    Ok(client.query_one("SELECT mailroom.browser_code($1)", &[&binding]).await?.get(0))
}

/// The code in the mail.
async fn mailed(client: &Client, token: i64) -> Result<String> {
    Ok(client
        .query_one("SELECT code FROM mailroom.queue WHERE token = $1", &[&token])
        .await?
        .get(0))
}

/// As many digits, and others.
fn other_than(code: &str) -> String {
    code.chars().map(|digit| if digit == '9' { '0' } else { char::from(digit as u8 + 1) }).collect()
}

async fn redeem(
    client: &Client,
    secret: &[u8],
    action: &str,
    code: Option<&str>,
    is_proven: Option<bool>,
) -> Result<String, Error> {
    let query = "SELECT verdict::text FROM mailroom.redeem($1, $2, $3, $4)";
    Ok(client.query_one(query, &[&secret, &action, &code, &is_proven]).await?.get(0))
}

/// Redeems in a browser that the link is not bound to,
/// by the mail's code and what the bound one shows.
async fn elsewhere(
    client: &Client,
    secret: &[u8],
    action: &str,
    code: Option<&str>,
    digits: Option<&str>,
) -> Result<String, Error> {
    let query = "SELECT verdict::text FROM mailroom.redeem($1, $2, $3, browser_code => $4)";
    Ok(client.query_one(query, &[&secret, &action, &code, &digits]).await?.get(0))
}
