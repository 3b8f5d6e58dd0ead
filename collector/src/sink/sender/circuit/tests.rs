//! When the circuit opens and closes, and for how long.

use super::*;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn ok(batch: u128) -> Evidence {
    Evidence { batch, is_verdict: true, ..Evidence::default() }
}

fn refused(batch: u128, ids: &[i64]) -> Evidence {
    Evidence { batch, refused: ids.to_vec(), ..Evidence::default() }
}

fn unavailable(batch: u128, wish: u64) -> Evidence {
    Evidence { batch, is_unavailable: true, wish: seconds(wish), ..Evidence::default() }
}

/// When the circuit is open until.
fn open_until(circuit: &Circuit, expected: Cause) -> Instant {
    match circuit.state() {
        State::Open { until, cause } if cause == expected => until,
        state => panic!("{state:?}"),
    }
}

/// Lets the pause pass, and returns when it was over.
fn wait(circuit: &mut Circuit) -> Instant {
    let until = circuit.due_at().expect("it is open");
    assert!(!circuit.half_open(until.checked_sub(Duration::from_millis(1)).unwrap()));
    assert!(circuit.half_open(until) && !circuit.half_open(until));
    until
}

#[test]
fn a_sender_that_is_unavailable_is_tried_after_pauses_that_grow_to_ten_seconds() {
    let mut now = Instant::now();
    let mut circuit = Circuit::new();
    let mut pauses = Vec::new();
    for trial in 0..12 {
        assert_eq!(circuit.heard(&unavailable(trial, 0), now), trial == 0);
        pauses.push(open_until(&circuit, Cause::Said) - now);
        now = wait(&mut circuit);
    }
    assert!(pauses[0] <= Duration::from_millis(200), "{pauses:?}");
    assert!(pauses[7..].iter().all(|pause| (seconds(5)..=seconds(10)).contains(pause)), "{pauses:?}");
    assert!(pauses[7..].iter().any(|pause| *pause != pauses[7]), "{pauses:?}");
    assert!(circuit.heard(&ok(99), now));
    assert_eq!(circuit.state(), State::Closed);
    // From the beginning again.
    circuit.heard(&unavailable(100, 0), now);
    assert!(open_until(&circuit, Cause::Said) - now <= Duration::from_millis(200));
}

#[test]
fn a_sender_can_ask_for_a_longer_pause_but_not_for_one_of_hours() {
    let now = Instant::now();
    for (wish, least, most) in [(0, 0, 1), (8, 8, 10), (86_400, 60, 75)] {
        let mut circuit = Circuit::new();
        circuit.heard(&unavailable(1, wish), now);
        let pause = open_until(&circuit, Cause::Said) - now;
        assert!((seconds(least)..=seconds(most)).contains(&pause), "{pause:?} for {wish} s");
    }
}

#[test]
fn what_was_on_its_way_neither_prolongs_an_outage_nor_ends_it() {
    let now = Instant::now();
    let mut circuit = Circuit::new();
    circuit.heard(&unavailable(1, 0), now);
    let until = open_until(&circuit, Cause::Said);
    assert!(!circuit.heard(&unavailable(2, 0), now + seconds(1)));
    assert!(open_until(&circuit, Cause::Said).max(until) <= now + seconds(1));
    assert!(!circuit.heard(&ok(3), now) && !circuit.heard(&refused(4, &[1, 2, 3]), now));
    open_until(&circuit, Cause::Said);
    assert_eq!(circuit.refusals(), Refusals::OfTokens);
}

