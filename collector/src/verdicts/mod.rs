//! `mailroom collect --verdicts-from`: what senders at a broker say of mails, into the database.
//!
//! On a connection of its own, beside the collecting: a broker that is away, or thousands of
//! verdicts, delay no mail.

mod columns;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mailroom_connect::{ConnectionSettings, SchemaClient, SessionOptions, explain};
use mailroom_pace::{LogLimit, withheld};
use mailroom_relay::{Kind, Ledger, Origin, Taken, Verdict, Verdicts};
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use self::columns::Columns;
use crate::log::display::{NAMED, ids, listed};
use crate::log::outage::OutageLog;
use crate::metrics::{BrokerVerdict, Metrics, PassedOver};

const SETTLE_VERDICTS: &str = include_str!("settle_verdicts.sql");
const LIST_HANDED_OVER: &str = include_str!("list_handed_over.sql");
const NAME_READER: &str = include_str!("name_reader.sql");

/// How long the database may take, and the client after that: together less than the time after
/// which the broker gives verdicts to another collector.
const STATEMENT: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(25);

/// How old a verdict is, in seconds, whose token may be pruned by now.
const MAY_BE_PRUNED: i64 = 86_400;

/// What the settings of the collector say.
pub(crate) struct Settings {
    /// The name of the installation.
    pub(crate) installation: Option<String>,
    /// Whether an address is suppressed that does not exist.
    pub(crate) suppresses_unknown: bool,
}

/// Follows verdicts for ever.
pub(crate) async fn follow(
    broker: Verdicts,
    connection: ConnectionSettings,
    settings: Settings,
    metrics: Arc<Metrics>,
) {
    let ledger = Database {
        connection,
        session: None,
        settings,
        metrics,
        broker_outage: OutageLog::of("asking the broker for verdicts"),
        outage: OutageLog::of("recording verdicts"),
        dead_letters: LogLimit::default(),
        strangers: LogLimit::default(),
        unreadable: LogLimit::default(),
    };
    Box::pin(broker.follow(ledger)).await;
}

struct Session {
    client: SchemaClient,
    /// How the database is called at a broker.
    name: String,
    is_unicode: bool,
}

struct Database {
    connection: ConnectionSettings,
    session: Option<Session>,
    settings: Settings,
    metrics: Arc<Metrics>,
    broker_outage: OutageLog,
    outage: OutageLog,
    dead_letters: LogLimit,
    strangers: LogLimit,
    unreadable: LogLimit,
}

impl Ledger for Database {
    async fn name(&mut self) -> Option<String> {
        let asked = timeout(ANSWER, self.read_name()).await;
        self.heard(asked)
    }

    async fn record(&mut self, verdicts: &[Verdict], origin: Origin) -> Option<Vec<Taken>> {
        let asked = timeout(ANSWER, self.settle(verdicts)).await;
        let results = self.heard(asked)?;
        Some(self.note(verdicts, &results, origin, Instant::now()))
    }

    async fn missing(&mut self, after: i64, most: usize) -> Vec<(i64, String)> {
        let asked = timeout(ANSWER, self.list(after, most)).await;
        self.heard(asked).unwrap_or_default()
    }

    fn failed(&mut self, fault: &str) {
        self.broker_outage.failed(fault, Instant::now());
    }

    fn works(&mut self) {
        self.broker_outage.over(Instant::now());
    }

    fn unreadable(&mut self) {
        self.metrics.verdicts_passed_over(PassedOver::Unreadable, 1);
        if let Some(others) = self.unreadable.admit(Instant::now()) {
            tracing::warn!(
                event = "verdicts_unreadable",
                count = 1,
                withheld = withheld(others),
                "a message among the verdicts at the broker is none, and is passed over: another \
                 program writes there"
            );
        }
    }
}

impl Database {
    /// What the database answers, if it does.
    fn heard<T>(&mut self, asked: Result<Result<T, String>, Elapsed>) -> Option<T> {
        let now = Instant::now();
        match asked.unwrap_or_else(|_| Err("the database does not answer".to_owned())) {
            Ok(answer) => {
                self.outage.over(now);
                Some(answer)
            }
            Err(cause) => {
                // Whether it has committed or not: what comes again is known then.
                self.session = None;
                self.outage.failed(&cause, now);
                None
            }
        }
    }

    async fn read_name(&mut self) -> Result<String, String> {
        Ok(self.session().await?.name.clone())
    }

    async fn session(&mut self) -> Result<&Session, String> {
        let session = match self.session.take() {
            Some(session) if !session.client.raw.is_closed() => session,
            _ => self.connect().await?,
        };
        Ok(self.session.insert(session))
    }

