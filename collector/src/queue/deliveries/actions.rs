//! The actions that the database knows, and those of them that this process signs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use mailroom_verifier_core::{Action, Actions, Further, Version};
use tokio_postgres::Row;

use crate::config::token_format;
use crate::queue::QueueError;
use crate::queue::session::{column, unexpected};

/// How often they are read again, at most, while tokens wait for one that is not among them.
const REREAD_PAUSE: Duration = Duration::from_secs(5);

/// The last column is missing in a schema that is older than this program.
pub(crate) const LIST_ACTIONS: &str = "SELECT number, name, path, code_digits, \
                                       pg_catalog.to_jsonb(action) ->> 'token_format'::text \
                                       FROM mailroom.list_actions() AS action";

/// Only these tokens are claimed; `mailroom actions` and `mailroom check` show the others.
#[derive(Debug)]
pub(crate) struct SignableActions {
    /// In which format this process signs; what the database has recorded, from when it is known,
    /// unless the settings say it.
    format: Option<Version>,
    /// What the database has recorded.
    recorded: Option<Version>,
    by_number: BTreeMap<i16, Action>,
    /// Actions live as long as the process: each text is leaked once,
    /// however often the actions are read.
    texts: BTreeSet<&'static str>,
    read_at: Option<Instant>,
}

impl SignableActions {
    pub(crate) fn of(format: Option<Version>) -> Self {
        Self {
            format,
            recorded: None,
            by_number: BTreeMap::new(),
            texts: BTreeSet::new(),
            read_at: None,
        }
    }

    pub(super) fn is_stale(&self) -> bool {
        self.read_at.is_none_or(|read| read.elapsed() >= REREAD_PAUSE)
    }

    /// Takes the rows of `list_actions()`. The format does not change any more once it is known:
    /// what is claimed is what it signs.
    pub(crate) fn read(&mut self, rows: &[Row]) -> Result<(), QueueError> {
        self.by_number.clear();
        if let Some(row) = rows.first() {
            // A schema without it is signed in v1.
            let recorded = column::<Option<&str>>(row, 4)?.map_or(Ok(Version::V1), token_format);
            self.recorded =
                Some(recorded.map_err(|_| unexpected("a format that is not known here"))?);
            self.format = self.format.or(self.recorded);
        }
        for row in rows {
            let number = column(row, 0)?;
            let name = column(row, 1)?;
            let path = column(row, 2)?;
            self.add(number, name, path, column(row, 3)?);
        }
        self.read_at = Some(Instant::now());
        Ok(())
    }

    /// Leaves out what the key does not sign; tokens of such an action are not claimed.
    fn add(&mut self, number: i16, name: &str, path: Option<&str>, digits: i16) {
        let (Ok(small), Ok(digits)) = (u8::try_from(number), u8::try_from(digits)) else { return };
        let action = Action::from_number(small).unwrap_or_else(|| {
            let name = self.leaked(name);
            let path = self.leaked(path.unwrap_or_default());
            Action::Further(Further { number: small, name, path, digits })
        });
        let is_signable = match action {
            Action::Further(_) if !self.format().has_header() => false,
            Action::Further(further) => path.is_none() || Actions::new([further]).is_ok(),
            Action::Activate | Action::Recover => true,
        };
        if is_signable {
            self.by_number.insert(number, action);
        }
    }

    fn leaked(&mut self, text: &str) -> &'static str {
        self.texts.get(text).copied().unwrap_or_else(|| {
            let text = &*text.to_owned().leak();
            self.texts.insert(text);
            text
        })
    }

    /// The format in which claimed tokens are signed. Before it is known there is no action, so
    /// that nothing is claimed.
    pub(crate) fn format(&self) -> Version {
        self.format.unwrap_or(Version::V1)
    }

    /// What the database has recorded, if this process signs another format.
    pub(super) fn other_default(&self) -> Option<Version> {
        self.recorded.filter(|recorded| *recorded != self.format())
    }

    /// Whether a token of the format can be bound to a browser.
    pub(super) fn binds(&self) -> bool {
        self.format().binds()
    }

    /// What helps tokens that are not claimed. Without a header the format is the cause; the schema
    /// has no action that the others do not sign, so that under them it is new.
    pub(super) fn what_helps(&self) -> &'static str {
        if self.format().has_header() {
            "new actions are read within seconds"
        } else {
            "v1 signs only activate and recover, and no links for one browser; set \
             MAILROOM_TOKEN_FORMAT=v2 once the verifiers accept it"
        }
    }

    pub(crate) fn numbers(&self) -> Vec<i16> {
        self.by_number.keys().copied().collect()
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.by_number.values().copied().map(Action::name).collect()
    }

    pub(super) fn numbered(&self, number: i16) -> Result<Action, QueueError> {
        self.by_number
            .get(&number)
            .copied()
            .ok_or_else(|| unexpected("an action that is not signed here"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_signs_the_built_in_actions_and_other_formats_all_that_are_sound() {
        for (format, signed) in [
            (None, &[1, 2][..]),
            (Some(Version::V1), &[1, 2]),
            (Some(Version::V2), &[1, 2, 4, 6, 127]),
        ] {
            let mut actions = SignableActions::of(format);
            for (number, path, digits) in [
                (1, Some("/other"), 0),
                (2, Some("/recover"), 5),
                (4, Some("/invite"), 6),
                (5, Some("/in/../vite"), 0),
                (6, None, 0),
                (7, Some("/recover"), 0),
                (127, Some("/last"), 0),
                (128, Some("/invite"), 0),
                (-1, None, 0),
                (300, None, 0),
            ] {
                actions.add(number, "name", path, digits);
            }
            assert_eq!(actions.numbers(), signed);
            assert_eq!(actions.numbered(1).unwrap().path(), "/activate");
            assert!(actions.numbered(5).is_err());
        }
    }
}
