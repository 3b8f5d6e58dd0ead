//! Whose fault refusals are, in the light of others.

use super::disarmed::BELIEVED_AT_ONCE;
use super::kind::DOMAINS;
use super::*;
use crate::provider::Receipt;

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

fn ours(reason: &str) -> Verdict {
    Verdict::Suspected { suspicion: Suspicion::Words, after: None, reason: reason.to_owned() }
}

fn silence() -> Verdict {
    let reason = "RCPT TO: no answer in time".to_owned();
    Verdict::Suspected { suspicion: Suspicion::Silence, after: None, reason }
}

#[test]
fn what_a_server_says_of_us_over_one_recipient_while_it_takes_mails_to_others_is_that_ones() {
    let mut trial = Trial::new();
    for (accepts, expected) in [
        (false, "unavailable"),
        (false, "retry"),
        (false, "postponed"),
        (false, "unavailable"),
        (false, "postponed"),
        (true, "retry"),
        (false, "retry"),
    ] {
        if accepts {
            trial.accepted(1);
        }
        let verdict = trial.at(2, "a@a.test", ours("554 5.7.1 <a@a.test>: Relay access denied"));
        assert_eq!(kind(&verdict), expected);
    }
    // What is certainly about everybody stays that.
    for _ in 0..2 {
        let verdict =
            Verdict::Unavailable { after: None, reason: "450 4.7.1 rate limit".to_owned() };
        assert_eq!(trial.at(3, "a@a.test", verdict.clone()), verdict);
        trial.accepted(3);
    }
}

#[test]
fn many_addresses_that_the_server_does_not_serve_are_tried_before_the_others_wait() {
    let refusal = || ours("554 5.7.1 Relay access denied");
    let opens = |trial: &mut Trial, people: std::ops::Range<u64>| {
        let verdicts = people.map(|n| trial.at(n / 20, &format!("x@{n}.test"), refusal()));
        verdicts.filter(|verdict| kind(verdict) == "unavailable").count()
    };
    let mut trial = Trial::new();
    assert_eq!(opens(&mut trial, 0..1_000), 1);
    trial.accepted(60);
    assert_eq!(opens(&mut trial, 0..1_000), 0);
    // Beside others that are accepted it opens nothing, or once.
    assert!(opens(&mut trial, 1_000..2_000) <= 1);
    // Really our fault: the trials end.
    let mut trial = Trial::new();
    assert!(opens(&mut trial, 0..10_000) >= 7_000);
}

#[test]
fn silence_over_many_recipients_is_their_own_while_others_get_answers() {
    let mut trial = Trial::new();
    for (recipient, expected) in [
        ("a@a.test", "retry"),
        ("b@a.test", "retry"),
        ("a@b.test", "retry"),
        ("a@c.test", "unavailable"),
        ("a@d.test", "retry"),
        ("a@d.test", "unavailable"),
    ] {
        assert_eq!(kind(&trial.at(1, recipient, silence())), expected, "{recipient}");
    }
    trial.accepted(2);
    for recipient in ["a@a.test", "a@d.test", "new@e.test"] {
        for _ in 0..5 {
            assert_eq!(kind(&trial.at(3, recipient, silence())), "retry");
        }
    }
    // A refusal is an answer, too.
    let mut trial = Trial::new();
    for n in 0..100 {
        trial.at(
            1,
            "bad@x.test",
            Verdict::dead("550 5.1.1 no", About::Recipient { is_unknown: true }),
        );
        assert_eq!(kind(&trial.at(1, &format!("a@{n}.test"), silence())), "retry");
    }
    // A recipient that is met with silence for hours is never refused for ever because of it.
    let mut trial = Trial::new();
    for seconds in [0, 3_601, 80_000] {
        assert_eq!(kind(&trial.at(seconds, "a@a.test", silence())), "retry");
    }
}

fn limit() -> Verdict {
    let reason = "452 4.3.1 limit exceeded, try again later".to_owned();
    Verdict::Suspected { suspicion: Suspicion::Limit, after: None, reason }
}

