//! Finds the programs of a PostgreSQL server on this machine.

use std::cmp::Reverse;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a folder must hold to be taken.
const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// Folders with one installation each below them, as packages of several systems lay them out.
const PARENTS: [&str; 5] =
    ["/usr/lib/postgresql", "/usr/local", "/opt", "/opt/homebrew/opt", "/usr/local/opt"];

/// The oldest version that Mailroom works with.
const OLDEST: u32 = 14;

/// The folder of the programs: that on `PATH`, else of the newest version that is installed.
pub(super) fn find() -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    if let Some(found) = env::split_paths(&path).find_map(|folder| in_folder(&folder)) {
        return Some(found.0);
    }
    let mut found: Vec<_> = PARENTS.iter().flat_map(|parent| below(Path::new(parent))).collect();
    found.sort_by_key(|(_, major)| Reverse(*major));
    found.into_iter().next().map(|(folder, _)| folder)
}

fn below(parent: &Path) -> Vec<(PathBuf, u32)> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let folders = entries.flatten().map(|entry| entry.path().join("bin"));
    folders.filter_map(|folder| in_folder(&folder)).collect()
}

/// The folder that holds the programs themselves, and their version.
fn in_folder(folder: &Path) -> Option<(PathBuf, u32)> {
    let has_all = |folder: &Path| PROGRAMS.iter().all(|name| folder.join(name).is_file());
    if !has_all(folder) {
        return None;
    }
    // A folder of links to the programs says nothing about where the server's other files are.
    let postgres = fs::canonicalize(folder.join("postgres")).ok()?;
    let linked = postgres.parent().filter(|parent| has_all(parent));
    let output = Command::new(&postgres).arg("--version").output().ok()?;
    let major = major(&String::from_utf8_lossy(&output.stdout))?;
    (major >= OLDEST).then(|| (linked.unwrap_or(folder).to_owned(), major))
}

/// `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)` is 15, `… 19beta1` is 19.
fn major(version: &str) -> Option<u32> {
    let number = version.split_whitespace().nth(2)?;
    let end = number.find(|character: char| !character.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_the_server_prints() {
        assert_eq!(major("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 19beta1\n"), Some(19));
        assert_eq!(major("postgres\n"), None);
    }
}
