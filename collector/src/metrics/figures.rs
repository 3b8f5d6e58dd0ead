//! What the database holds, asked every half a minute on a connection of its own and never by a
//! scrape: to count a long queue takes a second.

use std::time::{Duration, Instant, SystemTime};

use mailroom_connect::{ConnectionSettings, SchemaClient, SessionOptions, explain};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::{sleep_until, timeout};
use tokio_postgres::Error;
use tokio_postgres::types::Type;

use super::health::Health;
use super::values::Decimal;
use crate::config::Rate;
use crate::log::outage::OutageLog;

/// The shortest pause between two questions, and its least ratio to how long an answer took.
const PAUSE: Duration = Duration::from_secs(30);
const PAUSE_FACTOR: u32 = 20;

/// How long the database may take, and the client after that.
const STATEMENT: Duration = Duration::from_secs(20);
const ASK_TIMEOUT: Duration = Duration::from_secs(25);

/// Of so many actions at most; the others have one name.
const MAX_ACTIONS: usize = 100;
const OTHERS: &str = "(others)";

const FIGURES: &str = include_str!("figures.sql");
const RATE: &str = include_str!("rate.sql");
const BUDGET: &str = include_str!("budget.sql");
const SNAPSHOT: &str = include_str!("snapshot.sql");

