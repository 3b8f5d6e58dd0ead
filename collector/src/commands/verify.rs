//! `mailroom verify`: says whether a token was signed by one of the keys and, in v2 and v3, is still valid.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::process::ExitCode;

use mailroom_verifier_core::{
    Action, Expected, KeyRing, Malformed, Moment, UntrustedToken, VerifyError, VerifyingKey,
};
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
    let mut input = io::stdin().lock();
    while let Some(line) = Line::next(&mut input).map_err(Error::Input)? {
        let verdict = match line.question() {
            Ok((token, own_code)) => judge(token, own_code.or(code)),
            Err(error) => Err(error),
        };
        all_genuine &= print(&mut output, verdict, arguments.json)?;
        any = true;
    }
    if any { Ok(all_genuine) } else { Err(Error::NoToken) }
}

/// A line of standard input without its end.
#[derive(Debug)]
struct Line {
    /// The first bytes; no token and code are longer.
    text: Vec<u8>,
    /// How many bytes the whole line has.
    length: usize,
}

impl Line {
    const LONGEST: usize = 1024;

    /// Reads a line, of which only the beginning is kept; `None` at the end.
    fn next(input: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut text = Vec::new();
        let mut length = input.by_ref().take(Self::LONGEST as u64).read_until(b'\n', &mut text)?;
        if length == 0 {
            return Ok(None);
        }
        let mut is_ended = text.last() == Some(&b'\n');
        while length >= Self::LONGEST && !is_ended {
            let rest = input.fill_buf()?;
            let end = rest.iter().position(|byte| *byte == b'\n');
            let read = end.map_or(rest.len(), |end| end + 1);
            input.consume(read);
            length += read;
            is_ended = end.is_some();
            if read == 0 {
                break;
            }
        }
        if is_ended {
            length -= 1;
            text.truncate(length);
        }
        if text.len() == length && text.last() == Some(&b'\r') {
            length -= 1;
            text.truncate(length);
        }
        Ok(Some(Self { text, length }))
    }

    /// The token and the code that stands after a space.
    fn question(&self) -> Result<(&[u8], Option<&[u8]>), VerifyError> {
        let mut parts = self.text.splitn(2, |byte| *byte == b' ');
        let token = parts.next().unwrap_or_default();
        match parts.next() {
            // If that is cut, it still is too long for a code.
            Some(code) => Ok((token, Some(code))),
            None if token.len() < self.length => Err(Malformed::Length { found: self.length }.into()),
            None => Ok((token, None)),
        }
    }
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
        (Err(error), false) => format!("not valid: {}: {error}", error.reason()),
        (Ok(Proven::All), true) => json!({ "valid": true }).to_string(),
        (Ok(Proven::Link), true) => json!({ "valid": true, "code_checked": false }).to_string(),
        (Err(error), true) => {
            json!({ "valid": false, "reason": error.reason(), "message": error.to_string() }).to_string()
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

    fn lines(mut input: &[u8]) -> Vec<(Vec<u8>, usize)> {
        let mut lines = Vec::new();
        while let Some(Line { text, length }) = Line::next(&mut input).unwrap() {
            lines.push((text, length));
        }
        lines
    }

    #[test]
    fn lines_are_taken_without_their_ends_and_the_last_one_need_not_have_one() {
        let line = |text: &str| (text.as_bytes().to_vec(), text.len());
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n\r\n"), [line(""), line("")]);
        assert_eq!(lines(b"a b\r\nc\rd\n\re"), [line("a b"), line("c\rd"), line("\re")]);
    }

    #[test]
    fn a_line_without_an_end_is_counted_and_not_kept() {
        for length in [1_022, 1_023, 1_024, 1_025, 2_048, 100_000] {
            let found = lines(format!("{}\nnext\n", "x".repeat(length)).as_bytes());
            assert_eq!((found.len(), found[0].1, found[1].1), (2, length, 4));
            assert_eq!(found[0].0.len(), length.min(Line::LONGEST));
            assert_eq!(lines("x".repeat(length).as_bytes())[0].1, length);
        }
        let cut = Line { text: vec![b'x'; 86], length: 2_000 };
        assert_eq!(cut.question().unwrap_err(), Malformed::Length { found: 2_000 }.into());
    }

    #[test]
    fn debug_output_shows_no_token_secret_or_code() {
        let line = ["verify", "sixty-two-and-more", "--action", "recover", "--code", "01234"];
        let shown = format!("{:?}", CommandLine::try_parse_from(line).unwrap().arguments);
        assert!(shown.contains("Recover"), "{shown}");
        assert!(!shown.contains("sixty") && !shown.contains("01234"), "{shown}");
    }
}
