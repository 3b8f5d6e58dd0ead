//! What `mailroom check` finds out about the database.

use std::time::{Duration, Instant, SystemTime};

use mailroom_connect::{ConnectionSettings, SchemaClient, Session};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::findings::Findings;
use crate::collect::CollectError;
use crate::commands::level::Level;
use crate::commands::{CommandError, connect};
use crate::config::{Wake, installation, one_of, setting_of_variable, token_format};
use crate::preflight::{self, development};
use crate::queue::{LIST_ACTIONS, SignableActions};

const NAME: &str = "mailroom check";

const IS_CURRENT: &str = include_str!("../../queue/deliveries/is_current.sql");

const SERVER: &str = "SELECT current_setting('server_version'), current_database()::text, \
                      current_user::text, pg_is_in_recovery()";

/// The first heartbeat of a collector, whose number no other one draws.
const COME_AND_GO: &str = "SELECT FROM mailroom.heartbeat(0, 'mailroom check', '{}', 0, NULL, \
                           installation => $1)";

/// From here on links end noticeably early or late.
const WRONG_CLOCK: Duration = Duration::from_secs(5);

/// What the collector signs, as far as the database says it.
pub(super) struct Actions {
    #[cfg(feature = "send")]
    pub(super) names: Vec<String>,
    /// Whether their mails have a link, and whether a code.
    #[cfg(feature = "send")]
    pub(super) have: Vec<(bool, bool)>,
}

/// Looks at the database; `None` if its actions cannot be read.
pub(super) async fn look(
    settings: &ConnectionSettings,
    findings: &mut Findings,
) -> Result<Option<Actions>, CommandError> {
    let Session { client, connection, .. } = match connect(settings, NAME, false).await {
        Ok(session) => session,
        Err(error) => {
            findings.add(Level::Unknown, "database", error)?;
            return Ok(None);
        }
    };
    connection.spawn();
    let client = SchemaClient { raw: client, schema: settings.schema.clone() };
    server(&client, findings).await?;
    pooler(settings, findings).await?;
    clock(&client, findings).await?;
    let is_current: bool = client.query_typed_one(IS_CURRENT, &[]).await?.try_get(0)?;
    let missing = preflight::missing(&client, preflight::OF_COLLECTORS).await?;
    match (&missing, is_current) {
        (None, true) => {
            findings.add(Level::Ok, "schema", format_args!("{} is current", client.schema))?;
            findings.add(Level::Ok, "rights", "this role may collect")?;
        }
        (None, false) => {
            let fault = "the database has an older schema; run `mailroom migrate up`";
            findings.add(Level::Critical, "schema", fault)?;
        }
        (Some(fault), _) => {
            // It says which of the two is missing.
            let is_of_rights = fault.contains("GRANT ");
            let name = if is_of_rights { "rights" } else { "schema" };
            findings.add(Level::Critical, name, fault)?;
        }
    }
    if missing.is_some() || !is_current {
        return Ok(None);
    }
    for warning in preflight::warnings(&client).await? {
        findings.add(Level::Warning, "setup", warning)?;
    }
    if development::is_marked(&client).await? {
        findings.add(Level::Critical, "setup", development::REFUSED)?;
    }
    let actions = actions(&client, findings).await?;
    // Last: a pooler that shares sessions between statements ends the connection over it.
    name(&client, findings).await?;
    Ok(Some(actions))
}

async fn server(client: &SchemaClient, findings: &mut Findings) -> Result<(), CommandError> {
    let row = client.query_typed_one(SERVER, &[]).await?;
    let (version, name, role): (&str, &str, &str) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if row.try_get(3)? {
        let fault = "the server is a standby, where nothing can be claimed; connect to the \
                     primary, for instance with target_session_attrs=read-write";
        return findings.add(Level::Critical, "database", fault);
    }
    let found = format_args!("PostgreSQL {version}, database {name}, as the role {role}");
    findings.add(Level::Ok, "database", found)
}

