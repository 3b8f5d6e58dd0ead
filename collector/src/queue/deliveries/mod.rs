//! The queue of leased rows: any number of collectors, each token in one place, and a log of what became of it.
//!
//! All that is decided about a token is decided by the functions of migration 15, in the database and by its clock; this
//! side says what it settles, what it gives back and what it wants, and remembers what the database may not have heard.
//!
//! # What may have been lost on the way
//! - The name of a batch is chosen here and is known before the statement that claims it is sent. If the answer does not
//!   come, the batch is given back by the next statement: nothing of it was sent. If the connection is gone too, the
//!   statement may reach the server later than the next connection, so the name is given back for a while longer. By its
//!   name, never as one of those that this process does not hold: to a statement that comes late, those are the live ones.
//! - A settlement is repeated until it was answered. A lease can be settled once, so a repeated one changes nothing, and
//!   neither does one of a batch that somebody else has taken over. It is repeated although the lease is gone: the answer says
//!   which tokens were given up, which is logged.
//! - After kill -9 the leases lapse, and another process takes them over.
//!
//! # Where a claim begins
//! Rows are deleted when they are claimed, and as long as vacuum cannot run, because of a backup for instance, the index
//! keeps entries of them. So each claim begins where the one before ended, and now and then one begins at the
//! [horizon](Horizon), before which nothing can wait any more.

mod given_up;
mod horizon;
mod session;
mod tidying;
mod wire;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use super::activity::Activity;
use super::{Batch, BatchId, Claim, Prospect, Queue, QueueError, Settlement, Want};
use crate::complaints::Complaints;
use crate::config::DeliverySettings;
use crate::postgres::ConnectionSettings;
use horizon::Horizon;
use session::{Exchange, Found, Session};
use tidying::Tidying;
use wire::BatchName;

/// The most rows that one statement looks at: some tenths of a second's work.
const MOST_LOOKS: usize = 10_000;

/// A claim that finds few eligible tokens looks at this many times more the next time.
const WIDENING: usize = 4;

/// How long one call goes on looking past tokens that are not eligible.
const LOOKING: Duration = Duration::from_secs(2);

/// How often all is looked through from the horizon on, if that is quick, and what part of the time it may take.
const LOOK_BACK_PAUSE: Duration = Duration::from_millis(200);
const LOOK_BACK_SHARE: u32 = 50;

/// How often the horizon is asked for while claims are made.
const HORIZON_PAUSE: Duration = Duration::from_secs(1);

/// How often the connection is asked something at least. With the five seconds for which an answer to a question is waited
/// for, a dead one is noticed within ten.
const QUESTION_PAUSE: Duration = Duration::from_secs(4);

/// A statement after a silence of this length asks for a sign of life, too.
const SILENCE: Duration = Duration::from_millis(100);

/// How often leases are renewed and lapsed ones looked for, at least.
const LONGEST_TEND_PAUSE: Duration = Duration::from_secs(10);

/// How long a statement whose answer was given up may still reach the server: longer than the operating system sends it again.
const LATEST: Duration = Duration::from_secs(30);

/// Every seventh place is an activation's; the functions know it too.
const PLACES: usize = 7;

/// The queue of leased rows.
#[derive(Debug)]
pub struct DeliveriesQueue {
    connection: ConnectionSettings,
    settings: DeliverySettings,
    lease: Duration,
    /// Who holds the leases of this process.
    holder: i64,
    session: Option<Session>,
    next_batch: u64,
    /// Claimed, and neither settled nor given back.
    held: BTreeMap<BatchId, BatchName>,
    /// Settled here, and perhaps not in the database.
    settling: Vec<(BatchName, Settlement)>,
    /// To be given back.
    releasing: Vec<BatchName>,
    /// Claimed by a statement whose answer has not come.
    unanswered: Vec<BatchName>,
    /// Claimed by statements whose answers were given up then, which may still be on their way to the server.
    doubtful: Vec<(BatchName, Instant)>,
    /// Claimed by a call that goes on, so that nobody has been told yet.
    untold: Vec<BatchName>,
    /// Taken over by others, and not reported yet.
    lost: Vec<BatchId>,
    /// How many places there were since the last that was an activation's.
    turn: usize,
    /// Where the next claim begins, by priority.
    since: [Option<SystemTime>; 2],
    looks: usize,
    horizon: Horizon,
    horizon_asked: Option<Instant>,
    looked_back: Option<Instant>,
    look_back_pause: Duration,
    tended: Option<Instant>,
    tidying: Tidying,
    asked: Instant,
    /// Whether a line says that this collector has the queue, and nothing has worked since.
    is_announced: bool,
    activity: Activity,
    /// What was said of tokens that were given up.
    complaints: Complaints,
}

