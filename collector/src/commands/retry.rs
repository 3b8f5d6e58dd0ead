//! `mailroom retry`: puts dead letters back into the queue.

use std::collections::BTreeSet;
use std::process::ExitCode;

use tokio_postgres::types::Type;

use super::{Outcome, connect_to_queue, print, report};
use crate::config::{SchemaSetting, digits};
use crate::log::display::Counted;

#[derive(clap::Args)]
pub(crate) struct RetryArguments {
    /// Ids of dead letters
    #[arg(
        value_name = "ID",
        value_parser = token_id,
        allow_negative_numbers = true,
        required_unless_present = "all_dead"
    )]
    ids: Vec<i64>,

    /// All dead letters, except for those that may have been delivered
    #[arg(long, conflicts_with = "ids")]
    all_dead: bool,

    /// With `--all-dead`: those, too; their recipients may get the mail a second time
    #[arg(long, requires = "all_dead")]
    in_doubt: bool,

    #[command(flatten)]
    schema: SchemaSetting,
}

/// Ends with 0 if all tokens that were named are back.
pub(crate) async fn run(arguments: RetryArguments) -> Outcome {
    let function = if arguments.all_dead { "mailroom.retry_all" } else { "mailroom.retry" };
    let (client, _) = connect_to_queue(arguments.schema, "mailroom retry", &[function]).await?;
    let rows = if arguments.all_dead {
        let in_doubt = [(&arguments.in_doubt as _, Type::BOOL)];
        client
            .query_typed("SELECT token, is_in_doubt FROM mailroom.retry_all($1)", &in_doubt)
            .await?
    } else {
        let ids = [(&arguments.ids as _, Type::INT8_ARRAY)];
        client.query_typed("SELECT token, is_in_doubt FROM mailroom.retry($1)", &ids).await?
    };
    let back: BTreeSet<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let count = i64::try_from(back.len()).unwrap_or(i64::MAX);
    print(format_args!("{} again", Counted(count, "token waits", "tokens wait")))?;
    for row in &rows {
        if row.try_get(1)? {
            let id: i64 = row.try_get(0)?;
            report(format_args!(
                "mailroom: token {id} may have been delivered: \
                 its recipient may get the mail a second time"
            ));
        }
    }
    let named: BTreeSet<i64> = arguments.ids.iter().copied().collect();
    for id in named.difference(&back) {
        report(format_args!("mailroom: token {id} is no dead letter"));
    }
    Ok(if named.is_subset(&back) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn token_id(text: &str) -> Result<i64, &'static str> {
    digits(text).filter(|id| *id > 0).ok_or("an id is a whole number from 1 to 9223372036854775807")
}
