//! The people of the demonstration, and what they do in the database.

use anyhow::{Context, Result, ensure};
use tokio_postgres::Client;

/// Somebody who registers.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) name: String,
    pub(crate) login: String,
    pub(crate) email: String,
}

const NAMES: [&str; 25] = [
    "Ada Lovelace",
    "Alan Turing",
    "Grace Hopper",
    "Edsger Dijkstra",
    "Barbara Liskov",
    "Donald Knuth",
    "Margaret Hamilton",
    "Tony Hoare",
    "Frances Allen",
    "Niklaus Wirth",
    "Radia Perlman",
    "John Backus",
    "Joan Clarke",
    "Dennis Ritchie",
    "Adele Goldberg",
    "Ken Thompson",
    "Hedy Lamarr",
    "Claude Shannon",
    "Jean Bartik",
    "Leslie Lamport",
    "Sophie Wilson",
    "Whitfield Diffie",
    "Shafi Goldwasser",
    "Ron Rivest",
    "Mary Jackson",
];

impl Person {
    /// The person of this number; no two have the same login.
    pub(crate) fn nth(number: usize) -> Self {
        let name = NAMES[number % NAMES.len()];
        let mut login = name.to_lowercase().replace(' ', ".");
        let mut name = name.to_owned();
        if number >= NAMES.len() {
            let generation = number / NAMES.len() + 1;
            login = format!("{login}{generation}");
            name = format!("{name} the {generation}.");
        }
        Self { name, email: format!("{login}@example.test"), login }
    }
}

/// A token as the database has it, with whom it is for.
pub(crate) struct Made {
    /// 64 hexadecimal characters.
    pub(crate) secret: String,
    pub(crate) action: String,
    pub(crate) code: String,
    pub(crate) email: String,
    pub(crate) login: String,
}

/// Inserts an account. The database makes its activation token in the same transaction.
pub(crate) async fn register(client: &Client, person: &Person) -> Result<()> {
    let sql = "INSERT INTO accounts (email, login) VALUES ($1, $2)";
    client.execute(sql, &[&person.email, &person.login]).await.context("cannot register an account")?;
    Ok(())
}

/// Consumes the token of an activation link, which activates the account.
pub(crate) async fn activate(client: &Client, secret: &str) -> Result<()> {
    let sql = "UPDATE tokens SET consumed_at = extract(epoch FROM now()) \
               WHERE secret = decode($1, 'hex') AND consumed_at IS NULL";
    let consumed = client.execute(sql, &[&secret]).await.context("cannot consume a token")?;
    ensure!(consumed == 1, "a verified token is not in the database, or is consumed already");
    Ok(())
}

/// Inserts a recovery token.
pub(crate) async fn ask_for_recovery(client: &Client, person: &Person) -> Result<()> {
    let sql =
        "INSERT INTO tokens (account, action) SELECT id, 'password_recovery' FROM accounts WHERE login = $1";
    let made = client.execute(sql, &[&person.login]).await.context("cannot ask for a recovery")?;
    ensure!(made == 1, "{} has no account", person.login);
    Ok(())
}

/// All tokens that the database has made.
pub(crate) async fn tokens(client: &Client) -> Result<Vec<Made>> {
    let sql = "SELECT encode(secret, 'hex'), action::text, code, email, login \
               FROM tokens JOIN accounts ON accounts.id = tokens.account";
    let rows = client.query(sql, &[]).await.context("cannot read the tokens")?;
    let made = |row: &tokio_postgres::Row| Made {
        secret: row.get(0),
        action: row.get(1),
        code: row.get(2),
        email: row.get(3),
        login: row.get(4),
    };
    Ok(rows.iter().map(made).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_people_have_the_same_login() {
        let logins: HashSet<String> = (0..1000).map(|number| Person::nth(number).login).collect();
        assert_eq!(logins.len(), 1000);
    }
}
