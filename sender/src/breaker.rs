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

use std::time::{Duration, Instant};

use crate::provider::Verdict;

/// The first pause of a provider beside which there is another one, doubling up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause that a provider is granted.
const LONGEST_ASKED: Duration = Duration::from_secs(3_600);

/// So many mails in doubt, one after the other, may be the fault of their recipients while the
/// provider answers well without a mail. After them there are pauses.
const OWN_DOUBTS: u32 = 20;

/// The longest of these pauses: the first one is a second, and each is twice as long as the one
/// before. Others wait as long, if all of them were a stranger's.
const LONGEST_DOUBT_PAUSE: Duration = Duration::from_secs(5);

/// How long mails in doubt wait, if the provider answered well without a mail and failed with one:
/// longer each time, up to the longest time.
const MISTRUST: Duration = Duration::from_secs(900);
const LONGEST_MISTRUST: Duration = Duration::from_secs(3_600);

/// After this time a mail is tried though the provider does not answer without one: there are APIs
/// that answer badly to what is no mail.
const LONGEST_ASKING: Duration = Duration::from_secs(300);

/// So many mails are tried at once after bad answers without a mail, as long as the provider never
/// gave a good one: it may be of that kind.
const PASSED_OVER: u32 = 3;

/// A mail that is accepted so soon after a bad answer without one shows what that is worth.
const SHOWN_WITHIN: Duration = Duration::from_secs(30);

