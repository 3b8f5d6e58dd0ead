//! What is said when the arguments cannot be used.

use std::error::Error as _;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::colour::ERROR;

/// The longest text that can be a misspelt flag or command. Tokens, secrets and keys are longer.
const MAX_NAME: usize = 24;

/// Prints the help or the error, and returns the exit status.
pub(crate) fn report(error: &Error) -> ExitCode {
    // A closed standard error does not change the status.
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.print().ok();
        }
        _ => {
            let is_setting = error.get(ContextKind::Custom).is_some();
            let usage = match error.get(ContextKind::Usage) {
                Some(ContextValue::StyledStr(usage)) => format!("\n{usage}").trim_end().to_owned(),
                _ => String::new(),
            };
            let advice = if is_setting { "" } else { "\nFor more information, try `--help`." };
            let sentence = sentence(error);
            writeln!(anstream::stderr(), "{ERROR}mailroom:{ERROR:#} {sentence}{usage}{advice}")
                .ok();
        }
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn sentence(error: &Error) -> String {
    let named = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) if !texts.is_empty() => Some(texts.join(" ")),
        _ => None,
    };
    // For these kinds of errors it is the name from our own definition, otherwise what was written.
    let argument = || named(ContextKind::InvalidArg).unwrap_or_else(|| "an argument".to_owned());
    let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    let written =
        |kind| named(kind).filter(|text| text.len() <= MAX_NAME && text.bytes().all(is_of_name));
    let sentence = match error.kind() {
        ErrorKind::MissingRequiredArgument => format!("the command needs {}", argument()),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            if let Some(sentence) = named(ContextKind::Custom) {
                return sentence;
            }
            let reason = error.source().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("the value of {} is missing or cannot be used{reason}", argument())
        }
        ErrorKind::ArgumentConflict => match (argument(), named(ContextKind::PriorArg)) {
            (argument, Some(other)) if other != argument => {
                format!("{argument} cannot be given together with {other}")
            }
            (argument, _) => format!("{argument} can be given only once"),
        },
        ErrorKind::UnknownArgument => match written(ContextKind::InvalidArg) {
            Some(name) => format!("`{name}` is not known to this command"),
            None => "an argument is not known to this command, or there is one too many".to_owned(),
        },
        ErrorKind::InvalidSubcommand => match written(ContextKind::InvalidSubcommand) {
            Some(name) => format!("there is no command `{name}`"),
            None => "there is no such command".to_owned(),
        },
        kind => kind.as_str().unwrap_or("the arguments cannot be used").to_owned(),
    };
    // Of several the last is the most alike.
    let proposed = |kind| match error.get(kind) {
        Some(ContextValue::Strings(all)) => all.last().cloned(),
        _ => named(kind),
    };
    let of_arguments = proposed(ContextKind::SuggestedArg);
    match of_arguments.or_else(|| proposed(ContextKind::SuggestedSubcommand)) {
        Some(name) => format!("{sentence}; did you mean `{name}`?"),
        None => sentence,
    }
}
