//! Whatever question or answer is lost between a guard and its store, a link works once, and works
//! if it has not.
#![allow(clippy::unwrap_used, reason = "a test that cannot set up fails")]

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::pin,
    task::{Context, Poll, Waker},
};

use mailroom_verifier_core::{
    Action, AsyncConsumedTokens, Attempt, Code, ConsumedId, ConsumedTokens, Consumption, Expected,
    Expiry, Guard, KeyRing, MemoryCache, Moment, Owner, RedeemError, Secret, SharedKey, Slot,
    StoreError, Unusable, v2,
};

const NOW: u64 = 1_800_000_000;

type Answer<T> = Result<T, StoreError<Lost>>;

/// What the guard learns of a call whose connection was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lost;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Before the store heard of it.
    Question,
    /// After the store did what it was asked to.
    Answer,
}

/// A store in memory behind a connection that is cut at some calls, by their number.
struct Unreliable {
    memory: RefCell<MemoryCache<Vec<Slot>>>,
    faults: Vec<(usize, Fault)>,
    calls: Cell<usize>,
}

impl Unreliable {
    fn new(faults: &[(usize, Fault)]) -> Self {
        let memory = RefCell::new(MemoryCache::new(vec![Slot::EMPTY; 100]));
        Self { memory, faults: faults.to_vec(), calls: Cell::new(0) }
    }

    fn ask<T>(&self, question: impl FnOnce() -> Result<T, StoreError<Unusable>>) -> Answer<T> {
        let call = self.calls.replace(self.calls.get() + 1);
        let fault = self.faults.iter().find(|(at, _)| *at == call).map(|(_, fault)| *fault);
        if fault == Some(Fault::Question) {
            return Err(StoreError::Unavailable(Lost));
        }
        let answer = question().map_err(|_| StoreError::Full);
        if fault == Some(Fault::Answer) { Err(StoreError::Unavailable(Lost)) } else { answer }
    }
}

impl ConsumedTokens for Unreliable {
    type Error = Lost;

    fn consume(&self, id: ConsumedId, owner: Owner, until: u64, now: u64) -> Answer<Consumption> {
        self.ask(|| ConsumedTokens::consume(&self.memory, id, owner, until, now))
    }

    fn release(&self, id: ConsumedId, owner: Owner, until: u64, now: u64) -> Answer<()> {
        self.ask(|| ConsumedTokens::release(&self.memory, id, owner, until, now))
    }

    fn attempt(&self, id: ConsumedId, owner: Owner, until: u64, now: u64) -> Answer<Attempt> {
        self.ask(|| ConsumedTokens::attempt(&self.memory, id, owner, until, now))
    }

    fn withdraw(&self, id: ConsumedId, owner: Owner, until: u64, now: u64) -> Answer<()> {
        self.ask(|| ConsumedTokens::withdraw(&self.memory, id, owner, until, now))
    }
}

/// The same store with answers that take a turn each.
struct Slow(Unreliable);

/// Lets others run once.
async fn turn() {
    let mut waited = false;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl AsyncConsumedTokens for Slow {
    type Error = Lost;

    async fn consume(
        &self,
        id: ConsumedId,
        owner: Owner,
        until: u64,
        now: u64,
    ) -> Answer<Consumption> {
        turn().await;
        ConsumedTokens::consume(&self.0, id, owner, until, now)
    }

    async fn release(&self, id: ConsumedId, owner: Owner, until: u64, now: u64) -> Answer<()> {
        turn().await;
        ConsumedTokens::release(&self.0, id, owner, until, now)
    }

    async fn attempt(&self, id: ConsumedId, owner: Owner, until: u64, now: u64) -> Answer<Attempt> {
        turn().await;
        ConsumedTokens::attempt(&self.0, id, owner, until, now)
    }

    async fn withdraw(&self, id: ConsumedId, owner: Owner, until: u64, now: u64) -> Answer<()> {
        turn().await;
        ConsumedTokens::withdraw(&self.0, id, owner, until, now)
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return answer;
        }
    }
}

fn ring() -> KeyRing {
    KeyRing::of(SharedKey::from(&[3; 32]))
}

fn token() -> String {
    let (key, secret) = (SharedKey::from(&[3; 32]), Secret::from([7; 32]));
    let expires_at = Expiry::from_seconds(NOW + 900).unwrap();
    let code = Code::parse("04711").unwrap();
    v2::sign(&key, Action::Recover, &secret, expires_at, Some(&code)).unwrap().to_string()
}

type Verdict = Result<(), RedeemError<Lost, &'static str>>;

