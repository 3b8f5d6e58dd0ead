//! What must hold whatever happened: nothing is lost, nothing is doubled without a reason, and
//! every token is in one place.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mailroom_protocol::{Entry, Outcome};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_postgres::Client;

use crate::postgres::Database;
use crate::recorder::{Recorder, SecretBytes};

/// How many faults of a kind an error names.
const SHOWN: usize = 5;

/// What a test did to a queue, beside what its collectors wrote.
#[derive(Debug)]
pub struct History {
    recorder: Recorder,
    /// Every token that ever was, also those that are deleted.
    ids: HashMap<SecretBytes, i64>,
    /// How often a token was on its way to a reader when something failed:
    /// so often it may go out again.
    at_risk: HashMap<i64, usize>,
    faults: BTreeMap<&'static str, usize>,
    /// How many faults were looked at as they came, and how many of them met work in flight.
    looked: usize,
    busy: usize,
}

/// What a check has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often each kind of fault was injected.
    pub faults: BTreeMap<&'static str, usize>,
    /// How many faults were looked at as they came.
    pub looked: usize,
    /// How many of these met work in flight.
    pub busy: usize,
    /// How many tokens there were.
    pub tokens: usize,
    /// How many of them arrived.
    pub arrived: usize,
    /// How many hand-overs were repetitions.
    pub duplicated: usize,
    /// How many repetitions the faults account for.
    pub at_risk: usize,
    /// How many tokens are still owed and never arrived, or were given up though nobody refused
    /// them. A check fails unless there are none.
    pub lost: usize,
}

impl History {
    /// Nothing has happened yet.
    pub fn new(recorder: &Recorder) -> Self {
        Self {
            recorder: recorder.clone(),
            ids: HashMap::new(),
            at_risk: HashMap::new(),
            faults: BTreeMap::new(),
            looked: 0,
            busy: 0,
        }
    }

    /// Learns of all tokens there are; to be called before some are deleted.
    pub async fn learn(&mut self, client: &Client) -> Result<()> {
        for row in client.query("SELECT id, secret FROM tokens", &[]).await? {
            self.ids.insert(secret(row.get(1))?, row.get(0));
        }
        Ok(())
    }

    /// Notes a fault, without which nothing may go out twice.
    pub fn note(&mut self, kind: &'static str) {
        self.note_times(kind, 1);
    }

    /// Notes several faults of a kind.
    pub fn note_times(&mut self, kind: &'static str, times: usize) {
        *self.faults.entry(kind).or_default() += times;
    }

    /// How many faults were noted.
    pub fn faults(&self) -> usize {
        self.faults.values().sum()
    }

    /// Notes a fault, and that what is claimed now may go out again because of it.
    pub async fn note_at_risk(&mut self, kind: &'static str, client: &Client) -> Result<()> {
        let claimed = self.note_and_look(kind, client).await?;
        self.put_at_risk(claimed);
        Ok(())
    }

    /// Notes a fault, and whether it meets work in flight; without the fault nothing may go out
    /// twice. Returns what is claimed.
    pub async fn note_and_look(
        &mut self,
        kind: &'static str,
        client: &Client,
    ) -> Result<HashSet<i64>> {
        self.note(kind);
        let claimed = claimed(client).await?;
        self.looked += 1;
        self.busy += usize::from(self.is_work(&claimed));
        Ok(claimed)
    }

    /// Whether work is in flight.
    pub async fn is_busy(&self, client: &Client) -> Result<bool> {
        Ok(self.is_work(&claimed(client).await?))
    }

    /// Whether something of this is no leftover of an earlier fault,
    /// which keeps its lease for a while.
    fn is_work(&self, claimed: &HashSet<i64>) -> bool {
        claimed.iter().any(|token| !self.at_risk.contains_key(token))
    }

    /// What was claimed at some time during one fault may go out once again.
    pub fn put_at_risk(&mut self, tokens: HashSet<i64>) {
        for token in tokens {
            *self.at_risk.entry(token).or_default() += 1;
        }
    }

