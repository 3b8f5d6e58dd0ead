//! One run: what happens, in which order, and whether everything came out.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use mailroom_tests::postgres::Database;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_postgres::Client;

use crate::check::Checker;
use crate::collector::{Collector, Printed};
use crate::ledger::Ledger;
use crate::line::{self, Action, Item};
use crate::people::{self, Person};
use crate::stop::Stop;
use crate::story::{Numbers, Story};

/// Between two things that people do.
const PACE: Duration = Duration::from_millis(200);

/// How long to wait for the next token when nothing new is asked for.
const PATIENCE: Duration = Duration::from_secs(20);

/// When to end.
#[derive(Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) accounts: usize,
    pub(crate) recoveries: usize,
}

pub(crate) struct Run {
    client: Client,
    collector: Collector,
    checker: Checker,
    story: Story,
    registered: usize,
    recoveries: usize,
    /// Who has opened the activation link and not yet asked for a recovery.
    active: VecDeque<Person>,
    asked_at: HashMap<(Action, String), Instant>,
    ledger: Ledger,
    slowest: Duration,
    faults: usize,
}

impl Run {
    pub(crate) fn start(database: &Database, client: Client, key: &str, story: Story) -> Result<Self> {
        Ok(Self {
            client,
            collector: Collector::start(database.url(), key)?,
            checker: Checker::start(key)?,
            story,
            registered: 0,
            recoveries: 0,
            active: VecDeque::new(),
            asked_at: HashMap::new(),
            ledger: Ledger::default(),
            slowest: Duration::ZERO,
            faults: 0,
        })
    }

    /// Goes on until the goal is reached or a signal comes, and returns whether everything was as it should be.
    pub(crate) async fn until(mut self, goal: Goal, stop: &mut Stop) -> Result<bool> {
        let mut pace = interval(PACE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while self.registered < goal.accounts || self.recoveries < goal.recoveries {
            tokio::select! {
                () = stop.asked() => break,
                _ = pace.tick() => self.act(goal).await?,
                printed = self.collector.next() => self.take(printed?).await?,
            }
        }
        // A second signal ends at once: dropping everything kills the children.
        tokio::select! {
            () = stop.asked() => Ok(false),
            ended = self.finish() => ended,
        }
    }

    /// Somebody asks for a recovery, if anybody can and most have not yet; otherwise somebody registers.
    async fn act(&mut self, goal: Goal) -> Result<()> {
        let turn = self.recoveries * 2 < self.registered || self.registered == goal.accounts;
        let asks = if turn && self.recoveries < goal.recoveries { self.active.pop_front() } else { None };
        if let Some(person) = asks {
            people::ask_for_recovery(&self.client, &person).await?;
            self.asked_at.insert((Action::Recover, person.login.clone()), Instant::now());
            self.recoveries += 1;
            self.story.happened(&format!("{} asks for a recovery", person.name))?;
        } else if self.registered < goal.accounts {
            let person = Person::nth(self.registered);
            people::register(&self.client, &person).await?;
            self.asked_at.insert((Action::Activate, person.login.clone()), Instant::now());
            self.registered += 1;
            self.story.happened(&format!("{} registers as {}", person.name, person.email))?;
        }
        Ok(())
    }

    /// Checks every token of a line.
    async fn take(&mut self, printed: Option<Printed>) -> Result<()> {
        let line = match printed {
            None => bail!("the collector ended by itself"),
            Some(Printed::Log(text)) => {
                self.story.log(&text)?;
                return Ok(());
            }
            Some(Printed::Line(line)) => line,
        };
        let items = line::parse(&line)?;
        self.story.line(&line, items.len())?;
        let mut opened = 0;
        for item in items {
            let key = (item.action, item.login.clone());
            if let Some(asked_at) = self.asked_at.remove(&key) {
                self.slowest = self.slowest.max(asked_at.elapsed());
            }
            let (verdicts, secret) = self.checker.check(&item).await?;
            self.story.token(&item, verdicts)?;
            if verdicts.mailroom && verdicts.node && item.action == Action::Activate {
                people::activate(&self.client, &secret).await?;
                self.active.extend(self.person_of(&item));
                opened += 1;
            }
            if !self.ledger.record(secret, item, verdicts) {
                self.fault("this token came out twice")?;
            }
        }
        match opened {
            0 => Ok(()),
            1 => self.story.happened("the activation link is opened: the account is active"),
            _ => self
                .story
                .happened(&format!("{opened} activation links are opened: their accounts are active")),
        }
    }

    fn person_of(&self, item: &Item) -> Option<Person> {
        (0..self.registered).rev().map(Person::nth).find(|person| person.login == item.login)
    }

    /// Waits for what is on its way, ends the collector, and compares what came out with what the database has.
    async fn finish(mut self) -> Result<bool> {
        while self.ledger.len() < people::tokens(&self.client).await?.len() {
            match timeout(PATIENCE, self.collector.next()).await {
                Ok(printed) => self.take(printed?).await?,
                Err(_) => break,
            }
        }
        self.collector.terminate()?;
        while let Some(printed) = self.collector.next().await? {
            self.take(Some(printed)).await?;
        }
        self.collector.wait().await?;

        let made = people::tokens(&self.client).await?;
        for fault in self.ledger.faults(&made) {
            self.fault(&fault)?;
        }
        self.story.summary(&Numbers {
            accounts: self.registered,
            recoveries: self.recoveries,
            made: made.len(),
            came_out: self.ledger.len(),
            mailroom: self.ledger.count(|verdicts| verdicts.mailroom),
            node: self.ledger.count(|verdicts| verdicts.node),
            slowest: self.slowest,
        })?;
        self.forge().await?;
        self.story.end(self.faults)?;
        Ok(self.faults == 0)
    }

    /// Shows that the verifiers do not call everything valid.
    async fn forge(&mut self) -> Result<()> {
        let Some(mut forged) = self.ledger.sample().cloned() else { return Ok(()) };
        let first = if forged.token.starts_with('A') { "B" } else { "A" };
        forged.token.replace_range(..1, first);
        let (verdicts, _) = self.checker.check(&forged).await?;
        self.story.forged(verdicts)?;
        if verdicts.mailroom || verdicts.node {
            self.fault("a link with one changed character is called valid")?;
        }
        Ok(())
    }

    fn fault(&mut self, text: &str) -> Result<()> {
        self.faults += 1;
        self.story.fault(text)
    }
}
