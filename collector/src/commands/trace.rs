//! `mailroom trace`: the story of a mail, or of all mails for an address.

use std::process::ExitCode;

use tokio_postgres::types::Type;

use super::{CommandError, Outcome, connect_to_queue, print, report};
use crate::config::{SchemaSetting, digits, heading};

#[derive(clap::Args)]
pub(crate) struct TraceArguments {
    /// Id of a token, which log lines name, or an address
    #[arg(value_name = "TOKEN|ADDRESS")]
    about: String,

    /// Print a line of JSON for each event
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,

    #[command(flatten)]
    schema: SchemaSetting,
}

/// Ends with 0 if anything is known.
pub(crate) async fn run(TraceArguments { about, json, schema }: TraceArguments) -> Outcome {
    let tokens: Option<Vec<i64>> = digits(&about).filter(|id| *id > 0).map(|id| vec![id]);
    if tokens.is_none() && !about.contains('@') {
        return Err(CommandError::Usage(
            "give the id of a token, which is a whole number, or an address".to_owned(),
        ));
    }
    let address = tokens.is_none().then_some(&about);
    let (client, _) = connect_to_queue(schema, "mailroom trace", &["mailroom.trace"]).await?;
    let parameters = [(&tokens as _, Type::INT8_ARRAY), (&address as _, Type::TEXT)];
    let rows = client.query_typed(include_str!("trace.sql"), &parameters).await?;
    for row in &rows {
        print(row.try_get::<_, String>(usize::from(json))?)?;
    }
    if rows.is_empty() {
        report("mailroom: nothing is known of it");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
