//! Whose fault refusals are, in the light of others.

use super::disarmed::BELIEVED_AT_ONCE;
use super::kind::DOMAINS;
use super::*;
use crate::provider::Receipt;

mod suspected;

const TEXT: &str = "554 5.7.1 no";

struct Trial {
    guard: Guard,
    start: Instant,
}

impl Trial {
    fn new() -> Self {
        Self { guard: Guard::default(), start: Instant::now() }
    }

    fn at(&mut self, seconds: u64, recipient: &str, verdict: Verdict) -> Verdict {
        self.guard.weigh(recipient, verdict, self.start + Duration::from_secs(seconds))
    }

    /// The kind of the verdict on an unplaced refusal.
    fn refused(&mut self, seconds: u64, recipient: &str, text: &str) -> &'static str {
        kind(&self.at(seconds, recipient, Verdict::dead(text, About::Unplaced)))
    }

    fn accepted(&mut self, seconds: u64) {
        self.at(seconds, "good@good.test", Verdict::Sent(Receipt::default()));
    }
}

fn kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Sent(_) => "sent",
        Verdict::Retry { .. } => "retry",
        Verdict::Postponed { .. } => "postponed",
        Verdict::Dead(_) => "dead",
        Verdict::Unavailable { .. } => "unavailable",
        _ => "in doubt",
    }
}

#[test]
fn refusals_alike_of_three_domains_without_an_acceptance_are_our_fault() {
    let mut trial = Trial::new();
    assert_eq!(trial.refused(0, "a@a.test", "554 5.7.1 <a@a.test>: no, id 1"), "retry");
    assert_eq!(trial.refused(0, "b@a.test", "554 5.7.1 <b@a.test>: no, id 2"), "retry");
    assert_eq!(trial.refused(1, "a@b.test", "554 5.7.1 <a@b.test>: no, id 3"), "retry");
    // Another text is another reason.
    assert_eq!(trial.refused(1, "a@z.test", "554 5.7.1 <a@z.test>: never"), "retry");
    assert_eq!(trial.refused(2, "a@C.test", "554 5.7.1 <a@C.test>: no, id 4"), "unavailable");
    // Others are tried, each once.
    assert_eq!(trial.refused(3, "a@d.test", "554 5.7.1 <a@d.test>: no, id 5"), "retry");
    assert_eq!(trial.refused(18, "a@d.test", "554 5.7.1 <a@d.test>: no, id 5"), "unavailable");
    trial.refused(19, "a@a.test", "554 5.7.1 <a@a.test>: no, id 6");
    for seconds in [20, 600, 7_200, 80_000] {
        assert_eq!(
            trial.refused(seconds, "a@a.test", "554 5.7.1 <a@a.test>: no, id 6"),
            "unavailable"
        );
    }
}

#[test]
fn an_acceptance_gives_the_refused_their_verdicts_for_an_hour() {
    let mut trial = Trial::new();
    for domain in ["a", "b", "c", "d"] {
        trial.refused(0, &format!("x@{domain}.test"), TEXT);
    }
    trial.accepted(5);
    for seconds in [5, 20, 3_600] {
        assert_eq!(trial.refused(seconds, "x@a.test", TEXT), "dead");
        assert_eq!(trial.refused(seconds, "x@new.test", TEXT), "dead");
    }
    assert_eq!(trial.refused(3_606, "x@a.test", TEXT), "retry");
}

#[test]
fn many_bad_addresses_of_a_stranger_are_all_tried_before_the_others_wait() {
    let mut trial = Trial::new();
    let kinds: Vec<_> =
        (0..1_000).map(|n| trial.refused(n / 20, &format!("x@{n}.test"), TEXT)).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "unavailable").count(), 1);
    trial.accepted(60);
    for n in 0..1_000 {
        assert_eq!(trial.refused(75, &format!("x@{n}.test"), TEXT), "dead");
    }
    // Really our fault: the trials end.
    let mut trial = Trial::new();
    let kinds: Vec<_> =
        (0..10_000).map(|n| trial.refused(0, &format!("x@{n}.test"), TEXT)).collect();
    assert!(kinds[3_000..].iter().all(|kind| *kind == "unavailable"));
}

#[test]
fn one_address_that_is_refused_for_an_hour_is_dead() {
    let mut trial = Trial::new();
    for seconds in [0, 15, 3_000] {
        assert_eq!(trial.refused(seconds, "x@a.test", TEXT), "retry");
    }
    assert_eq!(trial.refused(3_601, "x@a.test", TEXT), "dead");
}

