//! What the database says of each mail beside what the mail server saw.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use anyhow::{Result, ensure};
use mailroom_tests::mail_server::Arrival;

use super::broker::Kind;
use super::mending::{Note, Who};
use super::people::Person;
use super::site::{IN_FLIGHT, MACHINES, Site, machine_of};

/// How long before a fault a mail may have been accepted whose verdict was not recorded, and after
/// it: until all have connected anew.
const BEFORE: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(15);

/// How many mails a machine has under way at most: so many of each of two classes.
const UNDER_WAY: usize = 2 * IN_FLIGHT;

const IN_DOUBT: &str = "may have been delivered";

/// What was counted, and what is not as it must be.
#[derive(Debug, Default)]
pub(super) struct Account {
    tokens: usize,
    states: BTreeMap<String, usize>,
    faults: BTreeMap<&'static str, usize>,
    lost: Vec<String>,
    /// Neither what the mail server saw nor what the token is like.
    untrue: Vec<String>,
    expired_and_delivered: usize,
    doubled: BTreeMap<String, usize>,
    unexplained: Vec<String>,
    /// How many mails each fault explains.
    explains: Vec<usize>,
}

/// A token, and what the database has of it.
struct Token {
    address: String,
    state: String,
    reason: String,
    was_in_doubt: bool,
    publications: i64,
}

impl Account {
    pub(super) async fn of(site: &Site) -> Result<Self> {
        let mut arrivals: BTreeMap<String, Vec<Arrival>> = BTreeMap::new();
        for arrival in site.server.arrivals() {
            arrivals.entry(arrival.to.clone()).or_default().push(arrival);
        }
        let mut account = Self { explains: vec![0; site.notes.len()], ..Self::default() };
        for note in &site.notes {
            *account.faults.entry(note.name).or_default() += 1;
        }
        for token in tokens(site).await? {
            let came = arrivals.remove(&token.address).unwrap_or_default();
            account.take(site, &token, &came);
        }
        let strange = arrivals.into_keys().map(|to| format!("{to}: nobody has registered it"));
        account.untrue.extend(strange);
        Ok(account)
    }

    fn take(&mut self, site: &Site, token: &Token, came: &[Arrival]) {
        let Token { address, state, reason, .. } = token;
        self.tokens += 1;
        *self.states.entry(state.clone()).or_default() += 1;
        let what = || format!("{address}: {state} {reason:?}, arrived {} times", came.len());
        match (state.as_str(), Person::of(address)) {
            ("sent", Some(Person::Gone)) => self.untrue.push(what()),
            ("sent", _) if came.is_empty() => self.lost.push(what()),
            ("sent", _) => {}
            // Nobody knows, and it is said.
            ("dead", _) if reason.contains(IN_DOUBT) => {}
            ("dead", Some(Person::Gone)) if came.is_empty() && reason.starts_with("550") => {}
            ("dead", Some(Person::Gone)) => self.untrue.push(what()),
            ("expired" | "cancelled", Some(Person::Hasty)) => {
                self.expired_and_delivered += usize::from(!came.is_empty());
            }
            _ => self.lost.push(what()),
        }
        for pair in came.windows(2) {
            if let Some(why) = self.explanation(site, token, &pair[0], &pair[1]) {
                *self.doubled.entry(why).or_default() += 1;
            } else {
                let about = site.about(&pair[0], &pair[1]);
                self.unexplained.push(format!("{}: {about}", what()));
            }
        }
    }

    /// Why a mail came a second time, by what is promised of the broker. No fault explains more
    /// mails than there were under way.
    fn explanation(
        &mut self,
        site: &Site,
        token: &Token,
        first: &Arrival,
        second: &Arrival,
    ) -> Option<String> {
        if token.was_in_doubt || Person::of(&token.address) == Some(Person::Cut) {
            return Some("after an attempt in doubt".to_owned());
        }
        // The journal of a machine knows what it has sent.
        if first.hello == second.hello {
            return None;
        }
        let machine = Who::Machine(machine_of(&first.hello)?);
        if let Some(name) = self.fault(site, first, machine, UNDER_WAY) {
            return Some(format!("{name} that had it"));
        }
        // One that hangs and goes on sends what it had, whoever else has sent it meanwhile.
        let other = Who::Machine(machine_of(&second.hello)?);
        if let Some(name) = self.fault(site, first, other, UNDER_WAY) {
            return Some(format!("{name} that had it first"));
        }
        if site.kind == Kind::Rabbit && token.publications > 1 {
            return Some("published more than once".to_owned());
        }
        self.fault(site, first, Who::Broker, MACHINES * UNDER_WAY).map(str::to_owned)
    }

    /// The last fault of somebody about when a mail came that does not explain as many already.
    fn fault(
        &mut self,
        site: &Site,
        first: &Arrival,
        who: Who,
        most: usize,
    ) -> Option<&'static str> {
        let is_near = |note: &Note| {
            let end = note.to.unwrap_or(note.from);
            first.at + BEFORE >= note.from && first.at <= end + AFTER
        };
        let place = site.notes.iter().enumerate().rposition(|(place, note)| {
            note.who == who && is_near(note) && self.explains[place] < most
        })?;
        self.explains[place] += 1;
        Some(site.notes[place].name)
    }

    pub(super) fn check(&self) -> Result<()> {
        ensure!(self.lost.is_empty(), "{} mails are lost: {:#?}", self.lost.len(), self.lost);
        ensure!(self.untrue.is_empty(), "the database is wrong: {:#?}", self.untrue);
        let unexplained = &self.unexplained;
        ensure!(unexplained.is_empty(), "{} came twice: {unexplained:#?}", unexplained.len());
        Ok(())
    }
}

async fn tokens(site: &Site) -> Result<Vec<Token>> {
    let doubts = "SELECT DISTINCT unnest(tokens) FROM mailroom.delivery_log
        WHERE outcome = 'in_doubt'";
    let doubts: BTreeSet<i64> =
        site.rows.query(doubts, &[]).await?.iter().map(|row| row.get(0)).collect();
    let published = "SELECT token, count(*) FROM mailroom.delivery_attempts
        WHERE outcome IN ('handed_over', 'unanswered', 'lapsed') GROUP BY token";
    let published: BTreeMap<i64, i64> =
        site.rows.query(published, &[]).await?.iter().map(|row| (row.get(0), row.get(1))).collect();
    let query = "SELECT tokens.id, email, state::text, coalesce(reason, '')
        FROM tokens JOIN accounts ON accounts.id = account
        LEFT JOIN mailroom.deliveries ON token = tokens.id";
    let rows = site.rows.query(query, &[]).await?;
    let token = |row: &tokio_postgres::Row| {
        let id: i64 = row.get(0);
        Token {
            address: row.get(1),
            state: row.get::<_, Option<String>>(2).unwrap_or_default(),
            reason: row.get(3),
            was_in_doubt: doubts.contains(&id),
            publications: published.get(&id).copied().unwrap_or(0),
        }
    };
    Ok(rows.iter().map(token).collect())
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |counts: &BTreeMap<String, usize>| {
            let counts: Vec<_> =
                counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
            if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
        };
        let faults: BTreeMap<String, usize> =
            self.faults.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        write!(
            formatter,
            "{} tokens ({}); {} lost; {} came twice without and {} with a reason ({}); {} expired \
             and had been delivered; {} faults: {}",
            self.tokens,
            list(&self.states),
            self.lost.len(),
            self.unexplained.len(),
            self.doubled.values().sum::<usize>(),
            list(&self.doubled),
            self.expired_and_delivered,
            self.faults.values().sum::<usize>(),
            list(&faults),
        )
    }
}
