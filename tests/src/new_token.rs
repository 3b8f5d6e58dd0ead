//! Tokens that tests begin with: what a test does not say is as in most, so that it says what it is
//! about. `new_token(&client).recovery().for_account("suspended").insert()`.

use anyhow::Result;
use tokio_postgres::Client;

use crate::application::Token;

/// A token of an account of its own, to be inserted.
#[derive(Debug)]
#[must_use]
pub struct NewToken<'a> {
    client: &'a Client,
    action: &'a str,
    /// That of the action, if there is none.
    status: Option<&'a str>,
    lifetime: Option<i64>,
}

/// Begins a token: an activation, of an account that has the status for it, due now.
pub fn new_token(client: &Client) -> NewToken<'_> {
    NewToken { client, action: "activation", status: None, lifetime: None }
}

impl<'a> NewToken<'a> {
    /// Makes it one of this action, as the enum `token_action` has it.
    pub fn action(self, action: &'a str) -> Self {
        Self { action, ..self }
    }

    /// Makes it one of a password recovery.
    pub fn recovery(self) -> Self {
        self.action("password_recovery")
    }

    /// Gives its account a status that its action may not be for.
    pub fn for_account(self, status: &'a str) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Lets it live for so many seconds.
    pub fn living(self, seconds: i64) -> Self {
        Self { lifetime: Some(seconds), ..self }
    }

    /// Inserts it, and answers it with its account.
    pub async fn insert(self) -> Result<(Token, i64)> {
        let Self { client, action, status, lifetime } = self;
        let status =
            status.unwrap_or(if action == "activation" { "provisioned" } else { "active" });
        // An active account gets no activation by itself, which would be a second token.
        let account = "INSERT INTO accounts (email, login, status)
            SELECT name, name, 'active' FROM (SELECT gen_random_uuid()::text) AS random (name)
            RETURNING id";
        let account: i64 = client.query_one(account, &[]).await?.get(0);
        let update = "UPDATE accounts SET status = $2::text::account_status WHERE id = $1";
        if status != "active" {
            client.execute(update, &[&account, &status]).await?;
        }
        let (columns, values) = match lifetime {
            None => ("", ""),
            Some(_) => {
                (", expires_at", ", floor(extract(epoch FROM mailroom.clock()))::bigint + $3")
            }
        };
        let insert = format!(
            "INSERT INTO tokens (account, action{columns})
            VALUES ($1, $2::text::token_action{values}) RETURNING id, secret, code"
        );
        let row = match &lifetime {
            None => client.query_one(&insert, &[&account, &action]).await?,
            Some(seconds) => client.query_one(&insert, &[&account, &action, seconds]).await?,
        };
        Ok((Token { id: row.get(0), secret: row.get(1), code: row.get(2) }, account))
    }
}