#[test]
fn each_recipient_has_its_own_hour_before_it_is_dead() {
    let mut trial = Trial::new();
    assert_eq!(trial.refused(0, "x@a.test", TEXT), "retry");
    assert_eq!(trial.refused(3_601, "x@a.test", TEXT), "dead");
    // Others of a site that sends to one domain alone, or seldom to any.
    for recipient in ["y@a.test", "x@b.test"] {
        assert_eq!(trial.refused(3_602, recipient, TEXT), "retry");
        assert_eq!(trial.refused(7_201, recipient, TEXT), "retry");
    }
    assert_eq!(trial.refused(7_201, "x@c.test", TEXT), "unavailable");
    assert_eq!(trial.refused(7_203, "y@a.test", TEXT), "retry");
    assert_eq!(trial.refused(7_218, "y@a.test", TEXT), "unavailable");
}

#[test]
fn a_text_that_was_the_recipients_own_kills_few_if_it_becomes_our_fault_within_the_hour() {
    let mut trial = Trial::new();
    trial.refused(0, "bad@a.test", TEXT);
    trial.accepted(1);
    assert_eq!(trial.refused(15, "bad@a.test", TEXT), "dead");
    // From now on nothing is accepted any more.
    let refused =
        |trial: &mut Trial, n: u64| trial.refused(20 + n / 20, &format!("x@{n}.test"), TEXT);
    let kinds: Vec<_> = (0..400).map(|n| refused(&mut trial, n)).collect();
    let count = |wanted: &str| kinds.iter().filter(|kind| **kind == wanted).count();
    assert_eq!((count("dead"), count("unavailable")), (BELIEVED_AT_ONCE, 1));
    // Or it is, and it was a campaign: then all of them are dead, and some more at once.
    trial.accepted(60);
    for n in 0..400 {
        assert_eq!(refused(&mut trial, n), "dead");
    }
    assert_eq!(refused(&mut trial, 401), "dead");
}

#[test]
fn a_placed_refusal_is_believed_and_an_unknown_address_where_mails_are_accepted() {
    let unknown = || Verdict::dead("550 5.1.1 no", About::Recipient { is_unknown: true });
    let is_believed = |verdict: Verdict| verdict == unknown();
    let mut trial = Trial::new();
    assert!(!is_believed(trial.at(0, "a@a.test", unknown())));
    trial.accepted(1);
    assert!(is_believed(trial.at(3_600, "a@a.test", unknown())));
    assert!(!is_believed(trial.at(3_602, "a@a.test", unknown())));
    trial.accepted(4_000);
    trial.refused(4_001, "a@b.test", TEXT);
    assert!(!is_believed(trial.at(4_002, "a@a.test", unknown())));
    trial.accepted(4_003);
    assert!(is_believed(trial.at(4_004, "a@a.test", unknown())));
    for about in [About::Content, About::Recipient { is_unknown: false }] {
        let verdict = Verdict::dead(TEXT, about);
        assert_eq!(trial.at(4_005, "a@a.test", verdict.clone()), verdict);
    }
}

#[test]
fn unknown_addresses_of_three_domains_without_an_acceptance_are_no_proof() {
    let mut trial = Trial::new();
    trial.accepted(0);
    let is_believed = |trial: &mut Trial, recipient: &str| {
        let unknown = Verdict::dead("550 5.1.1 no", About::Recipient { is_unknown: true });
        trial.at(1, recipient, unknown.clone()) == unknown
    };
    for (recipient, expected) in
        [("a@a.test", true), ("b@a.test", true), ("a@b.test", true), ("a@c.test", false)]
    {
        assert_eq!(is_believed(&mut trial, recipient), expected, "{recipient}");
    }
    assert!(!is_believed(&mut trial, "a@a.test"));
    trial.accepted(1);
    assert!(is_believed(&mut trial, "a@c.test"));
}

fn missing(is_unknown: bool) -> Verdict {
    let reason = if is_unknown { "550 5.1.1 no such user" } else { "550 Unrouteable address" };
    Verdict::dead(reason, About::Recipient { is_unknown })
}

