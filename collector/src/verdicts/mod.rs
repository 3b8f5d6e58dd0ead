//! `mailroom collect --verdicts-from`: what senders at a broker say of mails, into the database.
//!
//! On a connection of its own, beside the collecting: a broker that is away, or thousands of
//! verdicts, delay no mail.

mod columns;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mailroom_connect::{ConnectionSettings, SchemaClient, SessionOptions, explain};
use mailroom_pace::{LogLimit, withheld};
use mailroom_relay::{Kind, Ledger, Taken, Verdict, Verdicts};
use tokio::time::timeout;

use self::columns::Columns;
use crate::log::display::{NAMED, ids, listed};
use crate::log::outage::OutageLog;
use crate::metrics::Metrics;

const SETTLE_VERDICTS: &str = include_str!("settle_verdicts.sql");
const IS_UNICODE: &str = "SELECT pg_catalog.getdatabaseencoding() = 'UTF8'";

/// How long the database may take, and the client after that: together less than the time after
/// which the broker gives verdicts to another collector.
const STATEMENT: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(25);

/// Follows verdicts for ever.
pub(crate) async fn follow(
    broker: Verdicts,
    connection: ConnectionSettings,
    suppresses_unknown: bool,
    metrics: Arc<Metrics>,
) {
    let ledger = Database {
        connection,
        session: None,
        suppresses_unknown,
        metrics,
        broker_outage: OutageLog::of("asking the broker for verdicts"),
        outage: OutageLog::of("recording verdicts"),
        dead_letters: LogLimit::default(),
    };
    Box::pin(broker.follow(ledger)).await;
}

struct Session {
    client: SchemaClient,
    is_unicode: bool,
}

struct Database {
    connection: ConnectionSettings,
    session: Option<Session>,
    suppresses_unknown: bool,
    metrics: Arc<Metrics>,
    broker_outage: OutageLog,
    outage: OutageLog,
    dead_letters: LogLimit,
}

impl Ledger for Database {
    async fn record(&mut self, verdicts: &[Verdict]) -> Option<Vec<Taken>> {
        let asked = timeout(ANSWER, self.settle(verdicts)).await;
        let now = Instant::now();
        match asked.unwrap_or_else(|_| Err("the database does not answer".to_owned())) {
            Ok(results) => {
                self.outage.over(now);
                Some(self.note(verdicts, &results, now))
            }
            Err(cause) => {
                // Whether it has committed or not: what comes again is known then.
                self.session = None;
                self.outage.failed(&cause, now);
                None
            }
        }
    }

    fn failed(&mut self, fault: &str) {
        self.broker_outage.failed(fault, Instant::now());
    }

    fn works(&mut self) {
        self.broker_outage.over(Instant::now());
    }

    fn unreadable(&mut self) {
        self.metrics.verdicts_passed_over("unreadable", 1);
    }
}

impl Database {
    /// What the database says of each.
    async fn settle(&mut self, verdicts: &[Verdict]) -> Result<Vec<String>, String> {
        if self.session.as_ref().is_none_or(|session| session.client.raw.is_closed()) {
            self.session = Some(self.connect().await?);
        }
        let Some(Session { client, is_unicode }) = &self.session else { return Ok(Vec::new()) };
        let columns = Columns::of(verdicts, self.suppresses_unknown, *is_unicode);
        let rows = client.query_typed(SETTLE_VERDICTS, &columns.parameters()).await;
        let rows = rows.map_err(|error| explain(&error))?;
        let mut results = vec![String::new(); verdicts.len()];
        for row in &rows {
            let read = |error: tokio_postgres::Error| explain(&error);
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
        let row = client.query_typed_one(IS_UNICODE, &[]).await;
        let is_unicode = row.and_then(|row| row.try_get(0)).map_err(|error| explain(&error))?;
        Ok(Session { client, is_unicode })
    }

    /// Counts and logs what was recorded.
    fn note(&mut self, verdicts: &[Verdict], results: &[String], now: Instant) -> Vec<Taken> {
        let mut dead = Vec::new();
        let mut taken = Vec::new();
        for (verdict, result) in verdicts.iter().zip(results) {
            taken.push(match &**result {
                "applied" => {
                    self.metrics.verdict_applied(columns::word(verdict.kind));
                    if verdict.kind == Kind::Dead {
                        dead.push((verdict.id, columns::reason(verdict)));
                    }
                    Taken::Done
                }
                "repeated" => self.passed_over("repeated"),
                "unknown" => self.passed_over("unknown"),
                _ => {
                    self.metrics.verdicts_passed_over("early", 1);
                    Taken::Early
                }
            });
        }
        self.log_dead(&dead, now);
        taken
    }

    fn passed_over(&self, why: &'static str) -> Taken {
        self.metrics.verdicts_passed_over(why, 1);
        Taken::Done
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
