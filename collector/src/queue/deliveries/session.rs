//! A connection on which the database's functions are called.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, SystemTime};

use mailroom_verifier_core::Action;
use tokio::task::JoinHandle;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::horizon::View;
use super::tidying::Place;
use super::wire::{BatchName, Exceptions};
use crate::config::DeliverySettings;
use crate::postgres::{self, ConnectionSettings, SessionOptions};
use crate::preflight;
use crate::queue::answer::{STATEMENT, answer, answer_or_refusal, column, sign_of_life, unexpected};
use crate::queue::{QueueError, Settlement, Token};

const SETTINGS: &str = include_str!("../settings.sql");
const EXCHANGE: &str = include_str!("exchange.sql");
const TEND: &str = include_str!("tend.sql");
const TIDY: &str = include_str!("tidy.sql");
const PROSPECT: &str = include_str!("prospect.sql");

/// An open session. Through a pooler every statement may have another one, so nothing is prepared: what the functions do is
/// planned once a session anyhow.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    driver: JoinHandle<()>,
    /// Which server answers, for log lines.
    pub(super) server: String,
    name: String,
    is_unicode: bool,
}

/// What is asked of `mailroom_exchange`.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    pub(super) holder: i64,
    pub(super) settings: &'a DeliverySettings,
    pub(super) lease: Duration,
    pub(super) settling: &'a [(BatchName, Settlement)],
    pub(super) releasing: &'a [BatchName],
    /// The names of the batches to claim.
    pub(super) names: &'a [BatchName],
    pub(super) limit: usize,
    pub(super) partial: bool,
    /// The most rows to look at.
    pub(super) looks: usize,
    pub(super) turn: usize,
    pub(super) since: [Option<SystemTime>; 2],
}

/// What it answers.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) batches: Vec<(BatchName, Vec<Token>)>,
    /// Tokens that were given up by what was settled: batch, id and attempts.
    pub(super) given_up: Vec<(BatchName, i64, u32)>,
    /// How many rows were looked at.
    pub(super) looked: usize,
    pub(super) waiting: usize,
    pub(super) expired: usize,
    pub(super) cancelled: usize,
    pub(super) parked: usize,
    /// Where the next claim begins.
    pub(super) since: [Option<SystemTime>; 2],
}

/// What `mailroom_prospect` answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prospect {
    pub(super) due: usize,
    /// How many of those are in leases that have lapsed.
    pub(super) lapsed: usize,
    pub(super) next: Option<Duration>,
    pub(super) view: View,
}

impl Session {
    /// Connects and finds the functions.
    pub(super) async fn open(connection: &ConnectionSettings) -> Result<Self, QueueError> {
        let options = SessionOptions {
            application_name: "mailroom collect",
            statement_timeout: Some(STATEMENT),
            needs_session: false,
        };
        let connected = postgres::connect(connection, &options).await;
        let session = connected.map_err(|error| QueueError::Unavailable(error.to_string()))?;
        let client = session.client;
        let is_unicode = session.connection.parameter("server_encoding") == Some("UTF8");
        let driver = tokio::spawn(async move {
            // The next call of the client reports why the connection ended.
            session.connection.run().await.ok();
        });
        if session.keeps_state {
            answer(client.batch_execute(SETTINGS)).await?;
        }
        let is_standby = answer(client.query_typed_one("SELECT pg_is_in_recovery()", &[])).await?;
        if column(&is_standby, 0)? {
            return Err(QueueError::Unavailable(
                "the server is a standby, where nothing can be claimed; connect to the primary, for instance with \
                 target_session_attrs=read-write"
                    .to_owned(),
            ));
        }
        if let Some(fault) = answer(preflight::lacking(&client, preflight::OF_COLLECTORS)).await? {
            return Err(QueueError::Unusable(fault));
        }
        let session = Self {
            server: session.server,
            name: format!("{} process {}", whoami::hostname().unwrap_or_default(), std::process::id()),
            is_unicode,
            client,
            driver,
        };
        let has_settling = "SELECT to_regproc('settle_exceptions') IS NOT NULL";
        if !column::<bool>(&answer(session.client.query_typed_one(has_settling, &[])).await?, 0)? {
            return Err(QueueError::Unusable(
                "the database has a schema from before migration 19; run `mailroom migrate up`".to_owned(),
            ));
        }
        Ok(session)
    }

    /// What keeps tokens from being sent without an error.
    pub(super) async fn warnings(&self) -> Result<Vec<String>, QueueError> {
        answer(preflight::warnings(&self.client)).await
    }

    /// Finds out whether the server still answers.
    pub(super) async fn question(&self) -> Result<(), QueueError> {
        sign_of_life(self.client.batch_execute("SELECT 1")).await
    }

    /// Runs `work`, a single statement, behind a question: a statement may take its time, and the answer to the question
    /// tells much sooner that the connection is dead. Both are sent at once, so that nothing waits for it.
    pub(super) async fn behind_a_question<T>(
        &self,
        work: impl Future<Output = Result<T, QueueError>>,
    ) -> Result<T, QueueError> {
        let (mut question, mut work) = (pin!(self.question()), pin!(work));
        tokio::select! {
            // In the order in which they are sent, and answered.
            biased;
            alive = &mut question => alive?,
            done = &mut work => return done,
        }
        work.await
    }