/// Words that no other refusal has.
fn words(n: u8) -> Verdict {
    let [first, second] = [n / 26, n % 26].map(|n| char::from(b'a' + n));
    ours(&format!("550 5.7.1 relay access denied {first}{second}"))
}

#[test]
fn words_that_are_others_each_time_open_the_circuit_once_for_a_recipient_with_acceptances() {
    for refusal in [words, |_| limit()] {
        let mut trial = Trial::new();
        for n in 0..20 {
            let expected = if n == 0 { "unavailable" } else { "retry" };
            assert_eq!(kind(&trial.at(1, "bad@a.test", refusal(n))), expected, "{n}");
            trial.accepted(1);
        }
        assert_eq!(kind(&trial.at(3_601, "bad@a.test", refusal(20))), "unavailable");
    }
}

#[test]
fn words_that_are_others_each_time_open_the_circuit_seldom_for_a_domain_with_acceptances() {
    for refusal in [words, |_| limit()] {
        let mut trial = Trial::new();
        let opens = |trial: &mut Trial, domain: &str, n| {
            kind(&trial.at(1, &format!("x{n}@{domain}"), refusal(n))) == "unavailable"
        };
        let mut openings = 0;
        for n in 0..20 {
            openings += usize::from(opens(&mut trial, "A.test", n));
            trial.accepted(1);
        }
        assert_eq!(openings, DOMAINS);
        // It may be our fault after all: then nothing is accepted any more.
        assert!((20..=30).any(|n| opens(&mut trial, "a.test", n)));
        assert!(opens(&mut trial, "other.test", 40));
    }
}

#[test]
fn a_limit_is_everybodys_until_a_mail_is_accepted() {
    let mut trial = Trial::new();
    for n in 0..5 {
        let again = if n % 2 > 0 { "unavailable" } else { "postponed" };
        assert_eq!(kind(&trial.at(1, &format!("a@{n}.test"), limit())), "unavailable");
        assert_eq!(kind(&trial.at(1, "a@0.test", limit())), again);
    }
}

fn ours_after(seconds: u64) -> Verdict {
    let reason = "403 forbidden".to_owned();
    let after = Some(Duration::from_secs(seconds));
    Verdict::Suspected { suspicion: Suspicion::Words, after, reason }
}

fn overloaded(seconds: u64) -> Verdict {
    Verdict::Overloaded { after: Some(Duration::from_secs(seconds)), reason: "503".to_owned() }
}

#[test]
fn a_long_pause_is_everybodys_once_a_second_domain_gets_the_same_answer() {
    let pause = |verdict: &Verdict| verdict.after().unwrap().as_secs();
    let mut trial = Trial::new();
    let first = trial.at(0, "a@a.test", ours_after(3_000));
    assert_eq!((kind(&first), pause(&first)), ("unavailable", 60));
    // Another one of the domain is a trial, whose own pause is as short.
    let second = trial.at(60, "b@a.test", ours_after(3_000));
    assert_eq!((kind(&second), pause(&second)), ("retry", 60));
    let third = trial.at(120, "a@b.test", ours_after(3_000));
    assert_eq!((kind(&third), pause(&third)), ("unavailable", 3_000));
    let fourth = trial.at(3_120, "a@c.test", ours_after(2_000));
    assert_eq!((kind(&fourth), pause(&fourth)), ("unavailable", 2_000));
    trial.accepted(6_000);
    // It was of these recipients, each of which waits as long as it is asked to.
    let fifth = trial.at(6_001, "a@a.test", ours_after(3_000));
    assert_eq!((kind(&fifth), pause(&fifth)), ("retry", 3_000));

    let mut trial = Trial::new();
    for (recipient, asked, expected) in [
        ("a@a.test", 30, 30),
        ("a@a.test", 3_000, 60),
        ("b@a.test", 3_000, 60),
        ("a@b.test", 3_000, 3_000),
        ("a@a.test", 3_000, 3_000),
    ] {
        assert_eq!(pause(&trial.at(1, recipient, overloaded(asked))), expected, "{recipient}");
    }
    trial.accepted(2);
    assert_eq!(pause(&trial.at(3, "a@b.test", overloaded(3_000))), 60);
}

