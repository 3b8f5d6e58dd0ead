//! The circuit breaker of a provider: what it may be given after a failure.
//!
//! Pure policy: the caller passes the times in. A provider that failed gets one mail at a time
//! until it answers one that it was given since; what was on its way at the failure proves nothing.
//!
//! An answer that leaves its mail in doubt (`500`, `502`, a gateway's `504`) is a failure, too.
//! Each mail that is tried then may be a copy too many, so the provider is asked without a mail
//! first. If it answers that as it should, it gets a mail that is not in doubt; if that one fails,
//! too, such answers prove little: mails in doubt wait for an acceptance then, or for a long time.
//!
//! A bad answer without a mail keeps mails back only from a provider that gives good ones, too:
//! there are those that answer badly to whatever is no mail, and would let a single mail that they
//! cannot process hold up all others. As long as no good one came, a few mails are tried
//! nevertheless; once one of them is accepted, the provider is not asked any more for hours.

mod asking;
mod doubts;
mod pauses;

use std::time::{Duration, Instant};

use crate::provider::Verdict;
use asking::{Asking, PASSED_OVER};
use doubts::Doubts;
use pauses::Pauses;

/// After this time a mail is tried though the provider does not answer without one: there are APIs
/// that answer badly to what is no mail.
const MAX_ASKING: Duration = Duration::from_secs(300);

/// How a provider does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Working,
    /// It gave no answer to a mail, and another provider takes the mails meanwhile.
    Unsure,
    /// It was away, or takes no mails.
    Failing,
    /// It left a mail in doubt, and is to be asked without one.
    Suspect,
    /// It answered without a mail, and has not accepted one since.
    Recovering,
}

impl Health {
    const ALL: [(Self, &str); HEALTHS] = [
        (Self::Working, "working"),
        (Self::Unsure, "unsure"),
        (Self::Failing, "failing"),
        (Self::Suspect, "suspect"),
        (Self::Recovering, "recovering"),
    ];
}

/// How many states a provider may have.
pub(crate) const HEALTHS: usize = 5;

#[derive(Debug)]
pub(crate) struct Breaker {
    health: Health,
    /// How many failures there were, by which an attempt knows whether it began since.
    failures: u64,
    in_flight: usize,
    asking: Asking,
    pauses: Pauses,
    doubts: Doubts,
}

/// An attempt, by the number of failures before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt(u64);

impl Breaker {
    /// Where another provider takes the mails meanwhile, this one gets pauses of its own, and not
    /// only those that it asks for.
    pub(crate) fn new(has_other: bool) -> Self {
        Self {
            health: Health::Working,
            failures: 0,
            in_flight: 0,
            asking: Asking::new(),
            pauses: Pauses::new(has_other),
            doubts: Doubts::default(),
        }
    }

    /// Whether another mail may be begun.
    pub(crate) fn has_place(&self) -> bool {
        match self.health {
            Health::Working => true,
            Health::Unsure | Health::Failing | Health::Recovering => {
                self.in_flight == 0 && !self.asking.is_under_way()
            }
            Health::Suspect => false,
        }
    }

    /// Whether a mail may be tried, be it after the provider was asked without one.
    pub(crate) fn takes_trial(&self) -> bool {
        let is_asked_first =
            self.health == Health::Suspect && self.in_flight == 0 && !self.asking.is_under_way();
        self.has_place() || is_asked_first
    }

