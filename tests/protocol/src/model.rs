//! The states, and what leads from one to the next, for the checker.

use stateright::{Model, Property};

use crate::collector::{Collector, Verdict};
use crate::database::Database;
use crate::promises::PROMISES;
use crate::scenario::{Limits, Scenario};
use crate::{Batch, Mutant};

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The server that takes statements.
    pub primary: Database,
    /// What the next one would have.
    pub standby: Database,
    /// The collectors with their senders.
    pub collectors: Vec<Collector>,
    /// Statements that were sent and not executed.
    pub statements: Vec<Statement>,
    /// What happened to each token outside of the database.
    pub fates: Vec<Fate>,
    /// What else there is in the world.
    pub world: World,
    /// What can still happen.
    pub left: Limits,
}

/// What became of a token outside of the database, which nobody reads but the promises.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fate {
    /// How many mails its recipient has.
    pub mails: u8,
    /// The batches, as bits, whose mail has arrived or may still arrive.
    pub arriving: u16,
    /// The batches, as bits, whose mail may arrive although another attempt follows: the sender did
    /// not hear of it, or could not say so.
    pub excused: u16,
    /// How often its link was used.
    pub uses: u8,
    /// How often a failover has undone that.
    pub undone_uses: u8,
    /// How many visitors have read that it was not used; see [`Mutant::ReadsThenRedeems`].
    pub readers: u8,
}

/// What belongs to no token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct World {
    /// How many batches were begun.
    pub batches: Batch,
    /// The batches, as bits, whose collector was killed.
    pub orphans: u16,
    /// Whether the tokens have expired.
    pub is_late: bool,
}

/// A statement on its way to the database.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Statement {
    /// Whose.
    pub collector: usize,
    /// Whether its connection has ended, so that nobody reads the answer.
    pub is_abandoned: bool,
    /// What it does.
    pub call: Call,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// Claims a token.
    Claim(Batch),
    /// Gives a batch back.
    Release(Batch),
    /// Records a verdict on a token.
    Settle(Batch, usize, Verdict),
}

/// What happens next. Numbers are those of collectors, tokens, statements and batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// The application commits a token.
    Commit(usize),
    /// A collector sends a claim.
    Claim(usize),
    /// The database executes a statement; a claim takes this token, if there is one.
    Execute {
        /// Which statement.
        statement: usize,
        /// Which token a claim takes.
        token: Option<usize>,
        /// Whether the answer arrives.
        is_answered: bool,
    },
    /// The connection of a statement ends before it is executed.
    Break(usize),
    /// An abandoned statement is never executed.
    Vanish(usize),
    /// A collector sends again what it has had no answer to.
    Repeat(usize),
    /// A sender begins with a mail, or knows already what to say of it.
    Begin(usize),
    /// A provider accepts a mail.
    Accept(usize),
    /// Its answer arrives.
    Answer(usize),
    /// No answer arrives.
    LoseAnswer(usize),
    /// A provider refuses a mail for now.
    Refuse(usize),
    /// A collector that stops gives back what its sender has not begun.
    GiveBack(usize),
    /// A sender ends.
    Crash(usize),
    /// A collector is killed with its sender.
    Kill(usize),
    /// A lease ends, and somebody puts its token back.
    Lapse(Batch),
    /// The tokens expire.
    Expire,
    /// The application cancels a token.
    Cancel(usize),
    /// Somebody uses a token's link.
    Redeem(usize),
    /// Somebody reads whether a token's link was used; see [`Mutant::ReadsThenRedeems`].
    Read(usize),
    /// An operator puts a dead letter back.
    Retry(usize),
    /// The standby gets what the primary has.
    Replicate,
    /// The standby takes over.
    FailOver,
}

/// A scenario, perhaps with a mistake in the protocol.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// What can happen.
    pub scenario: Scenario,
    /// What is wrong.
    pub mutant: Option<Mutant>,
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let Scenario { tokens, collectors, limits, .. } = self.scenario;
        vec![State {
            primary: Database::new(tokens),
            standby: Database::new(tokens),
            collectors: vec![Collector::new(tokens); collectors],
            statements: Vec::new(),
            fates: vec![Fate::default(); tokens],
            world: World::default(),
            left: limits,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        crate::actions::possible(self, state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = last.clone();
        crate::actions::take(self, &mut next, action);
        if self.scenario.waits_for_standby {
            next.standby = next.primary.clone();
        }
        next.statements.sort();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        PROMISES.iter().map(|(name, holds)| Property::always(name, *holds)).collect()
    }
}
