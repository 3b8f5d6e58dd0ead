//! `--dry-run`: mails become files instead of being sent.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Connection, Progress, Provider, Receipt, Sealed, Verdict};
use crate::error::Error;
use crate::mail::Mail;
use crate::message;

/// A folder that gets a file for each mail, named by its key.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path)
            .map_err(|error| Error::failure(format!("{} cannot be made: {error}", path.display())))?;
        Ok(Self { path: path.to_owned() })
    }
}

impl Provider for Folder {
    fn name(&self) -> &'static str {
        "dry-run"
    }

    fn payload(&self, mail: &Mail) -> Result<String, String> {
        Ok(message::encode(mail))
    }

    fn connections(&self) -> usize {
        1
    }

    fn connection(&self) -> Box<dyn Connection + '_> {
        Box::new(Files(&self.path))
    }

    fn check(&self) -> Result<Option<String>, String> {
        Ok(None)
    }
}

struct Files<'a>(&'a Path);

impl Connection for Files<'_> {
    fn deliver(&mut self, sealed: &Sealed, payload: &str, _: &dyn Progress) -> Verdict {
        let path = self.0.join(format!("{}.eml", sealed.key));
        match fs::write(&path, payload) {
            // Written again, the file is the same: a file is never in doubt.
            Ok(()) => Verdict::Sent(Receipt::default()),
            Err(error) => Verdict::Unavailable {
                after: None,
                reason: format!("{} cannot be written: {error}", self.0.display()),
            },
        }
    }
}