    /// All states by name, and which of them is so.
    pub(crate) fn healths(&self) -> [(&'static str, bool); HEALTHS] {
        Health::ALL.map(|(health, name)| (name, health == self.health))
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.health != Health::Working
    }

    /// Whether the provider is to be asked without a mail before it gets one; of the mails that
    /// wait, all or not all are in doubt.
    pub(crate) fn is_to_be_asked(&self, is_all_doubtful: bool) -> bool {
        match self.health {
            _ if self.asking.is_under_way() => false,
            Health::Suspect => true,
            Health::Failing => is_all_doubtful && self.in_flight == 0,
            Health::Working | Health::Unsure | Health::Recovering => false,
        }
    }

    /// Whether mails in doubt may go out, if there are no others or if there are. They are never
    /// what shows that the provider works, which would go out again and again.
    pub(crate) fn takes_doubtful(&self, is_all_doubtful: bool) -> bool {
        match self.health {
            Health::Working | Health::Unsure => true,
            Health::Recovering => is_all_doubtful,
            Health::Failing | Health::Suspect => false,
        }
    }

    /// Whether the next trial is the mail that came last, and not the one that came first. They
    /// take turns: somebody may have given many addresses whose mails are refused or left in doubt,
    /// before which and behind which other mails wait.
    pub(crate) fn takes_newest(&self) -> bool {
        match self.health {
            Health::Recovering => self.doubts.own().is_multiple_of(2),
            Health::Failing => self.failures.is_multiple_of(2),
            Health::Working | Health::Unsure | Health::Suspect => false,
        }
    }

    /// How long a mail in doubt has to wait for an acceptance.
    pub(crate) fn mistrust_left(&self, now: Instant) -> Option<Duration> {
        self.doubts.mistrust_left(now)
    }

    /// How long nothing may be begun.
    pub(crate) fn pause_left(&self, now: Instant) -> Option<Duration> {
        self.pauses.left(now)
    }

    pub(crate) fn begin(&mut self) -> Attempt {
        self.in_flight += 1;
        Attempt(self.failures)
    }

    /// The provider is asked without a mail.
    pub(crate) fn begin_asking(&mut self) -> Attempt {
        self.asking.begin();
        Attempt(self.failures)
    }

    /// An attempt waits so long for its answer that it does not count as one that is on its way any
    /// more.
    pub(crate) fn set_aside(&mut self) {
        self.in_flight -= 1;
    }

    /// An attempt that was set aside ends.
    pub(crate) fn take_back(&mut self) {
        self.in_flight += 1;
    }

    pub(crate) fn end(&mut self, attempt: Attempt, verdict: &Verdict, now: Instant) {
        self.in_flight -= 1;
        match verdict {
            Verdict::Sent(_) | Verdict::Dead(_) | Verdict::Retry { .. } => {
                self.succeed(attempt, matches!(verdict, Verdict::Sent(_)), now);
            }
            Verdict::Postponed { .. } => {}
            Verdict::InDoubt { .. } => self.leave_unsure(attempt, now),
            Verdict::Overloaded { after, .. } => self.leave_in_doubt(attempt, *after, now),
            Verdict::Suspected { after, .. } | Verdict::Unavailable { after, .. } => {
                self.fail(attempt, after.unwrap_or_default(), now);
                self.health = Health::Failing;
            }
        }
    }

    /// The provider was asked without a mail, and answered as it should or not. Returns whether
    /// the mails that wait may go on waiting.
    pub(crate) fn end_asking(&mut self, attempt: Attempt, is_answered: bool, now: Instant) -> bool {
        self.asking.end(is_answered);
        if is_answered || self.passes_over(now) {
            if attempt.0 == self.failures
                && matches!(self.health, Health::Suspect | Health::Failing)
            {
                self.health = Health::Recovering;
                self.asking.pass_over(!is_answered, now);
            }
            return true;
        }
        self.fail(attempt, Duration::ZERO, now);
        let is_suspect = self.health == Health::Suspect && self.doubts.is_within(MAX_ASKING, now);
        self.health = if is_suspect { Health::Suspect } else { Health::Failing };
        self.asking.pass_over(!is_suspect, now);
        false
    }

    /// Whether a bad answer without a mail keeps none back. Where mails have another way, it does.
    fn passes_over(&self, now: Instant) -> bool {
        let is_early = self.health == Health::Suspect && self.doubts.own() < PASSED_OVER;
        !self.pauses.has_other() && self.asking.is_worth_nothing(is_early, now)
    }

    /// The provider answered. A refusal shows no more than an answer without a mail does.
    fn succeed(&mut self, attempt: Attempt, is_accepted: bool, now: Instant) {
        if attempt.0 != self.failures || (!is_accepted && self.doubts.is_mistrusted()) {
            return;
        }
        self.asking.show(is_accepted, now);
        self.health = Health::Working;
        self.pauses.reset();
        self.doubts.reset();
    }

    /// A mail got no answer, which proves neither that the provider works nor that it fails; but
    /// another one may have the mails that come now.
    fn leave_unsure(&mut self, attempt: Attempt, now: Instant) {
        if self.pauses.has_other() {
            self.fail(attempt, Duration::ZERO, now);
            if self.health == Health::Working {
                self.health = Health::Unsure;
            }
        }
    }

    /// The provider's answer leaves a mail in doubt, and others would fare like it.
    fn leave_in_doubt(&mut self, attempt: Attempt, asked: Option<Duration>, now: Instant) {
        let mut pause = asked.unwrap_or_default();
        if attempt.0 == self.failures && self.health == Health::Recovering {
            pause = pause.max(self.doubts.note_own(now));
        }
        self.fail(attempt, pause, now);
        self.doubts.note(now);
        let is_asked_in_vain = self.asking.was_disproved() && self.passes_over(now);
        self.health = if is_asked_in_vain { Health::Recovering } else { Health::Suspect };
    }

    /// There was a failure, after which nothing is begun for this time at least.
    fn fail(&mut self, attempt: Attempt, asked: Duration, now: Instant) {
        // Mails that were on their way together fail together, which is one failure.
        let is_new = attempt.0 == self.failures;
        self.failures += u64::from(is_new);
        self.pauses.begin(asked, is_new, now);
    }
}

#[cfg(test)]
mod tests;