/// Five redemptions one after the other, of which the callbacks of the first `failing` fail; how
/// often it succeeded.
fn redemptions(
    failing: u8,
    mut redeem: impl FnMut(Owner, Result<(), &'static str>, &Cell<u32>) -> Verdict,
) -> (u32, Vec<Verdict>) {
    let succeeded = Cell::new(0);
    let verdicts = (0..5).map(|number| {
        let answer = if number < failing { Err("origin is down") } else { Ok(()) };
        redeem(Owner::from_random([number; 16]), answer, &succeeded)
    });
    let verdicts = verdicts.collect();
    (succeeded.get(), verdicts)
}

fn at_once(store: Unreliable, failing: u8) -> (u32, Vec<Verdict>) {
    let (guard, token) = (Guard::new(ring(), store), token());
    redemptions(failing, |owner, answer, succeeded| {
        guard.redeem(&token, Expected::recovery("04711"), Moment::at(NOW), owner, |_| {
            succeeded.set(succeeded.get() + u32::from(answer.is_ok()));
            answer
        })
    })
}

fn in_turns(store: Unreliable, failing: u8) -> (u32, Vec<Verdict>) {
    let (guard, token) = (Guard::new(ring(), Slow(store)), token());
    redemptions(failing, |owner, answer, succeeded| {
        let expected = Expected::recovery("04711");
        wait(guard.redeem_async(&token, expected, Moment::at(NOW), owner, async |_| {
            turn().await;
            succeeded.set(succeeded.get() + u32::from(answer.is_ok()));
            answer
        }))
    })
}

#[test]
fn whichever_call_is_cut_off_the_link_works_once() {
    for failing in 0..3 {
        for call in 0..12 {
            for fault in [Fault::Question, Fault::Answer] {
                let faults = [(call, fault)];
                let (succeeded, verdicts) = at_once(Unreliable::new(&faults), failing);
                assert_eq!(succeeded, 1, "{failing} failing, {faults:?}: {verdicts:?}");
                assert_eq!(in_turns(Unreliable::new(&faults), failing), (succeeded, verdicts));
            }
        }
    }
}

#[test]
fn whichever_calls_are_cut_off_the_link_works_at_most_once() {
    for failing in 0..3 {
        for bits in 0_u32..1 << 12 {
            for fault in [Fault::Question, Fault::Answer] {
                let faults: Vec<_> = (0..12)
                    .filter(|call| bits >> call & 1 == 1)
                    .map(|call| (call, fault))
                    .collect();
                let (succeeded, verdicts) = at_once(Unreliable::new(&faults), failing);
                assert!(succeeded <= 1, "{failing} failing, {faults:?}: {verdicts:?}");
                let told = verdicts.iter().filter(|verdict| verdict.is_ok()).count();
                assert_eq!(u32::try_from(told), Ok(succeeded), "{faults:?}: {verdicts:?}");
            }
        }
    }
}

#[test]
fn a_consumption_whose_answers_are_lost_twice_is_released() {
    let faults = [(1, Fault::Answer), (2, Fault::Answer)];
    let (succeeded, verdicts) = at_once(Unreliable::new(&faults), 0);
    assert_eq!(verdicts[..2], [Err(RedeemError::Store(Lost)), Ok(())]);
    assert_eq!(succeeded, 1);
}

#[test]
fn tries_whose_answers_are_lost_are_not_counted() {
    let faults: Vec<_> = (0..8).step_by(2).map(|call| (call, Fault::Answer)).collect();
    let guard = Guard::new(ring(), Unreliable::new(&faults)).max_code_attempts(1).unwrap();
    let redeem = |owner| {
        let owner = Owner::from_random([owner; 16]);
        guard.redeem(token(), Expected::recovery("04711"), Moment::at(NOW), owner, |_| {
            Ok::<_, ()>(())
        })
    };
    for owner in 0..4 {
        assert_eq!(redeem(owner), Err(RedeemError::Store(Lost)));
    }
    assert_eq!(redeem(4), Ok(()));
}

#[test]
fn the_future_of_a_redemption_goes_to_any_thread_that_its_store_goes_to() {
    /// A store without state.
    struct Elsewhere;

    impl AsyncConsumedTokens for Elsewhere {
        type Error = Lost;

        async fn consume(&self, _: ConsumedId, _: Owner, _: u64, _: u64) -> Answer<Consumption> {
            Ok(Consumption::FirstUse)
        }

        async fn release(&self, _: ConsumedId, _: Owner, _: u64, _: u64) -> Answer<()> {
            Ok(())
        }

        async fn attempt(&self, _: ConsumedId, _: Owner, _: u64, _: u64) -> Answer<Attempt> {
            Ok(Attempt::Number(1))
        }

        async fn withdraw(&self, _: ConsumedId, _: Owner, _: u64, _: u64) -> Answer<()> {
            Ok(())
        }
    }

    let redeemed = std::thread::scope(|scope| {
        let guard = Guard::new(ring(), Elsewhere);
        let token = token();
        let redemption = async move {
            let owner = Owner::from_random([1; 16]);
            let done = async |_: &_| Ok::<_, ()>("done");
            guard
                .redeem_async(&token, Expected::recovery("04711"), Moment::at(NOW), owner, done)
                .await
        };
        scope.spawn(move || wait(redemption)).join().unwrap()
    });
    assert_eq!(redeemed, Ok("done"));
}
