//! Calls functions on connections that requests share. The role needs those functions, and nothing
//! else.
//!
//! A call is one statement, which is a transaction: what the server refuses was not done. Of a
//! connection that is lost before the answer nobody knows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool::Runtime;
use deadpool::managed::{
    Manager, Metrics, Object, Pool, PoolError, RecycleError, RecycleResult, TimeoutType,
};
use mailroom_connect::sqlstate::{self, REPEATABLE};
use mailroom_connect::{
    ConnectError, ConnectionSettings, SchemaClient, Session, SessionOptions, connect, explain,
};
use mailroom_http::hyper::StatusCode;
use mailroom_pace::{LogLimit, withheld};
use serde_json::Value;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use crate::failure::{Outcome, own_sentence, reason};
use crate::function::{Call, Function};
use crate::problem::{self, Problem};

/// The longest time that a statement takes in the server.
const STATEMENT: Duration = Duration::from_secs(8);

/// The longest time until it has answered: its network may say nothing.
const ANSWER: Duration = Duration::from_secs(12);

/// The longest times for a connection: until one is free, and until one is made.
const WAIT: Duration = Duration::from_secs(3);
const CONNECT: Duration = Duration::from_secs(5);

/// How many times a call is made at most that the server asks to repeat.
const RUNS: usize = 3;

/// No call is repeated that began longer ago.
const REPEATING: Duration = Duration::from_secs(5);

/// The longest time that a call takes: its last run begins while it may be repeated. Clients wait
/// longer (docs/reference/serve.md, `http` of the npm package).
pub(crate) const CALL: Duration =
    REPEATING.saturating_add(WAIT).saturating_add(CONNECT).saturating_add(ANSWER);

// As the page says, by which clients choose how long they wait.
const _: () = assert!(CALL.as_secs() == 25);

// What the server ends by itself was not done; of what this program gives up nobody knows.
const _: () = assert!(STATEMENT.as_millis() < ANSWER.as_millis());

/// The database.
pub(crate) struct Database {
    pool: Pool<Connecting>,
    failures: LogLimit,
}

struct Connecting(ConnectionSettings);

impl Manager for Connecting {
    type Type = SchemaClient;
    type Error = ConnectError;

    async fn create(&self) -> Result<SchemaClient, ConnectError> {
        let options = SessionOptions {
            application_name: "mailroom serve",
            statement_timeout: Some(STATEMENT),
            needs_session: false,
        };
        let Session { client, connection, .. } = Box::pin(connect(&self.0, &options)).await?;
        connection.spawn();
        Ok(SchemaClient { raw: client, schema: self.0.schema.clone() })
    }

    async fn recycle(&self, client: &mut SchemaClient, _: &Metrics) -> RecycleResult<ConnectError> {
        if client.raw.is_closed() {
            return Err(RecycleError::message("the connection has ended"));
        }
        Ok(())
    }
}

impl Database {
    pub(crate) fn new(settings: ConnectionSettings, connections: u16) -> Self {
        let pool = Pool::builder(Connecting(settings))
            .max_size(connections.into())
            .wait_timeout(Some(WAIT))
            .create_timeout(Some(CONNECT))
            .runtime(Runtime::Tokio1)
            .build()
            .expect("a pool with times has a runtime");
        Self { pool, failures: LogLimit::default() }
    }

    /// Calls a function; returns what it answers.
    ///
    /// # Errors
    /// What the database refuses, or that it is away; see [`problem`] for what is known to be
    /// undone.
    pub(crate) async fn call(&self, call: Call) -> Result<(StatusCode, Value), Problem> {
        let (began, function, call) = (Instant::now(), call.function, Arc::new(call));
        for run in 1.. {
            let client = self.pool.get().await.map_err(|error| self.without_client(&error))?;
            let Some(outcome) = run_to_its_end(client, Arc::clone(&call)).await else {
                return Err(self.unknown("it did not answer in time"));
            };
            let error = match outcome.and_then(|row| function.answer(&row)) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_repeatable =
                error.code().is_some_and(|code| sqlstate::is_in(&REPEATABLE, code.code()));
            if !is_repeatable || run == RUNS || began.elapsed() >= REPEATING {
                return Err(self.refusal(function, &error));
            }
        }
        unreachable!("the last run returns")
    }

    fn without_client(&self, error: &PoolError<ConnectError>) -> Problem {
        match error {
            PoolError::Timeout(TimeoutType::Wait) => {
                self.log("all connections are in use; --connections allows for more");
                Problem::away("all connections to the database are in use")
            }
            PoolError::Backend(error) => self.away(&error.to_string()),
            error => self.away(&error.to_string()),
        }
    }

    /// What an error of a statement says to the caller.
    fn refusal(&self, function: Function, error: &Error) -> Problem {
        let Some(said) = error.as_db_error() else { return self.unknown(&explain(error)) };
        let code = said.code().code();
        let outcome = Outcome::of(code);
        let refused = |status| {
            let detail = own_sentence(function, said).unwrap_or("the database refuses a value");
            Problem::new(status, code, detail)
        };
        let shown = || format!("{}: {} (SQLSTATE {code})", function.name(), reason(code));
        match outcome {
            Outcome::Refused => refused(StatusCode::BAD_REQUEST),
            Outcome::Conflict => refused(StatusCode::CONFLICT),
            Outcome::Away => self.away(&shown()),
            Outcome::Unknown => self.unknown(&shown()),
            Outcome::Setup => {
                self.log(&shown());
                let detail = format!(
                    "the database refuses this for a reason that is in the log (SQLSTATE {code})"
                );
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, problem::SETUP, detail)
            }
        }
    }

    fn away(&self, reason: &str) -> Problem {
        self.log(reason);
        Problem::away("the database cannot be used now; nothing was done")
    }

    fn unknown(&self, reason: &str) -> Problem {
        self.log(reason);
        let detail = "the database has not answered; whether this was done is not known";
        Problem::new(StatusCode::GATEWAY_TIMEOUT, problem::UNKNOWN, detail)
    }

    fn log(&self, reason: &str) {
        if let Some(others) = self.failures.admit(Instant::now()) {
            tracing::error!(
                event = "call_failed",
                reason,
                withheld = withheld(others),
                "the database cannot be used"
            );
        }
    }
}

/// Runs a statement until it is answered, in a task of its own: whoever asked may leave, and a
/// connection that still works for him is no connection for the next one. `None` if there is no
/// answer in time.
async fn run_to_its_end(client: Object<Connecting>, call: Arc<Call>) -> Option<Result<Row, Error>> {
    let task = tokio::spawn(async move {
        let outcome = timeout(ANSWER, query(&client, &call)).await.ok();
        let is_read_only =
            |error: &Error| error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION);
        let is_of_no_use = outcome.as_ref().is_none_or(|row| row.as_ref().is_err_and(is_read_only));
        if is_of_no_use {
            // Whatever it is waiting for, nobody else shall; and the primary is elsewhere.
            drop(Object::take(client));
        }
        outcome
    });
    task.await.ok().flatten()
}

async fn query(client: &SchemaClient, Call { function, values, .. }: &Call) -> Result<Row, Error> {
    let parameters: Vec<(&(dyn ToSql + Sync), Type)> =
        values.iter().map(|value| (value as _, Type::TEXT)).collect();
    client.query_typed_one(function.statement(), &parameters).await
}
