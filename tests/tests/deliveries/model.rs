//! Random histories against a model in memory.
//!
//! Three collectors, which are real queues with connections of their own, work on one database, while accounts change, tokens are
//! made by transactions that stay open for a while, and the clock is turned. The model remembers what each collector was
//! given and what it said; after each step the whole of the queue's tables is read and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mailroom::queue::{Batch, DeliveriesQueue, Exception, Queue, Settlement, Want};
use mailroom_tests::postgres::Database;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::state::{self, Standing};
use super::{LEASE, SETTINGS, clock, queue};

const COLLECTORS: usize = 3;
const ACCOUNTS: i64 = 6;

#[derive(Clone, Debug)]
enum Step {
    /// Makes a token that lives for so many seconds.
    Insert {
        account: i64,
        recovery: bool,
        lifetime: i64,
    },
    /// The same in a transaction that stays open.
    InsertLate {
        account: i64,
        recovery: bool,
    },
    /// Ends the open transaction of the inserts.
    EndLate {
        commits: bool,
    },
    SetStatus {
        account: i64,
        status: &'static str,
    },
    /// The same in a transaction that stays open.
    SetStatusLate {
        account: i64,
        status: &'static str,
    },
    EndStatus {
        commits: bool,
    },
    Consume {
        nth: usize,
    },
    Delete {
        nth: usize,
    },
    Claim {
        collector: usize,
        batches: usize,
        limit: usize,
        partial: bool,
        again: bool,
    },
    /// A claim whose future is dropped after so many microseconds.
    DropClaim {
        collector: usize,
        limit: usize,
        after: u64,
    },
    /// What becomes of the tokens of a batch, by turns.
    Settle {
        collector: usize,
        nth: usize,
        outcomes: Vec<u8>,
    },
    Release {
        collector: usize,
        nth: usize,
    },
    Tend {
        collector: usize,
    },
    Prospect {
        collector: usize,
    },
    /// The server ends its connection.
    Disconnect {
        collector: usize,
    },
    /// The process ends, and another one begins.
    Crash {
        collector: usize,
    },
    Retry,
    Turn {
        seconds: i64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let account = 1..=ACCOUNTS;
    let status = prop_oneof![Just("active"), Just("suspended")];
    let collector = 0..COLLECTORS;
    let step = prop_oneof![
        6 => (account.clone(), any::<bool>(), prop_oneof![Just(20), Just(35), Just(200), Just(100_000)])
            .prop_map(|(account, recovery, lifetime)| Step::Insert { account, recovery, lifetime }),
        2 => (account.clone(), any::<bool>()).prop_map(|(account, recovery)| Step::InsertLate { account, recovery }),
        2 => any::<bool>().prop_map(|commits| Step::EndLate { commits }),
        2 => (account.clone(), status.clone()).prop_map(|(account, status)| Step::SetStatus { account, status }),
        1 => (account, status).prop_map(|(account, status)| Step::SetStatusLate { account, status }),
        2 => any::<bool>().prop_map(|commits| Step::EndStatus { commits }),
        1 => any::<usize>().prop_map(|nth| Step::Consume { nth }),
        1 => any::<usize>().prop_map(|nth| Step::Delete { nth }),
        7 => (collector.clone(), 1..4_usize, 1..5_usize, any::<bool>(), any::<bool>()).prop_map(
            |(collector, batches, limit, partial, again)| Step::Claim { collector, batches, limit, partial, again }
        ),
        1 => (collector.clone(), 1..5_usize, 0..4_000_u64)
            .prop_map(|(collector, limit, after)| Step::DropClaim { collector, limit, after }),
        6 => (collector.clone(), any::<usize>(), prop::collection::vec(0..6_u8, 1..4))
            .prop_map(|(collector, nth, outcomes)| Step::Settle { collector, nth, outcomes }),
        1 => (collector.clone(), any::<usize>()).prop_map(|(collector, nth)| Step::Release { collector, nth }),
        2 => collector.clone().prop_map(|collector| Step::Tend { collector }),
        2 => collector.clone().prop_map(|collector| Step::Prospect { collector }),
        1 => collector.clone().prop_map(|collector| Step::Disconnect { collector }),
        1 => collector.prop_map(|collector| Step::Crash { collector }),
        1 => Just(Step::Retry),
        3 => prop_oneof![Just(-3), Just(1), Just(5), Just(40), Just(95)].prop_map(|seconds| Step::Turn { seconds }),
    ];
    prop::collection::vec(step, 1..60)
}

/// What the model knows.
struct Model<'a> {
    database: &'a Database,
    client: Client,
    /// A transaction that makes tokens, and one that changes a status, if they are open.
    late: Client,
    late_tokens: Option<Vec<i64>>,
    status: Client,
    locked: Option<i64>,
    collectors: Vec<DeliveriesQueue>,
    /// What each collector was given and has said nothing about.
    held: Vec<Vec<Batch>>,
    /// Every token that was committed.
    known: BTreeSet<i64>,
    /// The last attempt that was handed out, and all that must get an entry in the log.
    handed_out: BTreeMap<i64, u32>,
    owed_entries: BTreeSet<(i64, u32)>,
    sent: BTreeSet<i64>,
}

