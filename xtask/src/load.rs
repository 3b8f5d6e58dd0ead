//! Busy processes beside the tests: a test that holds only on an idle machine fails.

use std::env;
use std::hint::black_box;
use std::io;
use std::process::{self, Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result};

/// Processes that keep the machine busy until this is dropped, or this process ends.
pub(crate) struct Load(Vec<Child>);

impl Load {
    /// Starts so many for each core.
    pub(crate) fn start(per_core: usize) -> Result<Self> {
        let cores =
            thread::available_parallelism().context("the number of cores is not known")?.get();
        let program = env::current_exe().context("the path of this program is not known")?;
        let mut load = Self(Vec::new());
        for _ in 0..per_core * cores {
            let mut command = Command::new(&program);
            // This process alone has the other end of the pipe:
            // however it ends, the input ends, too.
            command.arg("busy").stdin(Stdio::piped());
            load.0.push(command.spawn().context("cannot start a busy process")?);
        }
        println!("{} busy processes run beside the tests, {per_core} for each core", load.0.len());
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.stdin.take());
        }
        for child in &mut self.0 {
            child.wait().ok();
        }
    }
}

/// Keeps one core busy until the input ends.
pub(crate) fn be_busy() -> ! {
    thread::spawn(|| {
        let mut count = 0_u64;
        loop {
            count = black_box(count.wrapping_add(1));
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink()).ok();
    process::exit(0)
}
