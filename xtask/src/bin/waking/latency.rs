//! From a commit to the line, of a collector that sleeps and sends single tokens.

use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::collector::{Collector, command};
use tokio::time::sleep;

use crate::reader::Reader;
use crate::report::LatencyFigures;
use crate::server::Server;
use crate::writers::register_one;

/// The first ones connect, plan and fill caches.
const WARMING: usize = 20;

/// The longest pause between two registrations. They fall anywhere into what a collector does.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn measure(tokens: usize) -> Result<LatencyFigures> {
    ensure!(tokens > 0, "at least one token is needed");
    let server = Server::start().await?;
    let client = server.connect().await?;
    let mut collector = Collector::start(command(server.url())?.args(["--batch-limit", "1"]))?;
    let reader = Reader::of(&mut collector)?;
    collector.wait_until_it_collects()?;
    let mut spans = Vec::with_capacity(tokens);
    for (number, id) in (0..WARMING + tokens).zip(1..) {
        // Spread evenly, in an order without a period that anything else could have.
        let fraction = f64::from(u32::try_from(number * 1_597 % 4_181)?) / 4_181.0;
        sleep(PAUSE.mul_f64(fraction)).await;
        let committed = register_one(&client, id).await?;
        let came = reader.next_line(&collector)?;
        if number >= WARMING {
            // A line can be there before the answer to the commit is.
            spans.push(came.saturating_duration_since(committed));
        }
    }
    collector.stop()?;
    Ok(LatencyFigures::new(server.version(), spans))
}