fn rate(after: Option<u64>) -> Verdict {
    let after = after.map(Duration::from_secs);
    Verdict::Suspected { suspicion: Suspicion::Rate, after, reason: "429".to_owned() }
}

/// The kind of the verdict on a mail over which a limit was told, and its pause in seconds.
fn limited(trial: &mut Trial, recipient: &str, after: Option<u64>) -> (&'static str, Option<u64>) {
    let verdict = trial.at(1, recipient, rate(after));
    (kind(&verdict), verdict.after().map(|after| after.as_secs()))
}

#[test]
fn a_recipient_over_which_a_limit_is_told_leaves_every_other_trial_to_others() {
    let mut trial = Trial::new();
    for _ in 0..3 {
        assert_eq!(limited(&mut trial, "a@a.test", Some(3_000)), ("unavailable", Some(60)));
        assert_eq!(limited(&mut trial, "a@a.test", Some(3_000)), ("postponed", Some(60)));
    }
    assert_eq!(limited(&mut trial, "b@a.test", None), ("unavailable", None));
    assert_eq!(limited(&mut trial, "b@a.test", None), ("postponed", Some(15)));
    // Other mails are accepted: only these recipients are believed to be the reason.
    trial.accepted(1);
    for _ in 0..3 {
        assert_eq!(limited(&mut trial, "a@a.test", Some(3_000)), ("postponed", Some(3_000)));
        assert_eq!(limited(&mut trial, "b@a.test", None), ("postponed", Some(300)));
        trial.accepted(2);
    }
    assert_eq!(limited(&mut trial, "c@a.test", Some(1)), ("unavailable", Some(1)));
    trial.accepted(3_602);
    assert_eq!(kind(&trial.at(3_602, "a@a.test", rate(None))), "unavailable");
}

#[test]
fn a_limit_that_is_told_of_many_mails_of_a_domain_stays_everybodys() {
    let mut trial = Trial::new();
    for n in 0..100 {
        assert_eq!(limited(&mut trial, &format!("{n}@a.test"), None).0, "unavailable");
        trial.accepted(1);
    }
}

#[test]
fn words_about_us_over_many_domains_open_the_circuit_a_few_times_while_others_are_accepted() {
    for refusal in [words, |_| limit()] {
        let mut trial = Trial::new();
        let said = |trial: &mut Trial, seconds, recipient: &str, n| {
            kind(&trial.at(seconds, recipient, refusal(n)))
        };
        let mut openings = 0;
        for n in 0..100 {
            let said = said(&mut trial, u64::from(n), &format!("a@{n}.test"), n);
            assert!(["unavailable", "retry"].contains(&said), "{said}");
            openings += usize::from(said == "unavailable");
            trial.accepted(u64::from(n));
        }
        assert_eq!(openings, 5);
        // A domain that accepts mails is believed once, and of a stranger all domains below it.
        assert_eq!(said(&mut trial, 100, "b@good.test", 101), "unavailable");
        for (domain, expected) in [("one", "unavailable"), ("two", "retry"), ("three", "retry")] {
            let sent = Verdict::Sent(Receipt::default());
            trial.at(101, &format!("a@{domain}.evil.test"), sent);
            let said = said(&mut trial, 101, &format!("b@{domain}.evil.test"), 102);
            assert_eq!(said, expected, "{domain}");
            trial.accepted(101);
        }
        // It may be our fault after all: then nothing is accepted any more.
        assert_eq!(said(&mut trial, 110, "a@new.test", 103), "retry");
        assert_eq!(said(&mut trial, 111, "a@newer.test", 104), "unavailable");
    }
}
