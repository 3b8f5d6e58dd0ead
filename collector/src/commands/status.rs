//! `mailroom status`: how much waits in the queue of deliveries, and since when, and whether that
//! is an alarm.

pub(super) mod alarms;
mod all;
mod nagios;
mod runs;
pub(super) mod sentences;
mod text;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use mailroom_connect::SchemaClient;
use serde_json::{Map, Value, json};

use self::alarms::{Bounds, alarms, at, worst};
use super::level::Level;
use super::{CommandError, Outcome, connect_to_queue, json_in, print, print_coloured};
use crate::config::{SchemaSetting, Setting, TimeoutSettings, heading, installation, whole_number};
use crate::log::display::Counted;
use crate::preflight;

const STATUS: &str = include_str!("status.sql");
const SENT: &str = include_str!("sent.sql");
/// Asked first, because an error would end the transaction of whoever has one.
const MAY_READ_LOG: &str = "SELECT coalesce(has_table_privilege(
    to_regclass('mailroom.delivery_attempts')::oid, 'SELECT'), false)";

/// Where `mailroom@.service` has a folder of settings for each database.
const FOLDER: &str = "/etc/mailroom/databases";

#[derive(clap::Args)]
pub(crate) struct StatusArguments {
    /// Print one line of JSON
    #[arg(long, conflicts_with = "nagios", help_heading = heading::OUTPUT)]
    json: bool,

    /// Print one line with performance data, as plugins of Nagios and Icinga do
    #[arg(long, help_heading = heading::OUTPUT)]
    nagios: bool,

    /// List the newest runs of collectors instead: when each began and ended, and what it did
    #[arg(long, conflicts_with_all = ["nagios", "max_dead"])]
    runs: bool,

    /// Look at several databases, whose settings are FOLDER/NAME/collector.env, and print what each
    /// says; the worst of them is the exit status
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = FOLDER)]
    all: Option<PathBuf>,

    /// How many dead letters are no alarm; without it, only those of the last hour are one
    #[arg(long, value_name = "N", value_parser = Setting(whole_number(0..=1_000_000_000)))]
    #[arg(allow_negative_numbers = true)]
    max_dead: Option<usize>,

    #[command(flatten)]
    watched: WatchedInstallation,
}

/// Which installation is looked at, and what its alarms depend on.
#[derive(clap::Args)]
pub(super) struct WatchedInstallation {
    /// Name of the installation that this should be; another one is an alarm
    #[arg(long, value_name = "NAME", value_parser = Setting(installation))]
    #[arg(env = "MAILROOM_INSTALLATION")]
    pub(super) installation: Option<String>,

    #[command(flatten)]
    pub(super) timeouts: TimeoutSettings,

    #[command(flatten)]
    pub(super) schema: SchemaSetting,
}

/// Ends with 0 if nothing is an alarm, 1 for a warning, 2 if something is critical, and 3 if it
/// cannot look.
pub(crate) async fn run(arguments: StatusArguments) -> Outcome {
    let is_nagios = arguments.nagios;
    look(arguments).await.or_else(|error| {
        if is_nagios {
            print(nagios::unknown(&error))?;
        }
        super::report_error(&error);
        Ok(Level::Unknown.into())
    })
}

/// Whether the arguments of this process, which cannot be used, call this command or `check`; then
/// what to end with. A monitor reads standard output.
pub(crate) fn refused() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    let command = arguments.next()?;
    if command != "status" && command != "check" {
        return None;
    }
    if command == "status" && arguments.any(|argument| argument == "--nagios") {
        print(nagios::unknown("the command is called in the wrong way")).ok();
    }
    Some(Level::Unknown.into())
}