    /// Waits until nothing waits and nothing is claimed,
    /// as long as it gets less every now and then.
    pub async fn drained(&self, client: &Client, patience: Duration) -> Result<()> {
        let (mut least, mut end) = (i64::MAX, Instant::now() + patience);
        loop {
            let row = client.query_one(include_str!("left.sql"), &[]).await?;
            let (waiting, claimed): (i64, i64) = (row.get(0), row.get(1));
            if waiting == 0 && claimed == 0 {
                return Ok(());
            }
            if waiting + claimed < least {
                (least, end) = (waiting + claimed, Instant::now() + patience);
            }
            if Instant::now() > end {
                bail!(
                    "{waiting} tokens wait and {claimed} batches are claimed, \
                     not less for {patience:?}"
                );
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Makes sure that collectors that have ended in order hold nothing.
    pub async fn nothing_is_claimed(&self, client: &Client) -> Result<()> {
        let left = claimed(client).await?;
        ensure!(left.is_empty(), "{} tokens are claimed by nobody: {:?}", left.len(), first(&left));
        Ok(())
    }

    /// Checks everything, once the queue is drained.
    pub async fn check(&mut self, client: &Client) -> Result<Tally> {
        self.learn(client).await?;
        let lost = self.lost(client).await?;
        let misplaced = misplaced(client).await?;
        let (attempts, mut faults) = self.attempts(client).await?;
        faults.extend(misplaced);
        let seen = self.recorder.seen();
        faults.extend(seen.faults.iter().cloned());
        let mut at_risk = 0;
        for (secret, handovers) in &seen.tokens {
            let Some(&id) = self.ids.get(secret) else {
                faults
                    .push(format!("{} handed over a token that never was", handovers[0].collector));
                continue;
            };
            let counted = |by: &HashMap<i64, usize>| by.get(&id).copied().unwrap_or_default();
            let allowed = counted(&self.at_risk) + counted(&seen.refused);
            let repeated = handovers.len() - 1;
            at_risk += allowed.min(repeated);
            if repeated > allowed {
                faults.push(format!(
                    "token {id} was handed over {} times, and failed or on its way at {allowed} \
                     faults: {handovers:?}; its log: {:?}",
                    handovers.len(),
                    attempts.get(&id)
                ));
            }
        }
        let tally = Tally {
            faults: self.faults.clone(),
            looked: self.looked,
            busy: self.busy,
            tokens: self.ids.len(),
            arrived: seen.tokens.len(),
            duplicated: seen.handovers - seen.tokens.len(),
            at_risk,
            lost: lost.len(),
        };
        drop(seen);
        ensure!(
            lost.is_empty(),
            "{} tokens are lost, {:?} among them; {tally}",
            lost.len(),
            first(&lost)
        );
        let count = faults.len();
        faults.truncate(SHOWN);
        ensure!(faults.is_empty(), "{count} faults:\n{}\n{tally}", faults.join("\n"));
        Ok(tally)
    }

    /// Tokens that somebody waits for and that never arrived, or that the queue gave up while no
    /// sender had refused them: whatever a sender took and did not answer for may not have been
    /// sent. What a sender left in doubt is not lost:
    /// it is listed as something that may have been delivered.
    async fn lost(&self, client: &Client) -> Result<HashSet<i64>> {
        let owed = client.query(include_str!("owed.sql"), &[]).await?;
        let given_up =
            client.query("SELECT token, is_in_doubt FROM mailroom.dead_letters", &[]).await?;
        let doubtful = given_up.iter().filter(|row| row.get(1)).map(|row| row.get(0));
        let doubtful: HashSet<i64> = doubtful.collect();
        let given_up: HashSet<i64> = given_up.iter().map(|row| row.get(0)).collect();
        let seen = self.recorder.seen();
        let mut lost = HashSet::new();
        for row in owed {
            let id = row.get(0);
            let has_arrived = seen.tokens.contains_key(&secret(row.get(1))?);
            let was_refused = seen.given_up.contains(&id) || seen.refused.contains_key(&id);
            // Not known to have arrived, and listed as that.
            let is_listed = doubtful.contains(&id);
            if !has_arrived && !is_listed || given_up.contains(&id) && !was_refused && !is_listed {
                lost.insert(id);
            }
        }
        Ok(lost)
    }

    /// Compares the log with what arrived, where the lines carry attempts.
    /// Returns the log and what is wrong.
    async fn attempts(&self, client: &Client) -> Result<(Log, Vec<String>)> {
        let mut log = Log::new();
        for row in client.query(include_str!("attempts.sql"), &[]).await? {
            let attempt = (i64::from(row.get::<_, i32>(1)), row.get(2));
            log.entry(row.get(0)).or_default().push(attempt);
        }
        let mut faults = Vec::new();
        let seen = self.recorder.seen();
        let mut arrived: HashMap<i64, HashSet<i64>> = HashMap::new();
        for (secret, handovers) in &seen.tokens {
            for handover in handovers {
                let (Some(id), Some(attempt)) = (handover.id, handover.attempt) else { continue };
                if self.ids.get(secret).is_some_and(|known| *known != id) {
                    faults.push(format!("token {id} came with the secret of another"));
                }
                if !arrived.entry(id).or_default().insert(attempt) {
                    faults.push(format!(
                        "token {id} came twice with attempt {attempt}: {handovers:?}"
                    ));
                }
            }
        }
        for (token, attempts) in &log {
            // A sent token is done with. Whatever was recorded as sent was really handed over.
            if let Some((attempt, _)) = attempts.iter().find(|(_, outcome)| outcome == "sent")
                && let Some(arrived) = arrived.get(token)
            {
                if arrived.iter().any(|other| other > attempt) {
                    faults.push(format!(
                        "token {token} went out again after attempt {attempt} was recorded: \
                         {attempts:?}"
                    ));
                }
                if !arrived.contains(attempt) {
                    faults.push(format!(
                        "token {token} is recorded as sent at attempt {attempt}, which never came"
                    ));
                }
            }
        }
        for (token, attempts) in &log {
            if let Err(fault) = mailroom_protocol::replay(&entries(attempts)?) {
                faults.push(format!("token {token} cannot have this log: {fault}: {attempts:?}"));
            }
        }
        // In any format: nothing is recorded as sent that nobody has.
        let names: HashMap<i64, &SecretBytes> =
            self.ids.iter().map(|(secret, id)| (*id, secret)).collect();
        for (token, attempts) in &log {
            let is_sent = attempts.iter().any(|(_, outcome)| outcome == "sent");
            if is_sent && names.get(token).is_some_and(|secret| !seen.tokens.contains_key(*secret))
            {
                faults.push(format!(
                    "token {token} is recorded as sent and never came: {attempts:?}"
                ));
            }
        }
        Ok((log, faults))
    }
}

/// The log of a token as the model of the protocol has it.
fn entries(attempts: &[(i64, String)]) -> Result<Vec<Entry>> {
    attempts
        .iter()
        .map(|(attempt, outcome)| {
            let outcome = match outcome.as_str() {
                "sent" => Outcome::Sent,
                "retry" => Outcome::Retry,
                "unanswered" => Outcome::Unanswered,
                "lapsed" => Outcome::Lapsed,
                "in_doubt" => Outcome::InDoubt,
                "dead" => Outcome::Dead,
                "expired" => Outcome::Expired,
                "cancelled" => Outcome::Cancelled,
                other => bail!("the model does not know the outcome {other}"),
            };
            Ok(Entry { attempt: *attempt, outcome })
        })
        .collect()
}

/// Notes what is claimed, from its start to its end.
#[derive(Debug)]
pub struct Watch {
    stop: watch::Sender<bool>,
    task: JoinHandle<HashSet<i64>>,
}

impl Watch {
    /// Begins, on a connection of its own, which may fail while the server does.
    pub fn start(database: &Arc<Database>) -> Self {
        let database = Arc::clone(database);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut all = HashSet::new();
            while !*stopped.borrow() {
                if let Ok(client) = database.connect().await {
                    while !*stopped.borrow()
                        && let Ok(claimed) = claimed(&client).await
                    {
                        all.extend(claimed);
                        sleep(Duration::from_millis(5)).await;
                    }
                }
                sleep(Duration::from_millis(5)).await;
            }
            all
        });
        Self { stop, task }
    }

    /// All that was claimed at some time.
    pub async fn end(self) -> Result<HashSet<i64>> {
        self.stop.send_replace(true);
        Ok(self.task.await?)
    }
}

/// By token: attempts and their outcomes.
type Log = HashMap<i64, Vec<(i64, String)>>;

/// The tokens that are claimed now.
pub async fn claimed(client: &Client) -> Result<HashSet<i64>> {
    Ok(client.query(include_str!("leased.sql"), &[]).await?.iter().map(|row| row.get(0)).collect())
}

async fn misplaced(client: &Client) -> Result<Vec<String>> {
    let rows = client.query(include_str!("places.sql"), &[]).await?;
    let sentence = |row: &tokio_postgres::Row| {
        format!("token {} {}", row.get::<_, i64>(0), row.get::<_, &str>(1))
    };
    Ok(rows.iter().map(sentence).collect())
}

fn secret(bytes: &[u8]) -> Result<SecretBytes> {
    bytes.try_into().context("a secret has 32 bytes")
}

fn first(tokens: &HashSet<i64>) -> Vec<i64> {
    let mut sorted: Vec<i64> = tokens.iter().copied().collect();
    sorted.sort_unstable();
    sorted.truncate(SHOWN);
    sorted
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total: usize = self.faults.values().sum();
        write!(
            formatter,
            "{} tokens, {} arrived, {} lost, {} duplicated; {total} faults, {} of {} met work",
            self.tokens, self.arrived, self.lost, self.duplicated, self.busy, self.looked
        )?;
        for (index, (kind, count)) in self.faults.iter().enumerate() {
            write!(formatter, "{} {count} {kind}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}
