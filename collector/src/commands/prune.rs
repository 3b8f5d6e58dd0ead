//! `mailroom prune`: deletes old delivery attempts, dead letters and tokens that have expired.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Outcome, connect_to_queue_with, print, report};
use crate::config::{SchemaSetting, Setting, TOKEN_RETENTION, heading, retention};
use crate::log::display::{Counted, HumanDuration};
use crate::retention::{Ages, Pruned, prune};

const PAUSE: Duration = Duration::from_millis(200);

const REPORT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct PruneArguments {
    /// Age from which delivery attempts and dead letters that cannot be sent any more are deleted:
    /// 30d, 48h; at least 1d
    #[arg(long, value_name = "AGE", value_parser = Setting(retention), allow_hyphen_values = true)]
    older_than: Duration,

    /// How long after their expiry tokens are deleted, at least 1d
    #[arg(long, value_name = "AGE", value_parser = Setting(retention), allow_hyphen_values = true)]
    #[arg(default_value = TOKEN_RETENTION)]
    tokens_expired_for: Duration,

    /// Print one line of JSON
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,

    #[command(flatten)]
    schema: SchemaSetting,
}

/// The progress goes to standard error, the outcome to standard output.
pub(crate) async fn run(arguments: PruneArguments) -> Outcome {
    let PruneArguments { older_than, tokens_expired_for, json: as_json, schema } = arguments;
    let functions =
        ["mailroom.prune_attempts", "mailroom.prune_dead_letters", "mailroom.prune_tokens"];
    let optional = ["mailroom.prune_account_tokens"];
    let (client, _) =
        connect_to_queue_with(schema, "mailroom prune", &functions, &optional).await?;
    let mut reported = Instant::now();
    let mut has_waited = false;
    let wait = async || {
        if !std::mem::replace(&mut has_waited, true) {
            report("another process is pruning; waiting for it to end");
        }
        sleep(PAUSE).await;
        true
    };
    let progress = prune(
        &client,
        Ages { log: older_than, tokens: tokens_expired_for },
        async |progress, _| {
            if reported.elapsed() >= REPORT_INTERVAL {
                reported = Instant::now();
                let percent = 100 * progress.blocks / progress.all_blocks.max(1);
                report(format_args!("{percent} % of the log scanned, {} pruned", shown(progress)));
            }
        },
        wait,
    )
    .await?;
    if as_json {
        let Pruned { attempts, dead_letters, tokens, .. } = progress;
        return print(json!({
            "attempts": attempts, "dead_letters": dead_letters, "expired_tokens": tokens
        }));
    }
    let [old, past] = [older_than, tokens_expired_for].map(HumanDuration);
    print(format_args!(
        "pruned {}; older than {old}, the tokens expired for longer than {past}",
        shown(progress)
    ))
}

fn shown(Pruned { attempts, dead_letters, tokens, .. }: Pruned) -> String {
    let attempts = Counted(attempts, "delivery attempt", "delivery attempts");
    let dead_letters = Counted(dead_letters, "dead letter", "dead letters");
    format!("{attempts}, {dead_letters} and {}", Counted(tokens, "expired token", "expired tokens"))
}