/// What the database said last. Nothing of it is served when it is too old.
#[derive(Debug, Default)]
pub(super) struct Figures {
    tokens: Family<[(&'static str, String); 2], Gauge>,
    oldest: Family<[(&'static str, String); 2], Decimal>,
    asked_at: Decimal,
    took: Decimal,
    snapshot: Decimal,
    rate_limit: Decimal,
    rate_used: Gauge,
    rate_left: Gauge,
    budget: Budget,
}

/// Of the tokens of a calendar month.
#[derive(Debug, Default)]
struct Budget {
    limit: Gauge,
    used: Gauge,
    left: Gauge,
    ends_at: Decimal,
}

impl Figures {
    pub(super) fn register(&self, registry: &mut Registry, rate: Option<Rate>) {
        registry.register(
            "queue_tokens",
            "Tokens in the database by state and action, when it was asked last",
            self.tokens.clone(),
        );
        registry.register_with_unit(
            "queue_oldest",
            "How long the oldest of these tokens has been in that state",
            Unit::Seconds,
            self.oldest.clone(),
        );
        registry.register_with_unit(
            "queue_asked_timestamp",
            "When the database answered last what it holds, since the Unix epoch",
            Unit::Seconds,
            self.asked_at.clone(),
        );
        registry.register_with_unit(
            "queue_ask",
            "How long the database took for that",
            Unit::Seconds,
            self.took.clone(),
        );
        registry.register_with_unit(
            "oldest_snapshot",
            "How long the oldest transaction has kept vacuum from removing rows, as far as the \
             collector's role may see it",
            Unit::Seconds,
            self.snapshot.clone(),
        );
        if let Some(limit) = rate.and_then(|rate| rate.per_month) {
            self.budget.register(registry, limit);
        }
        let Some(per_second) = rate.and_then(Rate::per_second) else { return };
        self.rate_limit.set(per_second);
        registry.register(
            "rate_limit_tokens_per_second",
            "Tokens that MAILROOM_RATE allows all collectors to claim",
            self.rate_limit.clone(),
        );
        registry.register(
            "rate_used_tokens",
            "Tokens of what the rate allows at once that were claimed",
            self.rate_used.clone(),
        );
        registry.register(
            "rate_left_tokens",
            "Tokens that the rate allowed at once when the database was asked last",
            self.rate_left.clone(),
        );
    }

    /// Asks the database for ever, unless the collector rests.
    pub(super) async fn keep(
        &self,
        connection: ConnectionSettings,
        rate: Option<Rate>,
        health: &Health,
    ) {
        let mut outage = OutageLog::of("asking for metrics");
        let mut client = None;
        let mut next = tokio::time::Instant::now();
        loop {
            tokio::select! {
                biased;
                () = health.until_resting(true) => {
                    client = None;
                    health.until_resting(false).await;
                    continue;
                }
                () = sleep_until(next) => {}
            }
            let began = Instant::now();
            let asked = timeout(ASK_TIMEOUT, self.ask(&mut client, &connection, rate)).await;
            let now = Instant::now();
            let took = now.duration_since(began);
            match asked {
                Ok(Ok(())) => {
                    self.took.set(took.as_secs_f64());
                    outage.over(now);
                }
                Ok(Err(cause)) => {
                    client = None;
                    outage.failed(&cause, now);
                }
                Err(_) => {
                    client = None;
                    outage.failed("the database does not answer", now);
                }
            }
            next = (now + PAUSE.max(took * PAUSE_FACTOR)).into();
        }
    }

    async fn ask(
        &self,
        client: &mut Option<SchemaClient>,
        connection: &ConnectionSettings,
        rate: Option<Rate>,
    ) -> Result<(), String> {
        if client.as_ref().is_none_or(|client| client.raw.is_closed()) {
            let options = SessionOptions {
                application_name: "mailroom collect (metrics)",
                statement_timeout: Some(STATEMENT),
                needs_session: false,
            };
            let session = Box::pin(mailroom_connect::connect(connection, &options)).await;
            let session = session.map_err(|error| error.to_string())?;
            session.connection.spawn();
            *client = Some(SchemaClient { raw: session.client, schema: connection.schema.clone() });
        }
        let Some(client) = client else { return Ok(()) };
        self.read(client, rate).await.map_err(|error| explain(&error))
    }

    async fn read(&self, client: &SchemaClient, rate: Option<Rate>) -> Result<(), Error> {
        let rows = client.query_typed(FIGURES, &[]).await?;
        let snapshot: f64 = client.query_typed_one(SNAPSHOT, &[]).await?.try_get(0)?;
        if rate.is_some_and(|rate| rate.per_month.is_some()) {
            self.budget.read(client).await?;
        }
        let spent = match rate.and_then(|rate| rate.per_day) {
            Some(per_day) => {
                let per_day = per_day.cast_signed();
                let row = client.query_typed_one(RATE, &[(&per_day as _, Type::INT8)]).await?;
                Some((row.try_get::<_, i64>(0)?, row.try_get::<_, i64>(1)?))
            }
            None => None,
        };
        let mut read = Vec::new();
        for row in &rows {
            let (state, action): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            read.push((state, action, row.try_get::<_, i64>(2)?, row.try_get::<_, f64>(3)?));
        }
        // Nothing below waits, and the thread that serves is this one: no answer mixes two times.
        self.tokens.clear();
        self.oldest.clear();
        let mut actions = Vec::new();
        for (state, action, tokens, oldest) in read {
            let is_known = actions.contains(&action);
            let action = if is_known || actions.len() < MAX_ACTIONS {
                if !is_known {
                    actions.push(action.clone());
                }
                action
            } else {
                OTHERS.to_owned()
            };
            let labels = [("state", state), ("action", action)];
            self.tokens.get_or_create(&labels).inc_by(tokens);
            let place = self.oldest.get_or_create(&labels);
            place.set(place.get().max(oldest));
        }
        self.snapshot.set(snapshot);
        if let Some((used, left)) = spent {
            self.rate_used.set(used);
            self.rate_left.set(left);
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.asked_at.set(now.as_secs_f64());
        Ok(())
    }
}

impl Budget {
    fn register(&self, registry: &mut Registry, limit: u64) {
        self.limit.set(i64::try_from(limit).unwrap_or(i64::MAX));
        registry.register(
            "budget_limit_tokens",
            "Tokens that MAILROOM_RATE allows all collectors in a calendar month (UTC)",
            self.limit.clone(),
        );
        registry.register(
            "budget_used_tokens",
            "Tokens of the month's budget that were claimed",
            self.used.clone(),
        );
        registry.register(
            "budget_left_tokens",
            "Tokens that were left of the month's budget when the database was asked last",
            self.left.clone(),
        );
        registry.register_with_unit(
            "budget_end_timestamp",
            "When the next month's budget begins, since the Unix epoch",
            Unit::Seconds,
            self.ends_at.clone(),
        );
    }

    async fn read(&self, client: &SchemaClient) -> Result<(), Error> {
        let row = client.query_typed_one(BUDGET, &[]).await?;
        let (used, ends_at): (i64, f64) = (row.try_get(0)?, row.try_get(1)?);
        self.used.set(used);
        // By the limit of this collector: the last claim may have been another one's.
        self.left.set((self.limit.get() - used).max(0));
        self.ends_at.set(ends_at);
        Ok(())
    }
}
