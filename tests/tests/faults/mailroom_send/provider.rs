//! A provider of mail, and what is wrong with it for a while.

use std::collections::BTreeMap;

use mailroom_tests::mail_server::{Mail, MailServer};
use mailroom_tests::proxy::Proxy;

/// What is wrong with a provider for a while. After `Refuses` a mail was certainly not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Refuses,
    Silent,
    Unheard,
    Cut,
}

pub(super) use Trouble::{Cut, Refuses, Silent, Unheard};

/// A mail server, and the way to it.
pub(super) struct Provider {
    pub(super) server: MailServer,
    pub(super) way: Proxy,
}

impl Provider {
    pub(super) fn begin(&self, trouble: Trouble) {
        match trouble {
            Refuses => self.server.refuse(true),
            Silent => self.way.half_open(),
            Unheard => self.way.swallow_answers(),
            Cut => self.way.cut(),
        }
    }

    pub(super) fn come_back(&self) {
        self.server.refuse(false);
        self.way.restore();
    }

    /// All mails by their recipients.
    pub(super) fn mails(&self) -> BTreeMap<String, Vec<Mail>> {
        let mut mails: BTreeMap<String, Vec<Mail>> = BTreeMap::new();
        for mail in self.server.mails() {
            mails.entry(mail.to.clone()).or_default().push(mail);
        }
        mails
    }
}