impl<'a> Model<'a> {
    async fn new(database: &'a Database) -> Result<Self> {
        let client = database.connect().await?;
        client
            .batch_execute(
                "TRUNCATE accounts, tokens, pending, parked, leases, dead, handovers, collectors RESTART IDENTITY CASCADE;
                UPDATE stopped_clock SET moment = date_trunc('second', clock_timestamp());
                INSERT INTO accounts (email, login, status) SELECT n, n, 'active' FROM generate_series(1, 6) AS n",
            )
            .await?;
        let mut collectors = Vec::new();
        for _ in 0..COLLECTORS {
            collectors.push(queue(database).await?);
        }
        Ok(Self {
            database,
            client,
            late: database.connect().await?,
            late_tokens: None,
            status: database.connect().await?,
            locked: None,
            collectors,
            held: vec![Vec::new(); COLLECTORS],
            known: BTreeSet::new(),
            handed_out: BTreeMap::new(),
            owed_entries: BTreeSet::new(),
            sent: BTreeSet::new(),
        })
    }

    async fn insert(client: &Client, account: i64, recovery: bool, expires_at: i64) -> Result<i64> {
        let insert = "INSERT INTO tokens (account, action, expires_at)
            VALUES ($1, $2::text::token_action, $3) RETURNING id";
        let action = if recovery { "password_recovery" } else { "activation" };
        Ok(client.query_one(insert, &[&account, &action, &expires_at]).await?.get(0))
    }

