//! What goes out next, and what an outage costs.

use super::crowd::MAX_QUEUE;
use super::on_its_way::LINGERING;
use super::patience::MAX_MUTE_BESIDE_QUICK;
use super::*;
use crate::provider::{PreparedMail, Receipt};

pub(super) fn lane(connections: usize) -> Lane {
    Lane::new(None, connections, Arc::default(), false)
}

pub(super) fn mail(number: u128, is_doubtful: bool) -> Queued {
    let prepared = PreparedMail {
        key: Key::of_number(number),
        provider: "smtp".to_owned(),
        prepared_at: 0,
        envelope_sender: String::new(),
        to: "ada@x.test".to_owned(),
        payload: String::new(),
        other: None,
    };
    Queued {
        prepared: Arc::new(prepared),
        action: "activate".to_owned(),
        known: u32::from(is_doubtful),
        is_doubtful,
        returnable_since: Some(Instant::now()),
    }
}

pub(super) fn begin(lane: &Lane, number: u128) -> Ticket {
    lane.push(mail(number, false)).unwrap();
    match lane.next(Duration::ZERO) {
        Job::Send(mail, ticket) if mail.prepared.key == Key::of_number(number) => ticket,
        other => panic!("{other:?} instead of mail {number}"),
    }
}

/// Mails to recipients of domains of their own begin and are asked about.
pub(super) fn ask_about(
    lane: &Lane,
    numbers: std::ops::Range<u128>,
    now: Instant,
) -> Vec<Option<Duration>> {
    let ask = |number| {
        let mut mail = mail(number, false);
        Arc::get_mut(&mut mail.prepared).unwrap().to = format!("a@{number}.test");
        lane.push(mail).unwrap();
        let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("no place") };
        lane.enter_envelope(ticket, now)
    };
    numbers.map(ask).collect()
}

/// A mail to this domain.
pub(super) fn mail_to(number: u128, domain: &str) -> Queued {
    let mut mail = mail(number, false);
    Arc::get_mut(&mut mail.prepared).unwrap().to = format!("ada@{domain}");
    mail
}

/// A lane with one place where the server answers others at once, and as many contents wait as
/// may; and what the next content may take.
pub(super) fn with_slow_contents(start: Instant) -> (Lane, Ticket, Option<Duration>) {
    let lane = lane(1);
    let ticket = begin(&lane, 0);
    lane.finish(ticket, &Verdict::Sent(Receipt::default()));
    for number in 1..=3 {
        lane.enter_doubt(begin(&lane, number), start);
    }
    assert_eq!(lane.set_aside(start + MAX_MUTE_BESIDE_QUICK).1, 3);
    let ticket = begin(&lane, 4);
    let limit = lane.enter_doubt(ticket, start);
    (lane, ticket, limit)
}

/// A lane with two places, which mails have that take long; eight more were given back and come
/// again behind the next two.
pub(super) fn held_up() -> (Lane, Vec<Ticket>) {
    let lane = lane(2);
    let ticket = begin(&lane, 0);
    lane.enter_envelope(ticket, Instant::now());
    lane.finish(ticket, &Verdict::Sent(Receipt::default()));
    let start = Instant::now();
    for number in 1..=12 {
        lane.push(mail_to(number, &format!("{number}.test"))).unwrap();
    }
    let take = || match lane.next(Duration::ZERO) {
        Job::Send(_, ticket) => ticket,
        _ => panic!("no place"),
    };
    let tickets = vec![take(), take()];
    for ticket in &tickets {
        lane.enter_envelope(*ticket, start);
    }
    let held = lane.give_way(start + MAX_QUEUE + LINGERING);
    assert_eq!(held.len(), 8);
    for mail in held {
        lane.push(mail).unwrap();
    }
    (lane, tickets)
}

fn unavailable() -> Verdict {
    Verdict::Unavailable { after: None, reason: String::new() }
}

#[test]
fn a_mail_in_doubt_is_never_what_shows_that_the_provider_works_again() {
    let lane = lane(4);
    let ticket = begin(&lane, 1);
    assert_eq!(lane.finish(ticket, &unavailable()).withdrawn.len(), 0);
    lane.push(mail(2, true)).unwrap();
    // Without a mail.
    let Job::Probe(ticket) = lane.next(Duration::ZERO) else { panic!("it is tried") };
    assert!(matches!(lane.next(Duration::ZERO), Job::Nothing));
    assert_eq!(lane.finish_probe(ticket, false).len(), 1);
    // Or with another one, which came later.
    lane.push(mail(2, true)).unwrap();
    let ticket = begin(&lane, 3);
    assert!(matches!(lane.next(Duration::ZERO), Job::Nothing));
    lane.finish(ticket, &Verdict::Sent(Receipt::default()));
    let Job::Send(mail, _) = lane.next(Duration::ZERO) else { panic!("it is not sent") };
    assert_eq!(mail.prepared.key, Key::of_number(2));
}

