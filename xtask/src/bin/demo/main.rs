//! The demonstrations, started by `cargo xtask demo`: on web pages until Ctrl-C, or with `--once` in the terminal, where
//! people register in a real PostgreSQL, the collector prints signed lines, and two verifiers that share no code judge
//! every token.

mod check;
mod collector;
mod ledger;
mod line;
mod people;
mod run;
mod stop;
mod story;
mod web;

use std::fs::File;
use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result};
use mailroom_tests::postgres::Database;

use crate::run::{Goal, Run};
use crate::stop::Stop;
use crate::story::Story;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match demonstrate().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn demonstrate() -> Result<bool> {
    let mut stop = Stop::listen().context("cannot listen for signals")?;
    if std::env::args().any(|argument| argument == "--once") {
        in_terminal(&mut stop).await
    } else {
        web::run(&mut stop).await
    }
}

async fn in_terminal(stop: &mut Stop) -> Result<bool> {
    let goal = Goal { accounts: 25, recoveries: 10 };
    let story = Story::new();
    story.note("starting a throwaway PostgreSQL ...")?;
    let database = Database::create()?;
    let client = database.connect().await?;
    let version: String = client.query_one("SHOW server_version", &[]).await?.get(0);
    story.note(&format!("PostgreSQL {version} runs; making the schema by `mailroom migrate up` ..."))?;
    let database = database.migrate()?;
    story.note("starting `mailroom collect` with a key made for this run\n")?;
    let key = random_hex()?;
    Run::start(&database, client, &key, story)?.until(goal, stop).await
}

/// 32 random bytes in hexadecimal: a shared key, a password.
fn random_hex() -> Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    let digit = |value: u8| char::from_digit(value.into(), 16).expect("half a byte is below 16");
    Ok(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
}
