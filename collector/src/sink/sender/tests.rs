//! A sender's process, its pipes and its end, as far as no database is needed; see
//! `tests/tests/database/sender`.

use super::*;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(80);
const SHORT: Duration = Duration::from_millis(400);

const ANSWER_ONE: &str = r#"read -r line; echo "${line%\}},\"ok\":\"all\"}""#;

fn id(batch: u128) -> BatchId {
    BatchId::from(batch)
}

fn line(batch: u128, ids: &[i64]) -> Line {
    let bytes = format!("{{\"batch\":\"{}\"}}\n", id(batch)).into_bytes();
    Line { batch: id(batch), ids: ids.to_vec(), bytes, rejected: Vec::new(), traces: Vec::new() }
}

/// A sender that has been given its first batch, of token 5.
async fn with_batch(script: &str, timeout: Duration) -> Sender {
    let command =
        SenderCommand::parse(&format!("bash -c {}", shlex::try_quote(script).unwrap())).unwrap();
    let mut sender = Sender::new(command, timeout);
    sender.expect(&["activate", "vote"]);
    until(&mut sender, |sender| sender.readiness() == Readiness::OneToken).await;
    sender.send(line(1, &[5]));
    sender
}

/// A sender that has acknowledged its first batch, however long that took; the timeout is for what
/// follows.
async fn past_trial(script: &str, timeout: Duration) -> Sender {
    let mut sender = with_batch(script, SOON).await;
    assert_all_sent(&mut sender).await;
    sender.timeout = timeout;
    sender.pending = PendingAcks::new(timeout);
    sender
}

async fn until(sender: &mut Sender, condition: impl Fn(&Sender) -> bool) {
    let changes = async {
        while !condition(sender) {
            sender.changed().await.unwrap();
        }
    };
    timeout(SOON, changes).await.expect("it happens soon");
}

async fn assert_all_sent(sender: &mut Sender) {
    until(sender, |sender| !sender.acks.is_empty()).await;
    assert!(sender.ended().0.iter().all(|ack| ack.nacks.is_empty()));
}

#[tokio::test]
async fn a_line_that_the_sender_never_read_comes_back_unsent() {
    let ended = with_batch("sleep 0.5", SOON).await;
    let mut hung = past_trial(&format!("{ANSWER_ONE}; sleep 1000"), SHORT).await;
    hung.send(line(2, &[6, 7]));
    for (mut sender, batch) in [(ended, id(1)), (hung, id(2))] {
        until(&mut sender, |sender| !sender.unsent.is_empty()).await;
        assert_eq!((sender.ended(), sender.in_flight()), ((vec![], vec![batch]), 0));
        assert_eq!(sender.readiness(), Readiness::Down);
    }
}

#[tokio::test]
async fn a_new_sender_gets_nothing_but_one_token() {
    let mut sender = with_batch("cat > /dev/null", SOON).await;
    sender.send(line(2, &[6]));
    sender.cancel_unsent();
    sender.send(line(3, &[6, 7]));
    assert_eq!((sender.ended(), sender.in_flight()), ((vec![], vec![id(2), id(1), id(3)]), 0));
}

#[tokio::test]
async fn answers_in_the_pipe_are_read_before_a_sender_is_taken_for_silent() {
    let folder = tempfile::tempdir().unwrap();
    let [frozen, answered] = ["frozen", "answered"].map(|name| folder.path().join(name));
    let script = format!(
        "{ANSWER_ONE}; until [ -e '{}' ]; do sleep 0.02; done; {ANSWER_ONE}; > '{}'; sleep 1000",
        frozen.display(),
        answered.display()
    );
    let mut sender = past_trial(&script, SHORT).await;
    sender.send(line(2, &[6]));
    while sender.pending.len() == 0 {
        timeout(Duration::from_millis(20), sender.changed()).await.ok();
    }
    std::fs::write(frozen, "").unwrap();
    // Frozen: nothing else runs on this thread.
    while !answered.exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(2 * SHORT);
    assert_all_sent(&mut sender).await;
    assert_eq!(sender.readiness(), Readiness::Ready);
}

#[tokio::test]
async fn pauses_grow_for_a_sender_that_hangs_however_long_it_lives() {
    let mut sender = past_trial(&format!("{ANSWER_ONE}; cat > /dev/null"), SHORT).await;
    let first = sender.start_pauses.clone().pause();
    (0..6).for_each(|_| _ = sender.start_pauses.pause());
    sender.send(line(2, &[6]));
    let started_at = &mut sender.running.as_mut().unwrap().started_at;
    *started_at = started_at.checked_sub(Duration::from_secs(60)).unwrap();
    until(&mut sender, |sender| sender.running.is_none()).await;
    let pause = sender.start_pauses.pause();
    assert!(pause > 10 * first, "{pause:?} after {first:?}");
}

#[tokio::test]
async fn an_answer_without_a_line_feed_of_a_sender_that_ends_counts() {
    let mut sender = past_trial(&ANSWER_ONE.replace("echo", "printf '%s'"), SOON).await;
    until(&mut sender, |sender| sender.running.is_none()).await;
    assert_eq!(sender.ended().0, []);
}

#[tokio::test]
async fn the_sender_is_told_the_actions_of_the_database_and_no_other_setting() {
    let answer = r#"read -r line
        [ "$MAILROOM_ACTIONS" = activate,vote ] && [ "$(env | grep -c ^MAILROOM_)" = 1 ] || exit 1
        echo "${line%\}},\"ok\":\"all\"}"; sleep 1000"#;
    drop(past_trial(answer, SOON).await);
}
