//! `mailroom prune`: deletes what is old from the log of hand-overs.

use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use super::operator::{Error, Operator, connect};
use crate::config::{Span, retention};
use crate::counted::Counted;
use crate::retention::{Progress, prune, take_turn};

/// How often the turn is asked for while somebody else has it.
const PAUSE: Duration = Duration::from_millis(200);

/// How often it is said how far the command is.
const SAID: Duration = Duration::from_secs(1);

/// Arguments of `mailroom prune`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Arguments {
    /// Age from which hand-overs are deleted, and dead tokens that cannot be sent any more: 30d, 48h; at least 1d
    #[arg(long, value_name = "AGE", value_parser = age, allow_hyphen_values = true)]
    older_than: Duration,
}

/// Runs the command. How far it is goes to standard error, the outcome to standard output.
pub async fn run(arguments: Arguments) -> Result<(), Error> {
    let Operator { client, keeps_state } =
        connect("mailroom prune", &["mailroom_prune", "mailroom_prune_dead"]).await?;
    if keeps_state {
        wait_for_turn(&client).await?;
    }
    let mut said = Instant::now();
    let progress = prune(&client, arguments.older_than, async |progress, _| {
        if said.elapsed() >= SAID {
            said = Instant::now();
            say(progress);
        }
    })
    .await?;
    writeln!(
        io::stdout(),
        "pruned {} and {}, all older than {}",
        Counted(progress.handovers, "hand-over", "hand-overs"),
        Counted(progress.dead, "dead token", "dead tokens"),
        Span(arguments.older_than)
    )?;
    Ok(())
}

async fn wait_for_turn(client: &Client) -> Result<(), Error> {
    let mut said = false;
    while !take_turn(client).await? {
        if !said {
            writeln!(io::stderr(), "another process is pruning; waiting for it to end").ok();
            said = true;
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

fn say(progress: Progress) {
    let percent = 100 * progress.blocks / progress.all_blocks.max(1);
    writeln!(
        io::stderr(),
        "{percent} % of the log looked through, {} and {} pruned",
        Counted(progress.handovers, "hand-over", "hand-overs"),
        Counted(progress.dead, "dead token", "dead tokens")
    )
    .ok();
}

fn age(text: &str) -> Result<Duration, String> {
    retention(text).map_err(|allowed| format!("it must be {allowed}"))
}
