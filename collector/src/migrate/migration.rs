//! Migrations as data.

use std::fmt;

/// The first line of both files of a migration that runs outside a transaction.
const NO_TRANSACTION: &str = "-- no-transaction\n";

/// One step between two versions of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its number, which is also the version of the schema that it leads to.
    pub version: i64,
    /// The rest of its files' names, such as `create_base_schema`.
    pub name: &'static str,
    /// The file that leads from the version before to this one.
    pub up: &'static str,
    /// The file that leads back.
    pub down: &'static str,
}

macro_rules! migration_file {
    ($version:literal, $name:ident, $ending:literal) => {
        include_str!(concat!("../../../migrations/", $version, "_", stringify!($name), $ending))
    };
}

macro_rules! migrations {
    ($($version:literal $name:ident,)*) => {
        &[$(Migration {
            version: $version,
            name: stringify!($name),
            up: migration_file!($version, $name, ".up.sql"),
            down: migration_file!($version, $name, ".down.sql"),
        }),*]
    };
}

/// The migrations of this version of Mailroom, oldest first, but for the one that drops secrets.
pub const MIGRATIONS: &[Migration] = WITH_DROP_SECRETS.split_at(4).0;

/// All migrations, with the one that is applied only on request: after it, only `mailroom.redeem()`
/// can redeem.
pub(super) const WITH_DROP_SECRETS: &[Migration] = migrations![
    0 create_base_schema,
    1 create_mailroom,
    2 adopt_accounts,
    3 catch_up,
    4 drop_secrets,
];

/// The one that creates the schema `mailroom`.
pub(super) const CREATES_SCHEMA: i64 = 1;

/// The only one of [`MIGRATIONS`] that needs no accounts: it makes the schema `mailroom`.
pub(super) const OF_MAILROOM: std::ops::RangeInclusive<usize> = 1..=1;

impl Migration {
    /// Whether it runs in one transaction with its record; if not, it is recorded as dirty while it
    /// runs.
    pub(super) fn is_transactional(&self) -> bool {
        !self.up.starts_with(NO_TRANSACTION)
    }

    /// One of its files without its own `BEGIN` and `COMMIT`; the other lines keep their numbers.
    pub(super) fn statements(&self, file: &str) -> String {
        let is_bracket = |line| self.is_transactional() && matches!(line, "BEGIN;" | "COMMIT;");
        let lines = file.lines().map(|line| if is_bracket(line) { "" } else { line });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// The files' name without direction and ending: `0_create_base_schema`.
impl fmt::Display for Migration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}_{}", self.version, self.name)
    }
}
