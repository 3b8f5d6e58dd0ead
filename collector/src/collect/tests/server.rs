//! A queue without a database: its server keeps tokens in memory, outlives collectors, and can
//! fail or freeze.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mailroom_verifier_core::Version;
use tokio::time::sleep;

use crate::queue::{
    Batch, BatchId, Claim, ClaimRequest, Nack, Queue, QueueError, Settlement, Token,
};
use crate::timer;

/// How long a statement, and its answer, are on their way.
const TRAVEL: Duration = Duration::from_millis(5);

const HEARTBEAT_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Waiting,
    Leased(BatchId),
    Sent,
    Dead,
}

#[derive(Clone, Copy)]
pub(super) enum Condition {
    Up,
    /// Calls fail with this error.
    Failing(fn(String) -> QueueError),
    /// Nothing is answered.
    Frozen,
}

pub(super) struct Server(RefCell<State>);

struct State {
    tokens: BTreeMap<i64, (Token, Place)>,
    condition: Condition,
    batches: u128,
    claims: Vec<(ClaimRequest, Instant)>,
    opened: Vec<Instant>,
    released: Vec<BatchId>,
    /// Leases that the next heartbeat reports as lost.
    lost: Vec<BatchId>,
}

impl Server {
    pub(super) fn with(tokens: impl IntoIterator<Item = Token>) -> Rc<Self> {
        let tokens = tokens.into_iter().map(|token| (token.id, (token, Place::Waiting))).collect();
        Rc::new(Self(RefCell::new(State {
            tokens,
            condition: Condition::Up,
            batches: 0,
            claims: Vec::new(),
            opened: Vec::new(),
            released: Vec::new(),
            lost: Vec::new(),
        })))
    }

    /// The queue of another collector.
    pub(super) fn queue(self: &Rc<Self>) -> FakeQueue {
        self.0.borrow_mut().lost.clear();
        FakeQueue {
            server: Rc::clone(self),
            known: BTreeSet::new(),
            settling: Vec::new(),
            releasing: Vec::new(),
            unreturned: Vec::new(),
            renewed: None,
        }
    }

    pub(super) fn add(&self, token: Token) {
        self.0.borrow_mut().tokens.insert(token.id, (token, Place::Waiting));
    }

    pub(super) fn set(&self, condition: Condition) {
        self.0.borrow_mut().condition = condition;
    }

    pub(super) fn places(&self) -> Vec<Place> {
        self.0.borrow().tokens.values().map(|(_, place)| *place).collect()
    }

    pub(super) fn count(&self, counted: impl Fn(Place) -> bool) -> usize {
        self.places().into_iter().filter(|place| counted(*place)).count()
    }

    pub(super) fn sent(&self) -> BTreeSet<i64> {
        let state = self.0.borrow();
        let sent = state.tokens.iter().filter(|(_, (_, place))| *place == Place::Sent);
        sent.map(|(id, _)| *id).collect()
    }

    /// The claims that collectors have asked for, also those that failed.
    pub(super) fn claims(&self) -> Vec<(ClaimRequest, Instant)> {
        self.0.borrow().claims.clone()
    }

    pub(super) fn opened(&self) -> Vec<Instant> {
        self.0.borrow().opened.clone()
    }

    pub(super) fn released(&self) -> Vec<BatchId> {
        self.0.borrow().released.clone()
    }

    /// All leases end, and the collectors that have them learn of it.
    pub(super) fn end_leases(&self) {
        let mut state = self.0.borrow_mut();
        let mut lost = BTreeSet::new();
        for (_, place) in state.tokens.values_mut() {
            if let Place::Leased(batch) = *place {
                lost.insert(batch);
                *place = Place::Waiting;
            }
        }
        state.lost.extend(lost);
    }

    async fn travel(&self) -> Result<(), QueueError> {
        sleep(TRAVEL).await;
        let condition = self.0.borrow().condition;
        match condition {
            Condition::Up => Ok(()),
            Condition::Failing(error) => Err(error("the test says so".to_owned())),
            Condition::Frozen => pending().await,
        }
    }
}

