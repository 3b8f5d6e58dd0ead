//! One collector, from its start to the last line.

use std::io::Read;
use std::process::ChildStdout;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use mailroom_tests::collector::{Collector, command};

use crate::memory;
use crate::queue::Queue;

/// A collector that prints nothing for this long does not go on.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many tokens the first and the last part of a round have.
pub(crate) const PART: usize = 10_000;

/// What a collector printed, and when.
pub(crate) struct Round {
    /// All lines.
    pub(crate) output: Vec<u8>,
    /// From the collector's start to the last line.
    pub(crate) elapsed: Duration,
    /// Tokens per second of the first part and of the last, counted from a line's arrival; if there are as many tokens.
    pub(crate) parts: Option<[u64; 2]>,
    /// The most memory that the collector had, in units of 1024 bytes.
    pub(crate) peak: u64,
}

impl Round {
    /// Drains `tokens` tokens in batches of `limit`, with all other settings as they are by default.
    pub(crate) fn run(queue: &Queue, limit: usize, tokens: usize) -> Result<Self> {
        let mut command = command(queue.url())?;
        command.args(["--queue-kind", queue.kind().name(), "--batch-limit", &limit.to_string()]);
        let started = Instant::now();
        let mut collector = Collector::start(&mut command)?;
        let chunks = read(collector.output()?);
        let mut output = Vec::with_capacity(160 * tokens);
        let mut arrivals = Vec::new();
        let mut lines = 0;
        while lines < tokens / limit {
            match chunks.recv_timeout(PATIENCE) {
                Ok((arrived, bytes)) => {
                    lines += bytes.split(|byte| *byte == b'\n').count() - 1;
                    output.extend(bytes);
                    arrivals.push(Arrival { at: arrived, tokens: lines * limit });
                }
                Err(RecvTimeoutError::Timeout) => {
                    bail!("nothing came for {PATIENCE:?}:\n{}", collector.log())
                }
                Err(RecvTimeoutError::Disconnected) => bail!("the collector ended:\n{}", collector.log()),
            }
        }
        let elapsed = arrivals.last().map_or(Duration::ZERO, |last| last.at - started);
        let peak = memory::peak(collector.process())?;
        collector.stop()?;
        // What came too much is found when the tokens are checked.
        output.extend(chunks.iter().flat_map(|(_, bytes)| bytes));
        Ok(Self { output, elapsed, parts: parts(&arrivals, tokens), peak })
    }
}

/// When so many tokens had come in whole lines.
struct Arrival {
    at: Instant,
    tokens: usize,
}

/// Reads as fast as the lines come.
fn read(mut pipe: ChildStdout) -> Receiver<(Instant, Vec<u8>)> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            if sender.send((Instant::now(), buffer[..length].to_vec())).is_err() {
                break;
            }
        }
    });
    receiver
}

fn parts(arrivals: &[Arrival], tokens: usize) -> Option<[u64; 2]> {
    if tokens < 2 * PART {
        return None;
    }
    let first = arrivals.iter().find(|arrival| arrival.tokens > 0)?;
    let part = arrivals.iter().find(|arrival| arrival.tokens >= PART)?;
    let last_part = arrivals.iter().find(|arrival| arrival.tokens >= tokens - PART)?;
    let last = arrivals.last()?;
    let rate = |from: &Arrival, to: &Arrival| tokens_per_second(to.tokens - from.tokens, to.at - from.at);
    Some([rate(first, part), rate(last_part, last)])
}

/// A rate; that of no time at all is zero.
pub(crate) fn tokens_per_second(tokens: usize, elapsed: Duration) -> u64 {
    let rate = (tokens as u128 * 1_000_000_000).checked_div(elapsed.as_nanos());
    u64::try_from(rate.unwrap_or_default()).unwrap_or(u64::MAX)
}
