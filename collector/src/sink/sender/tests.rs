//! A sender's process, its pipes and its end; the protocol's cases are in `tests/tests/sender`.

use super::*;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);
const NAME: &str = "00000000-0000-0000-0000-00000000000";

fn sender(script: &str, timeout: Duration) -> Sender {
    let command = SenderCommand::parse(&format!("bash -c {}", shlex::try_quote(script).unwrap())).unwrap();
    Sender::new(command, timeout)
}

fn parcel(batch: u64, ids: &[i64]) -> Parcel {
    let line = format!("{{\"batch\":\"{NAME}{batch}\"}}\n").into_bytes();
    Parcel { batch: BatchId(batch), name: batch.into(), ids: ids.to_vec(), line }
}

async fn until(sender: &mut Sender, mut condition: impl FnMut(&mut Sender) -> bool) {
    let changes = async {
        while !condition(sender) {
            sender.changed().await.unwrap();
        }
    };
    timeout(SOON, changes).await.expect("it happens soon");
}

async fn until_it_takes_lines(sender: &mut Sender) {
    until(sender, |sender| sender.readiness() != Readiness::Away).await;
}

async fn taken(sender: &mut Sender) -> Vec<Taken> {
    let mut all = Vec::new();
    until(sender, |sender| {
        all.extend(sender.taken());
        !all.is_empty()
    })
    .await;
    all
}

const ANSWER_EACH: &str = "while read -r line; do echo \"${line%\\}},\\\"ok\\\":\\\"all\\\"}\"; done";

#[tokio::test]
async fn a_sender_is_on_trial_until_its_first_answer() {
    let mut sender = sender(ANSWER_EACH, SOON);
    assert_eq!(sender.readiness(), Readiness::Away);
    until_it_takes_lines(&mut sender).await;
    assert_eq!(sender.readiness(), Readiness::OnTrial);
    sender.send(parcel(1, &[5]));
    let taken = taken(&mut sender).await;
    assert_eq!((taken[0].batch, taken[0].exceptions.len()), (BatchId(1), 0));
    assert_eq!((sender.readiness(), sender.in_flight()), (Readiness::Ready, 0));
}

#[tokio::test]
async fn a_line_that_the_sender_never_read_comes_back_unclaimed() {
    let mut sender = sender("sleep 0.5", SOON);
    until_it_takes_lines(&mut sender).await;
    sender.send(parcel(1, &[5]));
    let mut returned = Vec::new();
    until(&mut sender, |sender| {
        returned.extend(sender.returned());
        !returned.is_empty()
    })
    .await;
    assert_eq!((returned, sender.taken(), sender.in_flight()), (vec![BatchId(1)], Vec::new(), 0));
    assert_eq!(sender.readiness(), Readiness::Away);
}

#[tokio::test]
async fn a_token_that_ends_a_sender_on_trial_is_to_blame_and_others_are_not() {
    let script =
        "read -r line; echo \"${line%\\}},\\\"ok\\\":\\\"all\\\"}\"; read -r line; read -r line; exit 3";
    let mut trial = sender("read -r line; exit 3", SOON);
    until_it_takes_lines(&mut trial).await;
    trial.send(parcel(1, &[5]));
    let reason = "the sender has ended (exit status: 3)".to_owned();
    assert_eq!(taken(&mut trial).await[0].exceptions, [(5, Exception::Failed { reason })]);

    let mut sender = sender(script, SOON);
    until_it_takes_lines(&mut sender).await;
    sender.send(parcel(1, &[5]));
    taken(&mut sender).await;
    sender.send(parcel(2, &[6]));
    sender.send(parcel(3, &[7, 8]));
    let exceptions: Vec<_> =
        taken(&mut sender).await.into_iter().flat_map(|taken| taken.exceptions).collect();
    assert_eq!(exceptions, [6, 7, 8].map(|id| (id, Exception::Unanswered)));
}

/// Answers its first line, and reads all others without a word.
const ANSWER_ONCE: &str =
    "read -r line; echo \"${line%\\}},\\\"ok\\\":\\\"all\\\"}\"; while read -r line; do :; done";

#[tokio::test]
async fn tokens_that_a_sender_hangs_on_are_tried_again_as_refused_ones() {
    let mut sender = sender(ANSWER_ONCE, Duration::from_millis(400));
    until_it_takes_lines(&mut sender).await;
    sender.send(parcel(1, &[5]));
    assert_eq!(taken(&mut sender).await[0].exceptions, []);
    sender.send(parcel(2, &[6, 7]));
    sender.send(parcel(3, &[8]));
    let exceptions: Vec<_> =
        taken(&mut sender).await.into_iter().flat_map(|taken| taken.exceptions).collect();
    let reason = "the sender is ended: it has answered nothing for 400ms".to_owned();
    let failed = Exception::Failed { reason };
    assert_eq!(exceptions, [6, 7, 8].map(|id| (id, failed.clone())));
}

