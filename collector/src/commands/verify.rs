//! `mailroom verify`: checks whether a token was signed by one of the keys and, in v2 and v3, is still valid.

use std::io::{self, BufRead, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use mailroom_verifier_core::{
    Expected, KeyRing, Malformed, Moment, UntrustedToken, VerifyError, VerifyingKey,
};
use serde_json::json;

use super::action::ActionArguments;
use super::sign::now;
use super::{CommandError, Outcome};
use crate::config::variable;
use crate::keys::{KeySource, KeyUse};

/// No token and code are longer.
const LONGEST_LINE: usize = 1024;

/// Arguments of `mailroom verify`. Not `Debug`: there are a token and a code among them.
// A token can begin with `-h`: no short flag may take it away.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct VerifyArguments {
    /// The token; `-` reads tokens from standard input, one a line, each with its code after a space if it has one
    #[arg(value_name = "TOKEN", allow_hyphen_values = true)]
    token: String,

    #[command(flatten)]
    action: ActionArguments,

    /// The code that belongs to a recovery, or to a further action that has one
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
    key_file: Option<PathBuf>,

    /// Print a JSON object a token: valid, and code and message of the error
    #[arg(long)]
    json: bool,

    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// Prints a verdict a token, in their order; ends with 0 if all are genuine.
pub fn run(arguments: &VerifyArguments) -> Outcome {
    let source = KeySource::find(arguments.key_file.as_deref(), KeyUse::Verifying, &variable)?;
    let (action, actions) = arguments.action.read()?;
    let ring = source.load(&variable)?.ring().knowing(&actions);
    let mut output = io::stdout().lock();
    let code = arguments.code.as_deref().map(str::as_bytes);
    let mut all_genuine = true;
    if arguments.token == "-" {
        let mut input = io::stdin().lock();
        let mut lines = 0;
        while let Some((line, length)) = next_line(&mut input).map_err(CommandError::Input)? {
            let verdict = token_and_code(&line, length).and_then(|(token, own_code)| {
                judge(token, Expected { action, code: own_code.or(code) }, arguments, &ring)
            });
            all_genuine &= print(&mut output, verdict, arguments.json)?;
            lines += 1;
        }
        if lines == 0 {
            return Err(CommandError::Usage(
                "there is no token on standard input; write one a line".to_owned(),
            ));
        }
    } else {
        let verdict = judge(arguments.token.as_bytes(), Expected { action, code }, arguments, &ring);
        all_genuine = print(&mut output, verdict, arguments.json)?;
    }
    Ok(if all_genuine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The beginning of a line of standard input without its end, at most [`LONGEST_LINE`] bytes, and the length of the whole
/// line, which may be one too many if its end is not kept; `None` at the end.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<(Vec<u8>, usize)>> {
    let mut line = Vec::new();
    let mut length = input.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut line)?;
    if length == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
        line.pop_if(|byte| *byte == b'\r');
        length = line.len();
    } else if length == LONGEST_LINE {
        length += input.skip_until(b'\n')?;
    }
    Ok(Some((line, length)))
}

/// The token of a line and the code that stands after a space.
fn token_and_code(line: &[u8], length: usize) -> Result<(&[u8], Option<&[u8]>), VerifyError> {
    match line.iter().position(|byte| *byte == b' ') {
        // If the code is cut, it still is too long for one.
        Some(space) => Ok((&line[..space], Some(&line[space + 1..]))),
        None if line.len() < length => Err(Malformed::Length { found: length }.into()),
        None => Ok((line, None)),
    }
}

/// Whether the code that belongs to a genuine token is proven, too.
fn judge(
    token: &[u8],
    expected: Expected<'_>,
    arguments: &VerifyArguments,
    ring: &KeyRing<Vec<VerifyingKey>>,
) -> Result<bool, VerifyError> {
    let Expected { action, code } = expected;
    // The clock is read for each token: standard input may stay open for days.
    let moment = Moment::at(arguments.at.unwrap_or_else(now)).tolerating(arguments.clock_tolerance);
    let token = UntrustedToken::parse(token)?;
    let code_is_proven = match code {
        Some(_) if arguments.link => return Err(VerifyError::CodeUncheckable),
        None if arguments.link => {
            token.verify_link(ring, action, moment)?;
            false
        }
        _ => token.verify(ring, expected, moment)?.code_is_proven(),
    };
    Ok(action.digits() == 0 || code_is_proven)
}

/// Prints a verdict; returns whether the token is genuine.
fn print(
    output: &mut impl Write,
    verdict: Result<bool, VerifyError>,
    as_json: bool,
) -> Result<bool, CommandError> {
    let line = match (verdict, as_json) {
        (Ok(true), false) => "valid".to_owned(),
        (Ok(false), false) => "valid, apart from its code, which was not checked".to_owned(),
        (Err(error), false) => format!("not valid: {}: {error}", error.reason()),
        (Ok(true), true) => json!({ "valid": true }).to_string(),
        (Ok(false), true) => json!({ "valid": true, "code_checked": false }).to_string(),
        (Err(error), true) => {
            json!({ "valid": false, "reason": error.reason(), "message": error.to_string() }).to_string()
        }
    };
    writeln!(output, "{line}").map_err(CommandError::Output)?;
    Ok(verdict.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mut input: &[u8]) -> Vec<(Vec<u8>, usize)> {
        std::iter::from_fn(|| next_line(&mut input).unwrap()).collect()
    }

    #[test]
    fn lines_are_taken_without_their_ends_and_the_last_one_need_not_have_one() {
        let line = |text: &str| (text.into(), text.len());
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n\r\n"), [line(""), line("")]);
        assert_eq!(lines(b"a b\r\nc\rd\n\re"), [line("a b"), line("c\rd"), line("\re")]);
    }

    #[test]
    fn of_a_long_line_the_beginning_is_kept_and_the_length() {
        for length in [1_022, 1_023, 1_024, 1_025, 2_048, 100_000] {
            let found = lines(format!("{}\nnext\n", "x".repeat(length)).as_bytes());
            assert_eq!((found.len(), found[1].1), (2, 4));
            assert_eq!(found[0].0.len(), length.min(LONGEST_LINE));
            assert!((length..=length + 1).contains(&found[0].1), "{}", found[0].1);
            assert_eq!(lines("x".repeat(length).as_bytes())[0].1, length);
        }
        let error = token_and_code(&[b'x'; 86], 2_000).unwrap_err();
        assert_eq!(error, Malformed::Length { found: 2_000 }.into());
    }
}
