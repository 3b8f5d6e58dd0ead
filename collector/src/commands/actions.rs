//! `mailroom actions`: what the links of a database are for.

use std::process::ExitCode;

use serde_json::json;

use super::{Outcome, connect_to_queue, print};
use crate::collect::CollectError;
use crate::config::{SchemaSetting, heading};
use crate::queue::{LIST_ACTIONS, SignableActions};

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
    let rows = client.query_typed(LIST_ACTIONS, &[]).await?;
    let mut signed = SignableActions::of(None);
    signed.read(&rows).map_err(CollectError::from)?;
    let signed = signed.numbers();
    for row in &rows {
        let (number, name, path): (i16, &str, Option<&str>) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let digits: i16 = row.try_get(3)?;
        let is_signed = signed.contains(&number);
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
