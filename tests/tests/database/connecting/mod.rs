//! Connecting as libpq's users expect, against real servers.

#![allow(clippy::unwrap_used, reason = "the helpers of tests fail like the tests themselves")]

mod authentication;
mod certificates;
mod encryption;
mod endless;
mod environment;
mod password_command;
mod server_certificates;
mod servers;
mod sessions;
#[cfg(target_os = "linux")]
mod silence;

use environment::TestEnvironment;
use mailroom_connect::{ConnectError, ConnectionSettings, Session, SessionOptions, connect};
use mailroom_tests::postgres::Cluster;
use tokio_postgres::Client;

const OPTIONS: SessionOptions<'static> = SessionOptions {
    application_name: "connecting test",
    statement_timeout: None,
    needs_session: false,
};

/// Resolves and connects.
async fn session(string: &str, environment: &TestEnvironment) -> Result<Session, ConnectError> {
    let settings = ConnectionSettings::resolve(string, environment)
        .unwrap_or_else(|error| panic!("{string}: {error}"));
    connect(&settings, &OPTIONS).await
}

/// The client of a session whose connection is served by a task.
fn served(session: Session) -> Client {
    tokio::spawn(session.connection.run());
    session.client
}

/// The only value of the only row.
async fn value(client: &Client, query: &str) -> String {
    let row = client.query_one(query, &[]).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    row.get(0)
}

/// Executes statements as the superuser, by the socket.
///
/// On a thread of its own, because the caller may be inside a runtime,
/// where another cannot be started.
fn execute(cluster: &Cluster, statements: &str) {
    let executing = async {
        let session = session(&cluster.url("postgres"), &TestEnvironment::new()).await.unwrap();
        served(session).batch_execute(statements).await.unwrap();
    };
    std::thread::scope(|scope| {
        let on_its_own = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(executing);
        });
        on_its_own.join().unwrap();
    });
}
