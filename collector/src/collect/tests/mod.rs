//! What the loop promises whatever queue and sink it has, on a paused clock; see
//! `tests/tests/database` for the real ones.

mod ends;
mod reader;
mod server;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use clap::builder::Resettable;
use clap::{Args, FromArgMatches};
use mailroom_traces::Recorder;
use mailroom_verifier_core::Signer;
use tokio::time::{sleep, timeout};

use super::*;
use crate::config::MissingSchema;
use crate::queue::{QueueError, Token};
use crate::sink::Readiness;
use crate::timer;
use crate::wake::idle_lock;
use reader::{FakeSink, Reach, Reader};
use server::{Condition, FakeQueue, Place, Server};

/// Times are virtual: no test waits for them.
const LONG: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_millis(100);

/// A server and a reader, and what a collector between them is told.
struct World {
    server: Rc<Server>,
    reader: Rc<Reader>,
    settings: CollectSettings,
    stop: CancellationToken,
}

impl World {
    /// With this many tokens, one a batch, of which four are in flight at once.
    fn of(tokens: i64) -> Self {
        Self {
            server: Server::with((1..=tokens).map(|id| Token::example(id, b"ada"))),
            reader: Reader::new(),
            settings: CollectSettings { batch_limit: 1, prefetch: Some(4), ..settings() },
            stop: CancellationToken::new(),
        }
    }

    fn collector(&self) -> Collector<FakeQueue, FakeSink> {
        let signer = || (&[7; 32]).into();
        let key = SigningKey::Shared { v1: Signer::V1(signer()), v2: Signer::V2(signer()) };
        let inputs = Inputs {
            wakeups: watch::channel(0).1,
            idle_lock: idle_lock::pair(false).0,
            stop: self.stop.clone(),
            metrics: Arc::default(),
            traces: Recorder::default(),
        };
        let key = watch::channel(Arc::new(key)).1;
        Collector::new(self.server.queue(), self.reader.sink(), &self.settings, key, inputs)
    }

    /// Runs a collector beside `script` and stops it afterwards. Returns how it ended, and how long
    /// after the stop.
    async fn collect_during(
        &self,
        script: impl Future<Output = ()>,
    ) -> (Result<(), CollectError>, Duration) {
        let script = async {
            script.await;
            self.stop.cancel();
            timer::now()
        };
        let collecting = async { (self.collector().run().await, timer::now()) };
        let both = async { tokio::join!(collecting, script) };
        let ((outcome, ended), stopped) = timeout(LONG, both).await.expect("it ends");
        (outcome, ended.saturating_duration_since(stopped))
    }

    /// What holds at any moment: nothing counts as sent that the reader has not taken, and nothing
    /// was released that it may have read.
    fn assert_sound(&self) {
        let taken: BTreeSet<_> = self.reader.taken().into_iter().collect();
        let sent = self.server.sent();
        assert!(sent.is_subset(&taken), "{sent:?} are settled, {taken:?} were taken");
        for batch in self.server.released() {
            assert!(!self.reader.has_read(batch), "{batch} was read, and released");
        }
    }

    fn is_all_sent(&self) -> bool {
        self.server.places().into_iter().all(|place| place == Place::Sent)
    }

    /// Takes line after line until all tokens are settled.
    async fn take_all(&self) {
        let taking = async {
            while !self.is_all_sent() {
                sleep(Duration::from_millis(7)).await;
                self.reader.take(1);
            }
        };
        timeout(Duration::from_secs(60), taking).await.expect("all tokens are settled");
    }
}

/// The defaults, whatever the environment says, and without a wait for full batches.
fn settings() -> CollectSettings {
    let command = CollectSettings::augment_args(clap::Command::new("collect"))
        .mut_args(|argument| argument.env(Resettable::Reset));
    let mut settings =
        CollectSettings::from_arg_matches(&command.get_matches_from(["collect"])).unwrap();
    settings.timeouts.batch_timeout = Duration::ZERO;
    settings
}

fn is_leased(place: Place) -> bool {
    matches!(place, Place::Leased(_))
}