impl State {
    fn settle(&mut self, Settlement { batch, nacks, .. }: &Settlement) {
        for (id, (_, place)) in &mut self.tokens {
            if *place == Place::Leased(*batch) {
                *place = match nacks.iter().find(|(nacked, _)| nacked == id) {
                    None => Place::Sent,
                    Some((_, Nack::Dead { .. })) => Place::Dead,
                    Some(_) => Place::Waiting,
                };
            }
        }
    }

    fn release(&mut self, batch: BatchId) {
        self.released.push(batch);
        for (_, place) in self.tokens.values_mut() {
            if *place == Place::Leased(batch) {
                *place = Place::Waiting;
            }
        }
    }

    fn claim(&mut self, want: ClaimRequest) -> Claim {
        let mut claim = Claim::default();
        while claim.batches.len() < want.batches {
            let waiting = |(_, place): &&mut (Token, Place)| *place == Place::Waiting;
            let found: Vec<_> = self.tokens.values_mut().filter(waiting).take(want.limit).collect();
            if found.is_empty() || found.len() < want.limit && !want.partial {
                claim.waiting = found.len();
                break;
            }
            self.batches += 1;
            let id = BatchId::from(self.batches);
            let lease = |(token, place): &mut (Token, Place)| {
                *place = Place::Leased(id);
                token.clone()
            };
            claim.batches.push(Batch { id, tokens: found.into_iter().map(lease).collect() });
        }
        claim
    }
}

/// One collector's side. It keeps, as every queue does, what an unanswered call had to record.
pub(super) struct FakeQueue {
    server: Rc<Server>,
    /// The batches that the collector has settled or released: it may do so once.
    known: BTreeSet<BatchId>,
    settling: Vec<Settlement>,
    releasing: Vec<BatchId>,
    /// Claimed by a call that has not returned them.
    unreturned: Vec<BatchId>,
    renewed: Option<Instant>,
}

impl FakeQueue {
    fn note(&mut self, batch: BatchId) {
        assert!(self.known.insert(batch), "{batch} is settled or released a second time");
    }

    async fn exchange(&mut self, want: Option<ClaimRequest>) -> Result<Claim, QueueError> {
        self.releasing.append(&mut self.unreturned);
        self.server.travel().await?;
        let claim = {
            let mut state = self.server.0.borrow_mut();
            self.settling.iter().for_each(|settlement| state.settle(settlement));
            self.releasing.iter().for_each(|batch| state.release(*batch));
            want.map(|want| state.claim(want)).unwrap_or_default()
        };
        self.unreturned.extend(claim.batches.iter().map(|batch| batch.id));
        self.server.travel().await?;
        self.settling.clear();
        self.releasing.clear();
        self.unreturned.clear();
        Ok(claim)
    }
}

impl Queue for FakeQueue {
    async fn open(&mut self) -> Result<(), QueueError> {
        self.server.0.borrow_mut().opened.push(timer::now());
        self.exchange(None).await?;
        self.renewed = Some(timer::now());
        Ok(())
    }

    async fn settle_and_claim(
        &mut self,
        settlements: Vec<Settlement>,
        want: Option<ClaimRequest>,
    ) -> Result<Claim, QueueError> {
        for settlement in settlements {
            self.note(settlement.batch);
            self.settling.push(settlement);
        }
        if let Some(want) = want {
            self.server.0.borrow_mut().claims.push((want, timer::now()));
        }
        self.exchange(want).await
    }

    fn token_format(&self) -> Version {
        Version::V1
    }

    fn release(&mut self, batches: &[BatchId]) {
        for batch in batches {
            self.note(*batch);
            self.releasing.push(*batch);
        }
    }

    fn heartbeat_at(&self) -> Option<Instant> {
        self.renewed.map(|renewed| renewed + HEARTBEAT_PAUSE)
    }

    async fn heartbeat(&mut self) -> Result<Vec<BatchId>, QueueError> {
        self.server.travel().await?;
        self.renewed = Some(timer::now());
        Ok(mem::take(&mut self.server.0.borrow_mut().lost))
    }
}
