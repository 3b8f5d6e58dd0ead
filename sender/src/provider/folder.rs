//! `--dry-run`: mails become files instead of being sent. Their links are good, so that they are
//! for their owner alone.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mailroom_mail::Error;

use super::{Connection, PreparedMail, Progress, Provider, Receipt, Verdict};
use crate::mail::Mail;
use crate::message;

/// A folder that gets a file for each mail, named by its key.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Result<Self, Error> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
            Error::failure(format!("{} cannot be made: {error}", path.display()))
        })?;
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

    fn timeout(&self) -> Option<Duration> {
        None
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
    fn deliver(&mut self, prepared: &PreparedMail, payload: &str, _: &dyn Progress) -> Verdict {
        let path = self.0.join(format!("{}.eml", prepared.key));
        match write(&path, payload) {
            // Written again, the file is the same: a file is never in doubt.
            Ok(()) => Verdict::Sent(Receipt::default()),
            Err(error) => Verdict::Unavailable {
                after: None,
                reason: format!("{} cannot be written: {error}", self.0.display()),
            },
        }
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // One that was there before may be for everybody.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn mails_are_for_their_owner_alone() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("new/mails");
        Folder::new(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        let file = path.join("1.eml");
        fs::write(&file, "a longer text that is for everybody").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        write(&file, "a mail").unwrap();
        write(&path.join("2.eml"), "a mail").unwrap();
        assert_eq!([mode(&file), mode(&path.join("2.eml"))], [0o600; 2]);
        assert_eq!(fs::read_to_string(&file).unwrap(), "a mail");
    }
}
