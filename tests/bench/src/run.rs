//! One run of a collector, from its start to its end.

use std::fs;
use std::io::Read;
use std::process::{ChildStdout, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mailroom_tests::collector::Collector;

/// A collector that prints nothing for this long does not go on.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Run {
    pub(crate) started: Instant,
    pub(crate) collector: Collector,
    chunks: Receiver<(Instant, Vec<u8>)>,
    output: Vec<u8>,
    /// When how many tokens had come.
    pub(crate) arrivals: Vec<(Instant, u32)>,
    separators: u32,
}

impl Run {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let started = Instant::now();
        let mut collector = Collector::start(command)?;
        let chunks = read(collector.output()?);
        Ok(Self {
            started,
            collector,
            chunks,
            output: Vec::new(),
            arrivals: Vec::new(),
            separators: 0,
        })
    }

    /// Waits until so many tokens have come altogether, and returns when the last of them came.
    pub(crate) fn wait_for(&mut self, tokens: u32) -> Result<Instant> {
        loop {
            match self.arrivals.last() {
                Some((at, came)) if *came >= tokens => return Ok(*at),
                _ => {}
            }
            match self.chunks.recv_timeout(TIMEOUT) {
                Ok((at, bytes)) => {
                    // A token has five fields, each with a comma or a line feed behind it.
                    let separators =
                        bytes.iter().filter(|byte| matches!(byte, b',' | b'\n')).count();
                    self.separators += u32::try_from(separators)?;
                    self.arrivals.push((at, self.separators / 5));
                    self.output.extend(bytes);
                }
                Err(RecvTimeoutError::Timeout) => {
                    bail!("nothing came for {TIMEOUT:?}:\n{}", self.collector.log())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("the collector ended:\n{}", self.collector.log())
                }
            }
        }
    }

    /// Stops the collector, and returns all that it printed.
    pub(crate) fn stop(mut self) -> Result<Vec<u8>> {
        self.collector.stop()?;
        self.output.extend(self.chunks.iter().flat_map(|(_, bytes)| bytes));
        Ok(self.output)
    }
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

/// The most memory that a process had in RAM so far, in units of 1024 bytes.
pub(crate) fn peak_memory(process: u32) -> Result<u32> {
    memory(process, "VmHWM:")
}

/// The memory that a process has in RAM, in units of 1024 bytes.
pub(crate) fn present_memory(process: u32) -> Result<u32> {
    memory(process, "VmRSS:")
}

fn memory(process: u32, field: &str) -> Result<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))
        .context("only Linux reports the memory of a process")?;
    let found =
        status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB"));
    Ok(found.with_context(|| format!("the kernel does not report {field}"))?.parse()?)
}
