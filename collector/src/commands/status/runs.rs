//! `mailroom status --runs`: when collectors ran, how each ended, and what it did.

use std::process::ExitCode;

use mailroom_connect::SchemaClient;
use serde_json::Value;
use tokio_postgres::types::Type;

use super::super::{Outcome, json_in, print};

const RUNS: &str = include_str!("../runs.sql");

/// So many are listed, the newest.
const MAX_LISTED: i32 = 50;

pub(super) async fn list(client: &SchemaClient, json: bool) -> Outcome {
    let rows = client.query_typed(RUNS, &[(&MAX_LISTED as _, Type::INT4)]).await?;
    let mut runs = Vec::new();
    for row in &rows {
        runs.push(json_in(row, 0)?);
    }
    if json {
        return print(Value::Array(runs));
    }
    if runs.is_empty() {
        return print("no collector has run yet");
    }
    for run in &runs {
        print(line(run))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// When it began and ended, how it ended, which process it was, and what it did.
fn line(run: &Value) -> String {
    let text = |member: &str| run[member].as_str().unwrap_or_default();
    let ended = match text("fate") {
        "ended" => format!("ended  {}: {}", text("seen_at"), text("reason")),
        "alive" => "alive".to_owned(),
        "resting" => format!("rests, last seen {}", text("seen_at")),
        _ => format!("killed, last seen {}", text("seen_at")),
    };
    let counts = run["counts"].as_object().map(|counts| {
        let counts = counts.iter().filter(|(_, count)| **count != 0);
        counts.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
    });
    let counts = counts.filter(|counts| !counts.is_empty());
    format!(
        "{}  {} ({})  {ended}; {}",
        text("started_at"),
        text("name"),
        run["version"].as_str().unwrap_or("unknown version"),
        counts.as_deref().unwrap_or("nothing was claimed")
    )
}
