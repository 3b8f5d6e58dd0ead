//! The loop between a queue in memory and real processes as senders.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mailroom_verifier_core::SharedKey;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::config::{LineFormat, SenderCommand};
use crate::line::sample;
use crate::queue::{Batch, BatchId, Claim, ClaimRequest, Nack, Peek, QueueError, Settlement, Token};
use crate::sink::Sender;
use crate::wake::idle_lock;

const SOON: Duration = Duration::from_secs(20);

/// The content of the queue.
#[derive(Debug, Default)]
struct Seen {
    /// Ids and attempts of tokens that wait.
    waiting: VecDeque<(i64, u32)>,
    claimed: BTreeMap<BatchId, Vec<(i64, u32)>>,
    requests: Vec<ClaimRequest>,
    /// What was settled, also of batches that were not claimed any more.
    settled: Vec<BatchId>,
    /// The last nack of each token, or that it was sent.
    outcomes: BTreeMap<i64, Option<Nack>>,
    /// Batches that the next heartbeat reports as lost, and when it is due.
    lose: Vec<(BatchId, Instant)>,
    released: usize,
    /// The database does not respond.
    stalls: bool,
}

#[derive(Clone, Debug, Default)]
struct MemoryQueue(Arc<Mutex<Seen>>, u128);

impl MemoryQueue {
    fn of(ids: std::ops::RangeInclusive<i64>) -> Self {
        let queue = Self::default();
        queue.seen(|seen| seen.waiting.extend(ids.map(|id| (id, 1))));
        queue
    }