/// Whether a session is kept. Only a second connection, which asks for it, finds that out.
async fn pooler(
    settings: &ConnectionSettings,
    findings: &mut Findings,
) -> Result<(), CommandError> {
    let wake = setting_of_variable("MAILROOM_WAKE", one_of::<Wake>);
    let wake = wake.map_err(CommandError::Usage)?;
    match connect(settings, NAME, true).await {
        Ok(session) => {
            drop(session);
            findings.add(Level::Ok, "pooler", "sessions are kept")
        }
        Err(_) if matches!(wake, Some(Wake::Poll | Wake::Call)) => {
            let found = "sessions are not kept, and MAILROOM_WAKE needs none";
            findings.add(Level::Ok, "pooler", found)
        }
        Err(error) => findings.add(Level::Critical, "pooler", error),
    }
}

/// Whether the queue takes a collector with these settings. That is known only to what each
/// collector calls first: it is called as one would, and undone.
async fn name(client: &SchemaClient, findings: &mut Findings) -> Result<(), CommandError> {
    let setting = setting_of_variable("MAILROOM_INSTALLATION", installation);
    let setting = setting.map_err(CommandError::Usage)?;
    if client.raw.batch_execute("BEGIN").await.is_err() {
        let unseen = "a pooler allows no transactions; each collector looks at it when it starts";
        return findings.skip("name", unseen);
    }
    let called = client.query_typed(COME_AND_GO, &[(&setting, Type::TEXT)]).await;
    client.raw.batch_execute("ROLLBACK").await?;
    if let Err(error) = called {
        let refusal = error
            .as_db_error()
            .filter(|error| *error.code() == SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
        let Some(refusal) = refusal else { return Err(error.into()) };
        return findings.add(Level::Critical, "name", refusal.message());
    }
    let found = match setting {
        Some(name) => &format!("the queue takes a collector for {name}"),
        None => "the queue takes a collector without MAILROOM_INSTALLATION",
    };
    findings.add(Level::Ok, "name", found)
}

/// Compares the clocks. The answer took up to the time of the question's way and back.
async fn clock(client: &SchemaClient, findings: &mut Findings) -> Result<(), CommandError> {
    let began = Instant::now();
    let before = SystemTime::now();
    let row = client.query_typed_one("SELECT clock_timestamp()", &[]).await?;
    let theirs: SystemTime = row.try_get(0)?;
    let took = began.elapsed();
    let distance = |one: SystemTime, other: SystemTime| {
        one.duration_since(other).unwrap_or_else(|error| error.duration())
    };
    let off = distance(theirs, before + took / 2).saturating_sub(took / 2);
    if off < WRONG_CLOCK {
        return findings.add(Level::Ok, "clock", "as the server's, to within 5 s");
    }
    let fault = format_args!(
        "this machine and the server differ by {} s, so that links end early or late; have both \
         set by NTP",
        off.as_secs()
    );
    findings.add(Level::Warning, "clock", fault)
}

/// Whether the format that is signed has all actions.
async fn actions(client: &SchemaClient, findings: &mut Findings) -> Result<Actions, CommandError> {
    let rows = client.query_typed(LIST_ACTIONS, &[]).await?;
    let format = setting_of_variable("MAILROOM_TOKEN_FORMAT", token_format);
    let mut signed = SignableActions::of(format.map_err(CommandError::Usage)?);
    signed.read(&rows).map_err(CollectError::from)?;
    let format = signed.format();
    let signed = signed.numbers();
    let mut names = Vec::new();
    #[cfg(feature = "send")]
    let mut have = Vec::new();
    let mut unsigned = Vec::new();
    for row in &rows {
        let name: &str = row.try_get(1)?;
        names.push(name.to_owned());
        #[cfg(feature = "send")]
        have.push((row.try_get::<_, Option<&str>>(2)?.is_some(), row.try_get::<_, i16>(3)? > 0));
        if !signed.contains(&row.try_get(0)?) {
            unsigned.push(name);
        }
    }
    if unsigned.is_empty() {
        let found = format_args!("{format} signs all {} actions of the database", names.len());
        findings.add(Level::Ok, "format", found)?;
    } else {
        let help = if format.has_header() {
            "give them another path"
        } else {
            "set MAILROOM_TOKEN_FORMAT=v2 once the verifiers accept it"
        };
        let fault = format_args!(
            "{format} does not sign {}, whose mails wait; {help}",
            unsigned.join(", ")
        );
        findings.add(Level::Warning, "format", fault)?;
    }
    Ok(Actions {
        #[cfg(feature = "send")]
        names,
        #[cfg(feature = "send")]
        have,
    })
}
