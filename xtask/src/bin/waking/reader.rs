//! Counts the tokens that a collector hands over.

use std::io::{BufRead, BufReader};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use mailroom_tests::collector::Collector;

/// A collector that prints nothing for this long does not go on.
const PATIENCE: Duration = Duration::from_secs(60);

/// The lines of a collector: when each came, and how many tokens it has.
pub(crate) struct Reader {
    lines: Receiver<(Instant, usize)>,
}

impl Reader {
    /// Reads as fast as the lines come.
    pub(crate) fn of(collector: &mut Collector) -> Result<Self> {
        let mut pipe = BufReader::with_capacity(1 << 20, collector.output()?);
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut line = Vec::new();
            while pipe.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                let tokens = line.split(|byte| *byte == b',').count() / 5;
                if sender.send((Instant::now(), tokens)).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Ok(Self { lines })
    }

    /// When the next line came.
    pub(crate) fn next_line(&self, collector: &Collector) -> Result<Instant> {
        self.next(collector).map(|(at, _)| at)
    }

    /// Waits for so many tokens.
    pub(crate) fn wait_for(&self, tokens: usize, collector: &Collector) -> Result<()> {
        let mut came = 0;
        while came < tokens {
            came += self.next(collector)?.1;
        }
        if came > tokens {
            bail!("{came} tokens came where {tokens} were registered");
        }
        Ok(())
    }

    fn next(&self, collector: &Collector) -> Result<(Instant, usize)> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => {
                bail!("nothing came for {PATIENCE:?}:\n{}", collector.log())
            }
            Err(RecvTimeoutError::Disconnected) => bail!("the collector ended:\n{}", collector.log()),
        }
    }
}
