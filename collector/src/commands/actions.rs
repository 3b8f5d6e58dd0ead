//! `mailroom actions`: what the links of a database are for.

use std::process::ExitCode;

use mailroom_verifier_core::Version;
use serde_json::json;

use super::{Outcome, connect_to_queue, print};
use crate::config::{SchemaSetting, heading, token_format};

/// Further actions have numbers from here on; v1 has no place for them.
const FIRST_FURTHER: i16 = 3;

#[derive(clap::Args)]
pub(crate) struct ActionsArguments {
    /// Print a line of JSON for each
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,

    #[command(flatten)]
    schema: SchemaSetting,
}

pub(crate) async fn run(ActionsArguments { json: as_json, schema }: ActionsArguments) -> Outcome {
    let functions = ["mailroom.list_actions"];
    let (client, _) = connect_to_queue(schema, "mailroom actions", &functions).await?;
    let rows = client.query_typed(include_str!("actions.sql"), &[]).await?;
    for row in &rows {
        let (number, name, path): (i16, &str, Option<&str>) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let digits: i16 = row.try_get(3)?;
        let format = row.try_get::<_, Option<&str>>(4)?.and_then(|text| token_format(text).ok());
        let is_signed = number < FIRST_FURTHER || format.is_some_and(Version::has_header);
        if as_json {
            print(json!({
                "number": number, "name": name, "path": path, "code_digits": digits,
                "is_signed": is_signed
            }))?;
            continue;
        }
        let code = if digits == 0 { "no code".to_owned() } else { format!("{digits} digits") };
        let unsigned = if is_signed { "" } else { "  waits: v1 signs only activate and recover" };
        let path = path.unwrap_or("(no link)");
        print(format_args!("{number:<4}{name:<20}{path:<24}{code}{unsigned}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