#[tokio::test]
async fn answers_that_came_while_nobody_listened_are_heard_before_the_sender_is_called_silent() {
    let slowly = ANSWER_EACH.replace("do echo", "do sleep 0.1; echo");
    let mut sender = sender(&slowly, Duration::from_millis(400));
    until_it_takes_lines(&mut sender).await;
    sender.send(parcel(1, &[5]));
    taken(&mut sender).await;
    sender.send(parcel(2, &[6]));
    timeout(Duration::from_millis(20), sender.changed()).await.ok();
    // Frozen: nothing else runs on this thread.
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(taken(&mut sender).await[0].exceptions, []);
    assert_eq!(sender.readiness(), Readiness::Ready);
}

#[tokio::test]
async fn what_a_hung_sender_has_not_read_comes_back_unclaimed() {
    let script = "read -r line; echo \"${line%\\}},\\\"ok\\\":\\\"all\\\"}\"; sleep 1000";
    let mut sender = sender(script, Duration::from_millis(400));
    until_it_takes_lines(&mut sender).await;
    sender.send(parcel(1, &[5]));
    taken(&mut sender).await;
    sender.send(parcel(2, &[6, 7]));
    let mut returned = Vec::new();
    until(&mut sender, |sender| {
        returned.extend(sender.returned());
        !returned.is_empty()
    })
    .await;
    assert_eq!((returned, sender.taken()), (vec![BatchId(2)], Vec::new()));
}

#[tokio::test]
async fn pauses_grow_for_a_sender_that_hangs_however_long_it_lives() {
    let mut sender = sender(ANSWER_ONCE, Duration::from_millis(400));
    let first = sender.backoff.clone().pause();
    for _ in 0..6 {
        sender.backoff.pause();
    }
    until_it_takes_lines(&mut sender).await;
    sender.send(parcel(1, &[5]));
    taken(&mut sender).await;
    sender.send(parcel(2, &[6]));
    let State::Up(up) = &mut sender.state else { panic!("it lives") };
    up.started = up.started.checked_sub(Duration::from_secs(60)).unwrap();
    until(&mut sender, |sender| matches!(sender.state, State::Down { .. })).await;
    let pause = sender.backoff.pause();
    assert!(pause > 10 * first, "{pause:?} after {first:?}");
}

#[tokio::test]
async fn a_sender_that_ignores_sigterm_is_killed_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("child");
    let script = format!("trap '' TERM; sleep 600 & echo $! > {}; wait; sleep 600", file.display());
    let mut sender = sender(&script, Duration::from_millis(400));
    until_it_takes_lines(&mut sender).await;
    sender.send(parcel(1, &[5]));
    until(&mut sender, |sender| matches!(sender.state, State::Down { .. })).await;
    let child = std::fs::read_to_string(&file).unwrap();
    let is_gone = || {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        status.map_or(true, |status| status.contains(") Z "))
    };
    until_is(is_gone).await;
}

async fn until_is(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, waiting).await.expect("it is so soon");
}

#[tokio::test]
async fn an_answer_of_a_sender_that_ends_at_once_still_counts() {
    let script = "read -r line; printf '%s' \"${line%\\}},\\\"ok\\\":\\\"all\\\"}\"";
    let mut sender = sender(script, SOON);
    until_it_takes_lines(&mut sender).await;
    sender.send(parcel(1, &[5]));
    assert_eq!(taken(&mut sender).await[0].exceptions, []);
    until(&mut sender, |sender| matches!(sender.state, State::Down { .. })).await;
    assert_eq!(sender.taken(), []);
}

#[tokio::test]
async fn the_end_of_a_sender_that_is_asked_to_end_is_no_fault_and_it_is_not_started_again() {
    let mut sender = sender(&format!("sleep 1; {ANSWER_EACH}"), SOON);
    until_it_takes_lines(&mut sender).await;
    sender.send(parcel(1, &[5]));
    assert!(timeout(Duration::from_millis(100), sender.changed()).await.is_err());
    sender.close(Instant::now() + SOON);
    assert_eq!(taken(&mut sender).await[0].exceptions, []);
    until(&mut sender, |sender| sender.is_closed()).await;
    sender.send(parcel(2, &[6]));
    assert_eq!(sender.returned(), [BatchId(2)]);
    assert!(timeout(Duration::from_millis(700), sender.changed()).await.is_err());
}

#[test]
fn debug_output_shows_no_line() {
    let mut sender = sender("true", SOON);
    sender.waiting.push_back((parcel(1, &[5]), Instant::now()));
    let shown = format!("{sender:?}");
    assert!(!shown.contains("123, 34") && !shown.contains("{\"batch"), "{shown}");
}
