//! The demonstration: people register in a real PostgreSQL, the collector prints signed lines, two verifiers that
//! share no code judge every token. Started by `cargo xtask demo`.

mod check;
mod collector;
mod ledger;
mod line;
mod people;
mod run;
mod stop;
mod story;

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
    let goal = if std::env::args().any(|argument| argument == "--once") {
        Goal { accounts: 25, recoveries: 10 }
    } else {
        Goal { accounts: usize::MAX, recoveries: usize::MAX }
    };
    match demonstrate(goal).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn demonstrate(goal: Goal) -> Result<bool> {
    let mut stop = Stop::listen().context("cannot listen for signals")?;
    let story = Story::new();
    story.note("starting a throwaway PostgreSQL ...")?;
    let database = Database::create()?;
    let client = database.connect().await?;
    let version: String = client.query_one("SHOW server_version", &[]).await?.get(0);
    story.note(&format!("PostgreSQL {version} runs; making the schema by `mailroom migrate up` ..."))?;
    let database = database.migrate()?;
    story.note("starting `mailroom collect --queue-kind cursor` with a key made for this run")?;
    story.note(if goal.accounts == usize::MAX { "Ctrl-C ends it\n" } else { "" })?;
    let key = new_key()?;
    Run::start(&database, client, &key, story)?.until(goal, &mut stop).await
}

/// A shared key: 64 hexadecimal characters.
fn new_key() -> Result<String> {
    let mut bytes = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    let digit = |value: u8| char::from_digit(value.into(), 16).expect("half a byte is below 16");
    Ok(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
}
