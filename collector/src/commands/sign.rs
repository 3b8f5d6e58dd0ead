//! `mailroom sign`: makes a token, for tests and for mails sent by hand.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use mailroom_verifier_core::{
    Action, Code, Expiry, Grant, InvalidCode, InvalidExpiry, Purpose, Secret, UnknownAction, Version,
};
use zeroize::Zeroizing;

use crate::config::{SettingError, process_variables, token_format};
use crate::keys::{KeyError, KeySource, Use};

/// How long a link lives unless something else is asked for: as long as the schema lets it.
const LIFETIME: u64 = 15 * 60;

/// Arguments of `mailroom sign`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    /// What the link is to do: activate or recover
    #[arg(long, value_parser = parse_action)]
    action: Action,

    /// The five digits that belong to a recovery
    #[arg(long, value_name = "DIGITS", value_parser = parse_code)]
    code: Option<Code>,

    /// `-` reads the 64 hexadecimal characters of a row's secret from standard input; a random secret otherwise
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<OsString>,

    #[arg(
        long,
        value_name = "FORMAT",
        help = "Format of the token: v1, v2 or v3 [env: MAILROOM_TOKEN_FORMAT] [default: v1]"
    )]
    token_format: Option<OsString>,

    /// When the link ends, in seconds since the Unix epoch; in 15 minutes unless given. v1 has no place for it
    #[arg(long, value_name = "SECONDS", value_parser = parse_expiry)]
    expires_at: Option<Expiry>,

    #[arg(long, value_name = "FILE", help = "File of keys, the first one signs [env: MAILROOM_KEY_FILE]")]
    key_file: Option<OsString>,
}

/// Without the code, and a secret that was written where it must not be.
impl fmt::Debug for Arguments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Arguments");
        shown.field("action", &self.action).field("key_file", &self.key_file).finish_non_exhaustive()
    }
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key is missing.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A recovery without a code.
    #[error("a recovery is signed together with its code; give it with --code")]
    CodeRequired,
    /// An activation with a code.
    #[error("an activation is signed without a code; leave --code out")]
    CodeUncheckable,
    /// An expiry that would be in no token.
    #[error("a v1 token carries no expiry; leave --expires-at out, or sign v2 or v3 with --token-format")]
    ExpiryUnsigned,
    /// The secret was an argument.
    #[error(
        "a secret is not taken as an argument, because everybody on the machine can read those; pipe it in and write \
         `--secret -`"
    )]
    SecretArgument,
    /// Standard input holds no secret.
    #[error("standard input must hold one secret of 64 hexadecimal characters and nothing else")]
    InvalidSecret,
    /// No randomness.
    #[error("the operating system gives no random bytes: {0}")]
    Randomness(getrandom::Error),
    /// Standard input cannot be read.
    #[error("standard input cannot be read: {0}")]
    Input(io::Error),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(io::Error),
}

impl Error {
    /// 2 for arguments, settings and what standard input holds, otherwise 1.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Randomness(_) | Self::Input(_) | Self::Output(_) => ExitCode::FAILURE,
            _ => ExitCode::from(2),
        }
    }
}

/// Prints a token.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let format = token_format(arguments.token_format.as_ref(), &process_variables)?;
    let source = KeySource::find(arguments.key_file.as_ref(), Use::Signing(format), &process_variables)?;
    let signer = source.load(&process_variables)?.signer(format)?;
    let purpose = match (arguments.action, &arguments.code) {
        (Action::Activate, None) => Purpose::Activation,
        (Action::Recover, Some(code)) => Purpose::Recovery(code),
        (Action::Activate, Some(_)) => return Err(Error::CodeUncheckable),
        (Action::Recover, None) => return Err(Error::CodeRequired),
    };
    let secret = match arguments.secret.as_deref() {
        None => random_secret()?,
        Some(dash) if dash == "-" => secret_of_standard_input()?,
        Some(_) => return Err(Error::SecretArgument),
    };
    let expires_at = match (format, arguments.expires_at) {
        (Version::V1, Some(_)) => return Err(Error::ExpiryUnsigned),
        (_, Some(expiry)) => expiry,
        (_, None) => Expiry::from_seconds(now() + LIFETIME).unwrap_or(Expiry::MAX),
    };
    let token = signer.sign(Grant { secret: &secret, purpose, expires_at });
    writeln!(io::stdout(), "{token}").map_err(Error::Output)
}

pub(super) fn parse_action(text: &str) -> Result<Action, UnknownAction> {
    text.parse()
}

/// The clock of this machine, in seconds since the Unix epoch.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn parse_expiry(text: &str) -> Result<Expiry, InvalidExpiry> {
    text.parse().map_err(|_| InvalidExpiry).and_then(Expiry::from_seconds)
}

fn parse_code(text: &str) -> Result<Code, InvalidCode> {
    Code::parse(text)
}

fn random_secret() -> Result<Secret, Error> {
    let mut bytes = [0; Secret::LENGTH];
    getrandom::fill(&mut bytes).map_err(Error::Randomness)?;
    Ok(Secret::from(bytes))
}

fn secret_of_standard_input() -> Result<Secret, Error> {
    const LONGEST: usize = 1024;
    let mut text = Zeroizing::new(Vec::with_capacity(LONGEST));
    io::stdin().lock().take(LONGEST as u64).read_to_end(&mut text).map_err(Error::Input)?;
    let digits = text.trim_ascii();
    if digits.len() != 2 * Secret::LENGTH {
        return Err(Error::InvalidSecret);
    }
    let mut bytes = Zeroizing::new([0; Secret::LENGTH]);
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |character: u8| char::from(character).to_digit(16).ok_or(Error::InvalidSecret);
        let value = digit(pair[0])? << 4 | digit(pair[1])?;
        *byte = u8::try_from(value).expect("two hexadecimal digits are one byte");
    }
    Ok(Secret::from(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn debug_output_shows_no_token_secret_or_code() {
        let line = ["sign", "--action", "recover", "--code", "01234", "--secret", "sixty-two-and-more"];
        let shown = format!("{:?}", CommandLine::try_parse_from(line).unwrap().arguments);
        assert!(shown.contains("Recover"), "{shown}");
        assert!(!shown.contains("sixty") && !shown.contains("01234"), "{shown}");
    }
}