    async fn take(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Insert { account, recovery, lifetime } => {
                let expires_at = clock::now(&self.client).await? + lifetime;
                let id = Self::insert(&self.client, *account, *recovery, expires_at).await?;
                self.known.insert(id);
            }
            Step::InsertLate { account, recovery } => {
                if self.late_tokens.is_none() {
                    self.late.batch_execute("BEGIN").await?;
                }
                let expires_at = clock::now(&self.client).await? + 100_000;
                let id = Self::insert(&self.late, *account, *recovery, expires_at).await?;
                self.late_tokens.get_or_insert_default().push(id);
            }
            Step::EndLate { commits } => {
                // The commit needs the account's key, which the other open transaction does not change.
                if let Some(ids) = self.late_tokens.take() {
                    self.late.batch_execute(if *commits { "COMMIT" } else { "ROLLBACK" }).await?;
                    self.known.extend(ids.into_iter().filter(|_| *commits));
                }
            }
            Step::SetStatus { account, status } if self.locked != Some(*account) => {
                set_status(&self.client, *account, status).await?;
            }
            Step::SetStatusLate { account, status } if self.locked.is_none() => {
                self.status.batch_execute("BEGIN").await?;
                set_status(&self.status, *account, status).await?;
                self.locked = Some(*account);
            }
            Step::EndStatus { commits } => {
                if self.locked.take().is_some() {
                    self.status.batch_execute(if *commits { "COMMIT" } else { "ROLLBACK" }).await?;
                }
            }
            Step::Consume { nth } => {
                let update = "UPDATE tokens SET consumed_at = 1 WHERE id = $1 AND account <> $2 AND consumed_at IS NULL";
                if let Some(id) = self.nth_token(*nth) {
                    self.client.execute(update, &[&id, &self.locked.unwrap_or(0)]).await?;
                }
            }
            Step::Delete { nth } => {
                if let Some(id) = self.nth_token(*nth) {
                    self.client.execute("DELETE FROM tokens WHERE id = $1", &[&id]).await?;
                }
            }
            Step::Claim { collector, batches, limit, partial, again } => {
                let want = Want { batches: *batches, limit: *limit, partial: *partial, again: *again };
                self.claim(*collector, want).await?;
            }
            Step::DropClaim { collector, limit, after } => {
                let want = Want { batches: 2, limit: *limit, partial: true, again: false };
                let claim = self.collectors[*collector].exchange(Vec::new(), Some(want));
                if let Ok(Ok(claim)) = timeout(Duration::from_micros(*after), claim).await {
                    self.give(*collector, claim.batches);
                }
                // Whatever it did is done when the connection answers again.
                self.tend(*collector).await?;
                self.exchange(*collector, Vec::new(), None).await?;
            }
            Step::Settle { collector, nth, outcomes } => self.settle(*collector, *nth, outcomes).await?,
            Step::Release { collector, nth } => {
                if let Some(batch) = self.pick(*collector, *nth) {
                    self.collectors[*collector].release(&[batch.id]);
                    self.forgive(&batch);
                    self.exchange(*collector, Vec::new(), None).await?;
                }
            }
            Step::Tend { collector } => self.tend(*collector).await?,
            Step::Prospect { collector } => {
                if self.collectors[*collector].prospect(10).await.is_err() {
                    self.collectors[*collector].open().await?;
                }
            }
            Step::Disconnect { collector } => {
                // All but this test's own, so also those of the others; each has to cope.
                let _ = collector;
                let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name = 'mailroom collect'";
                self.client.execute(end, &[]).await?;
                for queue in &mut self.collectors {
                    queue.open().await?;
                }
            }
            Step::Crash { collector } => {
                for batch in std::mem::take(&mut self.held[*collector]) {
                    self.owed_entries.extend(batch.tokens.iter().map(|token| (token.id, token.attempt)));
                }
                self.collectors[*collector] = queue(self.database).await?;
            }
            Step::Retry => {
                self.client.execute("SELECT mailroom_retry(NULL)", &[]).await?;
            }
            Step::Turn { seconds } => clock::turn(&self.client, seconds * 1_000).await?,
            Step::SetStatus { .. } | Step::SetStatusLate { .. } => {}
        }
        Ok(())
    }

    fn nth_token(&self, nth: usize) -> Option<i64> {
        self.known.iter().nth(nth.checked_rem(self.known.len())?).copied()
    }

    fn pick(&mut self, collector: usize, nth: usize) -> Option<Batch> {
        let held = &mut self.held[collector];
        let nth = nth.checked_rem(held.len())?;
        Some(held.remove(nth))
    }

    /// A batch of which nothing was sent may give its attempts back.
    fn forgive(&mut self, batch: &Batch) {
        for token in &batch.tokens {
            self.handed_out.insert(token.id, token.attempt - 1);
            self.owed_entries.remove(&(token.id, token.attempt));
        }
    }

    async fn exchange(
        &mut self,
        collector: usize,
        settlements: Vec<Settlement>,
        want: Option<Want>,
    ) -> Result<Vec<Batch>> {
        let queue = &mut self.collectors[collector];
        if let Ok(claim) = queue.exchange(settlements, want).await {
            return Ok(claim.batches);
        }
        queue.open().await?;
        Ok(queue.exchange(Vec::new(), want).await?.batches)
    }

    async fn tend(&mut self, collector: usize) -> Result<()> {
        let queue = &mut self.collectors[collector];
        let lost = if let Ok(lost) = queue.tend().await {
            lost
        } else {
            queue.open().await?;
            queue.tend().await?
        };
        for batch in &self.held[collector] {
            if lost.contains(&batch.id) {
                self.owed_entries.extend(batch.tokens.iter().map(|token| (token.id, token.attempt)));
            }
        }
        self.held[collector].retain(|batch| !lost.contains(&batch.id));
        Ok(())
    }

    async fn claim(&mut self, collector: usize, want: Want) -> Result<()> {
        let before = state::read(&self.client).await?;
        let now = clock::now(&self.client).await?;
        let batches = self.exchange(collector, Vec::new(), Some(want)).await?;
        ensure!(batches.len() <= want.batches, "more batches than wanted");
        for (nth, batch) in batches.iter().enumerate() {
            let size = batch.tokens.len();
            let may_be_short = want.partial && nth + 1 == batches.len();
            ensure!(
                size == want.limit || may_be_short && (1..want.limit).contains(&size),
                "a batch of {size}"
            );
            for token in &batch.tokens {
                let row = before
                    .get(&token.id)
                    .and_then(|standing| standing.row.as_ref())
                    .context("it was deleted")?;
                ensure!(!row.consumed, "token {} was used", token.id);
                ensure!(row.has_right_status, "the account of token {} has the wrong status", token.id);
                ensure!(row.expires_at - now >= 30, "token {} has {} s left", token.id, row.expires_at - now);
            }
        }
        self.give(collector, batches);
        Ok(())
    }

    fn give(&mut self, collector: usize, batches: Vec<Batch>) {
        for token in batches.iter().flat_map(|batch| &batch.tokens) {
            let last = self.handed_out.insert(token.id, token.attempt);
            assert!(
                last.is_none_or(|last| last < token.attempt),
                "token {} was handed out as attempt {} after {last:?}",
                token.id,
                token.attempt
            );
            self.owed_entries.insert((token.id, token.attempt));
        }
        self.held[collector].extend(batches);
    }

    async fn settle(&mut self, collector: usize, nth: usize, outcomes: &[u8]) -> Result<()> {
        let Some(batch) = self.pick(collector, nth) else { return Ok(()) };
        let is_alive = state::leases(&self.client).await?.contains(&batch.name);
        let mut exceptions = Vec::new();
        for (token, outcome) in batch.tokens.iter().zip(outcomes.iter().cycle()) {
            let exception = match outcome {
                0 => Exception::Unanswered,
                1 => Exception::Retry { after: None, reason: "busy".to_owned() },
                2 => Exception::Retry { after: Some(Duration::from_secs(7)), reason: "läuft".to_owned() },
                3 => Exception::Dead { reason: "no such box".to_owned() },
                _ => {
                    self.sent.extend(is_alive.then_some(token.id));
                    continue;
                }
            };
            exceptions.push((token.id, exception));
        }
        let settlement = Settlement { batch: batch.id, exceptions };
        // Said twice, as after an answer that was lost.
        self.exchange(collector, vec![settlement.clone(), settlement], None).await?;
        ensure!(!state::leases(&self.client).await?.contains(&batch.name), "a settled lease is still there");
        Ok(())
    }

    async fn check(&self) -> Result<()> {
        let standings = state::read(&self.client).await?;
        let leases = state::leases(&self.client).await?;
        for id in &self.known {
            let standing = standings.get(id).cloned().unwrap_or_default();
            check_place(&standing).with_context(|| format!("token {id}: {standing:?}"))?;
        }
        for id in self.known.iter().filter(|id| self.sent.contains(*id)) {
            let ended = standings[id].ended().map(|entry| entry.outcome.as_str());
            ensure!(ended == Some("sent"), "token {id} was sent, and its log says {ended:?}");
        }
        // A lease that a collector holds is there, or has lapsed; there is none that nobody holds and that is not owed.
        for (id, attempt) in &self.owed_entries {
            let standing = &standings[id];
            let is_logged = standing.log.iter().any(|entry| u32::try_from(entry.attempt) == Ok(*attempt));
            ensure!(
                is_logged || standing.places == ["leased"],
                "nothing says what became of attempt {attempt} of token {id}: {standing:?}, leases {leases:?}"
            );
        }
        Ok(())
    }

    /// Lets everything come to its end, and looks whether it did.
    async fn finish(mut self) -> Result<()> {
        if let Some(ids) = self.late_tokens.take() {
            self.late.batch_execute("COMMIT").await?;
            self.known.extend(ids);
        }
        if self.locked.take().is_some() {
            self.status.batch_execute("COMMIT").await?;
        }
        self.collectors.truncate(1);
        self.held.clear();
        self.held.push(Vec::new());
        // The others are gone, and so is what this one had.
        self.collectors[0] = queue(self.database).await?;
        for _ in 0..12 {
            clock::forward(&self.client, LEASE + Duration::from_secs(1)).await?;
            self.collectors[0].prospect(10).await?;
            self.claim(0, Want { batches: 100, limit: 2, partial: true, again: true }).await?;
            while !self.held[0].is_empty() {
                self.settle(0, 0, &[5]).await?;
            }
            self.check().await?;
        }
        for (id, standing) in state::read(&self.client).await? {
            let is_waiting_for_its_account = standing.places == ["parked"]
                && standing.row.as_ref().is_some_and(|row| !row.has_right_status);
            let is_done = standing.places.is_empty() && standing.ended().is_some();
            let is_dead = standing.places == ["dead"]
                && standing.log.last().is_some_and(|entry| entry.outcome == "dead");
            ensure!(is_waiting_for_its_account || is_done || is_dead, "token {id} is lost: {standing:?}");
        }
        Ok(())
    }
}

