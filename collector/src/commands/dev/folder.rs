//! The folder of `mailroom dev`, which version control leaves out: the key, the configuration of
//! mails, and the variables for the application.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::DevError;

/// Mails before anybody has changed them.
const SEND: &str = "\
# How `mailroom dev` writes mails. It is read again for each one.
from = \"Example <no-reply@example.org>\"
product = \"Example\"
# What `mailroom dev` does not use.
journal = \"sent\"
# A folder of templates, such as `mailroom send --init templates` writes it.
# templates = \"../templates\"

[links]
# Where the application runs.
base = \"http://localhost:3000\"
";

/// The folder.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder if it is not there, for its owner alone.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn open(path: &Path) -> Result<Self, DevError> {
        let made = || {
            if path.is_dir() {
                return Ok(());
            }
            DirBuilder::new().recursive(true).mode(0o700).create(path)?;
            // Keys and passwords do not belong into version control.
            write_new(&path.join(".gitignore"), "*\n")
        };
        made().map_err(|error| {
            DevError(format!("the folder {} cannot be made: {error}", path.display()))
        })?;
        Ok(Self(path.to_owned()))
    }

    /// Where the key is.
    pub(crate) fn key(&self) -> PathBuf {
        self.0.join("key")
    }

    /// Writes the key, unless there is one.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn write_key(&self, text: &str) -> Result<(), DevError> {
        self.write("key", text)
    }

    /// The configuration of the sender.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn send(&self) -> Result<PathBuf, DevError> {
        self.write("send.toml", SEND)?;
        Ok(self.0.join("send.toml"))
    }

    /// The variables that were written the last time; none if they cannot be read.
    pub(crate) fn former_environment(&self) -> FormerEnvironment {
        let text = fs::read_to_string(self.0.join("env"));
        FormerEnvironment(Zeroizing::new(text.unwrap_or_default()))
    }

    /// Writes the variables that the application needs, instead of those of the last time.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn environment(&self, text: &str) -> Result<PathBuf, DevError> {
        let path = self.0.join("env");
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let fault = format!("{} cannot be replaced: {error}", path.display());
                return Err(DevError(fault));
            }
            _ => {}
        }
        self.write("env", text)?;
        Ok(path)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), DevError> {
        let path = self.0.join(name);
        write_new(&path, text)
            .map_err(|error| DevError(format!("{} cannot be written: {error}", path.display())))
    }
}

/// What was written for the application before. A shell that has read it has values that are of no
/// more use: the database is deleted, and the key is that of the folder.
pub(crate) struct FormerEnvironment(Zeroizing<String>);

impl FormerEnvironment {
    /// Whether this process has the variable from there.
    pub(crate) fn has(&self, name: &str) -> bool {
        let Ok(value) = env::var(name).map(Zeroizing::new) else { return false };
        let is_it = |(key, text): (&str, &str)| key == name && text.trim_matches('\'') == *value;
        self.0.lines().any(|line| line.split_once('=').is_some_and(is_it))
    }
}

/// Writes a file that only its owner can read, unless it is there.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
