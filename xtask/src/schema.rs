//! Writes the migrations that are too long to be read as one file, of which psql and golang-migrate
//! need one each: from the files of a folder, which people read and change.

use std::fs;

use anyhow::{Context, Result};
use mailroom_tests::tools;

/// The migrations, and the folders with their parts.
const MIGRATIONS: [(&str, &str); 2] =
    [("1_create_mailroom.up.sql", "schema"), ("2_adopt_accounts.up.sql", "accounts")];

/// Writes the files of the migrations.
pub(crate) fn write() -> Result<()> {
    for (migration, folder) in MIGRATIONS {
        fs::write(tools::workspace().join("migrations").join(migration), joined(folder)?)?;
    }
    Ok(())
}

/// The files of a folder in the order of their names: a head of comments, then one transaction.
fn joined(folder: &str) -> Result<String> {
    let path = tools::workspace().join("migrations").join(folder);
    let entries = fs::read_dir(&path).with_context(|| format!("no folder {}", path.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    let parts = files.iter().map(fs::read_to_string).collect::<Result<Vec<_>, _>>()?;
    let (head, rest) = parts.split_first().context("the folder has no files")?;
    Ok(format!(
        "-- `cargo xtask schema` writes this file from those of {folder}/: change those.\n\
         --\n{head}\nBEGIN;\n\n{}\nCOMMIT;\n",
        rest.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Names say the order alone: a number that stands twice says nothing of its two files.
    #[test]
    fn no_two_files_of_a_folder_have_the_same_number() {
        for (_, folder) in MIGRATIONS {
            let path = tools::workspace().join("migrations").join(folder);
            let mut numbers = BTreeSet::new();
            for entry in fs::read_dir(path).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let number = name.split('_').next().unwrap().to_owned();
                assert!(numbers.insert(number), "{folder}/{name}: another file has its number");
            }
        }
    }

    #[test]
    fn the_long_migrations_are_the_files_of_their_folders() {
        for (migration, folder) in MIGRATIONS {
            let path = tools::workspace().join("migrations").join(migration);
            let is_joined = fs::read_to_string(path).unwrap() == joined(folder).unwrap();
            assert!(is_joined, "run `cargo xtask schema`");
        }
    }
}
