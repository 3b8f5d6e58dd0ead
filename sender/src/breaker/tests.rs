//! What a provider may be given after failures.

use super::doubts::OWN_DOUBTS;
use super::*;
use crate::provider::{About, MAX_ASKED, Receipt};

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
    let refusals =
        [Verdict::Retry { after: None, reason: String::new() }, Verdict::dead("", About::Unplaced)];
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
    ask(&mut breaker, false, now + MAX_ASKING);
    assert!(breaker.has_place() && !breaker.is_to_be_asked(false) && breaker.is_to_be_asked(true));
    doubt(&mut breaker, now + MAX_ASKING);
    ask(&mut breaker, true, now + MAX_ASKING);
    // Mails in doubt go out if there is nothing else to show that it works.
    assert!(breaker.has_place() && !breaker.takes_doubtful(false) && breaker.takes_doubtful(true));
    let trial = breaker.begin();
    assert!(!breaker.has_place());
    breaker.end(trial, &sent(), now + MAX_ASKING);
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
    assert_eq!(breaker.pause_left(now), Some(MAX_ASKED));
}