impl DeliveriesQueue {
    /// The queue of a database, as somebody whom nobody else is.
    ///
    /// # Errors
    /// The operating system has no random bytes.
    pub fn new(
        connection: ConnectionSettings,
        settings: DeliverySettings,
        lease: Duration,
    ) -> Result<Self, getrandom::Error> {
        let random = getrandom::u64()?;
        let [turn, ..] = random.to_le_bytes();
        let holder = random.cast_signed();
        Ok(Self {
            connection,
            settings,
            lease,
            holder,
            session: None,
            next_batch: 1,
            held: BTreeMap::new(),
            settling: Vec::new(),
            releasing: Vec::new(),
            unanswered: Vec::new(),
            doubtful: Vec::new(),
            untold: Vec::new(),
            lost: Vec::new(),
            turn: usize::from(turn) % PLACES,
            since: [None; 2],
            looks: 0,
            horizon: Horizon::default(),
            horizon_asked: None,
            looked_back: None,
            look_back_pause: LOOK_BACK_PAUSE,
            tended: None,
            tidying: Tidying::new(),
            asked: Instant::now(),
            is_announced: false,
            activity: Activity::since(Instant::now()),
            complaints: Complaints::default(),
        })
    }

    /// Runs `work` on the session, which is lost on an error: whatever state it is in, a new one is in a known state.
    async fn on_session<T>(
        &mut self,
        work: impl AsyncFnOnce(&Session) -> Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        let session = self.session.as_ref().ok_or_else(not_open)?;
        let outcome = if self.asked.elapsed() < SILENCE {
            work(session).await
        } else {
            Box::pin(session.behind_a_question(work(session))).await
        };
        if outcome.is_err() {
            self.session = None;
        }
        self.asked = Instant::now();
        outcome
    }

    fn tend_pause(&self) -> Duration {
        (self.lease / 3).min(LONGEST_TEND_PAUSE)
    }

    /// Renews what is held, and gives back and takes over what nobody holds.
    async fn keep_alive(&mut self) -> Result<(), QueueError> {
        let holder = self.holder;
        let lease = self.lease;
        let since = self.horizon.since();
        let settling = self.settling.iter().map(|(name, _)| *name);
        let known: Vec<_> = self.held.values().copied().chain(settling).collect();
        let kept = self.on_session(async |session| session.tend(holder, &known, lease, since).await).await?;
        let lost: Vec<_> =
            self.held.iter().filter(|(_, name)| !kept.contains(name)).map(|(id, _)| *id).collect();
        for id in &lost {
            self.held.remove(id);
        }
        self.activity.forget(&lost);
        self.lost.extend(lost);
        self.tended = Some(Instant::now());
        Ok(())
    }

    /// Tells the database what it has not heard yet, if there is anything.
    async fn tell(&mut self) -> Result<(), QueueError> {
        self.releasing.append(&mut self.untold);
        let is_told = [&self.releasing, &self.unanswered].iter().all(|names| names.is_empty())
            && self.settling.is_empty()
            && self.doubtful.is_empty();
        if is_told { Ok(()) } else { self.trade(None).await.map(drop) }
    }

    async fn ask(&mut self, enough: usize) -> Result<session::Prospect, QueueError> {
        let since = self.horizon.begin(Instant::now());
        let numbered = self.horizon.numbered();
        let prospect =
            self.on_session(async |session| session.prospect(since, enough, numbered).await).await?;
        self.horizon.saw(prospect.view);
        self.horizon_asked = Some(Instant::now());
        Ok(prospect)
    }

    /// Whether the next claim begins at the horizon.
    fn is_look_back_due(&self) -> bool {
        self.looked_back.is_none_or(|looked| looked.elapsed() >= self.look_back_pause)
    }

