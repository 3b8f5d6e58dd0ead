//! The loop between a queue in memory and real processes as senders.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use mailroom_verifier_core::{Action, SharedKey};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::config::CollectFlags;
use crate::queue::{Batch, Exception, Prospect, Settlement, Token};
use crate::sink::{Sender, SenderCommand};

const SOON: Duration = Duration::from_secs(20);

/// What the test sees of a queue.
#[derive(Debug, Default)]
struct Seen {
    /// Ids and attempts of tokens that wait.
    waiting: VecDeque<(i64, u32)>,
    claimed: BTreeMap<BatchId, Vec<(i64, u32)>>,
    wants: Vec<Want>,
    /// What was settled, also of batches that were not held any more.
    settled: Vec<BatchId>,
    /// Every token's last exception, or that it was sent.
    outcomes: BTreeMap<i64, Option<Exception>>,
    /// Tells the collector that it has lost these, and since when.
    lose: Vec<(BatchId, Instant)>,
    released: usize,
    /// The database answers nothing.
    stalls: bool,
}

#[derive(Clone, Debug, Default)]
struct MemoryQueue(Arc<Mutex<Seen>>, u64);

impl MemoryQueue {
    fn of(ids: std::ops::RangeInclusive<i64>) -> Self {
        let queue = Self::default();
        queue.seen(|seen| seen.waiting.extend(ids.map(|id| (id, 1))));
        queue
    }

    fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn until(&self, condition: impl Fn(&Seen) -> bool) {
        let waiting = async {
            while !self.seen(|seen| condition(seen)) {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(SOON, waiting)
            .await
            .unwrap_or_else(|_| panic!("{:?}", self.seen(|seen| format!("{seen:?}"))));
    }
}

impl Queue for MemoryQueue {
    async fn open(&mut self) -> Result<(), QueueError> {
        Ok(())
    }

    async fn exchange(
        &mut self,
        settlements: Vec<Settlement>,
        want: Option<Want>,
    ) -> Result<Claim, QueueError> {
        // As a database would, it answers later.
        tokio::task::yield_now().await;
        while self.seen(|seen| seen.stalls) {
            sleep(Duration::from_millis(5)).await;
        }
        let number = &mut self.1;
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for settlement in settlements {
            seen.settled.push(settlement.batch);
            let Some(tokens) = seen.claimed.remove(&settlement.batch) else { continue };
            let mut exceptions: BTreeMap<_, _> = settlement.exceptions.into_iter().collect();
            for (id, attempt) in tokens {
                let exception = exceptions.remove(&id);
                if exception == Some(Exception::Unanswered) {
                    seen.waiting.push_front((id, attempt + 1));
                }
                seen.outcomes.insert(id, exception);
            }
            assert!(exceptions.is_empty(), "{exceptions:?} are not in the batch");
        }
        let mut claim = Claim::default();
        let Some(want) = want else { return Ok(claim) };
        seen.wants.push(want);
        while claim.batches.len() < want.batches && !seen.waiting.is_empty() {
            let count = want.limit.min(seen.waiting.len());
            let tokens: Vec<_> = seen.waiting.drain(..count).collect();
            *number += 1;
            let id = BatchId(*number);
            claim.batches.push(Batch {
                id,
                name: u128::from(*number),
                tokens: tokens.iter().map(token).collect(),
            });
            seen.claimed.insert(id, tokens);
        }
        Ok(claim)
    }

    fn release(&mut self, batches: &[BatchId]) {
        self.seen(|seen| {
            for batch in batches {
                let tokens = seen.claimed.remove(batch).expect("only what is claimed is released");
                seen.released += tokens.len();
                tokens.into_iter().rev().for_each(|token| seen.waiting.push_front(token));
            }
        });
    }

    fn tend_at(&self) -> Option<Instant> {
        self.seen(|seen| seen.lose.first().map(|(_, since)| *since))
    }

    async fn tend(&mut self) -> Result<Vec<BatchId>, QueueError> {
        Ok(self.seen(|seen| {
            let lost: Vec<_> = seen.lose.drain(..).map(|(batch, _)| batch).collect();
            for batch in &lost {
                let tokens = seen.claimed.remove(batch).expect("only what is claimed is lost");
                seen.waiting.extend(tokens.into_iter().map(|(id, attempt)| (id, attempt + 1)));
            }
            lost
        }))
    }

    async fn prospect(&mut self, _: usize) -> Result<Prospect, QueueError> {
        Ok(Prospect { due: self.seen(|seen| seen.waiting.len()), next: None })
    }
}

fn token(&(id, attempt): &(i64, u32)) -> Token {
    Token {
        id,
        attempt,
        action: Action::Activate,
        email: b"a@b.test".to_vec(),
        login: b"a".to_vec(),
        secret: vec![9; 32],
        code: None,
        expires_at: 1_800_000_000,
    }
}

/// A collector that runs until it is told to stop.
struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), CollectError>>,
    hints: watch::Sender<u64>,
    _signer: watch::Sender<Arc<Signer>>,
}

