//! Migrations as data.

use std::fmt;

/// One step between two versions of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its number, which is also the version of the schema that it leads to.
    pub version: u64,
    /// The rest of its files' names, such as `create_base_schema`.
    pub name: &'static str,
    /// The script that leads from the version before to this one.
    pub up: &'static str,
    /// The script that leads back.
    pub down: &'static str,
}

/// Which way a migration is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To a newer version.
    Up,
    /// To an older version.
    Down,
}

macro_rules! migrations {
    ($($version:literal $name:ident,)*) => {
        &[$(Migration {
            version: $version,
            name: stringify!($name),
            up: include_str!(concat!("../../../migrations/", $version, "_", stringify!($name), ".up.sql")),
            down: include_str!(concat!("../../../migrations/", $version, "_", stringify!($name), ".down.sql")),
        }),*]
    };
}

/// The migrations of this version of Mailroom, oldest first.
pub const MIGRATIONS: &[Migration] = migrations![
    0 create_base_schema,
    1 generate_unguessable_codes,
    2 repair_token_codes,
    3 widen_token_epochs,
    4 widen_account_epochs,
    5 insert_activation_token_after_account,
    6 pin_function_search_paths,
    7 describe_schema,
    8 forbid_changing_tokens,
    9 index_consumed_token_ids,
    10 record_code_attempts,
    11 compare_enums_as_text,
    12 redeem_tokens,
    13 request_tokens,
    14 insert_activation_tokens_as_owner,
    15 create_delivery_queue,
    16 return_parked_tokens,
    17 queue_tokens,
    18 operate_delivery_queue,
    19 bound_refusals_by_expiry,
];

impl Migration {
    /// The script for a direction.
    pub fn script(&self, direction: Direction) -> &'static str {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }
}

/// The file's name without direction and ending: `0_create_base_schema`.
impl fmt::Display for Migration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}_{}", self.version, self.name)
    }
}

/// As in a file's name: `up`, `down`.
impl fmt::Display for Direction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Up => "up",
            Self::Down => "down",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::super::statements::{Role, split};
    use super::*;

    #[test]
    fn all_files_of_the_folder_are_embedded() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let files: BTreeSet<String> = files
            .map(|name| name.into_string().unwrap())
            .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "sql"))
            .collect();
        let embedded = MIGRATIONS.iter().flat_map(|migration| {
            [Direction::Up, Direction::Down].map(|direction| format!("{migration}.{direction}.sql"))
        });
        assert_eq!(files, embedded.collect());
    }

    #[test]
    fn versions_grow_one_by_one() {
        assert!(MIGRATIONS.iter().map(|migration| migration.version).eq(0..MIGRATIONS.len() as u64));
    }

    #[test]
    fn every_file_is_one_transaction_for_psql_and_golang_migrate() {
        for migration in MIGRATIONS {
            for direction in [Direction::Up, Direction::Down] {
                let statements = split(migration.script(direction)).unwrap();
                let [begin, work @ .., commit] = &statements[..] else { panic!("{migration} is empty") };
                assert_eq!((begin.text, commit.text), ("BEGIN", "COMMIT"), "{migration}.{direction}");
                assert!(
                    work.iter().all(|statement| statement.role() == Role::Work),
                    "{migration}.{direction}"
                );
            }
        }
    }
}
