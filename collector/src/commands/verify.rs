//! `mailroom verify`: checks whether a token was signed by one of the keys and,
//! in v2 and v3, is still valid.

use std::io::{self, BufRead, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;

use mailroom_verifier_core::{
    Binding, Browser, Expected, KeyRing, Malformed, Moment, UntrustedToken, VerifyError,
    VerifyingKey,
};
use serde_json::json;

use super::action::ActionArguments;
use super::sign::{now, parse_binding};
use super::{CommandError, Outcome, UNREADABLE, print};
use crate::config::heading;
use crate::keys::{KeySource, KeyUse};

/// No token and code are longer.
const MAX_LINE: usize = 1024;

/// Not `Debug`: there are a token and a code among them.
// A token can begin with `-h`: no short flag may take it away.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct VerifyArguments {
    /// The token; `-` reads tokens from standard input, one a line, each with its code after a
    /// space if it has one
    #[arg(value_name = "TOKEN", allow_hyphen_values = true)]
    token: String,

    #[command(flatten)]
    action: ActionArguments,

    /// The code that belongs to a recovery, or to a further action that has one
    #[arg(long, value_name = "DIGITS")]
    code: Option<String>,

    /// The browser that opens the link (v2, v3): the 32 hexadecimal characters of its binding
    #[arg(long, value_name = "HEX", value_parser = parse_binding)]
    binding: Option<Binding>,

    /// Judge the link alone, before its code is typed (v2, v3)
    #[arg(long, conflicts_with = "code")]
    link: bool,

    /// Judge as of this time, in seconds since the Unix epoch, instead of now (v2, v3)
    #[arg(long, value_name = "SECONDS")]
    at: Option<u64>,

    /// By how many seconds this machine's clock may be ahead of the database's
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    clock_tolerance: u64,

    /// File of keys, each of which may have signed; default: that of `MAILROOM_KEY_FILE`
    #[arg(long, value_name = "FILE")]
    #[arg(help_heading = heading::KEYS)]
    key_file: Option<PathBuf>,

    /// Print one JSON object per token: `valid`; if it is not valid also `reason` and `message`
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Prints a verdict a token, in their order; ends with 0 if all are genuine.
pub(crate) fn run(arguments: &VerifyArguments) -> Outcome {
    let source = KeySource::find(arguments.key_file.as_deref(), KeyUse::Verifying)?;
    let (action, actions) = arguments.action.read()?;
    let ring = source.load()?.ring().knowing(&actions);
    let code = arguments.code.as_deref().map(str::as_bytes);
    let binding = arguments.binding.as_ref();
    let mut all_genuine = true;
    let mut tell = |verdict: Result<Genuine, VerifyError>| {
        all_genuine &= verdict.is_ok();
        print(shown(verdict, arguments.json))
    };
    if arguments.token == "-" {
        let mut input = io::stdin().lock();
        let mut lines = 0;
        while let Some(line) = next_line(&mut input).map_err(CommandError::because(UNREADABLE))? {
            tell(line.map_err(VerifyError::from).and_then(|line| {
                let mut words = line.splitn(2, |byte| *byte == b' ');
                let token = words.next().unwrap_or_default();
                judge(
                    token,
                    Expected { action, code: words.next().or(code), binding },
                    arguments,
                    &ring,
                )
            }))?;
            lines += 1;
        }
        if lines == 0 {
            let fault = "there is no token on standard input; write one a line";
            return Err(CommandError::Usage(fault.to_owned()));
        }
    } else {
        tell(judge(
            arguments.token.as_bytes(),
            Expected { action, code, binding },
            arguments,
            &ring,
        ))?;
    }
    Ok(if all_genuine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line of standard input without its end. Of one that is too long for a token and a code, only
/// the length is kept.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Result<Vec<u8>, Malformed>>> {
    let mut line = Vec::new();
    let length = input.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut line)?;
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        line.pop_if(|byte| *byte == b'\r');
    } else if length == MAX_LINE {
        return Ok(Some(Err(Malformed::Length { found: length + input.skip_until(b'\n')? })));
    }
    Ok((length > 0).then_some(Ok(line)))
}

/// Of a genuine token: whether the code that belongs to it is proven, too,
/// and in which browser it is.
type Genuine = (bool, Browser);

fn judge(
    token: &[u8],
    expected: Expected<'_>,
    arguments: &VerifyArguments,
    ring: &KeyRing<Vec<VerifyingKey>>,
) -> Result<Genuine, VerifyError> {
    let Expected { action, code, binding } = expected;
    // The clock is read for each token: standard input may stay open for days.
    let moment = Moment::at(arguments.at.unwrap_or_else(now)).tolerating(arguments.clock_tolerance);
    let token = UntrustedToken::parse(token)?;
    let (code_is_proven, browser) = match code {
        Some(_) if arguments.link => return Err(VerifyError::CodeUncheckable),
        None if arguments.link => {
            (false, token.verify_link(ring, action, moment)?.browser(binding))
        }
        _ => {
            let token = token.verify(ring, expected, moment)?;
            (token.code_is_proven(), token.browser())
        }
    };
    Ok((action.digits() == 0 || code_is_proven, browser))
}

fn shown(verdict: Result<Genuine, VerifyError>, as_json: bool) -> String {
    match (verdict, as_json) {
        (Ok((is_whole, browser)), false) => {
            let code = if is_whole { "" } else { ", apart from its code, which was not checked" };
            let browser =
                if browser == Browser::Other { ", and bound to another browser" } else { "" };
            format!("valid{code}{browser}")
        }
        (Err(error), false) => format!("not valid: {}: {error}", error.reason()),
        (Ok((is_whole, browser)), true) => {
            let mut shown = json!({ "valid": true });
            if !is_whole {
                shown["code_checked"] = false.into();
            }
            if browser != Browser::Unbound {
                shown["browser"] = browser.name().into();
            }
            shown.to_string()
        }
        (Err(error), true) => {
            json!({ "valid": false, "reason": error.reason(), "message": error.to_string() })
                .to_string()
        }
    }
}
