//! Pauses that a provider asks for over a mail, which may be this one's or everybody's.

use std::collections::HashMap;
use std::time::Duration;

use super::MAX_TEXTS;

/// The longest pause of everybody over one recipient: after it a mail is tried.
pub(super) const MAX_OF_ONE: Duration = Duration::from_secs(60);

/// Who was answered by long pauses since the last acceptance.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// The domain of the mails that got an answer, by its text; none once it is several.
    asked: HashMap<String, Option<String>>,
}

impl Pauses {
    /// The pause that everybody makes. A longer one than a minute is granted where a second domain
    /// gets the same answer: one recipient's server or one text is not the reason then.
    pub(super) fn grant(&mut self, asked: Duration, text: &str, domain: &str) -> Duration {
        if asked <= MAX_OF_ONE {
            return asked;
        }
        if let Some(first) = self.asked.get_mut(text) {
            first.take_if(|first| first != domain);
            return if first.is_none() { asked } else { MAX_OF_ONE };
        }
        if self.asked.len() < MAX_TEXTS {
            self.asked.insert(text.to_owned(), Some(domain.to_owned()));
        }
        MAX_OF_ONE
    }

    /// A mail was accepted: none of them was everybody's.
    pub(super) fn accept(&mut self) {
        self.asked.clear();
    }
}
