//! `mailroom send --check`: whether mails could go out.

use std::path::Path;

use crate::config::Config;
use crate::error::Error;
use crate::journal::Journal;
use crate::provider;
use crate::writer::Writer;

/// Writes a mail of every template, looks for the journal, connects to each provider and authenticates; returns what was found, a sentence a line.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(config: &Path) -> Result<Vec<String>, Error> {
    let config = Config::read(config)?;
    let providers = provider::of(&config)?;
    config.domains()?;
    let writer = Writer::new(&config)?;
    let mails = writer.samples()?.len();
    Journal::check(&config.journal)?;
    let mut found = vec![
        format!("{mails} mails can be written from the templates"),
        format!("the journal {} can be used", config.journal.display()),
    ];
    for provider in providers {
        let warning = provider.check().map_err(Error::Failure)?;
        found.push(format!("the provider {} answers and accepts the login or key", provider.name()));
        found.extend(warning.map(|warning| format!("warning: {warning}")));
    }
    Ok(found)
}
