//! Sleeping without missing a token, and without making every registration announce itself.
//!
//! A NOTIFY costs the writers dearly: all commits that carry one queue for one lock of the whole cluster. So they send one
//! only while somebody sleeps. Both sides meet in an advisory lock:
//! - a transaction that makes something due *tries* the lock, shared, until its end; it announces when that fails;
//! - a collector that is about to sleep *tries* it, exclusive. Once it has it, every later writer announces, and every
//!   earlier one has ended: what those left is seen by a statement that begins now ([`Queue::prospect`]).
//!
//! # Why it tries and does not wait
//! A collector could wait for the lock, and writers would announce from then on. But a statement that waits keeps its
//! snapshot, which holds vacuum back, and it can only be broken off by an error, which the server logs. And where
//! registrations overlap all the time, sleeping is not worth its while: the database is busy, and is looked at after
//! pauses ([`crate::batcher`]), which costs the writers nothing at all. So the lock is tried a few times within
//! [`PATIENCE`], and then the collector stays awake for a pause. A transaction that stays open for an hour has the
//! effect that collectors look five times a second for that hour.
//!
//! Because nothing waits, the session that *listens* can hold the lock: it is never busy when it is to deliver a
//! notification, and the lock is held by a session that hears. If one is lost, so is the other, and whoever notices looks.
//!
//! # Several collectors
//! One of them has the lock. Another finds that it cannot have it, and then tries it as a writer would: if that fails too,
//! writers announce at this very moment, and each listening session hears it, so it sleeps in company. It asks again
//! every [`RECHECK`]:
//! - nobody has the lock any more: it takes it, and asks the queue again;
//! - a writer has it: it is refused, and looks.
//!
//! So why is no row missed while all sleep? Let a row become due by a transaction T.
//! - T found the lock taken: everybody hears of it after T has committed, and looks.
//! - T did not, so it holds the lock until after its commit, and nobody has it exclusively meanwhile. Whoever takes it
//!   afterwards asks the queue afterwards, and sees the row. Whoever sleeps in company asks again within [`RECHECK`] and
//!   takes the lock, is refused, or finds another collector that took it after T, which has seen the row and looks. In
//!   case that one freezes at this moment, those in company ask the queue every [`REPEAT`] rechecks.
//! - Nobody can take the lock because of some transaction: everybody is awake, and looks after pauses.
//!
//! A hint wakes everybody, and the lock is given back at once, not only when the collector gets round to it: writers are
//! to announce the first token after a silence, not the next hundred.
//!
//! [`Queue::prospect`]: crate::queue::Queue::prospect

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, Error};

const LIE_DOWN: &str = include_str!("lie_down.sql");

/// For how long the lock is tried before the database counts as busy, in pauses that double.
const PATIENCE: Duration = Duration::from_millis(20);
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// How often a collector that sleeps in company makes sure of it, and after how many times it asks the queue again.
const RECHECK: Duration = Duration::from_millis(200);
const REPEAT: u32 = 20;

/// The collector's side.
#[derive(Debug)]
pub struct Sleeper {
    /// `None` if it makes no difference to anybody whether the collector sleeps.
    bed: Option<Bed>,
    wish: Wish,
}

#[derive(Debug)]
struct Bed {
    wishes: watch::Sender<Wish>,
    rest: watch::Receiver<Rest>,
}

/// The side of the session that listens.
#[derive(Debug)]
pub struct Attendant {
    wishes: watch::Receiver<Wish>,
    rest: watch::Sender<Rest>,
}

/// What became of the wish to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Whatever becomes due from now on is announced; the queue is to be asked for what was before. Comes again when that
    /// has to be repeated.
    Asleep,
    /// Nobody announces anything; what becomes due has to be looked for.
    Refused,
}

/// Which outcome belongs to which wish; `repeated` tells equal outcomes apart.
#[derive(Clone, Copy, Debug)]
struct Rest {
    wish: u64,
    outcome: Outcome,
    repeated: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wish {
    number: u64,
    sleeps: bool,
}

/// Both sides of a queue whose writers announce only while somebody sleeps.
pub fn pair() -> (Sleeper, Attendant) {
    let (wishes, wish) = watch::channel(Wish::default());
    let (rest, rests) = watch::channel(Rest { wish: 0, outcome: Outcome::Refused, repeated: 0 });
    let sleeper = Sleeper { bed: Some(Bed { wishes, rest: rests }), wish: Wish::default() };
    (sleeper, Attendant { wishes: wish, rest })
}

impl Sleeper {
    /// For a collector to whom everything is announced whether it sleeps or not, or nothing ever.
    pub fn without_lock() -> Self {
        Self { bed: None, wish: Wish::default() }
    }

    /// Whether anything is announced only during sleep.
    pub fn sleeps(&self) -> bool {
        self.bed.is_some()
    }

