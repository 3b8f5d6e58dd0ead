//! An attempt: what the thread that sends a mail records of it, because it alone knows it in time.
//!
//! Before the provider may have the mail, the journal says that it is in doubt; as soon as the
//! provider has said so, that it was accepted. A kill at any point leaves what is true, or that it
//! is in doubt.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime};

use crate::clock::seconds;
use crate::doubt::Doubt;
use crate::journal::Journal;
use crate::lane::{Lane, Ticket};
use crate::provider::{PreparedMail, Progress, Provider, Verdict};
use crate::queue::Queued;
use crate::standard_error::report;

/// A mail on its way.
pub(crate) struct Attempt<'a> {
    journal: &'a Journal,
    lane: &'a Lane,
    ticket: Ticket,
    mail: &'a Queued,
    /// What was in doubt before it.
    before: Doubt,
    is_replayed: bool,
    is_in_doubt: Cell<bool>,
}

impl<'a> Attempt<'a> {
    pub(crate) fn begin(
        journal: &'a Journal,
        provider: &dyn Provider,
        lane: &'a Lane,
        mail: &'a Queued,
        ticket: Ticket,
    ) -> Self {
        let before = journal.doubt(mail.prepared.key);
        let is_replayed = is_replayed(provider, &mail.prepared, SystemTime::now());
        Self { journal, lane, ticket, mail, before, is_replayed, is_in_doubt: Cell::new(false) }
    }

    /// Records how it ended. What is certain now takes its doubt back.
    pub(crate) fn end(&self, verdict: &Verdict) {
        let key = self.mail.prepared.key;
        let recorded = match verdict {
            Verdict::Sent(_) => self.journal.accept(key).map_err(|error| error.to_string()),
            Verdict::InDoubt { .. } | Verdict::Overloaded { .. } => self.record_doubt(),
            Verdict::Retry { .. }
            | Verdict::Postponed { .. }
            | Verdict::Dead(_)
            | Verdict::Suspected { .. }
            | Verdict::Unavailable { .. } => {
                if !self.is_in_doubt.get() {
                    return;
                }
                self.journal.set_doubt(key, self.before).map_err(|error| error.to_string())
            }
        };
        if let Err(error) = recorded {
            report(&error);
        }
    }

    fn record_doubt(&self) -> Result<(), String> {
        if self.is_in_doubt.get() {
            return Ok(());
        }
        let doubt = self.before.next(self.mail.known, seconds(SystemTime::now()), self.is_replayed);
        self.journal.set_doubt(self.mail.prepared.key, doubt).map_err(|error| error.to_string())?;
        self.is_in_doubt.set(true);
        Ok(())
    }
}

impl Progress for Attempt<'_> {
    fn enter_doubt(&self) -> Result<Option<Duration>, String> {
        self.record_doubt()?;
        Ok(self.lane.enter_doubt(self.ticket, Instant::now()))
    }

    fn enter_envelope(&self) -> Option<Duration> {
        self.lane.enter_envelope(self.ticket, Instant::now())
    }
}

/// Whether the provider still knows the key of a mail, so that further attempts are answered like
/// the first one.
pub(crate) fn is_replayed(
    provider: &dyn Provider,
    prepared: &PreparedMail,
    now: SystemTime,
) -> bool {
    let age = seconds(now).saturating_sub(prepared.prepared_at);
    provider
        .key_window()
        .is_some_and(|window| u64::try_from(age).is_ok_and(|age| age < window.as_secs()))
}
