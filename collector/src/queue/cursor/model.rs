//! Random histories of position and reading against one rule: the cursor passes nothing that nobody remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use mailroom_verifier_core::Action;
use proptest::prelude::*;

use super::ahead::Ahead;
use super::position::Position;
use super::session::Page;
use crate::queue::{BatchId, Token};

const TOKENS: i64 = 40;

#[derive(Clone, Debug)]
enum Step {
    /// Read some rows and claim a batch of some of them.
    Claim { rows: usize, limit: usize },
    /// Look again at what is remembered.
    LookAgain,
    /// The reader takes the oldest line.
    Take,
    /// A batch without a line is settled while earlier ones wait.
    SettleUnfit { newest: usize },
    /// All lines but the oldest ones are taken back.
    Recall { kept: usize },
    /// The cursor is written, and the answer comes or not.
    Record { is_answered: bool, is_executed: bool },
    /// An account gets the right status.
    MakeEligible { id: i64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..9_usize, 1..6_usize).prop_map(|(rows, limit)| Step::Claim { rows, limit }),
        1 => Just(Step::LookAgain),
        2 => Just(Step::Take),
        2 => (0..3_usize).prop_map(|newest| Step::SettleUnfit { newest }),
        2 => (0..3_usize).prop_map(|kept| Step::Recall { kept }),
        2 => (any::<bool>(), any::<bool>())
            .prop_map(|(is_answered, is_executed)| Step::Record { is_answered, is_executed }),
        2 => (1..=TOKENS).prop_map(|id| Step::MakeEligible { id }),
    ]
}

/// A collector without a server: what the database holds, and what the reader has.
#[derive(Debug)]
struct Model {
    position: Position,
    ahead: Ahead,
    /// What `jobs.last_seq` holds.
    cursor: i64,
    ineligible: BTreeSet<i64>,
    /// Lines on their way, and batches without a line.
    in_flight: BTreeMap<BatchId, Vec<i64>>,
    next_batch: u64,
    /// Tokens that the reader has, or that were passed for good with a reason.
    done: BTreeSet<i64>,
}

impl Model {
    fn new(ineligible: BTreeSet<i64>) -> Self {
        Self {
            position: Position::at(0),
            ahead: Ahead::default(),
            cursor: 0,
            ineligible,
            in_flight: BTreeMap::new(),
            next_batch: 1,
            done: BTreeSet::new(),
        }
    }

    fn page(&self, ids: impl Iterator<Item = i64>, through: i64) -> Page {
        let (ineligible, eligible): (Vec<_>, Vec<_>) = ids.partition(|id| self.ineligible.contains(id));
        let token = |id| Token {
            id,
            action: Action::Activate,
            email: Vec::new(),
            login: Vec::new(),
            secret: Vec::new(),
            code: None,
            expires_at: 0,
        };
        Page { rows: 0, tokens: eligible.into_iter().map(token).collect(), ineligible, through }
    }

    fn claim(&mut self, rows: usize, limit: usize) -> bool {
        let first = self.ahead.read_through() + 1;
        let last = (first + i64::try_from(rows).unwrap() - 1).min(TOKENS);
        let page = self.page(first..=last, last.max(first - 1));
        self.ahead.add(page, Instant::now());
        let Some(tokens) = self.ahead.cut(limit, true) else { return last < TOKENS };
        let ids: Vec<_> = tokens.iter().map(|token| token.id).collect();
        let batch = BatchId(self.next_batch);
        self.next_batch += 1;
        self.position.claim(batch, ids.iter().copied());
        self.in_flight.insert(batch, ids);
        true
    }

    fn look_again(&mut self) {
        self.ahead.forget_tokens();
        self.ahead.start_at(self.position.claimed_through());
        let remembered = self.ahead.remembered();
        let page = self.page(remembered.iter().copied(), 0);
        self.ahead.recall(page, &remembered, Instant::now());
    }

    fn settle(&mut self, batch: Option<BatchId>) {
        let Some(batch) = batch else { return };
        self.done.extend(self.in_flight.remove(&batch).unwrap());
        self.position.settle(&[batch]);
    }

    fn recall(&mut self, kept: usize) {
        let released: Vec<_> = self.in_flight.keys().copied().skip(kept).collect();
        self.in_flight.retain(|batch, _| !released.contains(batch));
        let late = self.position.release(&released);
        self.ahead.start_at(self.position.claimed_through());
        self.ahead.remember(late);
    }

    fn record(&mut self, is_answered: bool, is_executed: bool) {
        let Some(to) = self.position.advance() else { return };
        self.position.attempt(to);
        if is_answered || is_executed {
            self.cursor = to;
        }
        if is_answered {
            self.position.record(to);
        } else {
            self.recall(1);
            self.position.resume(self.cursor);
            self.ahead.start_at(self.position.claimed_through());
        }
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Claim { rows, limit } => {
                self.claim(rows, limit);
            }
            Step::LookAgain => self.look_again(),
            Step::Take => self.settle(self.in_flight.keys().next().copied()),
            Step::SettleUnfit { newest } => self.settle(self.in_flight.keys().rev().nth(newest).copied()),
            Step::Recall { kept } => self.recall(kept),
            Step::Record { is_answered, is_executed } => self.record(is_answered, is_executed),
            Step::MakeEligible { id } => {
                self.ineligible.remove(&id);
            }
        }
    }
}

proptest! {
    #[test]
    fn no_history_loses_a_token(
        ineligible in proptest::collection::btree_set(1..=TOKENS, 0..12),
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let mut model = Model::new(ineligible.clone());
        for step in &steps {
            model.act(step);
            // What a kill at this point leaves to the next process: everything after the cursor, and tokens whose
            // account had the wrong status, which the next process looks up.
            for id in 1..=model.cursor {
                prop_assert!(
                    model.done.contains(&id) || ineligible.contains(&id),
                    "the cursor passed {id} in {model:?}"
                );
            }
        }
        // Without a kill nothing at all is left out.
        model.ineligible.clear();
        model.look_again();
        while model.claim(8, 5) {}
        while !model.in_flight.is_empty() {
            model.act(&Step::Take);
        }
        model.record(true, true);
        prop_assert_eq!(&model.done, &(1..=TOKENS).collect::<BTreeSet<_>>());
        prop_assert_eq!(model.position.claimed_through(), model.position.advance().unwrap_or(model.cursor));
    }
}
