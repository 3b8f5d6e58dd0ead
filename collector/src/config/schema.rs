//! The setting of every command that uses the database: what Mailroom's schema is called there.

use mailroom_connect::Schema;

use super::heading;
use super::setting::{Setting, must_be, setting_of_variable};

/// Read apart from other settings: clap would read the variable of a global flag also where the
/// flag stands before an action.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct SchemaSetting {
    /// Schema of all that Mailroom makes but the tables of accounts; default: that of
    /// `MAILROOM_SCHEMA`, or `mailroom`
    #[arg(long = "schema", value_name = "NAME", global = true, value_parser = Setting(schema))]
    #[arg(help_heading = heading::DATABASE)]
    flag: Option<Schema>,
}

impl SchemaSetting {
    /// The schema, or the fault of the variable.
    pub(crate) fn read(self) -> Result<Schema, String> {
        let named = self
            .flag
            .map_or_else(|| setting_of_variable("MAILROOM_SCHEMA", schema), |flag| Ok(Some(flag)));
        Ok(named?.unwrap_or_default())
    }
}

fn schema(text: &str) -> Result<Schema, String> {
    Schema::parse(text).ok_or_else(|| must_be(text, Schema::ALLOWED))
}