fn start(queue: &MemoryQueue, script: &str, settings: &[(&str, &str)]) -> Running {
    let variables = |name: &str| {
        let all = [("MAILROOM_POLL_INTERVAL", "100"), ("MAILROOM_BATCH_TIMEOUT", "0")];
        let mut all = settings.iter().chain(&all);
        all.find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(value))
    };
    let settings = CollectSettings::read(&CollectFlags::default(), &variables).unwrap();
    let settings = CollectSettings { line_format: LineFormat::Ndjson, ..settings };
    let command = SenderCommand::parse(&format!("bash -c {}", shlex::try_quote(script).unwrap())).unwrap();
    let sink = Sender::new(command, settings.sender_timeout);
    let (stop, stopped) = watch::channel(false);
    let (hints, hinted) = watch::channel(0);
    let (signer, signs) = watch::channel(Arc::new(Signer::V1(SharedKey::from(&[7; 32]))));
    let sleeper = Sleeper::without_lock();
    let collector = Collector::new(queue.clone(), sink, &settings, signs, hinted, sleeper, stopped);
    Running { stop, task: tokio::spawn(collector.run()), hints, _signer: signer }
}

impl Running {
    async fn stop(self) {
        self.stop.send_replace(true);
        timeout(SOON, self.task).await.expect("it ends soon").unwrap().unwrap();
    }
}

/// Answers each batch with `$answer` behind its name.
fn answering(answer: &str) -> String {
    format!(
        "while read -r line; do name=${{line#*\\\"batch\\\":\\\"}}; echo \"{{\\\"batch\\\":\\\"${{name:0:36}}\\\",{answer}}}\"; done"
    )
}

fn all() -> String {
    answering("\\\"ok\\\":\\\"all\\\"")
}

#[tokio::test]
async fn what_a_sender_vouches_for_is_settled_after_a_trial_with_one_token() {
    let queue = MemoryQueue::of(1..=95);
    let running = start(&queue, &all(), &[]);
    queue.until(|seen| seen.outcomes.len() == 95).await;
    running.stop().await;
    queue.seen(|seen| {
        assert!(seen.outcomes.values().all(Option::is_none), "{seen:?}");
        assert_eq!((seen.wants[0].batches, seen.wants[0].limit), (1, 1));
        assert!(seen.wants[1..].iter().all(|want| want.limit == 10), "{seen:?}");
        assert!(seen.claimed.is_empty() && seen.waiting.is_empty());
    });
}

#[tokio::test]
async fn nothing_is_claimed_while_no_sender_stays() {
    for script in ["exit 1", "nonexistent-program-of-this-test"] {
        let queue = MemoryQueue::of(1..=9);
        let running = start(&queue, script, &[]);
        sleep(Duration::from_secs(1)).await;
        running.stop().await;
        queue.seen(|seen| assert_eq!((seen.wants.len(), seen.waiting.len()), (0, 9), "{seen:?}"));
    }
}

#[tokio::test]
async fn tokens_of_a_sender_that_dies_go_out_again_with_a_higher_attempt() {
    // Every process answers two batches and dies while it has others.
    let script = all().replace("; done", "; if ((++answers == 2)); then read -r line; exit 1; fi; done");
    let queue = MemoryQueue::of(1..=30);
    let running = start(&queue, &script, &[]);
    queue.until(|seen| seen.outcomes.values().filter(|outcome| outcome.is_none()).count() > 10).await;
    running.stop().await;
    queue.seen(|seen| {
        assert!(seen.claimed.is_empty(), "{seen:?}");
        let open = seen.outcomes.values().filter(|outcome| outcome.is_some()).count();
        let sent = seen.outcomes.len() - open;
        // One on trial may have been blamed; none is lost.
        assert!(sent + seen.waiting.len() + open >= 30, "{seen:?}");
    });
}

