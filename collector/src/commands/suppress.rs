//! `mailroom suppress`: shows and changes which addresses get no mails.

use std::process::ExitCode;

use tokio_postgres::types::Type;

use super::{Outcome, connect_to_queue, print, report};

#[derive(clap::Subcommand)]
pub(crate) enum SuppressArguments {
    /// Show the suppressed addresses: since when, why, who said so, and what was said
    List {
        /// Print a line of JSON for each
        #[arg(long)]
        json: bool,
    },
    /// Let an address get no mails
    Add {
        /// The address; letters of either case are the same
        address: String,
    },
    /// Let an address get mails again; `mailroom retry` sends those that were given up meanwhile
    Remove {
        /// The address; letters of either case are the same
        address: String,
    },
}

/// Ends with 0 if the address is as it was wanted, also if it was before; with 1 if one is removed that is not suppressed.
pub(crate) async fn run(arguments: &SuppressArguments) -> Outcome {
    let (function, statement, address) = match arguments {
        SuppressArguments::List { json } => return list(*json).await,
        SuppressArguments::Add { address } => {
            ("mailroom.suppress", "SELECT mailroom.suppress($1, 'manual')", address)
        }
        SuppressArguments::Remove { address } => {
            ("mailroom.lift_suppression", "SELECT mailroom.lift_suppression($1)", address)
        }
    };
    let (client, _) = connect_to_queue("mailroom suppress", &[function]).await?;
    let rows = client.query_typed(statement, &[(address as _, Type::TEXT)]).await?;
    let has_changed = rows.first().is_some_and(|row| row.get(0));
    match (arguments, has_changed) {
        (SuppressArguments::Remove { .. }, false) => {
            report("mailroom: the address is not suppressed");
            Ok(ExitCode::FAILURE)
        }
        (SuppressArguments::Remove { .. }, true) => print("the address gets mails again"),
        (_, true) => print("the address gets no mails"),
        (_, false) => print("the address got no mails before"),
    }
}

async fn list(json: bool) -> Outcome {
    let (client, _) = connect_to_queue("mailroom suppress", &["mailroom.suppress"]).await?;
    for row in client.query_typed(include_str!("suppressed.sql"), &[]).await? {
        print(row.try_get::<_, String>(usize::from(json))?)?;
    }
    Ok(ExitCode::SUCCESS)
}
