//! The mails that came, the newest of them, in memory, each of them once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;

/// How many mails are kept unless somebody says otherwise. Those of a test run fit, and the page
/// stays fast.
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
    /// When link and code end, in seconds since the Unix epoch; `None` where a mail does not say.
    pub expires_at: Option<i64>,
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
    /// Whether its templates are here, so that it can be written again.
    pub(crate) is_rewritable: bool,
}

/// What came, for a program that watches.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Counts {
    /// Mails, each counted once.
    pub(crate) received: u64,
    /// Mails that came although they were here already.
    pub(crate) repeated: u64,
}

struct Kept {
    mail: Mail,
    /// Of a mail that was written elsewhere, its Message-ID if it has one.
    message_id: Option<String>,
    write: Option<Box<Write>>,
}

impl Kept {
    fn write(&mut self) {
        let Some(write) = &self.write else { return };
        (self.mail.contents, self.mail.fault) = match write() {
            Ok(contents) => (contents, None),
            Err(fault) => (Contents::default(), Some(fault)),
        };
    }
}

/// The inbox. Everybody's: it has the mails for every address.
pub struct Inbox {
    /// The oldest first.
    kept: Mutex<VecDeque<Kept>>,
    /// How many are kept.
    most: usize,
    /// The id of the newest mail, for those who wait.
    newest: watch::Sender<u64>,
    repeated: AtomicU64,
}

impl fmt::Debug for Inbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Inbox({} mails)", self.kept().len())
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::keeping(KEPT)
    }
}

impl Inbox {
    /// An inbox that keeps the newest `most` mails.
    pub fn keeping(most: usize) -> Self {
        let newest = watch::channel(0).0;
        Self { kept: Mutex::default(), most, newest, repeated: AtomicU64::new(0) }
    }

    /// Takes a mail, which `write` writes now and whenever somebody asks for it to be written
    /// again. One that cannot be written is kept, too, with the reason. Returns its id.
    pub fn deliver(
        &self,
        token: Token,
        write: impl Fn() -> Result<Contents, String> + Send + 'static,
    ) -> u64 {
        let mut new = new(token, Contents::default());
        new.mail.is_rewritable = true;
        new.write = Some(Box::new(write));
        new.write();
        self.keep(&mut self.kept(), new)
    }

    /// Takes a mail that was written elsewhere. A sender that did not hear whether a mail was taken
    /// sends it again with the same Message-ID: that is counted, and shown once.
    pub fn receive(&self, token: Token, contents: Contents, message_id: Option<&str>) {
        let mut new = new(token, contents);
        new.message_id = message_id.map(str::to_owned);
        let mut kept = self.kept();
        if message_id.is_some() && kept.iter().any(|kept| kept.message_id == new.message_id) {
            self.repeated.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.keep(&mut kept, new);
    }

    fn keep(&self, kept: &mut VecDeque<Kept>, mut new: Kept) -> u64 {
        let id = *self.newest.borrow() + 1;
        new.mail.id = id;
        kept.push_back(new);
        if kept.len() > self.most {
            kept.pop_front();
        }
        self.newest.send_replace(id);
        id
    }

    pub(crate) fn counts(&self) -> Counts {
        let repeated = self.repeated.load(Ordering::Relaxed);
        Counts { received: *self.newest.borrow(), repeated }
    }

    /// Follows the id of the newest mail.
    pub(crate) fn follow(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The newest `limit` mails for which `is_wanted` holds, or all of them, the newest first.
    pub(crate) fn those(
        &self,
        limit: Option<usize>,
        is_wanted: impl Fn(&Mail) -> bool,
    ) -> Vec<Mail> {
        let kept = self.kept();
        let mails = kept.iter().rev().map(|kept| &kept.mail).filter(|mail| is_wanted(mail));
        mails.take(limit.unwrap_or(usize::MAX)).cloned().collect()
    }

    pub(crate) fn mail(&self, id: u64) -> Option<Mail> {
        self.kept().iter().find(|kept| kept.mail.id == id).map(|kept| kept.mail.clone())
    }

    /// Writes a mail again, from the templates as they are now.
    pub(crate) fn write_again(&self, id: u64) -> Option<Mail> {
        let mut kept = self.kept();
        let is_it = |kept: &&mut Kept| kept.mail.id == id && kept.mail.is_rewritable;
        let found = kept.iter_mut().find(is_it)?;
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

fn new(token: Token, contents: Contents) -> Kept {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = u64::try_from(at.as_millis()).unwrap_or_default();
    let mail = Mail { id: 0, at, token, contents, fault: None, is_rewritable: false };
    Kept { mail, message_id: None, write: None }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn token(action: &str, to: &str) -> Token {
        Token {
            action: action.to_owned(),
            to: to.to_owned(),
            code: "01234".to_owned(),
            expires_at: Some(1_800_000_900),
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
        let mails = inbox.those(None, |_| true);
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

    #[test]
    fn a_mail_that_was_written_elsewhere_is_shown_once_and_never_written_again() {
        let inbox = Inbox::keeping(2);
        let receive = |id: Option<&str>| {
            let contents = Contents { subject: "Hello".to_owned(), ..Contents::default() };
            inbox.receive(token("activate", "a@x.test"), contents, id);
        };
        for id in [Some("1@x.test"), Some("2@x.test"), Some("1@x.test"), None, None] {
            receive(id);
        }
        let ids: Vec<_> = inbox.those(None, |_| true).iter().map(|mail| mail.id).collect();
        assert_eq!(ids, [4, 3]);
        let Counts { received, repeated } = inbox.counts();
        assert_eq!((received, repeated), (4, 1));
        assert!(inbox.write_again(4).is_none());
        assert_eq!(inbox.mail(4).unwrap().contents.subject, "Hello");
    }
}
