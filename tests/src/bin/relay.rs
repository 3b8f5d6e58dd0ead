//! A sender for `mailroom collect --sender` whose answers are given by a test: it hands every line
//! on to a socket, and what comes back from there to the collector. `mailroom_tests::mailer` is at
//! the other end.

use std::env;
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process;
use std::thread;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let mut arguments = env::args_os().skip(1);
    let socket = arguments.next().context("usage: relay SOCKET NAME")?;
    let name = arguments.next().context("usage: relay SOCKET NAME")?;
    let mut test = UnixStream::connect(socket).context("there is no test at the other end")?;
    writeln!(test, "{} {}", process::id(), name.to_string_lossy())?;
    let mut answers = test.try_clone()?;
    let answering = thread::spawn(move || {
        let copied = copy(&mut answers, &mut io::stdout());
        // Without a test there is nobody to answer, and without a collector nobody who hears it.
        process::exit(i32::from(copied.is_err()));
    });
    copy(&mut io::stdin().lock(), &mut test)?;
    // The end of the lines is no end of the answers: the test closes its side after the last one.
    test.shutdown(Shutdown::Write)?;
    answering.join().ok();
    Ok(())
}

/// Hands on what there is, at once.
fn copy(from: &mut impl io::Read, to: &mut impl Write) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 16];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            count => {
                to.write_all(&bytes[..count])?;
                to.flush()?;
            }
        }
    }
}