    /// Says whether the collector has nothing to do now. A wish begins when this changes to true.
    pub fn wish(&mut self, sleeps: bool) {
        if let Some(bed) = &self.bed
            && self.wish.sleeps != sleeps
        {
            self.wish = Wish { number: self.wish.number + u64::from(sleeps), sleeps };
            bed.wishes.send_replace(self.wish);
        }
    }

    /// Waits for news of the present wish. Can be dropped at any point.
    pub async fn news(&mut self) -> Outcome {
        let Some(bed) = &mut self.bed else { return pending().await };
        loop {
            if bed.rest.changed().await.is_err() {
                // Nobody listens any more, which is said elsewhere.
                return pending().await;
            }
            let rest = *bed.rest.borrow_and_update();
            if self.wish.sleeps && rest.wish == self.wish.number {
                return rest.outcome;
            }
        }
    }
}

impl Attendant {
    /// Refuses all wishes, while there is no session that listens.
    pub async fn refuse(&mut self) -> Infallible {
        loop {
            let wish = *self.wishes.borrow_and_update();
            if wish.sleeps {
                self.report(wish, Outcome::Refused);
            }
            self.next_wish().await;
        }
    }

    /// Grants wishes on a session that listens and counts in `hints` what it hears, each statement within `answer`.
    ///
    /// # Errors
    /// The session is lost, and with it the sleep; `None` if it did not answer.
    pub async fn serve(
        &mut self,
        client: &Client,
        mut hints: watch::Receiver<u64>,
        answer: Duration,
    ) -> Result<Infallible, Option<Error>> {
        let lock = Lock { client, answer };
        // One that the last session could not grant any more has been refused.
        let mut served = self.rest.borrow().wish;
        loop {
            let wish = *self.wishes.borrow_and_update();
            if wish.sleeps && wish.number > served {
                served = wish.number;
                self.sleep(wish, &lock, &mut hints).await?;
            } else {
                self.next_wish().await;
            }
        }
    }

    /// Sleeps until it is no longer wished, a hint comes or nobody announces any more.
    async fn sleep(
        &mut self,
        wish: Wish,
        lock: &Lock<'_>,
        hints: &mut watch::Receiver<u64>,
    ) -> Result<(), Option<Error>> {
        // Before the lock: whatever is heard from here on ends this sleep.
        hints.mark_unchanged();
        let mut position = self.lie_down(wish, lock).await?;
        let mut checks = 0;
        while position != Position::Refused {
            self.report(wish, Outcome::Asleep);
            // In company, until there is something new.
            loop {
                tokio::select! {
                    biased;
                    _ = hints.changed() => return lock.release(position).await,
                    () = self.other_wish(wish) => return lock.release(position).await,
                    () = sleep(RECHECK), if position == Position::InCompany => {}
                }
                let before = position;
                position = lock.attempt().await?;
                checks += 1;
                if position != before || checks % REPEAT == 0 {
                    break;
                }
            }
        }
        self.report(wish, Outcome::Refused);
        Ok(())
    }

    async fn lie_down(&mut self, wish: Wish, lock: &Lock<'_>) -> Result<Position, Option<Error>> {
        let mut pause = FIRST_PAUSE;
        loop {
            let position = lock.attempt().await?;
            if position != Position::Refused || pause > PATIENCE {
                return Ok(position);
            }
            tokio::select! {
                () = sleep(pause) => pause *= 2,
                () = self.other_wish(wish) => return Ok(Position::Refused),
            }
        }
    }

    fn report(&self, wish: Wish, outcome: Outcome) {
        self.rest.send_modify(|rest| {
            *rest = Rest { wish: wish.number, outcome, repeated: rest.repeated.wrapping_add(1) };
        });
    }

    async fn next_wish(&mut self) {
        if self.wishes.changed().await.is_err() {
            // The collector has ended, and this task with it soon.
            pending::<()>().await;
        }
    }

    async fn other_wish(&mut self, wish: Wish) {
        while *self.wishes.borrow_and_update() == wish {
            self.next_wish().await;
        }
    }
}

/// How a session stands to the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// It has it.
    Holding,
    /// Another collector has it.
    InCompany,
    /// Writers have it.
    Refused,
}

/// The lock, tried by the session that listens, which holds no other.
struct Lock<'a> {
    client: &'a Client,
    answer: Duration,
}

impl Lock<'_> {
    async fn attempt(&self) -> Result<Position, Option<Error>> {
        let row = self.within(self.client.query_one(LIE_DOWN, &[])).await?;
        Ok(match row.try_get(0)? {
            Some(true) => Position::Holding,
            Some(false) => Position::InCompany,
            None => Position::Refused,
        })
    }

    async fn release(&self, position: Position) -> Result<(), Option<Error>> {
        if position == Position::Holding {
            self.within(self.client.batch_execute("SELECT pg_advisory_unlock_all()")).await?;
        }
        Ok(())
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Option<Error>> {
        timeout(self.answer, work).await.map_err(|_| None)?.map_err(Some)
    }
}
