//! Which answers settle which batches, and when a sender is hung.

use super::*;
use crate::line::BatchName;

const TIMEOUT: Duration = Duration::from_secs(30);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A ledger of batches 1, 2, … with three tokens each (10, 11, 12; 20, …) and lines of 100 bytes, begun at `start`.
fn ledger(batches: u64, start: Instant) -> Ledger {
    let mut ledger = Ledger::default();
    for batch in 1..=batches {
        let first = i64::try_from(batch * 10).unwrap();
        let bytes = ((batch - 1) * 100, batch * 100);
        ledger.begin(
            (BatchId(batch), batch.into()),
            vec![first + 2, first, first + 1],
            (start, start),
            bytes,
        );
    }
    ledger
}

fn answer(batch: u64, ok: &[i64]) -> Answer {
    let ok = Sent::Ids(ok.to_vec());
    Answer { batch: BatchName(batch.into()), ok, retry: Vec::new(), dead: Vec::new(), unavailable: None }
}

fn all(batch: u64) -> Answer {
    Answer { ok: Sent::All, ..answer(batch, &[]) }
}

fn retry(id: i64) -> (i64, Option<Duration>, String) {
    (id, None, "later".to_owned())
}

fn noted(verdicts: usize, foreign: usize, repeated: usize) -> Remarks {
    Remarks { verdicts, foreign, repeated }
}

fn settled(outcome: Outcome) -> Taken {
    match outcome {
        Outcome::Noted(_, Some(taken)) => taken,
        outcome => panic!("{outcome:?}"),
    }
}

#[test]
fn all_settles_a_batch_and_every_later_word_about_it_is_late() {
    let now = Instant::now();
    let mut ledger = ledger(1, now);
    let taken = settled(ledger.note(all(1), now + seconds(2)));
    assert_eq!(taken, Taken { batch: BatchId(1), exceptions: Vec::new(), after: seconds(2) });
    assert_eq!(ledger.note(all(1), now), Outcome::Late(Past::Settled));
    assert_eq!(ledger.note(answer(1, &[10]), now), Outcome::Late(Past::Settled));
    assert_eq!(ledger.note(all(2), now), Outcome::Unknown);
    assert_eq!((ledger.len(), ledger.silent_at(TIMEOUT)), (0, None));
}

#[test]
fn answers_in_part_add_up() {
    let now = Instant::now();
    let mut ledger = ledger(1, now);
    assert_eq!(ledger.note(answer(1, &[11]), now), Outcome::Noted(noted(1, 0, 0), None));
    assert_eq!(ledger.note(answer(1, &[]), now), Outcome::Noted(noted(0, 0, 0), None));
    assert_eq!(ledger.note(answer(1, &[11, 10]), now), Outcome::Noted(noted(1, 0, 1), None));
    let taken = settled(ledger.note(Answer { retry: vec![retry(12)], ..answer(1, &[]) }, now));
    let exception = Exception::Retry { after: None, reason: "later".to_owned() };
    assert_eq!(taken.exceptions, [(12, exception)]);
}

#[test]
fn all_means_those_of_which_nothing_else_was_said() {
    let now = Instant::now();
    let mut ledger = ledger(1, now);
    let dead = vec![(10, "gone".to_owned())];
    ledger.note(Answer { dead, ..answer(1, &[]) }, now);
    let taken = settled(ledger.note(Answer { retry: vec![retry(12)], ..all(1) }, now));
    let ids: Vec<_> = taken.exceptions.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [10, 12]);
}

#[test]
fn the_first_verdict_counts_and_within_an_answer_the_one_that_loses_no_mail() {
    let now = Instant::now();
    let mut ledger = ledger(1, now);
    let dead = |ids: &[i64]| ids.iter().map(|id| (*id, "gone".to_owned())).collect();
    ledger.note(answer(1, &[10]), now);
    let contradiction =
        Answer { retry: vec![retry(10), retry(11)], dead: dead(&[11, 12]), ..answer(1, &[11, 12]) };
    let outcome = ledger.note(contradiction, now);
    assert!(matches!(outcome, Outcome::Noted(remarks, _) if remarks == noted(2, 0, 4)), "{outcome:?}");
    let exceptions = settled(outcome).exceptions;
    assert!(
        matches!(&exceptions[..], [(11, Exception::Retry { .. }), (12, Exception::Dead { .. })]),
        "{exceptions:?}"
    );
}

#[test]
fn unavailable_settles_what_was_not_answered_otherwise_and_wins_over_all() {
    let now = Instant::now();
    let unavailable = || Some(Unavailable { after: None, reason: "421".to_owned() });
    let back = |id| (id, Exception::Unavailable { after: None, reason: "421".to_owned() });
    let mut ledger = ledger(3, now);
    ledger.note(answer(1, &[10]), now);
    let mixed = Answer { retry: vec![retry(11)], unavailable: unavailable(), ..answer(1, &[]) };
    let exceptions = settled(ledger.note(mixed, now)).exceptions;
    assert!(matches!(exceptions[0], (11, Exception::Retry { .. })), "{exceptions:?}");
    assert_eq!(exceptions[1..], [back(12)]);

    let outcome = ledger.note(Answer { unavailable: unavailable(), ..answer(2, &[]) }, now);
    assert_eq!(settled(outcome).exceptions, [back(20), back(21), back(22)]);

    let outcome = ledger.note(Answer { unavailable: unavailable(), ..all(3) }, now);
    assert!(matches!(outcome, Outcome::Noted(remarks, _) if remarks == noted(3, 0, 3)), "{outcome:?}");
    assert_eq!(settled(outcome).exceptions, [back(30), back(31), back(32)]);
}