async fn look(arguments: StatusArguments) -> Outcome {
    let StatusArguments { json, nagios, runs, all, max_dead, watched } = arguments;
    let WatchedInstallation { installation, timeouts, schema } = watched;
    if let Some(folder) = all {
        return all::run(&folder, all::Shown::of(json, nagios)).await;
    }
    if runs {
        let functions = ["mailroom.list_runs"];
        let (client, _) = connect_to_queue(schema, "mailroom status", &functions).await?;
        return runs::list(&client, json).await;
    }
    let (client, _) = connect_to_queue(schema, "mailroom status", &["mailroom.status"]).await?;
    let max_dead = max_dead.map(|most| i64::try_from(most).unwrap_or(i64::MAX));
    let bounds = Bounds { timeouts, max_dead };
    let mut status = figures(&client, installation.as_deref()).await?;
    let alarms = alarms(&status, &bounds);
    if nagios {
        print(nagios::line(&status, &alarms, &bounds))?;
    } else if json {
        status["alarms"] = alarms.iter().map(|alarm| alarm.place).collect();
        let levels = alarms.iter().map(|alarm| (alarm.place.to_owned(), json!(alarm.level.name())));
        status["levels"] = Value::Object(levels.collect::<Map<_, _>>());
        print(&status)?;
    } else {
        print_coloured(text::text(&status, &alarms, &client.schema))?;
    }
    Ok(worst(&alarms).into())
}

const OF_A_STANDBY: &str = "this server is a standby: what it shows is as old as what it has \
                            replayed, and nobody collects there; look at the primary, for \
                            instance with target_session_attrs=read-write";

/// All that is shown but the alarms, in the members of the JSON.
pub(super) async fn figures(
    client: &SchemaClient,
    expected_name: Option<&str>,
) -> Result<Value, CommandError> {
    // Only this needs a right on a table.
    let may_read_log: bool = client.query_typed_one(MAY_READ_LOG, &[]).await?.try_get(0)?;
    let sent = if may_read_log { query(client, SENT).await? } else { Value::Null };
    let mut status = query(client, STATUS).await?;
    let mut warnings = preflight::warnings(client).await?;
    if client.query_typed_one("SELECT pg_is_in_recovery()", &[]).await?.try_get(0)? {
        warnings.insert(0, OF_A_STANDBY.to_owned());
    }
    let [alive, lost] =
        ["collectors.alive", "collectors.lost"].map(|place| at(&status, place).unwrap_or_default());
    status["collectors"]["all_lost"] = json!(if alive == 0 { lost } else { 0 });
    status["sent"] = sent;
    warnings.extend(of_installation(&status, expected_name));
    status["warnings"] = json!(warnings);
    Ok(status)
}

/// What keeps collectors from the queue, or will when they are started again.
fn of_installation(status: &Value, expected_name: Option<&str>) -> Vec<String> {
    let installation = &status["installation"];
    let name = installation["name"].as_str();
    let mut warnings = Vec::new();
    if installation["is_of_another_cluster"] == true {
        warnings.push(
            "the queue belongs to another PostgreSQL cluster, from which its database was restored \
             or upgraded, so that collectors send nothing; if this cluster is to send its mails, \
             and no other, run `mailroom migrate bind`"
                .to_owned(),
        );
    }
    if let (Some(misnamed), Some(name)) =
        (at(status, "collectors.misnamed").filter(|count| *count > 0), name)
    {
        let collectors = Counted(misnamed, "collector runs", "collectors run");
        warnings.push(format!(
            "{collectors} without the name of this installation, and will be refused when started \
             again; set MAILROOM_INSTALLATION={name} for all"
        ));
    }
    if let Some(expected) = expected_name.filter(|expected| name != Some(expected)) {
        warnings.push(match name {
            Some(name) => format!(
                "this is the database of the installation {name}, and not of {expected}, as \
                 MAILROOM_INSTALLATION says"
            ),
            None => format!(
                "the database has no name of an installation, so that a copy of it would be sent \
                 from, too; run `mailroom migrate bind --name {expected}`"
            ),
        });
    }
    warnings
}

/// The object of a query's one row, which is the text of JSON.
async fn query(client: &SchemaClient, query: &str) -> Result<Value, CommandError> {
    json_in(&client.query_typed_one(query, &[]).await?, 0)
}
