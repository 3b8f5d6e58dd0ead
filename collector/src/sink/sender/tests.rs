//! A sender's process, its pipes and its end, as far as no database is needed; see `tests/tests/database/sender`.

use super::*;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(400);

/// Reads a line and acknowledges it; acknowledges every line.
const ANSWER_ONE: &str = r#"read -r line; echo "${line%\}},\"ok\":\"all\"}""#;
const ANSWER_EACH: &str = r#"while read -r line; do echo "${line%\}},\"ok\":\"all\"}"; done"#;

/// Acknowledges its first line and reads all others without an answer.
fn answer_once() -> String {
    format!("{ANSWER_ONE}; while read -r line; do :; done")
}

fn sender(script: &str, timeout: Duration) -> Sender {
    let command = SenderCommand::parse(&format!("bash -c {}", shlex::try_quote(script).unwrap())).unwrap();
    Sender::new(command, timeout)
}

/// A sender that has been given its first batch, of token 5.
async fn with_batch(script: &str, timeout: Duration) -> Sender {
    let mut sender = sender(script, timeout);
    until(&mut sender, |sender| sender.readiness() != Readiness::Down).await;
    sender.send(outgoing(1, &[5]));
    sender
}

/// A sender that has acknowledged its first batch.
async fn past_trial(script: &str, timeout: Duration) -> Sender {
    let mut sender = with_batch(script, timeout).await;
    assert_eq!(nacks(&mut sender).await, []);
    sender
}

fn id(batch: u128) -> BatchId {
    BatchId::from(batch)
}

fn outgoing(batch: u128, ids: &[i64]) -> OutgoingBatch {
    let line = format!("{{\"batch\":\"{}\"}}\n", id(batch)).into_bytes();
    OutgoingBatch { batch: id(batch), ids: ids.to_vec(), line }
}

async fn until(sender: &mut Sender, mut condition: impl FnMut(&mut Sender) -> bool) {
    let changes = async {
        while !condition(sender) {
            sender.changed().await.unwrap();
        }
    };
    timeout(SOON, changes).await.expect("it happens soon");
}

async fn until_stopped(sender: &mut Sender) {
    until(sender, |sender| sender.running.is_none()).await;
}

/// The nacks of the next acknowledged batches.
async fn nacks(sender: &mut Sender) -> Vec<(i64, Nack)> {
    until(sender, |sender| !sender.acks.is_empty()).await;
    sender.acks().into_iter().flat_map(|ack| ack.nacks).collect()
}

/// The next batches that come back unsent.
async fn unsent(sender: &mut Sender) -> Vec<BatchId> {
    until(sender, |sender| !sender.unsent.is_empty()).await;
    sender.unsent()
}

#[tokio::test]
async fn a_line_that_the_sender_never_read_comes_back_unsent() {
    let mut ended = with_batch("sleep 0.5", SOON).await;
    assert_eq!(unsent(&mut ended).await, [id(1)]);
    assert_eq!((ended.acks(), ended.in_flight(), ended.readiness()), (Vec::new(), 0, Readiness::Down));

    let mut hung = past_trial(&format!("{ANSWER_ONE}; sleep 1000"), SHORT).await;
    hung.send(outgoing(2, &[6, 7]));
    assert_eq!((unsent(&mut hung).await, hung.acks()), (vec![id(2)], Vec::new()));
}

#[tokio::test]
async fn a_new_sender_gets_one_token_and_one_that_was_unavailable_one_batch() {
    let unavailable = ANSWER_ONE.replace(r#"\"ok\":\"all\""#, r#"\"unavailable\":{}"#);
    let mut sender = with_batch(&format!("{ANSWER_ONE}; {unavailable}; {ANSWER_EACH}"), SOON).await;
    assert_eq!(sender.readiness(), Readiness::OneToken);
    assert_eq!((nacks(&mut sender).await, sender.readiness()), (vec![], Readiness::Ready));
    sender.send(outgoing(2, &[6, 7]));
    assert_eq!((nacks(&mut sender).await.len(), sender.readiness()), (2, Readiness::Down));
    until(&mut sender, |sender| sender.readiness() != Readiness::Down).await;
    assert_eq!(sender.readiness(), Readiness::OneBatch);
    sender.send(outgoing(3, &[8]));
    assert_eq!((nacks(&mut sender).await, sender.readiness()), (vec![], Readiness::Ready));
}

#[tokio::test]
async fn answers_in_the_pipe_are_read_before_a_sender_is_taken_for_silent() {
    let slowly = ANSWER_EACH.replace("do echo", "do sleep 0.1; echo");
    let mut sender = past_trial(&slowly, SHORT).await;
    sender.send(outgoing(2, &[6]));
    timeout(Duration::from_millis(20), sender.changed()).await.ok();
    // Frozen: nothing else runs on this thread.
    std::thread::sleep(2 * SHORT);
    assert_eq!(nacks(&mut sender).await, []);
    assert_eq!(sender.readiness(), Readiness::Ready);
}

#[tokio::test]
async fn pauses_grow_for_a_sender_that_hangs_however_long_it_lives() {
    let mut sender = past_trial(&answer_once(), SHORT).await;
    let first = sender.start_pauses.clone().pause();
    (0..6).for_each(|_| _ = sender.start_pauses.pause());
    sender.send(outgoing(2, &[6]));
    let started_at = &mut sender.running.as_mut().unwrap().started_at;
    *started_at = started_at.checked_sub(Duration::from_secs(60)).unwrap();
    until_stopped(&mut sender).await;
    let pause = sender.start_pauses.pause();
    assert!(pause > 10 * first, "{pause:?} after {first:?}");
}

#[tokio::test]
async fn a_sender_that_ignores_sigterm_is_killed_with_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("child");
    let script = format!("trap '' TERM; sleep 600 & echo $! > {}; wait; sleep 600", file.display());
    let mut sender = with_batch(&script, SHORT).await;
    until_stopped(&mut sender).await;
    let child = std::fs::read_to_string(&file).unwrap();
    let status = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
    let child_ends = async {
        while status().is_ok_and(|status| !status.contains(") Z ")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, child_ends).await.expect("it is killed soon");
}

#[tokio::test]
async fn an_answer_without_a_line_feed_of_a_sender_that_ends_counts() {
    let mut sender = past_trial(&ANSWER_ONE.replace("echo", "printf '%s'"), SOON).await;
    until_stopped(&mut sender).await;
    assert_eq!(sender.acks(), []);
}

#[tokio::test]
async fn a_sender_that_is_closed_ends_without_a_fault_and_is_not_started_again() {
    let mut sender = with_batch(&format!("sleep 1; {ANSWER_EACH}"), SOON).await;
    assert!(timeout(Duration::from_millis(100), sender.changed()).await.is_err());
    sender.close(Instant::now() + SOON);
    assert_eq!(nacks(&mut sender).await, []);
    until(&mut sender, |sender| sender.is_closed()).await;
    sender.send(outgoing(2, &[6]));
    assert_eq!(sender.unsent(), [id(2)]);
    assert!(timeout(Duration::from_millis(700), sender.changed()).await.is_err());
}