    fn seen<T>(&self, examine: impl FnOnce(&mut Seen) -> T) -> T {
        examine(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
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

    async fn settle_and_claim(
        &mut self,
        settlements: Vec<Settlement>,
        request: Option<ClaimRequest>,
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
            let mut nacks: BTreeMap<_, _> = settlement.nacks.into_iter().collect();
            for (id, attempt) in tokens {
                let nack = nacks.remove(&id);
                if nack == Some(Nack::Abandoned) {
                    seen.waiting.push_front((id, attempt + 1));
                }
                seen.outcomes.insert(id, nack);
            }
            assert!(nacks.is_empty(), "{nacks:?} are not in the batch");
        }
        let mut claim = Claim::default();
        let Some(request) = request else { return Ok(claim) };
        seen.requests.push(request);
        while claim.batches.len() < request.batches && !seen.waiting.is_empty() {
            let count = request.limit.min(seen.waiting.len());
            let tokens: Vec<_> = seen.waiting.drain(..count).collect();
            *number += 1;
            let id = BatchId::from(*number);
            claim.batches.push(Batch {
                id,
                tokens: tokens
                    .iter()
                    .map(|(id, attempt)| Token { attempt: *attempt, ..sample(*id) })
                    .collect(),
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

    fn heartbeat_at(&self) -> Option<Instant> {
        self.seen(|seen| seen.lose.first().map(|(_, due)| *due))
    }

    async fn heartbeat(&mut self) -> Result<Vec<BatchId>, QueueError> {
        Ok(self.seen(|seen| {
            let lost: Vec<_> = seen.lose.drain(..).map(|(batch, _)| batch).collect();
            for batch in &lost {
                let tokens = seen.claimed.remove(batch).expect("only what is claimed is lost");
                seen.waiting.extend(tokens.into_iter().map(|(id, attempt)| (id, attempt + 1)));
            }
            lost
        }))
    }

    async fn peek(&mut self, _: usize) -> Result<Peek, QueueError> {
        Ok(Peek { due: self.seen(|seen| seen.waiting.len()), next: None })
    }
}

/// A collector that runs until a stop is requested.
struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), CollectError>>,
    wakeups: watch::Sender<u64>,
    _signer: watch::Sender<Arc<Signer>>,
}

fn start(queue: &MemoryQueue, script: &str, settings: &[(&str, &str)]) -> Running {
    let flags = [("--poll-interval", "100"), ("--batch-timeout", "0")].iter().chain(settings);
    let settings = CollectSettings::of_flags(flags.flat_map(|(flag, value)| [*flag, *value])).unwrap();
    let settings = CollectSettings { line_format: LineFormat::Ndjson, ..settings };
    let command = SenderCommand::parse(&format!("bash -c {}", shlex::try_quote(script).unwrap())).unwrap();
    let sink = Sender::new(command, settings.timeouts.sender_timeout);
    let (stop, stopped) = watch::channel(false);
    let (wakeups, woken) = watch::channel(0);
    let (signer, signs) = watch::channel(Arc::new(Signer::V1(SharedKey::from(&[7; 32]))));
    let (idle_lock, _) = idle_lock::pair(false);
    let inputs = Inputs { signer: signs, wakeups: woken, idle_lock, stop: stopped };
    let collector = Collector::new(queue.clone(), sink, &settings, inputs);
    Running { stop, task: tokio::spawn(collector.run()), wakeups, _signer: signer }
}

impl Running {
    async fn stop(self) {
        self.stop.send_replace(true);
        timeout(SOON, self.task).await.expect("it ends soon").unwrap().unwrap();
    }
}

/// A sender that acknowledges every batch.
fn all() -> String {
    r#"while read -r line; do id=${line#*\"batch\":\"}; echo "{\"batch\":\"${id:0:36}\",\"ok\":\"all\"}"; done"#.to_owned()
}

#[tokio::test]
async fn what_a_sender_acknowledges_is_settled_after_a_probe_with_one_token() {
    let queue = MemoryQueue::of(1..=95);
    let running = start(&queue, &all(), &[]);
    queue.until(|seen| seen.outcomes.len() == 95).await;
    running.stop().await;
    queue.seen(|seen| {
        assert!(seen.outcomes.values().all(Option::is_none), "{seen:?}");
        assert_eq!((seen.requests[0].batches, seen.requests[0].limit), (1, 1));
        assert!(seen.requests[1..].iter().all(|request| request.limit == 10), "{seen:?}");
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
        queue.seen(|seen| assert_eq!((seen.requests.len(), seen.waiting.len()), (0, 9), "{seen:?}"));
    }
}

#[tokio::test]
async fn tokens_of_a_sender_that_dies_go_out_again_with_a_higher_attempt() {
    // Every process answers two batches and ends while it has others.
    let script = all().replace("; done", "; if ((++answers == 2)); then read -r line; exit 1; fi; done");
    let queue = MemoryQueue::of(1..=30);
    let running = start(&queue, &script, &[]);
    queue.until(|seen| seen.outcomes.values().filter(|outcome| outcome.is_none()).count() > 10).await;
    running.stop().await;
    queue.seen(|seen| {
        assert!(seen.claimed.is_empty(), "{seen:?}");
        let open = seen.outcomes.values().filter(|outcome| outcome.is_some()).count();
        let sent = seen.outcomes.len() - open;
        // A probe may have been blamed; none is lost.
        assert!(sent + seen.waiting.len() + open >= 30, "{seen:?}");
    });
}

#[tokio::test]
async fn a_lost_batch_is_dropped_and_its_answer_changes_nothing() {
    let slow = all().replace("; do ", "; do sleep 0.3; ");
    let queue = MemoryQueue::of(1..=1);
    let running = start(&queue, &slow, &[]);
    queue.until(|seen| seen.claimed.len() == 1).await;
    queue.seen(|seen| {
        assert!(seen.claimed.contains_key(&BatchId::from(1)), "{seen:?}");
        seen.lose.push((BatchId::from(1), Instant::now()));
    });
    // It polls, and gets to know that before the answer comes.
    running.wakeups.send_modify(|count| *count += 1);
    queue.until(|seen| seen.outcomes.len() == 1).await;
    running.stop().await;
    // The sender answers both.
    queue.seen(|seen| {
        assert_eq!(seen.settled, [BatchId::from(2)], "{seen:?}");
        assert!(seen.claimed.is_empty() && seen.waiting.is_empty() && seen.lose.is_empty(), "{seen:?}");
    });
}

#[tokio::test]
async fn unsent_lines_are_cancelled_after_a_while_also_with_a_fixed_prefetch() {
    // It answers once and reads no more; forty batches are more than its pipe holds.
    let stops = all().replace("; done", "; sleep 1000; done");
    let queue = MemoryQueue::of(1..=5_000);
    let running = start(&queue, &stops, &[("--prefetch", "40"), ("--batch-limit", "50")]);
    queue.until(|seen| seen.claimed.len() == 40).await;
    queue.until(|seen| seen.released > 0).await;
    let (requests, kept) = queue.seen(|seen| (seen.requests.len(), seen.claimed.len()));
    assert!((1..40).contains(&kept), "{kept} lines are in flight");
    // And nothing is claimed only to be cancelled again.
    sleep(Duration::from_secs(3)).await;
    queue.seen(|seen| assert_eq!((seen.requests.len(), seen.claimed.len()), (requests, kept), "{seen:?}"));
    running.task.abort();
}

#[tokio::test]
async fn at_the_end_a_sender_finishes_what_it_has_and_the_rest_is_released() {
    let slow = all().replace("; do ", "; do sleep 0.2; ");
    let queue = MemoryQueue::of(1..=500);
    let running = start(&queue, &slow, &[("--prefetch", "4")]);
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
async fn at_the_end_a_frozen_sender_is_killed_within_its_timeout_and_all_is_released() {
    let frozen = "trap '' TERM; while read -r line; do sleep 100; done";
    let queue = MemoryQueue::of(1..=500);
    let running = start(&queue, frozen, &[("--sender-timeout", "12s")]);
    queue.until(|seen| seen.claimed.len() == 1).await;
    let begun = Instant::now();
    running.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    queue.seen(|seen| {
        assert!(seen.claimed.is_empty(), "{seen:?}");
        assert_eq!(seen.waiting.len(), 500);
        assert_eq!(seen.outcomes, BTreeMap::from([(1, Some(Nack::Abandoned))]));
    });
}

#[tokio::test]
async fn a_database_that_does_not_respond_does_not_hold_up_the_end() {
    let slow = all().replace("; do ", "; do sleep 0.05; ");
    let queue = MemoryQueue::of(1..=5_000);
    let running = start(&queue, &slow, &[("--sender-timeout", "12s")]);
    queue.until(|seen| seen.outcomes.len() > 20).await;
    queue.seen(|seen| seen.stalls = true);
    // A settlement waits for its answer by now.
    sleep(Duration::from_millis(300)).await;
    let begun = Instant::now();
    running.stop().await;
    // The sender's timeout and what a busy machine takes, but not another time of the three seconds for the settlement.
    assert!(begun.elapsed() < Duration::from_millis(14_500), "{:?}", begun.elapsed());
}
