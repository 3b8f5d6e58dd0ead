//! Finds the programs of a PostgreSQL server.

use std::env;
use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use mailroom_local_postgres::Installation;

use super::npm;

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

    /// Finds it on this machine, or fetches it from npm if that has the version.
    pub fn find(&self) -> Result<Installation> {
        if let Self::Folder(folder) = self {
            return Ok(Installation::in_folder(folder)?);
        }
        let suits =
            |found: &Installation| matches!(self, Self::Any) || *self == Self::Major(found.major);
        if let Some(found) = known().into_iter().find(suits) {
            return Ok(found);
        }
        match self {
            Self::Major(major) if *major != npm::MAJOR => bail!(
                "PostgreSQL {major} is not on this machine: install it (on Debian and Ubuntu \
                 `apt-get install postgresql-{major}`), \
                 or set MAILROOM_TEST_POSTGRES to the folder of its programs"
            ),
            _ => Ok(Installation::in_folder(&npm::fetch().with_context(|| {
                format!(
                    "{self} is not on this machine and could not be fetched from npm: install \
                     PostgreSQL (on Debian and Ubuntu `apt-get install postgresql`), \
                     or mend what is wrong with npm"
                )
            })?)?),
        }
    }

    /// The major versions that [`Self::find`] finds, the oldest first.
    pub fn majors() -> Vec<u32> {
        let mut majors: Vec<u32> = known().into_iter().map(|found| found.major).collect();
        majors.push(npm::MAJOR);
        majors.sort_unstable();
        majors.dedup();
        majors
    }
}

/// What is installed, in the order of preference; last what npm gave before.
fn known() -> Vec<Installation> {
    let fetched = npm::fetched().and_then(|folder| Installation::in_folder(&folder).ok());
    Installation::on_this_machine().into_iter().chain(fetched).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wanted_server_is_a_version_or_a_folder() {
        assert_eq!(Wanted::parse("").unwrap(), Wanted::Any);
        assert_eq!(Wanted::parse("15").unwrap(), Wanted::Major(15));
        assert_eq!(Wanted::parse("/opt/pg/bin").unwrap(), Wanted::Folder("/opt/pg/bin".into()));
        assert!(Wanted::parse("newest").is_err());
    }

    #[test]
    fn a_folder_without_a_server_is_refused_by_naming_what_is_missing() {
        let error = Wanted::Folder("/etc".into()).find().unwrap_err();
        assert_eq!(error.to_string(), "there is no PostgreSQL in /etc: initdb is missing");
    }
}