#[tokio::test]
async fn a_batch_that_somebody_else_has_is_forgotten_and_its_answer_changes_nothing() {
    let slow = all().replace("; do ", "; do sleep 0.3; ");
    let queue = MemoryQueue::of(1..=1);
    let running = start(&queue, &slow, &[]);
    queue.until(|seen| seen.claimed.len() == 1).await;
    queue.seen(|seen| {
        assert!(seen.claimed.contains_key(&BatchId(1)), "{seen:?}");
        seen.lose.push((BatchId(1), Instant::now()));
    });
    // It looks, and learns of that before the answer comes.
    running.hints.send_modify(|hints| *hints += 1);
    queue.until(|seen| seen.outcomes.len() == 1).await;
    running.stop().await;
    // The sender answers both.
    queue.seen(|seen| {
        assert_eq!(seen.settled, [BatchId(2)], "{seen:?}");
        assert!(seen.claimed.is_empty() && seen.waiting.is_empty() && seen.lose.is_empty(), "{seen:?}");
    });
}

#[tokio::test]
async fn lines_that_wait_for_a_reader_are_taken_back_to_be_judged_again_also_with_a_fixed_prefetch() {
    // It answers once and reads no more; forty batches are more than its pipe holds.
    let stops = all().replace("; done", "; sleep 1000; done");
    let queue = MemoryQueue::of(1..=5_000);
    let running = start(&queue, &stops, &[("MAILROOM_PREFETCH", "40"), ("MAILROOM_BATCH_LIMIT", "50")]);
    queue.until(|seen| seen.claimed.len() == 40).await;
    queue.until(|seen| seen.released > 0).await;
    let (wants, kept) = queue.seen(|seen| (seen.wants.len(), seen.claimed.len()));
    assert!((1..40).contains(&kept), "{kept} lines are on their way");
    // And nothing is claimed only to be taken back again.
    sleep(Duration::from_secs(3)).await;
    queue.seen(|seen| assert_eq!((seen.wants.len(), seen.claimed.len()), (wants, kept), "{seen:?}"));
    running.task.abort();
}

#[tokio::test]
async fn at_the_end_a_sender_finishes_what_it_has_and_the_rest_goes_back() {
    let slow = all().replace("; do ", "; do sleep 0.2; ");
    let queue = MemoryQueue::of(1..=500);
    let running = start(&queue, &slow, &[("MAILROOM_PREFETCH", "4")]);
    queue.until(|seen| seen.claimed.len() == 4).await;
    let begun = Instant::now();
    running.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    queue.seen(|seen| {
        assert!(seen.claimed.is_empty(), "{seen:?}");
        assert_eq!(seen.outcomes.len() + seen.waiting.len(), 500);
        assert!(seen.outcomes.values().all(Option::is_none), "{seen:?}");
    });
}

#[tokio::test]
async fn at_the_end_a_frozen_sender_is_killed_within_its_timeout_and_all_goes_back() {
    let frozen = "trap '' TERM; while read -r line; do sleep 100; done";
    let queue = MemoryQueue::of(1..=500);
    let running = start(&queue, frozen, &[("MAILROOM_SENDER_TIMEOUT", "12s")]);
    queue.until(|seen| seen.claimed.len() == 1).await;
    let begun = Instant::now();
    running.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    queue.seen(|seen| {
        assert!(seen.claimed.is_empty(), "{seen:?}");
        assert_eq!(seen.waiting.len(), 500);
        assert_eq!(seen.outcomes, BTreeMap::from([(1, Some(Exception::Unanswered))]));
    });
}

#[tokio::test]
async fn a_database_that_answers_nothing_does_not_hold_up_the_end() {
    let slow = all().replace("; do ", "; do sleep 0.05; ");
    let queue = MemoryQueue::of(1..=5_000);
    let running = start(&queue, &slow, &[("MAILROOM_SENDER_TIMEOUT", "12s")]);
    queue.until(|seen| seen.outcomes.len() > 20).await;
    queue.seen(|seen| seen.stalls = true);
    // A settlement waits for its answer by now.
    sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    running.stop().await;
    // The sender's timeout and what a busy machine takes, but not another time of the three seconds for the settlement.
    assert!(begun.elapsed() < Duration::from_millis(14_500), "{:?}", begun.elapsed());
}
