//! `mailroom keygen`: makes a key, or prints the public one of a private one.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgMatches;
use clap::parser::ValueSource;
use mailroom_verifier_core::{PrivateKey, PrivateKeyText, SharedKey, Signer, Version};
use zeroize::Zeroizing;

use super::{CommandError, Outcome};
use crate::config::{Setting, refused, token_format, variable};
use crate::keys::{KeySource, KeyUse};

/// Arguments of `mailroom keygen`.
#[derive(clap::Args)]
pub struct KeygenArguments {
    /// Write the key to a new file that only its owner can read, instead of to standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// What the key is to sign: v1 and v2, by the same shared key, or v3, by a private one
    #[arg(long, value_name = "FORMAT", value_parser = Setting(token_format))]
    #[arg(env = "MAILROOM_TOKEN_FORMAT", default_value = "v1")]
    token_format: Version,

    /// Make no key, but print the public one that belongs to the private one of `MAILROOM_SIGNING_KEY` or of a key file
    #[arg(long)]
    public: bool,

    #[arg(
        long,
        value_name = "FILE",
        requires = "public",
        help = "File that begins with the private key, for --public [env: MAILROOM_KEY_FILE]"
    )]
    key_file: Option<PathBuf>,
}

impl KeygenArguments {
    /// Refuses a format without public keys next to `--public`. The variable does not count: it is for those who sign.
    pub(crate) fn check(&self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let is_flag = matches.value_source("token_format") == Some(ValueSource::CommandLine);
        if self.public && is_flag && self.token_format != Version::V3 {
            return Err(refused(format!(
                "{} has no public key, whoever verifies it must hold the shared one; v3 has public keys",
                self.token_format
            )));
        }
        Ok(())
    }
}

/// Makes a key from the operating system's randomness, or finds the public one of a private one, and writes its text.
pub fn run(arguments: &KeygenArguments) -> Outcome {
    let text = if arguments.public {
        public_key(arguments.key_file.as_deref())?
    } else {
        new_key(arguments.token_format).map_err(CommandError::Randomness)?
    };
    if let Some(path) = &arguments.output {
        write_private(path, &text).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => CommandError::Failure(format!(
                "{} exists already and is not overwritten, because it may hold a key in use; name another file",
                path.display()
            )),
            _ => CommandError::Failure(format!("{} cannot be written: {error}", path.display())),
        })?;
    } else {
        let mut output = io::stdout().lock();
        output.write_all(&text).and_then(|()| output.flush()).map_err(CommandError::Output)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn new_key(format: Version) -> Result<Zeroizing<Vec<u8>>, getrandom::Error> {
    let mut bytes = Zeroizing::new([0; SharedKey::LENGTH]);
    getrandom::fill(bytes.as_mut())?;
    // Sized beforehand: growing would leave copies of the key in freed memory.
    let mut text = Zeroizing::new(Vec::with_capacity(2 * SharedKey::LENGTH + 1));
    let written = match format {
        Version::V3 => {
            const { assert!(PrivateKey::LENGTH == SharedKey::LENGTH, "both kinds are 32 random bytes") };
            writeln!(text, "{}", PrivateKeyText(&bytes))
        }
        _ => bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}")).and_then(|()| writeln!(text)),
    };
    written.expect("a vector takes all that is written");
    Ok(text)
}

fn public_key(key_file: Option<&Path>) -> Result<Zeroizing<Vec<u8>>, CommandError> {
    let source = KeySource::find(key_file, KeyUse::Signing(Version::V3), &variable)?;
    let Signer::V3(key) = source.load(&variable)?.signer(Version::V3)? else {
        unreachable!("the signer of v3 has a private key")
    };
    Ok(Zeroizing::new(format!("{}\n", key.public_key()).into_bytes()))
}

fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}
