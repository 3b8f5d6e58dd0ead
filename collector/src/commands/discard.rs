//! `mailroom discard`: deletes dead letters that nobody will put back.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tokio_postgres::types::Type;

use super::dead_letters::DeadLetters;
use super::{Outcome, connect_to_queue, print};
use crate::config::{SchemaSetting, Setting, older_than};
use crate::log::display::Counted;

#[derive(clap::Args)]
pub(crate) struct DiscardArguments {
    #[command(flatten)]
    which: DeadLetters,

    /// Of all dead letters, only those that were given up so long ago: 30m, 48h, 7d
    #[arg(long, value_name = "AGE", conflicts_with = "ids", value_parser = Setting(older_than))]
    #[arg(allow_hyphen_values = true)]
    older_than: Option<Duration>,

    #[command(flatten)]
    schema: SchemaSetting,
}

/// Ends with 0 if all tokens that were named are discarded.
pub(crate) async fn run(arguments: DiscardArguments) -> Outcome {
    let function =
        if arguments.which.all_dead { "mailroom.discard_all" } else { "mailroom.discard" };
    let (client, _) = connect_to_queue(arguments.schema, "mailroom discard", &[function]).await?;
    let rows = if arguments.which.all_dead {
        let age = arguments.older_than.unwrap_or_default().as_secs_f64();
        let statement = "SELECT * FROM mailroom.discard_all(interval '1 second' * $1)";
        client.query_typed(statement, &[(&age as _, Type::FLOAT8)]).await?
    } else {
        let ids = [(&arguments.which.ids as _, Type::INT8_ARRAY)];
        client.query_typed("SELECT * FROM mailroom.discard($1)", &ids).await?
    };
    let gone: BTreeSet<i64> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    if arguments.which.json {
        for id in &gone {
            print(json!({ "token": id, "outcome": "discarded" }))?;
        }
        return arguments.which.report_others(&gone);
    }
    let count = i64::try_from(gone.len()).unwrap_or(i64::MAX);
    print(format_args!("{} discarded", Counted(count, "dead letter is", "dead letters are")))?;
    arguments.which.report_others(&gone)
}