#[test]
fn ids_of_other_batches_are_no_verdicts() {
    let now = Instant::now();
    let mut ledger = ledger(2, now);
    assert_eq!(ledger.note(answer(1, &[20, -1, 10]), now), Outcome::Noted(noted(1, 2, 0), None));
    assert_eq!(settled(ledger.note(all(2), now)).exceptions, []);
}

#[test]
fn a_sender_is_hung_when_nothing_at_all_was_answered_for_the_timeout() {
    let start = Instant::now();
    let mut ledger = ledger(3, start);
    assert_eq!(ledger.silent_at(TIMEOUT), Some(start + TIMEOUT));
    ledger.note(answer(2, &[20]), start + seconds(20));
    assert_eq!(ledger.silent_at(TIMEOUT), Some(start + seconds(50)));
    // Words without a verdict are no sign of work.
    ledger.note(answer(2, &[20]), start + seconds(40));
    ledger.note(all(9), start + seconds(40));
    assert_eq!(ledger.silent_at(TIMEOUT), Some(start + seconds(50)));
    // Nor is a rest before the line a silence.
    for batch in 1..=3 {
        ledger.note(all(batch), start + seconds(45));
    }
    let later = start + seconds(1_000);
    ledger.begin((BatchId(4), 4), vec![40], (later, later), (300, 400));
    assert_eq!(ledger.silent_at(TIMEOUT), Some(later + TIMEOUT));
}

#[test]
fn a_batch_is_forgotten_when_a_later_one_was_settled_a_timeout_ago() {
    let start = Instant::now();
    let mut ledger = ledger(4, start);
    ledger.note(answer(4, &[40]), start + seconds(1));
    assert_eq!(ledger.forgotten_at(TIMEOUT), None);
    ledger.note(all(3), start + seconds(5));
    ledger.note(answer(1, &[11]), start + seconds(6));
    ledger.note(all(4), start + seconds(9));
    assert_eq!(ledger.forgotten_at(TIMEOUT), Some(start + seconds(35)));
    assert_eq!(ledger.give_up_forgotten(TIMEOUT, start + seconds(34), "forgotten"), []);
    let given_up = ledger.give_up_forgotten(TIMEOUT, start + seconds(35), "forgotten");
    let again = |id| (id, Exception::Failed { reason: "forgotten".to_owned() });
    let exceptions: Vec<_> = given_up.iter().map(|taken| taken.exceptions.clone()).collect();
    assert_eq!(exceptions, [vec![again(10), again(12)], vec![again(20), again(21), again(22)]]);
    assert_eq!((ledger.len(), ledger.note(all(2), start)), (0, Outcome::Late(Past::GivenUp)));
}

#[test]
fn of_a_sender_that_is_gone_only_what_it_cannot_have_read_comes_back_unclaimed() {
    let now = Instant::now();
    let mut ledger = ledger(4, now);
    ledger.note(answer(1, &[10]), now);
    let (taken, unread) = ledger.give_up_all(201, now, &Exception::Unanswered);
    let left: Vec<_> = taken.into_iter().flat_map(|taken| taken.exceptions).collect();
    let unanswered: Vec<_> = [11, 12, 20, 21, 22, 30, 31, 32].map(|id| (id, Exception::Unanswered)).into();
    assert_eq!((left, unread), (unanswered, vec![BatchId(4)]));
}

#[test]
fn a_line_that_was_not_written_whole_comes_back_when_no_more_can_be_written() {
    let now = Instant::now();
    let mut ledger = ledger(3, now);
    assert_eq!(ledger.give_up_unwritten(299), [BatchId(3)]);
    assert_eq!(ledger.give_up_unwritten(299), []);
    assert_eq!(ledger.len(), 2);
}

#[test]
fn a_batch_that_somebody_else_has_is_not_waited_for() {
    let now = Instant::now();
    let mut ledger = ledger(2, now);
    ledger.forget(&[BatchId(1), BatchId(7)]);
    assert_eq!(ledger.note(all(1), now), Outcome::Late(Past::Lost));
    assert_eq!((ledger.len(), ledger.only_token()), (1, None));
}

#[test]
fn batches_of_the_past_are_remembered_but_not_for_ever() {
    let now = Instant::now();
    let mut ledger = ledger(REMEMBERED as u64 + 1, now);
    for batch in 1..=REMEMBERED as u64 + 1 {
        ledger.note(all(batch), now);
    }
    assert_eq!(ledger.note(all(1), now), Outcome::Unknown);
    assert_eq!(ledger.note(all(2), now), Outcome::Late(Past::Settled));
    assert_eq!((ledger.past.len(), ledger.by_name.len()), (REMEMBERED, 0));
}