#[tokio::test(start_paused = true)]
async fn every_token_is_taken_and_settled_once() {
    let world = World::of(100);
    let (outcome, _) = world.collect_during(world.take_all()).await;
    outcome.unwrap();
    // The queue refuses a second settlement of a batch.
    world.assert_sound();
    assert!(world.reader.taken().into_iter().eq(1..=100));
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_which_nothing_can_be_sent_is_settled_without_the_reader() {
    let mut world = World::of(0);
    let broken = |id| Token { secret: Vec::new(), ..Token::example(id, b"ada") };
    world.server = Server::with([broken(1), Token::example(2, b"ada"), broken(3)]);
    world.settings.batch_limit = 2;
    let (outcome, _) = world
        .collect_during(async {
            sleep(Duration::from_secs(1)).await;
            assert_eq!(world.server.places()[2], Place::Dead);
            assert_eq!(world.reader.take(4), 1);
            sleep(Duration::from_secs(1)).await;
        })
        .await;
    outcome.unwrap();
    assert_eq!(world.server.places(), [Place::Dead, Place::Sent, Place::Dead]);
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_not_read_within_a_second_go_to_whoever_claims_next() {
    let world = World::of(4);
    let (outcome, _) = world
        .collect_during(async {
            world.reader.set_reach(Reach::Unsent);
            sleep(Duration::from_millis(1_100)).await;
            assert_eq!(world.server.places(), [Place::Waiting; 4]);
            world.reader.set_reach(Reach::Reader);
            world.take_all().await;
        })
        .await;
    outcome.unwrap();
    world.assert_sound();
    assert!(world.reader.taken().into_iter().eq(1..=4));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_while_as_much_is_in_flight_as_may_be() {
    let world = World::of(100);
    let (outcome, _) = world
        .collect_during(async {
            sleep(LONG / 2).await;
            assert_eq!(world.server.count(is_leased), 4);
            let claims = world.server.claims().len();
            // A third of them makes room.
            world.reader.take(1);
            sleep(Duration::from_secs(10)).await;
            assert_eq!((world.server.claims().len(), world.reader.in_flight()), (claims, 3));
            world.reader.take(1);
            sleep(Duration::from_secs(10)).await;
            assert_eq!((world.server.claims().len(), world.reader.in_flight()), (claims + 1, 4));
        })
        .await;
    outcome.unwrap();
    world.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_down_stops_claims_and_a_trial_of_one_token_opens_it_again() {
    let mut world = World::of(100);
    world.settings.batch_limit = 10;
    // A restart of the sink is noticed at once, not by the next poll.
    world.settings.poll_interval = LONG;
    world.reader.set_readiness(Readiness::Down);
    let (outcome, _) = world
        .collect_during(async {
            sleep(Duration::from_secs(60)).await;
            assert_eq!(world.server.claims().len(), 0);
            for (readiness, tokens) in [(Readiness::OneToken, 1), (Readiness::OneBatch, 10)] {
                world.reader.set_readiness(readiness);
                sleep(SOON).await;
                assert_eq!(world.server.count(is_leased), tokens);
                sleep(Duration::from_secs(60)).await;
                assert_eq!(world.reader.in_flight(), 1, "a trial waits for its answer");
                world.reader.set_readiness(Readiness::Down);
                world.reader.take(1);
                sleep(SOON).await;
                assert_eq!(world.server.count(is_leased), 0);
            }
            assert_eq!(world.server.claims().len(), 2);
            world.reader.set_readiness(Readiness::Ready);
            sleep(SOON).await;
            assert_eq!(world.reader.in_flight(), 4);
        })
        .await;
    outcome.unwrap();
    world.assert_sound();
}

#[tokio::test(start_paused = true)]
async fn what_came_due_while_the_sink_was_down_is_claimed_once_it_works() {
    let mut world = World::of(0);
    world.settings.poll_interval = LONG;
    let (outcome, _) = world
        .collect_during(async {
            sleep(Duration::from_secs(60)).await;
            world.reader.set_readiness(Readiness::Down);
            sleep(Duration::from_secs(60)).await;
            world.server.add(Token::example(1, b"ada"));
            world.reader.set_readiness(Readiness::Ready);
            sleep(SOON).await;
            assert_eq!(world.server.count(is_leased), 1);
        })
        .await;
    outcome.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_fails_is_opened_again_and_settles_what_was_answered_meanwhile() {
    for error in [QueueError::Unavailable, QueueError::Locked, QueueError::Unusable] {
        let world = World::of(8);
        let (outcome, _) = world
            .collect_during(async {
                sleep(Duration::from_millis(500)).await;
                world.server.set(Condition::Failing(error));
                // The settlement of the first fails, and the others are answered later.
                world.reader.take(1);
                sleep(Duration::from_millis(300)).await;
                world.reader.take(3);
                sleep(Duration::from_secs(60)).await;
                assert!(world.server.opened().len() > 10, "it is tried again and again");
                assert_eq!(world.server.sent().len(), 0);
                world.server.set(Condition::Up);
                world.take_all().await;
            })
            .await;
        outcome.unwrap();
        world.assert_sound();
        assert!(world.reader.taken().into_iter().eq(1..=8), "each once");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_cannot_pass_ends_the_collector() {
    let mut world = World::of(4);
    world.server.set(Condition::Failing(QueueError::Superseded));
    let (outcome, _) = world.collect_during(async {}).await;
    assert!(matches!(outcome, Ok(())), "a stop comes first");

    world = World::of(4);
    let (outcome, _) = world
        .collect_during(async {
            sleep(Duration::from_millis(500)).await;
            world.server.set(Condition::Failing(QueueError::Superseded));
            world.reader.take(1);
            sleep(Duration::from_secs(60)).await;
        })
        .await;
    assert!(matches!(outcome, Err(CollectError::Queue(QueueError::Superseded(_)))));

    world = World::of(4);
    world.settings.missing_schema = MissingSchema::Exit;
    world.server.set(Condition::Failing(QueueError::Unusable));
    let (outcome, _) = world.collect_during(sleep(Duration::from_secs(60))).await;
    assert!(matches!(outcome, Err(CollectError::Queue(QueueError::Unusable(_)))));
    assert_eq!(world.server.opened().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn acks_of_leases_that_were_lost_are_ignored() {
    let world = World::of(4);
    let (outcome, _) = world
        .collect_during(async {
            sleep(Duration::from_millis(500)).await;
            world.server.end_leases();
            sleep(Duration::from_secs(2)).await;
            // Claimed again, as another collector would have done.
            assert_eq!((world.reader.in_flight(), world.server.count(is_leased)), (4, 4));
            world.take_all().await;
        })
        .await;
    outcome.unwrap();
    world.assert_sound();
    assert!(world.reader.taken().into_iter().eq(1..=4));
}
