//! `mailroom sign`: makes a token, for tests and for mails sent by hand.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use mailroom_verifier_core::{
    Action, Binding, Code, Expiry, Grant, InvalidExpiry, Secret, Unsignable, Version,
};
use zeroize::Zeroizing;

use super::action::ActionArguments;
use super::{CommandError, Outcome, UNREADABLE, print, random_bytes, report};
use crate::config::{Setting, heading, token_format};
use crate::keys::{KeySource, KeyUse};

/// How long a link lives unless something else is given: as long as the schema lets it.
const LIFETIME: u64 = 15 * 60;

/// Not `Debug`: the arguments hold a code, and may hold a secret that was passed by mistake.
#[derive(clap::Args)]
pub(crate) struct SignArguments {
    #[command(flatten)]
    action: ActionArguments,

    /// The digits of the code, for an action that has one: five for a recovery
    #[arg(long, value_name = "DIGITS", value_parser = |text: &str| Code::parse(text))]
    code: Option<Code>,

    /// `-` reads the 64 hexadecimal characters of a row's secret from standard input;
    /// a random secret otherwise
    #[arg(long, value_name = "-", allow_hyphen_values = true)]
    secret: Option<OsString>,

    /// Format of the token: v1, v2 or v3. No database is asked for the installation's default;
    /// standard error names it
    #[arg(long, value_name = "FORMAT", value_parser = Setting(token_format))]
    #[arg(env = "MAILROOM_TOKEN_FORMAT", default_value = "v1")]
    token_format: Version,

    /// When the link ends, in seconds since the Unix epoch; in 15 minutes unless given. v1 has no
    /// place for it
    #[arg(long, value_name = "SECONDS", value_parser = parse_expiry)]
    expires_at: Option<Expiry>,

    /// The browser that the link is for (v2, v3): the 32 hexadecimal characters of its binding;
    /// every browser unless given
    #[arg(long, value_name = "HEX", value_parser = parse_binding)]
    binding: Option<Binding>,

    /// File of keys, the first one signs; default: that of `MAILROOM_KEY_FILE`
    #[arg(long, value_name = "FILE")]
    #[arg(help_heading = heading::KEYS)]
    key_file: Option<PathBuf>,
}

pub(crate) fn run(arguments: &SignArguments) -> Outcome {
    let format = arguments.token_format;
    let (action, _) = arguments.action.read()?;
    let source = KeySource::find(arguments.key_file.as_deref(), KeyUse::Signing(Some(format)))?;
    let signer = source.load()?.signer(format)?;
    let secret = match arguments.secret.as_deref() {
        None => Secret::from(*random_bytes()?),
        Some(dash) if dash == "-" => secret_of_standard_input()?,
        Some(_) => {
            let reason = "a secret is not taken as an argument, \
                          because everybody on the machine can read those";
            return Err(CommandError::Usage(format!(
                "{reason}; pipe it in and write `--secret -`"
            )));
        }
    };
    let expires_at = match (format, arguments.expires_at) {
        (format, Some(_)) if !format.has_header() => {
            let advice = "leave --expires-at out, or sign v2 or v3 with --token-format";
            return Err(CommandError::Usage(format!(
                "a {format} token carries no expiry; {advice}"
            )));
        }
        (_, Some(expiry)) => expiry,
        (_, None) => Expiry::from_seconds(now() + LIFETIME).unwrap_or(Expiry::MAX),
    };
    let code = arguments.code.as_ref();
    let binding = arguments.binding.as_ref();
    let grant = Grant { secret: &secret, action, code, expires_at, binding };
    let token = signer.sign(grant).map_err(|error| CommandError::Usage(advice(action, error)))?;
    let printed = print(token)?;
    report(format_args!("signed in the format {format}"));
    Ok(printed)
}

fn advice(action: Action, error: Unsignable) -> String {
    match error {
        Unsignable::SurplusCode => format!("`{action}` is signed without a code; leave --code out"),
        Unsignable::Code { digits } => {
            format!(
                "`{action}` is signed together with its code of {digits} digits; \
                 give it with --code"
            )
        }
        Unsignable::BoundInV1 => "v1 cannot bind a link to a browser; leave --binding out, \
             or sign v2 or v3 with --token-format"
            .to_owned(),
        Unsignable::FurtherInV1 => {
            "v1 signs `activate` and `recover` only; sign v2 or v3 with --token-format".to_owned()
        }
        error => error.to_string(),
    }
}

/// The clock of this machine, in seconds since the Unix epoch.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn parse_expiry(text: &str) -> Result<Expiry, InvalidExpiry> {
    text.parse().map_err(|_| InvalidExpiry).and_then(Expiry::from_seconds)
}

/// Reads what the database has of a browser. It is no secret: it proves nothing without the nonce
/// that it was made of.
pub(super) fn parse_binding(text: &str) -> Result<Binding, &'static str> {
    let mut bytes = [0; Binding::LENGTH];
    match base16ct::mixed::decode(text, &mut bytes) {
        Ok(decoded) if decoded.len() == Binding::LENGTH => Ok(Binding::from(bytes)),
        _ => Err("a binding is 32 hexadecimal characters, as the database has it"),
    }
}

fn secret_of_standard_input() -> Result<Secret, CommandError> {
    const MAX_BYTES: usize = 1024;
    let mut text = Zeroizing::new(Vec::with_capacity(MAX_BYTES));
    io::stdin()
        .lock()
        .take(MAX_BYTES as u64)
        .read_to_end(&mut text)
        .map_err(CommandError::because(UNREADABLE))?;
    let mut bytes = Zeroizing::new([0; Secret::LENGTH]);
    match base16ct::mixed::decode(text.trim_ascii(), bytes.as_mut()) {
        Ok(decoded) if decoded.len() == Secret::LENGTH => Ok(Secret::from(*bytes)),
        _ => Err(CommandError::Usage(
            "standard input must hold one secret of 64 hexadecimal characters and nothing else"
                .to_owned(),
        )),
    }
}
