//! `mailroom keygen`: makes a key, or prints the public one of a private one.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mailroom_verifier_core::{PrivateKey, PrivateKeyText, SharedKey, Signer, Version};
use zeroize::Zeroizing;

use super::{CommandError, Outcome, random_bytes, report, unwritable};
use crate::config::{Setting, heading, setting_of_variable, token_format};
use crate::keys::{KeySource, KeyUse};

#[derive(clap::Args)]
pub(crate) struct KeygenArguments {
    /// Write the key to a new file that only its owner can read, instead of to standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// What the key is to sign: v1 and v2 (a shared key) or v3 (a private one); default:
    /// `MAILROOM_TOKEN_FORMAT`, or v1
    #[arg(long, value_name = "FORMAT", value_parser = Setting(token_format))]
    token_format: Option<Version>,

    /// Make no key, but print the public one that belongs to the private one of
    /// `MAILROOM_SIGNING_KEY` or of a key file
    #[arg(long)]
    public: bool,

    /// File that begins with the private key, for --public; default: that of `MAILROOM_KEY_FILE`
    #[arg(long, value_name = "FILE", requires = "public")]
    #[arg(help_heading = heading::KEYS)]
    key_file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &KeygenArguments) -> Outcome {
    let (text, kind) = match (arguments.public, arguments.token_format) {
        (true, Some(format)) if !format.is_public() => {
            return Err(CommandError::Usage(format!(
                "{format} has no public key, whoever verifies it must hold the shared one; \
                 v3 has public keys"
            )));
        }
        (true, _) => (public_key(arguments.key_file.as_deref())?, Written::Public),
        (false, Some(format)) => (new_key(format)?, Written::of(format)),
        // Only here: the variable is for those who sign, and a public key is for others.
        (false, None) => {
            let format = setting_of_variable("MAILROOM_TOKEN_FORMAT", token_format);
            let format = format.map_err(CommandError::Usage)?.unwrap_or(Version::V1);
            (new_key(format)?, Written::of(format))
        }
    };
    if let Some(path) = &arguments.output {
        write_private(path, &text).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => CommandError::Failure(format!(
                "{} exists already and is not overwritten, because it may hold a key in use; \
                 name another file",
                path.display()
            )),
            _ => CommandError::Failure(format!("{} cannot be written: {error}", path.display())),
        })?;
        report(format_args!("{}", said_of(&path.display().to_string(), kind)));
    } else {
        // At once: in parts, the key would stay in the buffer of standard output.
        io::stdout().write_all(text.as_bytes()).map_err(unwritable)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is in a file that was written.
#[derive(Clone, Copy)]
enum Written {
    Shared,
    Private,
    Public,
}

impl Written {
    fn of(format: Version) -> Self {
        if format.is_public() { Self::Private } else { Self::Shared }
    }
}

/// What was written, and the next step.
fn said_of(path: &str, written: Written) -> String {
    match written {
        Written::Shared => format!(
            "{path} has a new shared key, which signs and verifies v1 and v2; next: `mailroom \
             collect --key-file {path}`, and give what verifies the links the same key, as a \
             secret"
        ),
        Written::Private => format!(
            "{path} has a new private key, which signs v3; next: `mailroom keygen --public \
             --key-file {path}` prints the public key for what verifies the links, and `mailroom \
             collect --token-format v3 --key-file {path}` signs"
        ),
        Written::Public => {
            format!(
                "{path} has the public key, which verifies v3 and is no secret; next: give it to \
                 what verifies the links"
            )
        }
    }
}

pub(super) fn new_key(format: Version) -> Result<Zeroizing<String>, CommandError> {
    const { assert!(PrivateKey::LENGTH == SharedKey::LENGTH, "both kinds are 32 random bytes") };
    let bytes = random_bytes()?;
    // Sized beforehand: growing would leave copies of the key in freed memory.
    let mut text = Zeroizing::new(String::with_capacity(2 * SharedKey::LENGTH + 1));
    let written = if format.is_public() {
        writeln!(text, "{}", PrivateKeyText(&bytes))
    } else {
        bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}")).and_then(|()| writeln!(text))
    };
    written.expect("a string takes all that is written");
    Ok(text)
}

fn public_key(key_file: Option<&Path>) -> Result<Zeroizing<String>, CommandError> {
    let source = KeySource::find(key_file, KeyUse::Signing(Some(Version::V3)))?;
    let Signer::V3(key) = source.load()?.signer(Version::V3)? else {
        unreachable!("the signer of v3 has a private key")
    };
    Ok(Zeroizing::new(format!("{}\n", key.public_key())))
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