    async fn look_back(&mut self) -> Result<(), QueueError> {
        if self.horizon_asked.is_none_or(|asked| asked.elapsed() >= HORIZON_PAUSE) {
            let prospect = self.ask(1).await?;
            if prospect.lapsed > 0 {
                self.keep_alive().await?;
            }
        }
        self.since = [self.horizon.since(); 2];
        Ok(())
    }

    /// One statement: settles and gives back whatever there is, and claims.
    async fn trade(&mut self, want: Option<Want>) -> Result<Found, QueueError> {
        let claims = want.map_or(0, |want| want.batches);
        let now = Instant::now();
        self.doubtful.extend(self.unanswered.drain(..).map(|name| (name, now)));
        let releasing: Vec<_> =
            self.releasing.iter().copied().chain(self.doubtful.iter().map(|(name, _)| *name)).collect();
        for _ in 0..claims {
            self.unanswered.push(BatchName::random().map_err(|_| no_random_bytes())?);
        }
        let (limit, partial) = want.map_or((1, false), |want| (want.limit, want.partial));
        let request = Exchange {
            holder: self.holder,
            settings: &self.settings,
            lease: self.lease,
            settling: &self.settling,
            releasing: &releasing,
            names: &self.unanswered,
            limit,
            partial,
            looks: self.looks.clamp(1, MOST_LOOKS.max(claims * limit)),
            turn: self.turn,
            since: self.since,
        };
        let session = self.session.as_ref().ok_or_else(not_open)?;
        let exchange = session.exchange(&request);
        let outcome = if self.asked.elapsed() < SILENCE {
            exchange.await
        } else {
            Box::pin(session.behind_a_question(exchange)).await
        };
        self.asked = Instant::now();
        let found = match outcome {
            Ok(found) => found,
            Err(error) => {
                self.session = None;
                return Err(error);
            }
        };
        self.tell_given_up(&found.given_up);
        self.settling.clear();
        self.releasing.clear();
        self.unanswered.clear();
        self.doubtful.retain(|(_, since)| since.elapsed() < LATEST);
        Ok(found)
    }

    fn take(&mut self, found: Found, claim: &mut Claim) -> usize {
        let mut tokens = 0;
        for (name, items) in found.batches {
            let id = BatchId(self.next_batch);
            self.next_batch += 1;
            self.untold.push(name);
            tokens += items.len();
            claim.batches.push(Batch { id, name: name.0, tokens: items });
        }
        claim.waiting = found.waiting;
        let done = tokens + found.waiting + found.expired + found.cancelled + found.parked;
        claim.put_off += found.looked.saturating_sub(done);
        self.since = found.since;
        self.turn = (self.turn + tokens) % PLACES;
        self.activity.expired(found.expired);
        if found.expired > 0 {
            let count = found.expired;
            tracing::warn!(event = "tokens_expired", count, "tokens expired before they could be sent");
        }
        for (count, event, message) in [
            (found.cancelled, "tokens_cancelled", "tokens were used or deleted before they could be sent"),
            (found.parked, "tokens_parked", "tokens wait until their account has the status that they need"),
        ] {
            if count > 0 {
                tracing::info!(event, count, "{message}");
            }
        }
        tokens
    }

    async fn claim(&mut self, want: Want, claim: &mut Claim) -> Result<(), QueueError> {
        let began = Instant::now();
        let looks_back = want.again || self.is_look_back_due();
        if looks_back {
            self.look_back().await?;
        }
        loop {
            let left = want.batches - claim.batches.len();
            self.looks = self.looks.max(left * want.limit);
            let looks = self.looks.min(MOST_LOOKS.max(left * want.limit));
            let found = self.trade(Some(Want { batches: left, ..want })).await?;
            let looked = found.looked;
            let tokens = self.take(found, claim);
            let is_over = looked < looks || claim.batches.len() >= want.batches;
            // Where many rows cannot be sent, the next look is at more.
            self.looks = if is_over || tokens > 0 { 0 } else { looks * WIDENING };
            if is_over || began.elapsed() >= LOOKING {
                break;
            }
        }
        if looks_back {
            let cost = began.elapsed();
            self.looked_back = Some(Instant::now());
            self.look_back_pause = LOOK_BACK_PAUSE.max(cost * LOOK_BACK_SHARE);
        }
        Ok(())
    }
}

