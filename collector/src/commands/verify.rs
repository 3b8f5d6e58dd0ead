//! `mailroom verify`: says whether a token was signed by one of the keys and, in v2 and v3, is still valid.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use mailroom_verifier_core::{Action, Expected, KeyRing, Moment, UntrustedToken, VerifyError, VerifyingKey};
use serde_json::json;

use super::sign::{now, parse_action};
use crate::config::{SettingError, process_variables};
use crate::keys::{KeyError, KeySource, Use};

/// Arguments of `mailroom verify`.
// A token can begin with `-h`: no short flag may take it away.
#[derive(clap::Args, Clone)]
#[command(disable_help_flag = true)]
pub struct Arguments {
    /// The token; `-` reads tokens from standard input, one a line, each with its code after a space if it has one
    #[arg(value_name = "TOKEN", allow_hyphen_values = true)]
    token: String,

    /// What the link is about to do: activate or recover
    #[arg(long, value_parser = parse_action)]
    action: Action,

    /// The code that belongs to a recovery
    #[arg(long, value_name = "DIGITS")]
    code: Option<String>,

    /// Judge the link alone, before its code is typed (v2, v3)
    #[arg(long, conflicts_with = "code")]
    link: bool,

    /// Judge as of this time, in seconds since the Unix epoch, instead of now (v2, v3)
    #[arg(long, value_name = "SECONDS")]
    at: Option<u64>,

    /// By how many seconds this machine's clock may be ahead of the database's
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    clock_tolerance: u64,

    #[arg(
        long,
        value_name = "FILE",
        help = "File of keys, each of which may have signed [env: MAILROOM_KEY_FILE]"
    )]
    key_file: Option<OsString>,

    /// Print a JSON object a token: valid, and code and message of the error
    #[arg(long)]
    json: bool,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Without the token and the code.
impl fmt::Debug for Arguments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Arguments");
        shown.field("action", &self.action).field("key_file", &self.key_file).finish_non_exhaustive()
    }
}

/// Why there is no verdict, or a negative one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key is missing.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Standard input is empty.
    #[error("there is no token on standard input; write one a line")]
    NoToken,
    /// Standard input cannot be read.
    #[error("standard input cannot be read: {0}")]
    Input(io::Error),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(io::Error),
}

impl Error {
    /// 2 for arguments and settings, otherwise 1.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Setting(_) | Self::Key(_) | Self::NoToken => ExitCode::from(2),
            Self::Input(_) | Self::Output(_) => ExitCode::FAILURE,
        }
    }
}

/// Prints a verdict a token, in their order; answers whether all are genuine.
pub fn run(arguments: &Arguments) -> Result<bool, Error> {
    let source = KeySource::find(arguments.key_file.as_ref(), Use::Verifying, &process_variables)?;
    let ring = source.load(&process_variables)?.ring();
    let judge = |token: &[u8], code: Option<&[u8]>| {
        // The clock is read for each token: standard input may stay open for days.
        let moment = Moment::at(arguments.at.unwrap_or_else(now)).tolerating(arguments.clock_tolerance);
        judge(token, code, arguments, &ring, moment)
    };
    let mut output = io::stdout().lock();
    let code = arguments.code.as_deref().map(str::as_bytes);
    if arguments.token != "-" {
        let verdict = judge(arguments.token.as_bytes(), code);
        return print(&mut output, verdict, arguments.json);
    }
    let (mut any, mut all_genuine) = (false, true);
    for line in io::stdin().lock().split(b'\n') {
        let line = line.map_err(Error::Input)?;
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        let mut parts = line.splitn(2, |byte| *byte == b' ');
        let token = parts.next().unwrap_or_default();
        let verdict = judge(token, parts.next().or(code));
        all_genuine &= print(&mut output, verdict, arguments.json)?;
        any = true;
    }
    if any { Ok(all_genuine) } else { Err(Error::NoToken) }
}

/// What was proven of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proven {
    /// Everything that belongs to it.
    All,
    /// The link, but not the code that belongs to it.
    Link,
}

fn judge(
    token: &[u8],
    code: Option<&[u8]>,
    arguments: &Arguments,
    ring: &KeyRing<Vec<VerifyingKey>>,
    moment: Moment,
) -> Result<Proven, VerifyError> {
    let action = arguments.action;
    let token = UntrustedToken::parse(token)?;
    let code_is_proven = if arguments.link {
        if code.is_some() {
            return Err(VerifyError::CodeUncheckable);
        }
        token.verify_link(ring, action, moment)?;
        false
    } else {
        token.verify(ring, Expected { action, code }, moment)?.code_is_proven()
    };
    Ok(if action == Action::Activate || code_is_proven { Proven::All } else { Proven::Link })
}

fn print(
    output: &mut impl Write,
    verdict: Result<Proven, VerifyError>,
    as_json: bool,
) -> Result<bool, Error> {
    let line = match (verdict, as_json) {
        (Ok(Proven::All), false) => "valid".to_owned(),
        (Ok(Proven::Link), false) => "valid, apart from its code, which was not checked".to_owned(),
        (Err(error), false) => format!("not valid: {}: {error}", error.code()),
        (Ok(Proven::All), true) => json!({ "valid": true }).to_string(),
        (Ok(Proven::Link), true) => json!({ "valid": true, "code_checked": false }).to_string(),
        (Err(error), true) => {
            json!({ "valid": false, "code": error.code(), "message": error.to_string() }).to_string()
        }
    };
    writeln!(output, "{line}").map_err(Error::Output)?;
    Ok(verdict.is_ok())
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
        let line = ["verify", "sixty-two-and-more", "--action", "recover", "--code", "01234"];
        let shown = format!("{:?}", CommandLine::try_parse_from(line).unwrap().arguments);
        assert!(shown.contains("Recover"), "{shown}");
        assert!(!shown.contains("sixty") && !shown.contains("01234"), "{shown}");
    }
}