async fn set_status(client: &Client, account: i64, status: &str) -> Result<()> {
    let update = "UPDATE accounts SET status = $2::text::account_status WHERE id = $1";
    client.execute(update, &[&account, &status]).await?;
    Ok(())
}

/// What holds of every token at every moment.
fn check_place(standing: &Standing) -> Result<()> {
    let ended = standing.ended();
    match standing.places.as_slice() {
        [] => ensure!(ended.is_some(), "it is nowhere, and nothing says why"),
        [place] => {
            ensure!(ended.is_none(), "it has ended and is {place}");
            let row = standing.row.as_ref();
            ensure!(
                place != "parked" || row.is_none_or(|row| !row.has_right_status),
                "it is parked, and its account has the right status"
            );
            ensure!(
                place != "dead" || standing.log.last().is_some_and(|entry| entry.outcome == "dead"),
                "it is dead, and nothing says why"
            );
        }
        places => anyhow::bail!("it is in {places:?}"),
    }
    let mut last = 0;
    for entry in &standing.log {
        let is_handover = !["expired", "cancelled"].contains(&entry.outcome.as_str());
        ensure!(
            if is_handover { entry.attempt > last } else { entry.attempt >= last },
            "its attempts do not grow"
        );
        last = entry.attempt;
        match (entry.outcome.as_str(), &standing.row) {
            ("expired", Some(row)) => {
                ensure!(row.expires_at - entry.at < 30, "it had {} s left", row.expires_at - entry.at);
            }
            ("cancelled", Some(row)) => ensure!(row.consumed, "it was cancelled for no reason"),
            _ => {}
        }
    }
    let refusals = standing.log.iter().rev().take_while(|entry| entry.outcome != "dead");
    let refusals = refusals.filter(|entry| entry.outcome == "error").count();
    ensure!(refusals < SETTINGS.max_attempts, "it was refused {refusals} times and is not dead");
    Ok(())
}

async fn live_through(database: &Database, steps: &[Step]) -> Result<()> {
    let mut model = Model::new(database).await?;
    for (nth, step) in steps.iter().enumerate() {
        let lived = async {
            model.take(step).await?;
            model.check().await
        };
        lived.await.with_context(|| format!("step {nth}, {step:?}"))?;
    }
    model.finish().await.context("at the end")
}

#[test]
fn in_any_history_each_token_is_in_one_place_and_none_is_lost() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let database = Database::migrated()?;
    runtime.block_on(async { clock::stop(&database.connect().await?).await })?;
    let cases =
        std::env::var("MAILROOM_TEST_HISTORIES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&steps(), |steps| {
        let lived = runtime.block_on(live_through(&database, &steps));
        lived.map_err(|error| TestCaseError::fail(format!("{error:#}")))
    });
    outcome.map_err(|error| anyhow::anyhow!("{error}"))
}
