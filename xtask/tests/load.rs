//! The busy processes of `cargo xtask test --load`.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time that a process has computed, in ticks of the kernel.
fn ticks(process: u32) -> Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in brackets may hold anything.
    let fields = &stat[stat.rfind(')').context("no name")? + 2..];
    Ok(fields.split(' ').nth(11).context("no time")?.parse()?)
}

#[test]
fn a_busy_process_computes_until_its_input_ends() -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let mut child = command.arg("busy").stdin(Stdio::piped()).spawn()?;
    let input = child.stdin.take();
    let started = Instant::now();
    let is_busy = loop {
        thread::sleep(Duration::from_millis(50));
        ensure!(child.try_wait()?.is_none(), "it ended before its input");
        if ticks(child.id())? >= 20 {
            break true;
        }
        if started.elapsed() > PATIENCE {
            break false;
        }
    };
    drop(input);
    let has_ended = loop {
        if child.try_wait()?.is_some() {
            break true;
        }
        if started.elapsed() > 2 * PATIENCE {
            child.kill()?;
            break false;
        }
        thread::sleep(Duration::from_millis(50));
    };
    ensure!(is_busy, "in {PATIENCE:?} it computed less than 20 ticks");
    ensure!(has_ended, "it did not end within {PATIENCE:?} after its input");
    Ok(())
}
