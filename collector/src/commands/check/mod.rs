//! `mailroom check`: whether everything is there for mails to go out. It changes and sends nothing.

mod database;
mod findings;
#[cfg(feature = "send")]
mod sender;

use std::path::{Path, PathBuf};

use super::level::Level;
use super::{CommandError, Outcome, connection_settings, report_error};
use crate::config::{SchemaSetting, heading, setting_of_variable, token_format};
use crate::keys::{KeySource, KeyUse};
use crate::log::display::Counted;
use findings::Findings;

#[derive(clap::Args)]
pub(crate) struct CheckArguments {
    /// File of keys, as for `collect`; default: that of `MAILROOM_KEY_FILE`
    #[arg(long, value_name = "FILE")]
    #[arg(help_heading = heading::KEYS)]
    key_file: Option<PathBuf>,

    /// Configuration of `mailroom send`, whose templates, journal and provider are checked, too
    #[cfg(feature = "send")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print a line of JSON for each
    #[arg(long, help_heading = heading::OUTPUT)]
    json: bool,

    #[command(flatten)]
    schema: SchemaSetting,
}

/// Ends with 0 if all is well, 1 for a warning, 2 if no mail can go out, and 3 if it cannot look.
pub(crate) async fn run(arguments: CheckArguments) -> Outcome {
    let mut findings = Findings::new(arguments.json);
    match look(arguments, &mut findings).await {
        Ok(()) => Ok(findings.worst().into()),
        Err(error) => {
            report_error(&error);
            Ok(Level::Unknown.into())
        }
    }
}

async fn look(arguments: CheckArguments, findings: &mut Findings) -> Result<(), CommandError> {
    let settings = connection_settings(arguments.schema)?;
    let actions = database::look(&settings, findings).await?;
    key(arguments.key_file.as_deref(), findings)?;
    #[cfg(not(feature = "send"))]
    let _ = actions;
    #[cfg(feature = "send")]
    match arguments.config {
        Some(config) => sender::look(&config, actions.as_ref(), findings)?,
        None => findings.skip("sender", "--config FILE checks that of `mailroom send`, too")?,
    }
    Ok(())
}

/// Whether a key signs the format that is asked for, and who can read its file.
fn key(file: Option<&Path>, findings: &mut Findings) -> Result<(), CommandError> {
    let format = setting_of_variable("MAILROOM_TOKEN_FORMAT", token_format);
    let format = format.map_err(CommandError::Usage)?;
    let source = KeySource::find(file, KeyUse::Signing(format));
    let loaded = source.and_then(|source| {
        let keys = source.load()?;
        keys.signing_key(format)?;
        Ok((source, keys.count()))
    });
    let (source, count) = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return findings.add(Level::Critical, "key", error),
    };
    match source {
        KeySource::File(path) if KeySource::is_exposed(&path) => {
            let fault = format_args!(
                "every user of this machine can read {path}; `chmod o= {path}` keeps it private",
                path = path.display()
            );
            findings.add(Level::Warning, "key", fault)
        }
        KeySource::File(path) => {
            let count = Counted(i64::try_from(count).unwrap_or(i64::MAX), "key", "keys");
            let found = format_args!("{} has {count}; the first one signs", path.display());
            findings.add(Level::Ok, "key", found)
        }
        KeySource::Environment(_) => {
            findings.add(Level::Ok, "key", "the environment has one that signs")
        }
    }
}