fn overloaded(after: Option<u64>) -> Verdict {
    Verdict::Overloaded { after: after.map(Duration::from_secs), reason: String::new() }
}

/// Asks the provider without a mail. Returns how many mails are given back.
fn ask(lane: &Lane, is_answered: bool) -> usize {
    let Job::Probe(ticket) = lane.next(Duration::ZERO) else { panic!("it is not asked") };
    assert!(matches!(lane.next(Duration::ZERO), Job::Nothing));
    lane.finish_probe(ticket, is_answered).len()
}

#[test]
fn an_outage_that_leaves_mails_in_doubt_costs_only_those_that_were_on_their_way() {
    let lane = lane(2);
    let ticket = begin(&lane, 0);
    lane.finish(ticket, &overloaded(None));
    lane.push(mail(0, false)).unwrap();
    assert_eq!(ask(&lane, true), 0);
    let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("it is not sent") };
    lane.finish(ticket, &Verdict::Sent(Receipt::default()));
    let tickets = [begin(&lane, 1), begin(&lane, 2)];
    for number in 3..100 {
        lane.push(mail(number, false)).unwrap();
    }
    for ticket in tickets {
        assert!(lane.finish(ticket, &overloaded(None)).withdrawn.is_empty());
    }
    assert_eq!(ask(&lane, false), 97);
    for number in 3..100 {
        lane.push(mail(number, number % 2 > 0)).unwrap();
        assert_eq!(ask(&lane, false), 1);
    }
    // A pause that was asked for is granted at once.
    let other = self::lane(1);
    let ticket = begin(&other, 1);
    other.push(mail(2, false)).unwrap();
    assert_eq!(other.finish(ticket, &overloaded(Some(60))).withdrawn.len(), 1);
    assert!(matches!(other.push(mail(2, false)), Err(Refusal::Failing(Some(_)))));
}

#[test]
fn a_mail_that_is_left_in_doubt_alone_holds_up_no_other() {
    let lane = lane(1);
    for number in 1..=6 {
        let ticket = begin(&lane, 2 * number);
        lane.push(mail(2 * number + 1, false)).unwrap();
        assert!(lane.finish(ticket, &overloaded(None)).withdrawn.is_empty());
        assert_eq!(ask(&lane, true), 0);
        let Job::Send(_, ticket) = lane.next(Duration::ZERO) else {
            panic!("the other is not sent")
        };
        lane.finish(ticket, &Verdict::Sent(Receipt::default()));
    }
}

#[test]
fn mails_in_doubt_wait_for_an_acceptance_where_the_provider_answers_well_only_without_a_mail() {
    let lane = lane(1);
    let ticket = begin(&lane, 1);
    lane.finish(ticket, &overloaded(None));
    lane.push(mail(1, true)).unwrap();
    lane.push(mail(2, false)).unwrap();
    ask(&lane, true);
    let Job::Send(fresh, ticket) = lane.next(Duration::ZERO) else { panic!("none is sent") };
    assert_eq!(fresh.prepared.key, Key::of_number(2));
    let withdrawn = lane.finish(ticket, &overloaded(None)).withdrawn;
    assert!(withdrawn.iter().all(|mail| mail.is_doubtful) && withdrawn.len() == 1);
    for number in [1, 2] {
        assert!(matches!(lane.push(mail(number, true)), Err(Refusal::Unproven(_))));
    }
    lane.push(mail(3, false)).unwrap();
    ask(&lane, true);
    let Job::Send(_, ticket) = lane.next(Duration::ZERO) else { panic!("none is sent") };
    lane.finish(ticket, &Verdict::Sent(Receipt::default()));
    lane.push(mail(1, true)).unwrap();
    assert!(matches!(lane.next(Duration::ZERO), Job::Send(..)));
}

#[test]
fn mails_that_are_left_in_doubt_do_not_stand_before_one_that_came_later_or_sooner() {
    for place in [0, 59] {
        let lane = lane(1);
        let ticket = begin(&lane, 100);
        lane.finish(ticket, &overloaded(None));
        for number in 0..60 {
            lane.push(mail(number, false)).unwrap();
        }
        for trial in 0.. {
            assert_eq!(ask(&lane, true), 0);
            let Job::Send(mail, ticket) = lane.next(Duration::ZERO) else { panic!("no trial") };
            if mail.prepared.key == Key::of_number(place) {
                break;
            }
            assert!(trial < 2, "the others come first");
            assert!(lane.finish(ticket, &overloaded(None)).withdrawn.is_empty());
        }
    }
}

#[test]
fn a_lane_moves_while_something_waits_for_an_answer_or_goes_on() {
    let lane = lane(1);
    assert!(!lane.is_moving());
    let ticket = begin(&lane, 1);
    assert!(lane.is_moving() && !lane.is_moving());
    lane.enter_doubt(ticket, Instant::now());
    assert!(lane.is_moving() && lane.is_moving());
    lane.finish(ticket, &unavailable());
    assert!(lane.is_moving() && !lane.is_moving());
}
