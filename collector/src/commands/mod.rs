//! What the program does, one command a module, and what the commands have in common.

mod action;
mod error;
mod session;

pub mod collect;
pub mod keygen;
pub mod migrate;
pub mod prune;
pub mod retry;
#[cfg(feature = "send")]
pub mod send;
pub mod sign;
pub mod status;
pub mod verify;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

pub use error::CommandError;
use zeroize::Zeroizing;

/// The status to end with.
pub type Outcome = Result<ExitCode, CommandError>;

/// What fails if a standard stream is broken.
const UNREADABLE: &str = "standard input cannot be read";
const UNWRITABLE: &str = "standard output cannot be written";

fn print(line: impl Display) -> Result<(), CommandError> {
    writeln!(io::stdout(), "{line}").map_err(CommandError::because(UNWRITABLE))
}

/// Writes a line to standard error. If that is closed, what is done goes on, and its outcome stays.
fn report(line: impl Display) {
    writeln!(io::stderr(), "{line}").ok();
}

/// As many bytes as a key or a secret has.
fn random_bytes() -> Result<Zeroizing<[u8; 32]>, CommandError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut())
        .map_err(CommandError::because("the operating system gives no random bytes"))?;
    Ok(bytes)
}
