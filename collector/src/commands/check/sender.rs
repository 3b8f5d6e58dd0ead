//! What `mailroom check` finds out about `mailroom send`.

use std::fs::File;
use std::path::Path;

use mailroom_sender::Shown;

use super::database::Actions;
use super::findings::Findings;
use crate::commands::CommandError;
use crate::commands::level::Level;
use crate::commands::send::missing_templates;

/// Looks at templates, journal and provider.
pub(super) fn look(
    config: &Path,
    actions: Option<&Actions>,
    findings: &mut Findings,
) -> Result<(), CommandError> {
    // Said once: templates and sender are both of it.
    if let Err(error) = File::open(config) {
        let fault = format_args!(
            "{} cannot be read: {error}; name the configuration of `mailroom send` by --config",
            config.display()
        );
        return findings.add(Level::Critical, "sender", fault);
    }
    let mut shown = Vec::new();
    if let Some(actions) = actions {
        match mailroom_sender::actions_without_mail(config, &actions.names) {
            Err(error) => findings.add(Level::Critical, "templates", error)?,
            Ok(missing) if missing.is_empty() => {
                findings.add(Level::Ok, "templates", "every action of the database has a mail")?;
            }
            Ok(missing) => {
                findings.add(Level::Warning, "templates", missing_templates(&missing))?;
            }
        }
        let names = actions.names.iter().zip(&actions.have);
        shown.extend(names.map(|(name, (link, code))| Shown::new(name, *link, *code)));
    }
    match mailroom_sender::check(config, &shown) {
        Err(error) => findings.add(Level::Critical, "sender", error),
        Ok(lines) => lines.iter().try_for_each(|line| {
            let level = if line.starts_with("warning: ") { Level::Warning } else { Level::Ok };
            let line = line.strip_prefix("warning: ").unwrap_or(line);
            let name = if line.starts_with("the journal ") { "journal" } else { "sender" };
            findings.add(level, name, line)
        }),
    }
}
