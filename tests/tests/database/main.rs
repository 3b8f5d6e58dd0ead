//! Everything that needs a PostgreSQL server: one program,
//! so that its tests fill each other's pauses.

mod accounts;
mod addresses;
mod any_account;
mod bad_input;
mod bad_rows;
mod bounces;
mod checking;
mod collecting;
mod collecting_signals;
mod connecting;
mod cursor;
mod database_document;
mod deliveries;
mod dev;
mod documents;
mod emptying;
mod encodings;
mod excess_rights;
mod execution_rights;
mod guessing;
mod harness;
mod history;
mod hosted_roles;
mod logging;
mod lookalikes;

mod mailroom_send;
mod metrics;
mod migrations;
mod neighbours;
mod once;
mod operating;
mod outbox;
mod overloads;
mod pooled_isolation;
mod pooled_sessions;
mod pooling;
mod postfix;
mod preflight;
mod python_sender;
mod rabbit;
mod reconnecting;
mod recovery_codes;
mod redeeming;
mod redeeming_races;
mod relay;
mod requesting;
mod rotation;
mod sender;
mod service_manager;
mod serving;
mod shards;
mod sleeping;
mod spans;
mod standard_streams;
mod strangers;
mod token_rows;
mod traces;
mod ui;
mod waking;

use tokio::sync::Mutex;

/// Of tests that open a hundred connections, the server takes one at a time.
static RACE: Mutex<()> = Mutex::const_new(());
