//! One mail for `mailroom dev`: what a person would get, from the templates as they are now.

use std::path::Path;
use std::time::SystemTime;

use crate::config::Config;
use crate::message;
use crate::protocol::Item;
use crate::writer::Writer;

/// A mail that is shown and not sent. Not `Debug`: it holds a token.
#[expect(missing_debug_implementations, reason = "it holds a token")]
pub struct Letter {
    /// Who it is from.
    pub from: String,
    /// Its subject.
    pub subject: String,
    /// Its link; empty for none.
    pub link: String,
    /// The body without markup.
    pub text: String,
    /// The body in HTML.
    pub html: String,
    /// The bytes that a mail server would get.
    pub source: String,
}

/// Writes the mail of a token. The configuration and all templates are read for it, so that what
/// was changed a moment ago shows. With `base`, links lead there and not where the configuration
/// says.
///
/// # Errors
/// Why there is no mail, without an address, a token or a name: a configuration or a template that
/// cannot be used, a token without a template.
pub fn letter(config: &Path, base: Option<&str>, item: &Item) -> Result<Letter, String> {
    let mut config = Config::read(config).map_err(|error| error.to_string())?;
    if let Some(base) = base {
        base.clone_into(&mut config.links.base);
        config.links.actions.clear();
    }
    let writer = Writer::new(&config).map_err(|error| error.to_string())?;
    let link = writer.link(item)?;
    let mail = writer.write(item, SystemTime::now())?;
    Ok(Letter {
        from: mail.from.to_string(),
        subject: mail.subject.as_str().to_owned(),
        link,
        source: message::encode(&mail),
        text: mail.text,
        html: mail.html,
    })
}