    /// Settles, gives back and claims.
    pub(super) async fn exchange(&self, request: &Exchange<'_>) -> Result<Found, QueueError> {
        let settled: Vec<_> = request.settling.iter().map(|(name, _)| *name).collect();
        let settings = request.settings;
        let exceptions = Exceptions::of(request.settling, settings.bounds_refusals, self.is_unicode);
        let parameters: [(&(dyn ToSql + Sync), Type); 19] = [
            (&request.holder, Type::INT8),
            (&settled, Type::UUID_ARRAY),
            (&request.releasing, Type::UUID_ARRAY),
            (&exceptions.batches, Type::UUID_ARRAY),
            (&exceptions.tokens, Type::INT8_ARRAY),
            (&exceptions.kinds, Type::TEXT_ARRAY),
            (&exceptions.waits, Type::INT8_ARRAY),
            (&exceptions.reasons, Type::TEXT_ARRAY),
            (&number(settings.max_attempts), Type::INT4),
            (&milliseconds(settings.backoff), Type::INT8),
            (&request.names, Type::UUID_ARRAY),
            (&number(request.limit), Type::INT4),
            (&request.partial, Type::BOOL),
            (&number(request.looks), Type::INT4),
            (&number(request.turn), Type::INT4),
            (&request.since[0], Type::TIMESTAMPTZ),
            (&request.since[1], Type::TIMESTAMPTZ),
            (&milliseconds(request.lease), Type::INT8),
            (&i64::try_from(settings.min_lifetime.as_secs()).unwrap_or(i64::MAX), Type::INT8),
        ];
        let rows = answer(self.client.query_typed(EXCHANGE, &parameters)).await?;
        let mut found = Found { since: request.since, ..Found::default() };
        for row in &rows {
            let Some(id) = column::<Option<i64>>(row, 1)? else {
                (found.looked, found.waiting) = (small(row, 9)?, small(row, 10)?);
                (found.expired, found.cancelled, found.parked) =
                    (small(row, 11)?, small(row, 12)?, small(row, 13)?);
                found.since = [column(row, 14)?, column(row, 15)?];
                continue;
            };
            let name: BatchName = column(row, 0)?;
            if column::<Option<&str>>(row, 3)?.is_none() {
                found.given_up.push((name, id, attempt(row)?));
                continue;
            }
            match found.batches.last_mut() {
                Some((last, tokens)) if *last == name => tokens.push(token(row, id)?),
                _ => found.batches.push((name, vec![token(row, id)?])),
            }
        }
        Ok(found)
    }

    /// Renews leases; answers which there still are.
    pub(super) async fn tend(
        &self,
        holder: i64,
        known: &[BatchName],
        lease: Duration,
        since: Option<SystemTime>,
    ) -> Result<Vec<BatchName>, QueueError> {
        let parameters: [(&(dyn ToSql + Sync), Type); 5] = [
            (&holder, Type::INT8),
            (&self.name, Type::TEXT),
            (&known, Type::UUID_ARRAY),
            (&milliseconds(lease), Type::INT8),
            (&since, Type::TIMESTAMPTZ),
        ];
        let rows = answer(self.client.query_typed(TEND, &parameters)).await?;
        rows.iter().map(|row| column(row, 0)).collect()
    }

    /// Tidies up about `most` rows after a place; answers how far it came, or why the server refuses.
    pub(super) async fn tidy(
        &self,
        holder: i64,
        after: Place,
        most: usize,
    ) -> Result<Result<Place, String>, QueueError> {
        let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
            (&holder, Type::INT8),
            (&after.parked, Type::INT8),
            (&after.later, Type::TIMESTAMPTZ),
            (&number(most), Type::INT4),
        ];
        match answer_or_refusal(self.client.query_typed_one(TIDY, &parameters)).await? {
            Ok(row) => Ok(Ok(Place { parked: column(&row, 0)?, later: column(&row, 1)? })),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// Counts what is due, and takes a number if a transaction with one above `numbered` has ended.
    pub(super) async fn prospect(
        &self,
        since: Option<SystemTime>,
        enough: usize,
        numbered: i64,
    ) -> Result<Prospect, QueueError> {
        let parameters: [(&(dyn ToSql + Sync), Type); 3] =
            [(&since, Type::TIMESTAMPTZ), (&number(enough), Type::INT4), (&numbered, Type::INT8)];
        let row = answer(self.client.query_typed_one(PROSPECT, &parameters)).await?;
        let next: Option<i64> = column(&row, 2)?;
        let count =
            |index| usize::try_from(column::<i64>(&row, index)?).map_err(|_| unexpected("a negative count"));
        Ok(Prospect {
            due: count(0)?.min(enough),
            lapsed: count(1)?,
            next: next.map(|next| Duration::from_millis(u64::try_from(next).unwrap_or(0))),
            view: View {
                at: column(&row, 3)?,
                oldest: column(&row, 4)?,
                unfinished: column(&row, 5)?,
                unended: column(&row, 6)?,
                number: column(&row, 7)?,
            },
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

fn token(row: &Row, id: i64) -> Result<Token, QueueError> {
    let action: &str = column(row, 3)?;
    Ok(Token {
        id,
        attempt: attempt(row)?,
        action: Action::from_database_value(action).map_err(|_| unexpected("an unknown action"))?,
        email: column(row, 4)?,
        login: column(row, 5)?,
        secret: column(row, 6)?,
        code: column(row, 7)?,
        expires_at: column(row, 8)?,
    })
}

fn attempt(row: &Row) -> Result<u32, QueueError> {
    u32::try_from(column::<i32>(row, 2)?).map_err(|_| unexpected("a negative attempt"))
}

fn small(row: &Row, index: usize) -> Result<usize, QueueError> {
    usize::try_from(column::<i32>(row, index)?).map_err(|_| unexpected("a negative count"))
}

fn number(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn milliseconds(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
