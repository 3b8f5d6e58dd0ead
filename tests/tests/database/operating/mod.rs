//! What an operator does with the queue of deliveries:
//! looks at it, puts dead letters back, prunes the log.

mod collectors;
mod dead;
mod discarding;
mod programs;
mod pruning;
mod retrying;
mod runs;
mod several;
mod showing;
mod suppressing;
mod token_pruning;
mod tracing;
mod usage;

use std::process::Command;

use anyhow::{Context, Result};
use mailroom_tests::postgres::Database;
use mailroom_tests::program;
use tokio_postgres::Client;

/// What a command ended with and said.
struct Said {
    code: Option<i32>,
    output: String,
    errors: String,
}

impl Said {
    /// The output of a command that must succeed.
    fn success(self) -> Result<String> {
        anyhow::ensure!(
            self.code == Some(0),
            "ended with {:?}: {}{}",
            self.code,
            self.output,
            self.errors
        );
        Ok(self.output)
    }
}

fn command(url: &str, arguments: &[&str]) -> Result<Command> {
    let mut command = program::mailroom()?;
    command.args(arguments).env("MAILROOM_DATABASE_URL", url);
    Ok(command)
}

fn run(database: &Database, arguments: &[&str]) -> Result<Said> {
    said(command(database.url(), arguments)?)
}

fn said(mut command: Command) -> Result<Said> {
    let output = command.output().context("mailroom does not start")?;
    Ok(Said {
        code: output.status.code(),
        output: String::from_utf8(output.stdout)?,
        errors: String::from_utf8(output.stderr)?,
    })
}

async fn count(client: &Client, rows: &str) -> Result<i64> {
    Ok(client.query_one(&format!("SELECT count(*) FROM {rows}"), &[]).await?.get(0))
}

/// Registers so many people, and gives their tokens up.
async fn give_up(client: &Client, people: i32) -> Result<()> {
    mailroom_tests::rows::register(client, 1..=people).await?;
    client
        .batch_execute(
            "INSERT INTO mailroom.dead_letters (token, died_at, expires_at, attempts, failures,
                priority, secret, code, reason)
                SELECT token, now() - interval '1 hour', expires_at, 8, 8, priority, secret,
                    code, 'no such mailbox'
                FROM mailroom.queue JOIN mailroom.issued_tokens ON id = token;
            DELETE FROM mailroom.queue",
        )
        .await?;
    Ok(())
}