#[test]
fn a_sender_that_refuses_three_tokens_in_separate_batches_is_guessed_to_be_unavailable() {
    let now = Instant::now();
    let mut circuit = Circuit::new();
    assert!(!circuit.heard(&refused(1, &[10, 11, 12]), now));
    // More of the same batch, and the same token in another batch, are no further proof.
    assert!(!circuit.heard(&refused(1, &[13]), now) && !circuit.heard(&refused(2, &[10]), now));
    assert!(!circuit.heard(&refused(3, &[20]), now));
    assert_eq!(circuit.refusals(), Refusals::OfTokens);
    assert!(circuit.heard(&refused(4, &[10, 30]), now));
    open_until(&circuit, Cause::Guessed);
    assert_eq!(circuit.refusals(), Refusals::OfSender(ROTATION));
}

#[test]
fn refusals_between_other_verdicts_are_those_of_tokens() {
    let now = Instant::now();
    let mut circuit = Circuit::new();
    for batch in 0..100 {
        circuit.heard(&refused(batch, &[i64::try_from(batch).unwrap()]), now);
        if batch % 2 == 1 {
            circuit.heard(&ok(1_000 + batch), now);
        }
        assert_eq!(circuit.state(), State::Closed);
    }
    // One that everybody refuses, and nothing else to send.
    for batch in 200..300 {
        circuit.heard(&refused(batch, &[7]), now);
        assert_eq!(circuit.state(), State::Closed);
    }
}

#[test]
fn a_guess_lasts_five_seconds_at_most_and_a_refused_token_longer() {
    let mut now = Instant::now();
    let mut circuit = Circuit::new();
    (1..=3).for_each(|batch| _ = circuit.heard(&refused(batch, &[i64::try_from(batch).unwrap()]), now));
    for batch in 10..30 {
        let pause = open_until(&circuit, Cause::Guessed) - now;
        assert!(pause <= seconds(5) && pause < ROTATION, "{pause:?}");
        now = wait(&mut circuit);
        // Still of the trial before.
        assert_eq!(circuit.refusals(), Refusals::OfSender(ROTATION));
        circuit.heard(&refused(batch, &[5]), now);
    }
    // A single verdict disproves the guess at once, also before the next trial.
    assert!(circuit.heard(&ok(40), now));
    assert_eq!((circuit.state(), circuit.refusals()), (State::Closed, Refusals::OfTokens));
}

#[test]
fn a_refusal_on_trial_after_an_outage_that_the_sender_announced_is_that_of_the_token() {
    let now = Instant::now();
    let mut circuit = Circuit::new();
    circuit.heard(&unavailable(1, 0), now);
    let now = wait(&mut circuit);
    assert!(circuit.heard(&refused(2, &[5]), now));
    assert_eq!((circuit.state(), circuit.refusals()), (State::Closed, Refusals::OfTokens));
}

#[test]
fn what_a_sender_says_outweighs_a_guess() {
    let now = Instant::now();
    let mut circuit = Circuit::new();
    (1..=3).for_each(|batch| _ = circuit.heard(&refused(batch, &[i64::try_from(batch).unwrap()]), now));
    assert!(!circuit.heard(&unavailable(4, 9), now));
    assert!(open_until(&circuit, Cause::Said) >= now + seconds(9));
    // Also together with verdicts.
    let both = Evidence { is_verdict: true, ..unavailable(5, 0) };
    let mut circuit = Circuit::new();
    assert!(circuit.heard(&both, now));
    open_until(&circuit, Cause::Said);
}

#[test]
fn pauses_do_not_grow_while_a_part_of_each_trial_goes_out() {
    let mut now = Instant::now();
    let mut circuit = Circuit::new();
    for batch in 0..20 {
        circuit.heard(&Evidence { is_verdict: true, ..unavailable(batch, 0) }, now);
        let pause = open_until(&circuit, Cause::Said) - now;
        assert!(pause <= Duration::from_millis(400), "{pause:?}");
        now = wait(&mut circuit);
    }
    // Nothing goes out any more.
    for batch in 20..40 {
        circuit.heard(&unavailable(batch, 0), now);
        now = wait(&mut circuit);
    }
    circuit.heard(&unavailable(40, 0), now);
    assert!(open_until(&circuit, Cause::Said) >= now + seconds(5));
}
