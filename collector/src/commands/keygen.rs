//! `mailroom keygen`: makes a key.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use mailroom_verifier_core::SharedKey;
use zeroize::Zeroizing;

/// Arguments of `mailroom keygen`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Write the key to a new file that only its owner can read, instead of to standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No randomness.
    #[error("the operating system gives no random bytes: {0}")]
    Randomness(getrandom::Error),
    /// A file of that name is there.
    #[error(
        "{path} exists already and is not overwritten, because it may hold a key in use; name another file"
    )]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be written.
    #[error("{path} cannot be written: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(io::Error),
}

impl Error {
    /// Always 1.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::FAILURE
    }
}

/// Makes a key of 32 bytes from the operating system's randomness and writes its 64 hexadecimal characters.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let mut bytes = Zeroizing::new([0; SharedKey::LENGTH]);
    getrandom::fill(bytes.as_mut()).map_err(Error::Randomness)?;
    // Sized beforehand: growing would leave copies of the key in freed memory.
    let mut text = Zeroizing::new(Vec::with_capacity(2 * SharedKey::LENGTH + 1));
    for byte in bytes.iter() {
        write!(text, "{byte:02x}").expect("memory takes all that is written");
    }
    text.push(b'\n');

    let Some(path) = &arguments.output else {
        let mut output = io::stdout().lock();
        return output.write_all(&text).and_then(|()| output.flush()).map_err(Error::Output);
    };
    let written = create_private(path).and_then(|mut file| {
        file.write_all(&text)?;
        file.sync_all()
    });
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => Error::Exists { path: path.clone() },
        _ => Error::File { path: path.clone(), source },
    })
}

fn create_private(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
