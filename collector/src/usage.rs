//! What is said about arguments that are not understood.
//!
//! Some arguments are tokens and codes, and some that should not be there are secrets, so nothing of what was written is
//! repeated, except for what can only be a misspelt name.

use std::error::Error as _;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The longest text that can be a misspelt flag or command. Tokens, secrets and keys are longer.
const LONGEST_NAME: usize = 24;

/// Prints the help that was asked for, or what is wrong; returns the status to end with.
pub fn answer(error: &Error) -> ExitCode {
    // Nobody may be reading it; the status tells all the same.
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.print().ok();
        }
        _ => {
            writeln!(io::stderr(), "{}", explain(error)).ok();
        }
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// One sentence, and how the command is called.
fn explain(error: &Error) -> String {
    let mut text = format!("mailroom: {}", sentence(error));
    if let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) {
        write!(text, "\n{}", usage.to_string().trim_end()).expect("memory takes all that is written");
    }
    text.push_str("\nFor more information, try `--help`.");
    text
}

fn sentence(error: &Error) -> String {
    let named =
        |kind| error.get(kind).map(texts).filter(|texts| !texts.is_empty()).map(|texts| texts.join(" "));
    // For these kinds of errors it is the name from our own definition, otherwise what was written.
    let argument = || named(ContextKind::InvalidArg).unwrap_or_else(|| "an argument".to_owned());
    match error.kind() {
        ErrorKind::MissingRequiredArgument => format!("the command needs {}", argument()),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let reason = error.source().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("the value of {} is missing or cannot be used{reason}", argument())
        }
        ErrorKind::ArgumentConflict => {
            let argument = argument();
            match named(ContextKind::PriorArg) {
                Some(other) if other != argument => {
                    format!("{argument} cannot be given together with {other}")
                }
                _ => format!("{argument} can be given only once"),
            }
        }
        ErrorKind::UnknownArgument => {
            let written = named(ContextKind::InvalidArg).filter(|text| is_name(text));
            let what = match written {
                Some(name) => format!("`{name}` is not known to this command"),
                None => "an argument is not known to this command, or there is one too many".to_owned(),
            };
            with_suggestion(what, named(ContextKind::SuggestedArg))
        }
        ErrorKind::InvalidSubcommand => {
            let written = named(ContextKind::InvalidSubcommand).filter(|text| is_name(text));
            let what = match written {
                Some(name) => format!("there is no command `{name}`"),
                None => "there is no such command".to_owned(),
            };
            with_suggestion(what, named(ContextKind::SuggestedSubcommand))
        }
        kind => kind.as_str().unwrap_or("the arguments cannot be used").to_owned(),
    }
}

fn with_suggestion(what: String, suggestion: Option<String>) -> String {
    match suggestion {
        Some(name) => format!("{what}; did you mean `{name}`?"),
        None => what,
    }
}

fn texts(value: &ContextValue) -> Vec<String> {
    match value {
        ContextValue::String(text) => vec![text.clone()],
        ContextValue::Strings(texts) => texts.clone(),
        _ => Vec::new(),
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}
