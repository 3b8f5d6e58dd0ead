//! What a server says of us, of limits, or not at all: over one recipient, and over many.

use super::*;

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