/// How long answers without a mail prove nothing then.
const WORTHLESS: Duration = Duration::from_secs(21_600);

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
pub(crate) struct Breaker {
    health: Health,
    /// How many failures there were, by which an attempt knows whether it began since.
    failures: u64,
    in_flight: usize,
    is_asked: bool,
    paused_until: Option<Instant>,
    /// The pause after the next failure; none where mails have no other way.
    next_pause: Option<Duration>,
    /// How many mails were left in doubt after the provider had answered without one, since it
    /// accepted one.
    own_doubts: u32,
    /// Until when mails in doubt wait for an acceptance.
    mistrusted_until: Option<Instant>,
    /// When the last mail was left in doubt.
    last_doubt: Option<Instant>,
    worth: Worth,
    /// When a mail was let through though the answer without one was bad.
    passed_over: Option<Instant>,
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
            is_asked: false,
            paused_until: None,
            next_pause: has_other.then_some(FIRST_PAUSE),
            own_doubts: 0,
            mistrusted_until: None,
            last_doubt: None,
            worth: Worth::Unknown,
            passed_over: None,
        }
    }

    /// Whether another mail may be begun.
    pub(crate) fn has_place(&self) -> bool {
        match self.health {
            Health::Working => true,
            Health::Unsure | Health::Failing | Health::Recovering => {
                self.in_flight == 0 && !self.is_asked
            }
            Health::Suspect => false,
        }
    }

    /// Whether a mail may be tried, be it after the provider was asked without one.
    pub(crate) fn takes_trial(&self) -> bool {
        let is_asked_first =
            self.health == Health::Suspect && self.in_flight == 0 && !self.is_asked;
        self.has_place() || is_asked_first
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.health != Health::Working
    }

    /// Whether the provider is to be asked without a mail before it gets one; of the mails that
    /// wait, all or not all are in doubt.
    pub(crate) fn is_to_be_asked(&self, is_all_doubtful: bool) -> bool {
        match self.health {
            _ if self.is_asked => false,
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
    /// take turns: somebody may have given many addresses whose mails are left in doubt, before
    /// which and behind which other mails wait.
    pub(crate) fn takes_newest(&self) -> bool {
        self.health == Health::Recovering && self.own_doubts.is_multiple_of(2)
    }

    /// How long a mail in doubt has to wait for an acceptance.
    pub(crate) fn mistrust_left(&self, now: Instant) -> Option<Duration> {
        self.mistrusted_until?.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// How long nothing may be begun.
    pub(crate) fn pause_left(&self, now: Instant) -> Option<Duration> {
        self.paused_until?.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    pub(crate) fn begin(&mut self) -> Attempt {
        self.in_flight += 1;
        Attempt(self.failures)
    }

    /// The provider is asked without a mail.
    pub(crate) fn begin_asking(&mut self) -> Attempt {
        self.is_asked = true;
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
        self.is_asked = false;
        if is_answered {
            (self.worth, self.passed_over) = (Worth::Proof, None);
        }
        if is_answered || self.passes_over(now) {
            if attempt.0 == self.failures
                && matches!(self.health, Health::Suspect | Health::Failing)
            {
                self.health = Health::Recovering;
                self.passed_over = (!is_answered).then_some(now);
            }
            return true;
        }
        self.fail(attempt, Duration::ZERO, now);
        let is_recent = |doubt| now.saturating_duration_since(doubt) < LONGEST_ASKING;
        let is_suspect = self.health == Health::Suspect && self.last_doubt.is_some_and(is_recent);
        self.health = if is_suspect { Health::Suspect } else { Health::Failing };
        self.passed_over = (!is_suspect).then_some(now);
        false
    }

    /// Whether a bad answer without a mail keeps none back. Where mails have another way, it does.
    fn passes_over(&self, now: Instant) -> bool {
        let is_worth_nothing = match self.worth {
            Worth::Unknown => self.health == Health::Suspect && self.own_doubts < PASSED_OVER,
            Worth::Proof => false,
            Worth::Nothing(until) => now < until,
        };
        is_worth_nothing && self.next_pause.is_none()
    }

    /// The provider answered. A refusal shows no more than an answer without a mail does.
    fn succeed(&mut self, attempt: Attempt, is_accepted: bool, now: Instant) {
        if attempt.0 != self.failures || (!is_accepted && self.mistrusted_until.is_some()) {
            return;
        }
        if let Some(since) = self.passed_over.take().filter(|_| is_accepted)
            && now.saturating_duration_since(since) < SHOWN_WITHIN
        {
            self.worth = Worth::Nothing(now + WORTHLESS);
        }
        self.health = Health::Working;
        self.next_pause = self.next_pause.map(|_| FIRST_PAUSE);
        self.paused_until = None;
        (self.own_doubts, self.mistrusted_until) = (0, None);
    }

    /// A mail got no answer, which proves neither that the provider works nor that it fails; but
    /// another one may have the mails that come now.
    fn leave_unsure(&mut self, attempt: Attempt, now: Instant) {
        if self.next_pause.is_some() {
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
            self.own_doubts += 1;
            let doubled = |first: Duration, times: u32, longest| {
                first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(longest)
            };
            let mistrust = doubled(MISTRUST, self.own_doubts - 1, LONGEST_MISTRUST);
            self.mistrusted_until = Some(now + mistrust);
            if let Some(further) = self.own_doubts.checked_sub(OWN_DOUBTS) {
                pause = pause.max(doubled(FIRST_PAUSE, further, LONGEST_DOUBT_PAUSE));
            }
        }
        self.fail(attempt, pause, now);
        self.last_doubt = Some(now);
        let is_asked_in_vain = matches!(self.worth, Worth::Nothing(_)) && self.passes_over(now);
        self.health = if is_asked_in_vain { Health::Recovering } else { Health::Suspect };
    }

    /// There was a failure, after which nothing is begun for this time at least.
    fn fail(&mut self, attempt: Attempt, asked: Duration, now: Instant) {
        let mut pause = asked.min(LONGEST_ASKED);
        // Mails that were on their way together fail together, which is one failure.
        if attempt.0 == self.failures {
            self.failures += 1;
            pause = pause.max(self.next_pause.unwrap_or_default());
            self.next_pause = self.next_pause.map(|pause| (pause * 2).min(LONGEST_PAUSE));
        }
        self.paused_until = self.paused_until.max(Some(now + pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{About, Receipt};

    fn sent() -> Verdict {
        Verdict::Sent(Receipt::default())
    }

    fn unavailable(after: Option<u64>) -> Verdict {
        Verdict::Unavailable { after: after.map(Duration::from_secs), reason: String::new() }
    }

    fn fail(breaker: &mut Breaker, now: Instant) -> Duration {
        let attempt = breaker.begin();
        breaker.end(attempt, &unavailable(None), now);
        breaker.pause_left(now).unwrap_or_default()
    }

    #[test]
    fn after_a_failure_one_mail_at_a_time_is_tried_until_one_succeeds_that_began_since() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        let (first, second) = (breaker.begin(), breaker.begin());
        assert!(breaker.has_place());
        breaker.end(first, &unavailable(Some(7)), now);
        assert!(breaker.is_failing() && !breaker.has_place());
        assert_eq!(breaker.pause_left(now), Some(Duration::from_secs(7)));
        breaker.end(second, &sent(), now);
        assert!(breaker.is_failing() && breaker.has_place() && breaker.pause_left(now).is_some());
        assert_eq!(breaker.pause_left(now + Duration::from_secs(7)), None);
        let trial = breaker.begin();
        assert!(!breaker.has_place());
        breaker.end(trial, &sent(), now + Duration::from_secs(7));
        assert!(!breaker.is_failing() && breaker.has_place());
    }

    #[test]
    fn a_refusal_of_a_mail_is_no_failure_and_ends_one() {
        let now = Instant::now();
        let refusals = [
            Verdict::Retry { after: None, reason: String::new() },
            Verdict::dead("", About::Unplaced),
        ];
        for refusal in refusals {
            let mut breaker = Breaker::new(true);
            for fails in [false, true] {
                if fails {
                    fail(&mut breaker, now);
                }
                let attempt = breaker.begin();
                breaker.end(attempt, &refusal, now);
                assert!(!breaker.is_failing() && breaker.pause_left(now).is_none());
            }
        }
    }

    /// A mail ends in doubt. Returns the pause.
    fn doubt(breaker: &mut Breaker, now: Instant) -> Duration {
        let attempt = breaker.begin();
        breaker.end(attempt, &Verdict::Overloaded { after: None, reason: String::new() }, now);
        breaker.pause_left(now).unwrap_or_default()
    }

    fn ask(breaker: &mut Breaker, is_answered: bool, now: Instant) {
        assert!(breaker.is_to_be_asked(false) && !breaker.has_place());
        let attempt = breaker.begin_asking();
        assert!(!breaker.is_to_be_asked(false) && !breaker.has_place());
        breaker.end_asking(attempt, is_answered, now);
    }

    /// The provider shows that it gives good answers without a mail.
    fn prove(breaker: &mut Breaker, now: Instant) {
        doubt(breaker, now);
        ask(breaker, true, now);
        let attempt = breaker.begin();
        breaker.end(attempt, &sent(), now);
    }

    #[test]
    fn bad_answers_without_a_mail_hold_up_nothing_where_good_ones_never_came() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        doubt(&mut breaker, now);
        ask(&mut breaker, false, now);
        doubt(&mut breaker, now);
        ask(&mut breaker, false, now);
        assert!(breaker.has_place() && !breaker.takes_doubtful(false));
        let trial = breaker.begin();
        breaker.end(trial, &sent(), now);
        // From now on it is not asked.
        for _ in 0..=PASSED_OVER {
            doubt(&mut breaker, now);
            assert!(breaker.has_place() && !breaker.is_to_be_asked(false));
        }
        // An outage costs a few trials.
        let mut breaker = Breaker::new(false);
        for _ in 0..PASSED_OVER {
            doubt(&mut breaker, now);
            ask(&mut breaker, false, now);
            assert!(breaker.has_place());
        }
        doubt(&mut breaker, now);
        ask(&mut breaker, false, now);
        assert!(!breaker.has_place());
        // Where mails have another way, they go there.
        let mut breaker = Breaker::new(true);
        doubt(&mut breaker, now);
        ask(&mut breaker, false, now);
        assert!(!breaker.has_place());
    }

    #[test]
    fn a_provider_that_leaves_mails_in_doubt_gets_no_other_until_it_answers_without_one() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        prove(&mut breaker, now);
        assert_eq!(doubt(&mut breaker, now), Duration::ZERO);
        for _ in 0..100 {
            ask(&mut breaker, false, now);
            assert!(breaker.is_failing() && !breaker.takes_doubtful(true));
        }
        // A mail is tried at last, in case that the provider never answers without one.
        ask(&mut breaker, false, now + LONGEST_ASKING);
        assert!(
            breaker.has_place() && !breaker.is_to_be_asked(false) && breaker.is_to_be_asked(true)
        );
        doubt(&mut breaker, now + LONGEST_ASKING);
        ask(&mut breaker, true, now + LONGEST_ASKING);
        // Mails in doubt go out if there is nothing else to show that it works.
        assert!(
            breaker.has_place() && !breaker.takes_doubtful(false) && breaker.takes_doubtful(true)
        );
        let trial = breaker.begin();
        assert!(!breaker.has_place());
        breaker.end(trial, &sent(), now + LONGEST_ASKING);
        assert!(!breaker.is_failing() && breaker.mistrust_left(now).is_none());
    }

    #[test]
    fn answers_without_a_mail_are_mistrusted_if_mails_fail_after_them() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        doubt(&mut breaker, now);
        let mut found = Vec::new();
        for _ in 0..OWN_DOUBTS + 6 {
            ask(&mut breaker, true, now);
            let pause = doubt(&mut breaker, now);
            found.push((pause.as_secs(), breaker.mistrust_left(now).unwrap().as_secs() / 60));
        }
        assert_eq!(found[..4], [(0, 15), (0, 30), (0, 60), (0, 60)]);
        assert_eq!(found[19..], [(1, 60), (2, 60), (4, 60), (5, 60), (5, 60), (5, 60), (5, 60)]);
        // A refusal proves nothing then, an acceptance does.
        ask(&mut breaker, true, now);
        for (verdict, is_failing) in [(Verdict::dead("", About::Content), true), (sent(), false)] {
            let attempt = breaker.begin();
            breaker.end(attempt, &verdict, now);
            assert_eq!(
                (breaker.is_failing(), breaker.mistrust_left(now).is_some()),
                (is_failing, is_failing)
            );
        }
        assert_eq!(doubt(&mut breaker, now), Duration::ZERO);
    }

    #[test]
    fn pauses_grow_only_where_mails_have_another_way() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        assert_eq!([(); 3].map(|()| fail(&mut breaker, now).as_secs()), [0, 0, 0]);
        let mut breaker = Breaker::new(true);
        let pauses = [(); 8].map(|()| fail(&mut breaker, now).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        let trial = breaker.begin();
        breaker.end(trial, &sent(), now);
        assert_eq!(fail(&mut breaker, now).as_secs(), 1);
    }

    #[test]
    fn an_attempt_in_doubt_is_no_failure_where_mails_have_no_other_way() {
        let now = Instant::now();
        let in_doubt = || Verdict::InDoubt { reason: String::new() };
        for has_other in [false, true] {
            let mut breaker = Breaker::new(has_other);
            let attempt = breaker.begin();
            breaker.end(attempt, &in_doubt(), now);
            assert_eq!((breaker.is_failing(), breaker.takes_doubtful(false)), (has_other, true));
            assert_eq!(breaker.pause_left(now).is_some(), has_other);
        }
        // Nor does it end one.
        let mut breaker = Breaker::new(false);
        fail(&mut breaker, now);
        let attempt = breaker.begin();
        breaker.end(attempt, &in_doubt(), now);
        assert!(breaker.is_failing() && breaker.has_place());
    }

    #[test]
    fn what_waits_for_long_keeps_no_other_mail_from_being_tried() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        let slow = breaker.begin();
        fail(&mut breaker, now);
        assert!(!breaker.has_place());
        breaker.set_aside();
        assert!(breaker.has_place());
        let trial = breaker.begin();
        breaker.end(trial, &sent(), now);
        breaker.take_back();
        breaker.end(slow, &sent(), now);
        assert!(breaker.has_place() && !breaker.is_failing() && breaker.in_flight == 0);
    }

    #[test]
    fn no_provider_asks_for_more_than_an_hour() {
        let now = Instant::now();
        let mut breaker = Breaker::new(false);
        let attempt = breaker.begin();
        breaker.end(attempt, &unavailable(Some(u64::MAX)), now);
        assert_eq!(breaker.pause_left(now), Some(LONGEST_ASKED));
    }
}
