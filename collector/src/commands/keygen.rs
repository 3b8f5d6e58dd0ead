//! `mailroom keygen`: makes a key, or tells the public one of a private one.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use mailroom_verifier_core::{PrivateKey, PrivateKeyText, SharedKey, Signer, Version};
use zeroize::Zeroizing;

use crate::config::{SettingError, process_variables, token_format};
use crate::keys::{KeyError, KeySource, Use};

/// Arguments of `mailroom keygen`.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Write the key to a new file that only its owner can read, instead of to standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[arg(
        long,
        value_name = "FORMAT",
        help = "What the key is to sign: v1 and v2, by the same shared key, or v3, by a private one \
                [env: MAILROOM_TOKEN_FORMAT] [default: v1]"
    )]
    token_format: Option<OsString>,

    /// Make no key, but print the public one that belongs to the private one of `MAILROOM_SIGNING_KEY` or of a key file
    #[arg(long)]
    public: bool,

    #[arg(
        long,
        value_name = "FILE",
        requires = "public",
        help = "File that begins with the private key, for --public [env: MAILROOM_KEY_FILE]"
    )]
    key_file: Option<OsString>,
}

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid, or the private key is missing.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The private key is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is no public key to tell.
    #[error("{0} has no public key, whoever verifies it must hold the shared one; v3 has public keys")]
    NoPublicKey(Version),
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
    /// 2 for settings and keys, otherwise 1.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Setting(_) | Self::Key(_) | Self::NoPublicKey(_) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}

/// Makes a key from the operating system's randomness, or finds the public one of a private one, and writes its text.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let text = if arguments.public { public_key(arguments)? } else { new_key(arguments)? };
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

fn new_key(arguments: &Arguments) -> Result<Zeroizing<Vec<u8>>, Error> {
    let format = token_format(arguments.token_format.as_ref(), &process_variables)?;
    let mut bytes = Zeroizing::new([0; SharedKey::LENGTH]);
    getrandom::fill(bytes.as_mut()).map_err(Error::Randomness)?;
    // Sized beforehand: growing would leave copies of the key in freed memory.
    let mut text = Zeroizing::new(Vec::with_capacity(2 * SharedKey::LENGTH + 1));
    let written = match format {
        Version::V3 => {
            const { assert!(PrivateKey::LENGTH == SharedKey::LENGTH, "both kinds are 32 random bytes") };
            writeln!(text, "{}", PrivateKeyText(&bytes))
        }
        _ => bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}")).and_then(|()| writeln!(text)),
    };
    written.expect("memory takes all that is written");
    Ok(text)
}

fn public_key(arguments: &Arguments) -> Result<Zeroizing<Vec<u8>>, Error> {
    // Without a flag the format goes without saying; the variable is for those who sign.
    if arguments.token_format.is_some() {
        match token_format(arguments.token_format.as_ref(), &process_variables)? {
            Version::V3 => {}
            format => return Err(Error::NoPublicKey(format)),
        }
    }
    let source = KeySource::find(arguments.key_file.as_ref(), Use::Signing(Version::V3), &process_variables)?;
    match source.load(&process_variables)?.signer(Version::V3)? {
        Signer::V3(key) => Ok(Zeroizing::new(format!("{}\n", key.public_key()).into_bytes())),
        signer => Err(Error::NoPublicKey(signer.version())),
    }
}

fn create_private(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}
