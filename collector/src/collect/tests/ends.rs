//! How a collector ends: by a stop, and by a kill.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::reader::{GRACE, Reach, TIME_TO_RECORD};
use super::server::{Condition, Place};
use super::{SOON, World, is_leased};
use crate::collect::run_loop::STOP_GRACE;
use crate::queue::QueueError;
use crate::sink::Readiness;

/// What becomes of a server or a reader before a stop.
type Event = fn(&World);

/// Runs `collecting` until it was polled `most` times, or is done.
async fn polled_at_most(most: usize, mut collecting: Pin<&mut impl Future>) {
    let mut polls = 0;
    poll_fn(|context| {
        if polls == most || collecting.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        polls += 1;
        Poll::Pending
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_releases_at_once_what_can_be_cancelled() {
    let world = World::of(4);
    let (outcome, after) = world
        .collect_during(async {
            world.reader.set_reach(Reach::Unsent);
            sleep(Duration::from_millis(500)).await;
            assert_eq!((world.reader.in_flight(), world.server.count(is_leased)), (4, 4));
        })
        .await;
    outcome.unwrap();
    assert!(after < SOON, "{after:?}");
    assert_eq!(world.server.places(), [Place::Waiting; 4]);
    assert_eq!(world.server.released().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_stop_settles_what_was_taken_and_releases_what_was_never_read() {
    let world = World::of(4);
    let (outcome, after) = world
        .collect_during(async {
            world.reader.set_reach(Reach::Pipe);
            sleep(Duration::from_millis(500)).await;
        })
        .await;
    outcome.unwrap();
    assert!(after >= GRACE, "the reader might have read them: {after:?}");
    assert_eq!(world.server.places(), [Place::Waiting; 4]);
    assert_eq!(world.server.released().len(), 4);

    let world = World::of(4);
    let (outcome, _) = world
        .collect_during(async {
            sleep(Duration::from_millis(500)).await;
            // At the last moment: no settlement is on its way.
            world.reader.take(2);
        })
        .await;
    outcome.unwrap();
    world.assert_sound();
    // Nobody knows what became of the others: they go out again, and count as not answered.
    assert_eq!(world.server.places()[..2], [Place::Sent; 2]);
    assert_eq!(world.server.places()[2..], [Place::Waiting; 2]);
    assert_eq!(world.server.released(), []);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_in_time_records_what_was_taken_last() {
    let world = World::of(4);
    let (outcome, _) = world
        .collect_during(async {
            sleep(Duration::from_millis(500)).await;
            world.server.set(Condition::Failing(QueueError::Unavailable));
            world.reader.take(4);
            world.stop.cancel();
            sleep(TIME_TO_RECORD / 2).await;
            world.server.set(Condition::Up);
        })
        .await;
    outcome.unwrap();
    world.assert_sound();
    assert!(world.is_all_sent());
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_leases_lapse_that_the_server_does_not_answer_for() {
    let world = World::of(4);
    let (outcome, _) = world
        .collect_during(async {
            sleep(Duration::from_millis(500)).await;
            world.server.set(Condition::Frozen);
            world.reader.take(4);
            sleep(Duration::from_secs(5)).await;
        })
        .await;
    outcome.unwrap();
    assert_eq!(world.server.count(is_leased), 4);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_within_its_limit() {
    let frozen = |world: &World| world.server.set(Condition::Frozen);
    let lost = |world: &World| world.server.set(Condition::Failing(QueueError::Unavailable));
    let cases: [(&str, Event, Duration); 6] = [
        ("nothing is in flight", |world| _ = world.reader.take(4), SOON),
        ("the reader takes nothing", |_| {}, GRACE + SOON),
        ("the server is frozen", frozen, GRACE + TIME_TO_RECORD),
        ("the server is gone", lost, GRACE + TIME_TO_RECORD),
        (
            "nothing is in flight, and the server is frozen",
            |world| {
                world.server.set(Condition::Frozen);
                world.reader.take(4);
            },
            STOP_GRACE + TIME_TO_RECORD,
        ),
        ("the sink is down", |world| world.reader.set_readiness(Readiness::Down), GRACE + SOON),
    ];
    for (case, begin, limit) in cases {
        // Before and while a call of the queue is on its way.
        for before in [Duration::ZERO, SOON, Duration::from_secs(30)] {
            let world = World::of(4);
            let (outcome, after) = world
                .collect_during(async {
                    sleep(Duration::from_millis(900)).await;
                    begin(&world);
                    sleep(before).await;
                })
                .await;
            outcome.unwrap();
            // A timer is late by up to a millisecond.
            let limit = limit + Duration::from_millis(10);
            assert!(after <= limit, "{case}, after {before:?}: {after:?} of {limit:?}");
        }
    }
}

/// Stops a collector at each of its awaits in turn, most of whose lines are not signed, not sent or
/// not answered yet.
#[tokio::test(start_paused = true)]
async fn a_stop_at_any_await_leaves_no_lease() {
    for stop_at in 0..50 {
        for reach in [Reach::Unsent, Reach::Pipe, Reach::Reader] {
            let world = World::of(12);
            world.reader.set_reach(reach);
            let mut collecting = pin!(world.collector().run());
            let script = async {
                polled_at_most(stop_at, collecting.as_mut()).await;
                world.stop.cancel();
                timeout(GRACE + TIME_TO_RECORD, collecting).await.expect("it ends").unwrap();
            };
            let take_some = async {
                loop {
                    sleep(Duration::from_millis(29)).await;
                    world.reader.take(1);
                }
            };
            tokio::select! {
                () = script => {}
                () = take_some => {}
            }
            world.assert_sound();
            let leased = world.server.count(is_leased);
            assert_eq!(leased, 0, "after a stop at await {stop_at}, {reach:?}");
        }
    }
}

/// Kills a collector at each of its awaits in turn. All tokens go out afterwards, and only those go
/// out twice that its reader had and the server did not know of.
#[tokio::test(start_paused = true)]
async fn a_kill_at_any_await_loses_no_token_and_repeats_only_what_was_not_settled() {
    for kill_at in 1.. {
        let world = World::of(12);
        let killed = async { polled_at_most(kill_at, pin!(world.collector().run())).await };
        let was_killed = tokio::select! {
            biased;
            () = killed => true,
            () = world.take_all() => false,
        };
        world.assert_sound();
        let taken: BTreeSet<_> = world.reader.taken().into_iter().collect();
        let unsettled = &taken - &world.server.sent();
        world.server.end_leases();
        let (outcome, _) = world.collect_during(world.take_all()).await;
        outcome.unwrap();
        world.assert_sound();
        let mut once = BTreeSet::new();
        for token in world.reader.taken() {
            assert!(
                once.insert(token) || unsettled.contains(&token),
                "{token} goes out again after a kill at await {kill_at}"
            );
        }
        assert!(once.into_iter().eq(1..=12), "after a kill at await {kill_at}");
        if !was_killed {
            assert!(kill_at > 20, "a run has more awaits than {kill_at}");
            break;
        }
    }
}
