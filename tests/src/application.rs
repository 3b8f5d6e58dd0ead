//! What an application does with Mailroom's database: it registers people,
//! asks for tokens and redeems them.

use std::future::Future;

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;
use tokio_postgres::{Client, Error};

use crate::fixtures::Fixtures;
use crate::postgres::Database;

/// A connection of an application.
#[derive(Debug)]
pub struct Application {
    /// For whatever has no method here.
    pub client: Client,
}

/// A token as its mail carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Of its row.
    pub id: i64,
    /// Of the link, 32 bytes unless a test makes others.
    pub secret: Vec<u8>,
    /// What the person types; null in rows that cannot be typed.
    pub code: Option<String>,
}

/// What `mailroom.redeem` answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redemption {
    /// A value of the enum `mailroom.verdict`.
    pub verdict: String,
    /// Whose token it was, if it was redeemed.
    pub account: Option<i64>,
}

impl Application {
    /// Connects as the user of the tests.
    pub async fn connect(database: &Database) -> Result<Self> {
        Ok(Self { client: database.connect().await? })
    }

    /// Registers somebody, whose email is `LOGIN@example.test`, and returns the account.
    pub async fn register(&self, login: &str) -> Result<i64> {
        self.account(login).insert().await
    }

    /// Registers somebody and redeems the token that this makes.
    pub async fn register_and_activate(&self, login: &str) -> Result<i64> {
        let account = self.register(login).await?;
        let token = self.newest_token(account, "activation").await?;
        let verdict = self.redeem(&token.secret, "activation", None).await?.verdict;
        ensure!(verdict == "ok", "the activation was answered with {verdict}");
        Ok(account)
    }

    /// Sets an account's status as an administrator does.
    pub async fn set_status(&self, account: i64, status: &str) -> Result<()> {
        let update = "UPDATE accounts SET status = $2::text::account_status WHERE id = $1";
        self.client.execute(update, &[&account, &status]).await?;
        Ok(())
    }

    /// An account's status.
    pub async fn status(&self, account: i64) -> Result<String> {
        let query = "SELECT status::text FROM accounts WHERE id = $1";
        Ok(self.client.query_one(query, &[&account]).await?.get(0))
    }

    /// Inserts a token by hand, and returns it.
    pub async fn insert_token(&self, account: i64, action: &str) -> Result<Token> {
        Ok(self.token().action(action).of(account).insert().await?.0)
    }

    /// The newest token that an account has of an action.
    pub async fn newest_token(&self, account: i64, action: &str) -> Result<Token> {
        let query = "SELECT id, secret, code FROM tokens WHERE account = $1 AND action::text = $2
            ORDER BY id DESC LIMIT 1";
        let row = self
            .client
            .query_opt(query, &[&account, &action])
            .await?
            .context("there is no such token")?;
        Ok(Token { id: row.get(0), secret: row.get(1), code: row.get(2) })
    }

    /// How many rows `tokens` has with what follows it in a query, such as `WHERE account = 1`.
    pub async fn count_tokens(&self, condition: &str) -> Result<i64> {
        let query = format!("SELECT count(*) FROM tokens {condition}");
        Ok(self.client.query_one(&query, &[]).await?.get(0))
    }

    /// Whether a token was used.
    pub async fn is_used(&self, token: i64) -> Result<bool> {
        let query = "SELECT consumed_at IS NOT NULL FROM tokens WHERE id = $1";
        Ok(self.client.query_one(query, &[&token]).await?.get(0))
    }

    /// How many tries of a token's code are recorded.
    pub async fn attempts(&self, token: i64) -> Result<i64> {
        let query = "SELECT count(*) FROM mailroom.code_attempts WHERE token = $1";
        Ok(self.client.query_one(query, &[&token]).await?.get(0))
    }

    /// Calls `mailroom.redeem`.
    pub async fn redeem(
        &self,
        secret: &[u8],
        action: &str,
        code: Option<&str>,
    ) -> Result<Redemption, Error> {
        self.redeem_anything(Some(secret), Some(action), code).await
    }

    /// Calls `mailroom.redeem`, with nulls as well.
    pub async fn redeem_anything(
        &self,
        secret: Option<&[u8]>,
        action: Option<&str>,
        code: Option<&str>,
    ) -> Result<Redemption, Error> {
        let query = "SELECT verdict::text, subject_id::bigint FROM mailroom.redeem($1, $2, $3)";
        let row = self.client.query_one(query, &[&secret, &action.map(action_name), &code]).await?;
        Ok(Redemption { verdict: row.get(0), account: row.get(1) })
    }

    /// Calls `mailroom.request` with its default limits.
    pub async fn request(&self, email_or_login: &str, action: &str) -> Result<(), Error> {
        let query = "SELECT mailroom.request($1, $2)";
        self.client.query_one(query, &[&email_or_login, &action_name(action)]).await?;
        Ok(())
    }
}

/// What Mailroom calls an action of the base schema's type.
pub fn action_name(base_name: &str) -> &str {
    match base_name {
        "activation" => "activate",
        "password_recovery" => "recover",
        other => other,
    }
}

impl Redemption {
    /// A verdict other than `ok`.
    pub fn refused(verdict: &str) -> Self {
        Self { verdict: verdict.to_owned(), account: None }
    }

    /// The verdict `ok`.
    pub fn ok(account: i64) -> Self {
        Self { verdict: "ok".to_owned(), account: Some(account) }
    }
}

/// Connects `number` times and lets all connections do `work`, which gets a number from 0 on, at
/// the same time.
///
/// Must be called on one thread: none starts before all are connected, and then each sends before
/// any answer is read.
pub async fn at_once<T, F>(
    database: &Database,
    number: usize,
    work: impl Fn(usize, Application) -> F,
) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut applications = Vec::new();
    for _ in 0..number {
        applications.push(Application::connect(database).await?);
    }
    let mut running = JoinSet::new();
    for (index, application) in applications.into_iter().enumerate() {
        running.spawn(work(index, application));
    }
    let mut answers = Vec::new();
    while let Some(answer) = running.join_next().await {
        answers.push(answer??);
    }
    Ok(answers)
}
