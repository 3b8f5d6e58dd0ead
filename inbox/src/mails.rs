//! The mails that came, the newest of them, in memory.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

/// How many mails are kept. Those of a test run fit, and the page stays fast.
const KEPT: usize = 200;

/// What a mail is for, as the collector says it.
#[derive(Clone, Debug, Serialize)]
pub struct Token {
    /// `activate`, `recover` or another action.
    pub action: String,
    /// The recipient's address.
    pub to: String,
    /// What the person types; empty for none.
    pub code: String,
    /// When link and code end, in seconds since the Unix epoch.
    pub expires_at: i64,
    /// The language that the application asked for (BCP 47).
    pub language: Option<String>,
    /// What the application said for the template.
    pub payload: Value,
}

/// What the templates make of a token.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Contents {
    /// Who the mail is from.
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
    #[serde(skip)]
    pub source: String,
}

/// Makes the contents of one mail from the templates as they are now, or says why it cannot.
type Write = dyn Fn() -> Result<Contents, String> + Send;

/// A mail as JSON has it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mail {
    /// Counts from 1; a later mail has a larger one.
    pub(crate) id: u64,
    /// When it came, in milliseconds since the Unix epoch.
    pub(crate) at: u64,
    #[serde(flatten)]
    pub(crate) token: Token,
    #[serde(flatten)]
    pub(crate) contents: Contents,
    /// Why there is no mail; null if there is one.
    pub(crate) fault: Option<String>,
}

struct Kept {
    mail: Mail,
    write: Box<Write>,
}

impl Kept {
    fn write(&mut self) {
        (self.mail.contents, self.mail.fault) = match (self.write)() {
            Ok(contents) => (contents, None),
            Err(fault) => (Contents::default(), Some(fault)),
        };
    }
}

/// The inbox. Everybody's: it has the mails for every address.
pub struct Inbox {
    /// The oldest first.
    kept: Mutex<VecDeque<Kept>>,
    /// The id of the newest mail, for those who wait.
    newest: watch::Sender<u64>,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Inbox({} mails)", self.kept().len())
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self { kept: Mutex::default(), newest: watch::channel(0).0 }
    }
}

impl Inbox {
    /// Takes a mail, which `write` writes now and whenever somebody asks for it to be written
    /// again. One that cannot be written is kept, too, with the reason. Returns its id.
    pub fn deliver(
        &self,
        token: Token,
        write: impl Fn() -> Result<Contents, String> + Send + 'static,
    ) -> u64 {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(at.as_millis()).unwrap_or_default();
        let contents = Contents::default();
        let mail = Mail { id: 0, at, token, contents, fault: None };
        let mut new = Kept { mail, write: Box::new(write) };
        new.write();
        let mut kept = self.kept();
        let id = *self.newest.borrow() + 1;
        new.mail.id = id;
        kept.push_back(new);
        if kept.len() > KEPT {
            kept.pop_front();
        }
        self.newest.send_replace(id);
        id
    }

    /// Follows the id of the newest mail.
    pub(crate) fn follow(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The mails for which `is_wanted` holds, the newest first.
    pub(crate) fn those(&self, is_wanted: impl Fn(&Mail) -> bool) -> Vec<Mail> {
        let kept = self.kept();
        let mails = kept.iter().rev().map(|kept| &kept.mail);
        mails.filter(|mail| is_wanted(mail)).cloned().collect()
    }

    pub(crate) fn mail(&self, id: u64) -> Option<Mail> {
        self.kept().iter().find(|kept| kept.mail.id == id).map(|kept| kept.mail.clone())
    }

    /// Writes a mail again, from the templates as they are now.
    pub(crate) fn write_again(&self, id: u64) -> Option<Mail> {
        let mut kept = self.kept();
        let found = kept.iter_mut().find(|kept| kept.mail.id == id)?;
        found.write();
        Some(found.mail.clone())
    }

    /// Forgets all mails. Ids go on.
    pub(crate) fn clear(&self) {
        self.kept().clear();
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn token(action: &str, to: &str) -> Token {
        Token {
            action: action.to_owned(),
            to: to.to_owned(),
            code: "01234".to_owned(),
            expires_at: 1_800_000_900,
            language: None,
            payload: Value::Null,
        }
    }

    #[test]
    fn the_newest_mails_are_kept_and_their_ids_go_on() {
        let inbox = Inbox::default();
        for number in 0..=KEPT {
            inbox.deliver(token("activate", &format!("{number}@x.test")), || {
                Ok(Contents::default())
            });
        }
        let mails = inbox.those(|_| true);
        assert_eq!((mails.len(), mails[0].id, mails[KEPT - 1].id), (KEPT, 201, 2));
        inbox.clear();
        assert_eq!(inbox.deliver(token("activate", "a@x.test"), || Err(String::new())), 202);
    }

    #[test]
    fn a_mail_that_cannot_be_written_is_kept_with_the_reason_until_it_can() {
        let inbox = Inbox::default();
        let broken = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let seen = broken.clone();
        let id = inbox.deliver(token("activate", "a@x.test"), move || {
            if seen.load(std::sync::atomic::Ordering::Relaxed) {
                return Err("no template".to_owned());
            }
            Ok(Contents { subject: "Hello".to_owned(), ..Contents::default() })
        });
        assert_eq!(inbox.mail(id).unwrap().fault.as_deref(), Some("no template"));
        broken.store(false, std::sync::atomic::Ordering::Relaxed);
        let mail = inbox.write_again(id).unwrap();
        assert_eq!((mail.fault, mail.contents.subject.as_str()), (None, "Hello"));
    }
}
