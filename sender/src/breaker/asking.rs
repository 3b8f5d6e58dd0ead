//! Questions to a provider without a mail, and what its answers are worth. The caller passes the
//! times in.

use std::time::{Duration, Instant};

/// So many mails are tried at once after bad answers without a mail, as long as the provider never
/// gave a good one: it may be of that kind.
pub(super) const PASSED_OVER: u32 = 3;

/// A mail that is accepted so soon after a bad answer without one shows what that is worth.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// How long answers without a mail prove nothing then.
const WORTHLESS: Duration = Duration::from_secs(21_600);

/// What a provider's bad answers without a mail are worth.
#[derive(Clone, Copy, Debug)]
enum Worth {
    /// It never gave a good one.
    Unknown,
    /// It gives good ones, too.
    Proof,
    /// It accepted a mail after a bad one: until then they prove nothing.
    Nothing(Instant),
}

#[derive(Debug)]
pub(super) struct Asking {
    is_under_way: bool,
    worth: Worth,
    /// When a mail was let through though the answer without one was bad.
    passed_over: Option<Instant>,
}

impl Asking {
    pub(super) fn new() -> Self {
        Self { is_under_way: false, worth: Worth::Unknown, passed_over: None }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    pub(super) fn begin(&mut self) {
        self.is_under_way = true;
    }

    /// The provider answered as it should or not.
    pub(super) fn end(&mut self, is_answered: bool) {
        self.is_under_way = false;
        if is_answered {
            (self.worth, self.passed_over) = (Worth::Proof, None);
        }
    }

    /// Notes whether a mail is let through now though the answer was bad.
    pub(super) fn pass_over(&mut self, is_passed_over: bool, now: Instant) {
        self.passed_over = is_passed_over.then_some(now);
    }

    /// Whether bad answers prove nothing; of a provider that never gave a good one, if this is
    /// among the first.
    pub(super) fn is_worth_nothing(&self, is_early: bool, now: Instant) -> bool {
        match self.worth {
            Worth::Unknown => is_early,
            Worth::Proof => false,
            Worth::Nothing(until) => now < until,
        }
    }

    /// Whether bad answers proved nothing when this was last looked at.
    pub(super) fn was_disproved(&self) -> bool {
        matches!(self.worth, Worth::Nothing(_))
    }

    /// A mail was answered, and accepted or not.
    pub(super) fn show(&mut self, is_accepted: bool, now: Instant) {
        if let Some(since) = self.passed_over.take().filter(|_| is_accepted)
            && now.saturating_duration_since(since) < SHOWN_WITHIN
        {
            self.worth = Worth::Nothing(now + WORTHLESS);
        }
    }
}