    /// The next tokens whose verdict is missing.
    async fn list(&mut self, after: i64, most: usize) -> Result<Vec<(i64, String)>, String> {
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&after, Type::INT8), (&most, Type::INT4)];
        let Session { client, .. } = self.session().await?;
        let rows = client.query_typed(LIST_HANDED_OVER, &parameters).await;
        let rows = rows.map_err(|error| explain(&error))?;
        let read = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let listed = rows.iter().map(read).collect::<Result<_, Error>>();
        listed.map_err(|error| explain(&error))
    }

    /// What the database says of each.
    async fn settle(&mut self, verdicts: &[Verdict]) -> Result<Vec<String>, String> {
        let suppresses_unknown = self.settings.suppresses_unknown;
        let Session { client, is_unicode, .. } = self.session().await?;
        let columns = Columns::of(verdicts, suppresses_unknown, *is_unicode);
        let rows = client.query_typed(SETTLE_VERDICTS, &columns.parameters()).await;
        let rows = rows.map_err(|error| explain(&error))?;
        let mut results = vec![String::new(); verdicts.len()];
        for row in &rows {
            let read = |error: Error| explain(&error);
            let place: i64 = row.try_get(0).map_err(read)?;
            let place = usize::try_from(place - 1).unwrap_or(usize::MAX);
            if let Some(result) = results.get_mut(place) {
                *result = row.try_get(1).map_err(read)?;
            }
        }
        Ok(results)
    }

    async fn connect(&self) -> Result<Session, String> {
        let options = SessionOptions {
            application_name: "mailroom collect (verdicts)",
            statement_timeout: Some(STATEMENT),
            needs_session: false,
        };
        let session = Box::pin(mailroom_connect::connect(&self.connection, &options)).await;
        let session = session.map_err(|error| error.to_string())?;
        session.connection.spawn();
        let schema = self.connection.schema.clone();
        let client = SchemaClient { raw: session.client, schema };
        let row =
            client.query_typed_one(NAME_READER, &[(&self.settings.installation, Type::TEXT)]).await;
        let read = |row: Row| -> Result<_, Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (name, is_unicode) = row.and_then(read).map_err(|error| explain(&error))?;
        Ok(Session { client, name, is_unicode })
    }

    /// Counts and logs what was recorded.
    fn note(
        &mut self,
        verdicts: &[Verdict],
        results: &[String],
        origin: Origin,
        now: Instant,
    ) -> Vec<Taken> {
        let (mut dead, mut strangers, mut found) = (Vec::new(), Vec::new(), 0);
        let mut taken = Vec::new();
        for (verdict, result) in verdicts.iter().zip(results) {
            if ["applied", "dead"].contains(&&**result) {
                self.metrics.verdict_applied(counted(verdict.kind));
                found += usize::from(origin == Origin::AskedFor);
                if result == "dead" {
                    dead.push((verdict.id, columns::reason(verdict)));
                }
            } else if origin == Origin::GivenOut {
                let why = match &**result {
                    "repeated" => PassedOver::Repeated,
                    "unknown" => PassedOver::Unknown,
                    _ => PassedOver::Early,
                };
                self.metrics.verdicts_passed_over(why, 1);
                if matches!(why, PassedOver::Unknown) && verdict.is_younger_than(MAY_BE_PRUNED) {
                    strangers.push(verdict.id);
                }
            }
            let is_early = !matches!(&**result, "applied" | "dead" | "repeated" | "unknown");
            taken.push(if is_early { Taken::Early } else { Taken::Done });
        }
        self.log_dead(&dead, now);
        self.log_strangers(&strangers, now);
        if found > 0 {
            tracing::info!(
                event = "verdicts_found",
                count = found,
                "verdicts are recorded that did not come, or were lost after they were recorded"
            );
        }
        taken
    }

    fn log_strangers(&mut self, strangers: &[i64], now: Instant) {
        if strangers.is_empty() {
            return;
        }
        if let Some(others) = self.strangers.admit(now) {
            tracing::warn!(
                event = "verdicts_unknown",
                count = strangers.len(),
                ids = ?strangers.iter().take(NAMED).collect::<Vec<_>>(),
                withheld = withheld(others),
                "verdicts are on tokens that this database has not: name a --queue of its own for \
                 each database"
            );
        }
    }

    fn log_dead(&mut self, dead: &[(i64, String)], now: Instant) {
        if dead.is_empty() {
            return;
        }
        self.metrics.dead(dead.len());
        if let Some(others) = self.dead_letters.admit(now) {
            tracing::warn!(
                event = "tokens_dead",
                reason = %listed(dead, NAMED),
                count = dead.len(),
                ids = ?ids(dead, NAMED),
                withheld = withheld(others),
                "tokens that were handed over are given up and get no mail"
            );
        }
    }
}

fn counted(kind: Kind) -> BrokerVerdict {
    match kind {
        Kind::Sent => BrokerVerdict::Sent,
        Kind::Dead => BrokerVerdict::Dead,
        Kind::Expired => BrokerVerdict::Expired,
        Kind::InDoubt => BrokerVerdict::InDoubt,
    }
}
