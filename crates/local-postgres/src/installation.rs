//! Finds the programs of PostgreSQL servers.

use std::cmp::Reverse;
use std::env;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that a folder must hold to be taken.
const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// Folders with one installation each below them, as packages of several systems lay them out.
const PARENTS: [&str; 6] =
    ["/usr/lib/postgresql", "/usr", "/usr/local", "/opt", "/opt/homebrew/opt", "/usr/local/opt"];

/// A folder with the programs of one PostgreSQL version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The folder of `initdb`, `pg_ctl` and `postgres`.
    pub programs: PathBuf,
    /// The major version, for example 15.
    pub major: u32,
}

impl Installation {
    /// Those on `PATH` in its order, then those of the system's packages, the newest first.
    pub fn on_this_machine() -> Vec<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let on_path = env::split_paths(&path).filter_map(|folder| Self::in_folder(&folder).ok());
        let mut found: Vec<Self> =
            PARENTS.iter().flat_map(|parent| Self::below(Path::new(parent))).collect();
        found.sort_by_key(|installation| Reverse(installation.major));
        on_path.chain(found).collect()
    }

    /// The one whose programs lie in a folder, or are linked from there. The error says what is
    /// missing.
    pub fn in_folder(folder: &Path) -> io::Result<Self> {
        let missing = |folder: &Path| PROGRAMS.iter().find(|name| !folder.join(name).is_file());
        if let Some(program) = missing(folder) {
            let folder = folder.display();
            let fault = format!("there is no PostgreSQL in {folder}: {program} is missing");
            return Err(io::Error::new(ErrorKind::NotFound, fault));
        }
        // A folder of links to the programs says nothing about where the server's other files are.
        let postgres = fs::canonicalize(folder.join("postgres"))?;
        let linked = postgres.parent().filter(|parent| missing(parent).is_none());
        let programs = fs::canonicalize(linked.unwrap_or(folder))?;
        let output = Command::new(&postgres).arg("--version").output().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot run {}: {error}", postgres.display()))
        })?;
        let version = String::from_utf8_lossy(&output.stdout);
        let major = major(&version).ok_or_else(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            let (program, complaint) = (postgres.display(), complaint.trim());
            io::Error::other(format!("{program} does not say its version: {complaint}"))
        })?;
        Ok(Self { programs, major })
    }

    fn below(parent: &Path) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
        let bins = entries.flatten().map(|entry| entry.path().join("bin"));
        bins.filter_map(|bin| Self::in_folder(&bin).ok()).collect()
    }
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
    fn the_major_version_is_read_from_what_the_server_prints() {
        assert_eq!(major("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 19beta1\n"), Some(19));
        assert_eq!(major("postgres\n"), None);
    }
}
