//! `mailroom retry`: puts dead letters back into the queue.

use std::collections::BTreeSet;

use serde_json::json;
use tokio_postgres::types::Type;

use super::dead_letters::DeadLetters;
use super::{Outcome, connect_to_queue, print, report};
use crate::config::SchemaSetting;
use crate::log::display::Counted;

#[derive(clap::Args)]
pub(crate) struct RetryArguments {
    #[command(flatten)]
    which: DeadLetters,

    /// With `--all-dead`: also those that may have been delivered, which are left out else; their
    /// recipients may get the mail a second time
    #[arg(long, requires = "all_dead")]
    in_doubt: bool,

    #[command(flatten)]
    schema: SchemaSetting,
}

/// Ends with 0 if all tokens that were named are back.
pub(crate) async fn run(arguments: RetryArguments) -> Outcome {
    let function = if arguments.which.all_dead { "mailroom.retry_all" } else { "mailroom.retry" };
    let (client, _) = connect_to_queue(arguments.schema, "mailroom retry", &[function]).await?;
    let rows = if arguments.which.all_dead {
        let in_doubt = [(&arguments.in_doubt as _, Type::BOOL)];
        client
            .query_typed("SELECT token, is_in_doubt FROM mailroom.retry_all($1)", &in_doubt)
            .await?
    } else {
        let ids = [(&arguments.which.ids as _, Type::INT8_ARRAY)];
        client.query_typed("SELECT token, is_in_doubt FROM mailroom.retry($1)", &ids).await?
    };
    let back: BTreeSet<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    if arguments.which.json {
        for row in &rows {
            let (id, is_in_doubt): (i64, bool) = (row.try_get(0)?, row.try_get(1)?);
            print(json!({
                "token": id, "outcome": "waits", "may_have_been_delivered": is_in_doubt
            }))?;
        }
        return arguments.which.report_others(&back);
    }
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
    arguments.which.report_others(&back)
}
