//! `mailroom dead`: lists dead letters.

use std::process::ExitCode;

use tokio_postgres::types::Type;

use super::{Outcome, connect_to_queue, print, report, unreadable_view};
use crate::config::{SchemaSetting, Setting, heading, whole_number};

#[derive(clap::Args)]
pub(crate) struct DeadArguments {
    /// Print a line of JSON for each
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,

    /// Most dead letters to list, the newest ones
    #[arg(long, value_name = "N", value_parser = Setting(whole_number(1..=10_000_000)))]
    #[arg(default_value = "1000", allow_negative_numbers = true)]
    limit: usize,

    #[command(flatten)]
    schema: SchemaSetting,
}

/// Ends with 0 however many there are: whether they are an alarm is for `mailroom status` to say.
pub(crate) async fn run(DeadArguments { json, limit, schema }: DeadArguments) -> Outcome {
    let (client, _) = connect_to_queue(schema, "mailroom dead", &[]).await?;
    // One more tells whether there are others.
    let most = i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1;
    let rows = client.query_typed(include_str!("dead.sql"), &[(&most as _, Type::INT8)]).await;
    let rows = rows.map_err(|error| unreadable_view(error, &client.schema, "waiting"))?;
    for row in rows.iter().take(limit) {
        print(row.try_get::<_, String>(usize::from(json))?)?;
    }
    if rows.is_empty() && !json {
        print("there are no dead letters")?;
    }
    if rows.len() > limit {
        report(format_args!("mailroom: these are the newest; list more of them with --limit"));
    }
    Ok(ExitCode::SUCCESS)
}
