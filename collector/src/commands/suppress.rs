//! `mailroom suppress`: shows and changes which addresses get no mails.

use std::process::ExitCode;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::{CommandError, Outcome, connect_to_queue, print, unreadable_view};
use crate::config::{SchemaSetting, heading};

#[derive(clap::Args)]
pub(crate) struct SuppressArguments {
    #[command(subcommand)]
    action: SuppressAction,

    #[command(flatten)]
    schema: SchemaSetting,
}

#[derive(clap::Subcommand)]
enum SuppressAction {
    /// Show the suppressed addresses: since when, why, who said so, and what was said
    List {
        /// Print a line of JSON for each
        #[arg(long, help_heading = heading::OUTPUT)]
        json: bool,
    },
    /// Suppress an address, so that it gets no mails
    Add { address: String },
    /// Let an address get mails again; `mailroom retry` sends those that were given up meanwhile
    Remove { address: String },
}

/// Ends with 0 if the address is as it was wanted, also if it was before.
pub(crate) async fn run(SuppressArguments { action, schema }: SuppressArguments) -> Outcome {
    let functions = match &action {
        SuppressAction::List { .. } => &[][..],
        SuppressAction::Add { .. } => &["mailroom.suppress"],
        SuppressAction::Remove { .. } => &["mailroom.lift_suppression"],
    };
    let (client, _) = connect_to_queue(schema, "mailroom suppress", functions).await?;
    let (statement, address, [now, before]) = match &action {
        SuppressAction::List { json } => {
            let all = [(&None::<i64> as _, Type::INT8)];
            let rows = client.query_typed(include_str!("suppressed.sql"), &all).await;
            let rows = rows
                .map_err(|error| unreadable_view(error, &client.schema, "suppressed_addresses"))?;
            for row in &rows {
                print(row.try_get::<_, String>(usize::from(*json))?)?;
            }
            if rows.is_empty() && !json {
                print("no address is suppressed")?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        SuppressAction::Add { address } => {
            ("SELECT mailroom.suppress($1, 'manual')", address, ["is now", "was already"])
        }
        SuppressAction::Remove { address } => {
            ("SELECT mailroom.lift_suppression($1)", address, ["is no longer", "was not"])
        }
    };
    let rows = client.query_typed(statement, &[(address as _, Type::TEXT)]).await;
    let rows = rows.map_err(why_not_changed)?;
    let has_changed = rows.first().is_some_and(|row| row.get(0));
    print(format_args!("the address {} suppressed", if has_changed { now } else { before }))
}

fn why_not_changed(error: Error) -> CommandError {
    match error.code() {
        // The functions refuse nothing else. The server's sentence names
        // a function, not the argument.
        Some(&SqlState::INVALID_PARAMETER_VALUE) => CommandError::Failure(
            "that is no address to which mails are sent: \
             NAME@DOMAIN, without a display name and brackets"
                .to_owned(),
        ),
        _ => error.into(),
    }
}