#[test]
fn that_there_is_no_such_address_is_not_believed_of_ten_in_a_row() {
    for is_unknown in [true, false] {
        let mut trial = Trial::new();
        trial.accepted(0);
        let refused = |trial: &mut Trial, seconds, n: usize| {
            kind(&trial.at(seconds, &format!("x@{n}.test"), missing(is_unknown)))
        };
        // A recipient counts once.
        for _ in 0..20 {
            assert_eq!(refused(&mut trial, 1, 0), "dead");
        }
        let kinds: Vec<_> = (0..400).map(|n| refused(&mut trial, 1, n)).collect();
        assert!(kinds[..9].iter().all(|kind| *kind == "dead"), "{kinds:?}");
        assert_eq!(kinds[9..12], ["retry", "retry", "unavailable"]);
        assert!(kinds[12..].iter().all(|kind| *kind == "retry"), "{kinds:?}");
        // It stays everybody's fault, and nobody is dead of it.
        for seconds in [16, 3_602, 80_000] {
            for n in 0..400 {
                let kind = refused(&mut trial, seconds, n);
                assert!(matches!(kind, "retry" | "unavailable"), "{n} {kind}");
            }
        }
        // Until a mail is accepted: then they are dead again.
        trial.accepted(80_001);
        for n in 9..400 {
            assert_eq!(refused(&mut trial, 80_001, n), "dead", "{n}");
        }
    }
}

#[test]
fn a_server_that_loses_its_users_kills_few_of_a_site_with_one_domain_and_suppresses_fewer() {
    let mut trial = Trial::new();
    trial.accepted(0);
    let verdicts: Vec<_> =
        (0..100).map(|n| trial.at(1, &format!("{n}@x.test"), missing(true))).collect();
    let unknown = verdicts.iter().filter(|verdict| **verdict == missing(true)).count();
    let dead = verdicts.iter().filter(|verdict| kind(verdict) == "dead").count();
    assert_eq!((unknown, dead), (MAX_UNKNOWN - 1, MISSING - 1));
    // Nobody else is held up, and each has its hour.
    assert!(verdicts[9..].iter().all(|verdict| kind(verdict) == "retry"), "{verdicts:?}");
    assert_eq!(kind(&trial.at(3_600, "50@x.test", missing(true))), "retry");
    assert_eq!(kind(&trial.at(3_601, "50@x.test", missing(true))), "dead");
    // Who was refused before a mail is accepted does not exist.
    trial.accepted(3_602);
    assert_eq!(kind(&trial.at(3_602, "60@x.test", missing(true))), "dead");
}

#[test]
fn many_addresses_of_a_stranger_that_do_not_exist_open_the_circuit_once_beside_others() {
    let mut trial = Trial::new();
    let mut openings = 0;
    let mut left: Vec<u64> = (0..1_000).collect();
    for round in 0..41 {
        // Twenty-five for each mail of somebody else; those of a round are tried again in the next.
        let now = round * 15;
        trial.accepted(now);
        let tried: Vec<_> = left.iter().copied().take_while(|n| n / 25 <= round).collect();
        let verdicts = tried.into_iter().map(|n| {
            let verdict = trial.at(now, &format!("x@{n}.test"), missing(n % 2 > 0));
            (n, kind(&verdict))
        });
        let verdicts: Vec<_> = verdicts.collect();
        openings += verdicts.iter().filter(|(_, kind)| *kind == "unavailable").count();
        left.retain(|n| !verdicts.contains(&(*n, "dead")));
    }
    assert_eq!((openings, left.len()), (1, 0));
}

#[test]
fn a_server_that_loses_its_users_after_a_strangers_bad_addresses_kills_few_of_them() {
    let mut trial = Trial::new();
    for n in 0..20 {
        trial.at(0, &format!("bad@{n}.test"), missing(true));
    }
    trial.accepted(1);
    let refused = |trial: &mut Trial, seconds, n| {
        kind(&trial.at(seconds, &format!("x@{n}.test"), missing(true)))
    };
    let kinds: Vec<_> = (0..400).map(|n| refused(&mut trial, 2, n)).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "dead").count(), MISSING - 1);
    assert!(kinds[9..].iter().all(|kind| *kind == "retry"), "{kinds:?}");
    // Whoever is refused again shows it.
    assert_eq!(refused(&mut trial, 17, 100), "unavailable");
}

#[test]
fn pauses_grow_while_nothing_places_a_refusal() {
    let mut trial = Trial::new();
    let (mut seconds, mut pauses) = (0, Vec::new());
    while let Verdict::Retry { after, .. } =
        trial.at(seconds, "a@a.test", Verdict::dead(TEXT, About::Unplaced))
    {
        let pause = after.unwrap().as_secs();
        pauses.push(pause);
        seconds += pause;
    }
    assert_eq!(pauses[..6], [15, 15, 30, 60, 120, 240]);
    assert!(pauses.len() < 20 && pauses.iter().all(|pause| *pause <= 300), "{pauses:?}");
}
