//! The files of a journal: their names, rights and lock.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use mailroom_mail::Error;
use rustix::fs::{Access, FlockOperation, flock};

/// How long another process may still hold the journal: the collector starts a sender when the last
/// one has been killed, which ends a moment later.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// Opens a file for its owner alone, or makes it.
pub(super) fn open(path: &Path, truncate: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(truncate).mode(0o600).open(path)
}

/// Takes the lock, for which there is a file of its own, because the journal's is replaced.
pub(super) fn lock(path: &Path) -> Result<File, Error> {
    let lock_path = beside(path, "lock");
    let file = open(&lock_path, false).map_err(|error| unusable(&lock_path, &error))?;
    let end = Instant::now() + LOCK_TIMEOUT;
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > end {
            return Err(Error::failure(format!(
                "the journal {} is in use by another process; \
                 each collector's sender needs one of its own",
                path.display()
            )));
        }
        sleep(Duration::from_millis(20));
    }
    Ok(file)
}

/// Looks whether the files of a journal could be opened and made, without doing so.
pub(super) fn check(path: &Path) -> Result<(), Error> {
    let is_allowed = |place: &Path, access: Access, named: &Path| {
        rustix::fs::access(place, access).map_err(|error| unusable(named, &error.into()))
    };
    let lock_path = beside(path, "lock");
    is_allowed(folder(path), Access::EXISTS | Access::WRITE_OK | Access::EXEC_OK, &lock_path)?;
    for file in [&lock_path, path] {
        if file.exists() {
            is_allowed(file, Access::READ_OK | Access::WRITE_OK, file)?;
        }
    }
    Ok(())
}

pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

pub(super) fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::failure(format!("the journal {} cannot be used: {error}", path.display()))
}