impl Queue for DeliveriesQueue {
    async fn open(&mut self) -> Result<(), QueueError> {
        self.session = None;
        let was_open = self.tended.is_some();
        let session = Box::pin(Session::open(&self.connection)).await?;
        let server = session.server.clone();
        self.session = Some(session);
        self.since = [self.horizon.since(); 2];
        (self.horizon_asked, self.looked_back) = (None, None);
        self.keep_alive().await?;
        // Also if there is nothing to tell: a function of another version is found out before anything is claimed.
        self.releasing.append(&mut self.untold);
        self.trade(None).await?;
        let warnings = self.on_session(Session::warnings).await?;
        for reason in warnings.iter().filter(|_| !self.is_announced) {
            tracing::warn!(event = "hindrance", reason, "tokens may never be sent");
        }
        let again = if was_open { " again" } else { "" };
        if !std::mem::replace(&mut self.is_announced, true) {
            let holder = self.holder.to_string();
            tracing::info!(
                event = "queue_opened",
                server,
                holder,
                "this collector has the queue `deliveries`{again}"
            );
        }
        Ok(())
    }

    async fn exchange(
        &mut self,
        settlements: Vec<Settlement>,
        want: Option<Want>,
    ) -> Result<Claim, QueueError> {
        for settlement in settlements {
            self.activity.settled(&settlement);
            if let Some(name) = self.held.remove(&settlement.batch) {
                self.settling.push((name, settlement));
            }
        }
        // What an earlier call had claimed when it failed or was dropped.
        self.releasing.append(&mut self.untold);
        let mut claim = Claim::default();
        match want {
            Some(want) => self.claim(want, &mut claim).await?,
            None => self.trade(None).await.map(drop)?,
        }
        // Nothing below waits: from here on the caller has them.
        self.untold.clear();
        self.is_announced = false;
        self.held.extend(claim.batches.iter().map(|batch| (batch.id, BatchName(batch.name))));
        self.activity.claimed(&claim.batches);
        Ok(claim)
    }

    fn release(&mut self, batches: &[BatchId]) {
        for id in batches {
            self.releasing.extend(self.held.remove(id));
        }
        self.activity.forget(batches);
        // They come back to their places, which the last claim has passed.
        self.looked_back = None;
    }

    fn tend_at(&self) -> Option<Instant> {
        let tended = self.tended?;
        if !self.lost.is_empty() {
            return Some(tended);
        }
        let tidy = self.tidying.next().unwrap_or(tended);
        Some((tended + self.tend_pause()).min(self.asked + QUESTION_PAUSE).min(tidy))
    }

    async fn tend(&mut self) -> Result<Vec<BatchId>, QueueError> {
        if self.tended.is_none_or(|tended| tended.elapsed() >= self.tend_pause()) {
            self.keep_alive().await?;
            self.tell().await?;
        } else if self.asked.elapsed() >= QUESTION_PAUSE {
            self.on_session(Session::question).await?;
        }
        self.activity.tell(Instant::now());
        // Only when all else is done, and whatever becomes of it.
        Box::pin(self.tidy()).await?;
        let lost = std::mem::take(&mut self.lost);
        if !lost.is_empty() {
            tracing::warn!(
                event = "leases_lost",
                count = lost.len(),
                "batches were taken over by another collector, because they lapsed"
            );
        }
        Ok(lost)
    }

    async fn prospect(&mut self, enough: usize) -> Result<Prospect, QueueError> {
        let prospect = self.ask(enough).await?;
        if prospect.lapsed > 0 {
            self.keep_alive().await?;
        }
        if prospect.due > 0 {
            self.looked_back = None;
        }
        // Nobody announces the leases that others take from now on.
        let next = prospect.next.unwrap_or(self.lease).min(self.lease);
        Ok(Prospect { due: prospect.due, next: Some(next) })
    }
}

fn not_open() -> QueueError {
    QueueError::Unavailable("there is no connection to the database".to_owned())
}

fn no_random_bytes() -> QueueError {
    QueueError::Unavailable("the operating system has no random bytes".to_owned())
}
