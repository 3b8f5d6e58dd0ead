//! The journal: what is sent under a key, fixed at its first attempt, and which keys were accepted.
//!
//! Not everything that is sent follows from the token: templates and sender change with the configuration, the date with the clock,
//! and the token's own text with a rotation of the signing key. A provider that compares what comes under an idempotency key would
//! refuse the second attempt then. So the first attempt writes the whole mail down, and later ones read it.
//!
//! The file is append-only, with one exception: when a mail is accepted, its text, which holds the token, is overwritten at once.
//! The order of steps is what a kill at any point relies on:
//!
//! 1. A mail is on the disk before its first attempt.
//! 2. That it was accepted is on the disk before its text is overwritten and before the collector hears of it. Until a key expires,
//!    it is answered from here instead of being sent again.
//! 3. A new file takes the place of an old one in one step (`rename`), when most of the old one is of no use any more.
//!
//! Where there are two providers, the file also says which one may have accepted a mail, before that one is tried: only that one is
//! tried again, until it has certainly not accepted it.
//!
//! The first record after a wait for the disk stands behind the word `synced`. Records behind the last one were not relied upon before
//! a kill or a crash of the machine; those that it damaged are left out. A damaged line before a `synced` is an error.

mod record;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;
use crate::protocol::Key;
use crate::provider::Sealed;
use record::Record;

/// A file below this size is not rewritten.
const SMALLEST_REWRITTEN: u64 = 1 << 20;

/// How long another process may still hold the journal: the collector starts a sender when the last one has been killed, which
/// ends a moment later.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long an accepted key is remembered after its token has expired, in seconds: clocks differ.
const GRACE: i64 = 300;

/// What is known of a key.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// It was tried, and is to be sent like this.
    Tried {
        /// The mail.
        sealed: Arc<Sealed>,
        /// The provider that may have accepted it.
        bound: Option<String>,
    },
    /// It was accepted.
    Accepted,
}

/// A mail that nobody has accepted yet.
#[derive(Debug)]
struct Tried {
    sealed: Arc<Sealed>,
    expires_at: i64,
    mail: Span,
    bound: Option<String>,
}

/// Where the text of a mail is in the file.
#[derive(Clone, Copy, Debug)]
struct Span {
    offset: u64,
    length: u64,
}

/// The open journal of this process.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    /// Where the next record goes: behind the last whole one.
    end: u64,
    /// What has been appended since the last [`sync`](Self::sync).
    is_dirty: bool,
    /// Whether something has been appended since, and `synced` before it.
    is_marked: bool,
    tried: BTreeMap<Key, Tried>,
    /// When the keys of accepted mails expire: all that memory holds of a mail then, in a tree, which grows by small steps.
    accepted: BTreeMap<Key, i64>,
    /// Texts of accepted mails that are still to be overwritten.
    to_erase: Vec<Span>,
    /// How many bytes the records take that are still of use.
    used: u64,
    /// Held as long as this process has the journal.
    _lock: File,
}

impl Journal {
    /// Opens a journal, or makes a new one; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Another process that has it, a file that cannot be read or written, or that is no journal.
    pub(crate) fn open(path: &Path, now: i64) -> Result<Self, Error> {
        let lock = lock(path)?;
        let failed = |error| unusable(path, &error);
        let file = open(path, false).map_err(failed)?;
        // Made by somebody else or copied: what is in it is for its owner alone.
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let (mut tried, mut accepted) = (BTreeMap::<_, Tried>::new(), BTreeMap::new());
        let (mut erased, mut damaged) = (BTreeMap::new(), None);
        let mut lines = BufReader::new(&file);
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).map_err(failed)?;
        if !record::HEADER.starts_with(&line) {
            return Err(Error::configuration(format!(
                "{} is not a journal of this version of mailroom send",
                path.display()
            )));
        }
        for number in 2_u64.. {
            line.clear();
            if lines.read_until(b'\n', &mut line).map_err(failed)? == 0 {
                break;
            }
            match record::parse(&line) {
                Some(Record::Tried { key, expires_at, sealed }) => {
                    let sealed = Arc::new(Sealed { key, ..sealed });
                    let (mail, bound) = (Span { offset: 0, length: 0 }, Some(sealed.provider.clone()));
                    erased.remove(&key);
                    accepted.remove(&key);
                    tried.insert(key, Tried { sealed, expires_at, mail, bound });
                }
                Some(Record::Erased { key }) => _ = erased.insert(key, number),
                Some(Record::Bound { key, provider }) => {
                    if let Some(tried) = tried.get_mut(&key) {
                        tried.bound = Some(provider);
                    }
                }
                Some(Record::Free { key }) => {
                    if let Some(tried) = tried.get_mut(&key) {
                        tried.bound = None;
                    }
                }
                Some(Record::Accepted { key, expires_at }) => {
                    erased.remove(&key);
                    tried.remove(&key);
                    accepted.insert(key, expires_at);
                }
                Some(Record::GivenUp { key }) => {
                    erased.remove(&key);
                    tried.remove(&key);
                    accepted.remove(&key);
                }
                Some(Record::Synced) => {
                    if let Some(number) = damaged {
                        return Err(damaged_line(path, number));
                    }
                }
                None => damaged = damaged.or(Some(number)),
            }
        }
        // A mail is erased once the disk has what settles it.
        if let Some(number) = erased.into_values().min() {
            return Err(damaged_line(path, number));
        }
        let mut journal = Self {
            path: path.to_owned(),
            file,
            end: 0,
            is_dirty: false,
            is_marked: false,
            tried,
            accepted,
            to_erase: Vec::new(),
            used: 0,
            _lock: lock,
        };
        // At every start: texts that a kill kept from being overwritten go away with the damaged records.
        journal.rewrite(now).map_err(|error| unusable(path, &error))?;
        Ok(journal)
    }

    /// Whether files can be made where the journal is, also while another process has it.
    pub(crate) fn check(path: &Path) -> Result<(), Error> {
        let lock_path = beside(path, "lock");
        open(&lock_path, false).map(|_| ()).map_err(|error| unusable(&lock_path, &error))
    }

    /// What is known of a key.
    pub(crate) fn known(&self, key: Key) -> Option<Known> {
        if self.accepted.contains_key(&key) {
            return Some(Known::Accepted);
        }
        let Tried { sealed, bound, .. } = self.tried.get(&key)?;
        Some(Known::Tried { sealed: Arc::clone(sealed), bound: bound.clone() })
    }

    /// Fixes what is sent under a key, and that its provider is tried. It counts after the next [`sync`](Self::sync).
    pub(crate) fn fix(&mut self, sealed: Sealed, expires_at: i64) -> Result<Arc<Sealed>, Error> {
        let key = sealed.key;
        let (line, mail) = record::tried(key, expires_at, &sealed);
        let offset = self.append(&line)?;
        let mail = Span { offset: offset + mail.start as u64, length: mail.len() as u64 };
        let sealed = Arc::new(sealed);
        self.used += line.len() as u64;
        let bound = Some(sealed.provider.clone());
        let tried = Tried { sealed: Arc::clone(&sealed), expires_at, mail, bound };
        // Written for another provider: the new text takes its place.
        self.to_erase.extend(self.tried.insert(key, tried).map(|old| old.mail));
        Ok(sealed)
    }

    /// Forgets keys that were never tried, after [`sync`](Self::sync) failed for them.
    pub(crate) fn unfix(&mut self, keys: &[Key]) {
        for key in keys {
            self.tried.remove(key);
        }
    }

    /// Records that a provider is tried, which no other one may be after that. It counts after the next [`sync`](Self::sync).
    pub(crate) fn bind(&mut self, key: Key, provider: &str) -> Result<(), Error> {
        let Some(tried) = self.tried.get_mut(&key) else { return Ok(()) };
        tried.bound = Some(provider.to_owned());
        let outcome = self.append(&record::bound(key, provider));
        if outcome.is_err() {
            self.unbind(key);
        }
        outcome.map(|_| ())
    }

    /// Forgets who was to be tried, after [`sync`](Self::sync) failed.
    pub(crate) fn unbind(&mut self, key: Key) {
        if let Some(tried) = self.tried.get_mut(&key) {
            tried.bound = None;
        }
    }

    /// Records that nobody has accepted the mail of a key. If that cannot be recorded, only this process remembers it.
    pub(crate) fn free(&mut self, key: Key) -> Result<(), Error> {
        self.unbind(key);
        self.append(&record::free(key)).map(|_| ())
    }

    /// Records that the mail of a key was accepted. The next [`sync`](Self::sync) overwrites its text.
    ///
    /// # Errors
    /// If it cannot be recorded. This process remembers it nevertheless.
    pub(crate) fn accept(&mut self, key: Key) -> Result<(), Error> {
        let Some(Tried { expires_at, mail, .. }) = self.tried.remove(&key) else { return Ok(()) };
        self.accepted.insert(key, expires_at);
        self.used = self.used.saturating_sub(mail.length);
        self.append(&record::accepted(key, expires_at))?;
        self.to_erase.push(mail);
        Ok(())
    }

    /// Forgets a key whose mail never will be accepted, so that another attempt is a first one.
    pub(crate) fn give_up(&mut self, key: Key) -> Result<(), Error> {
        let Some(Tried { mail, .. }) = self.tried.remove(&key) else { return Ok(()) };
        self.used = self.used.saturating_sub(mail.length);
        self.append(&record::given_up(key))?;
        self.to_erase.push(mail);
        Ok(())
    }

    /// Waits until everything that was appended is on the disk, and overwrites what is to be forgotten.
    pub(crate) fn sync(&mut self, now: i64) -> Result<(), Error> {
        let failed = |error| unusable(&self.path, &error);
        if self.is_dirty {
            self.file.sync_data().map_err(failed)?;
            self.is_dirty = false;
            self.is_marked = false;
        }
        while let Some(span) = self.to_erase.last() {
            let blank = vec![record::ERASED; usize::try_from(span.length).unwrap_or_default()];
            self.file.write_all_at(&blank, span.offset).map_err(failed)?;
            self.to_erase.pop();
        }
        if self.end > SMALLEST_REWRITTEN && self.end / 2 > self.used {
            // The old file is as good as the new one, so that a full disk is no reason to stop.
            self.rewrite(now).ok();
        }
        Ok(())
    }

    /// Appends whole records or nothing.
    fn append(&mut self, line: &[u8]) -> Result<u64, Error> {
        let mark = if self.is_marked { &b""[..] } else { record::SYNCED };
        if let Err(error) = self.file.write_all_at(&[mark, line].concat(), self.end) {
            // If this fails, the next record overwrites the half one, or a start leaves it out.
            self.file.set_len(self.end).ok();
            return Err(unusable(&self.path, &error));
        }
        let offset = self.end + mark.len() as u64;
        self.end = offset + line.len() as u64;
        self.is_marked = true;
        self.is_dirty = true;
        Ok(offset)
    }

    /// Writes what is still of use to a new file, which takes the place of the old one.
    fn rewrite(&mut self, now: i64) -> io::Result<()> {
        let is_of_use = |expires_at: i64| expires_at.saturating_add(GRACE) >= now;
        self.tried.retain(|_, tried| is_of_use(tried.expires_at));
        self.accepted.retain(|_, expires_at| is_of_use(*expires_at));
        let new_path = beside(&self.path, "new");
        let mut file = BufWriter::new(open(&new_path, true)?);
        let mut end = 0;
        let mut write = |line: &[u8]| {
            let offset = end;
            end += line.len() as u64;
            file.write_all(line).map(|()| offset)
        };
        write(record::HEADER)?;
        let mut spans = Vec::new();
        for (key, Tried { sealed, expires_at, bound, .. }) in &self.tried {
            let (line, mail) = record::tried(*key, *expires_at, sealed);
            let offset = write(&line)?;
            spans.push(Span { offset: offset + mail.start as u64, length: mail.len() as u64 });
            match bound {
                Some(provider) if *provider == sealed.provider => {}
                Some(provider) => _ = write(&record::bound(*key, provider))?,
                None => _ = write(&record::free(*key))?,
            }
        }
        for (key, expires_at) in &self.accepted {
            write(&record::accepted(*key, *expires_at))?;
        }
        let file = file.into_inner()?;
        file.sync_all()?;
        fs::rename(&new_path, &self.path)?;
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?;
        }
        for (tried, span) in self.tried.values_mut().zip(spans) {
            tried.mail = span;
        }
        self.file = file;
        self.end = end;
        self.used = self.end;
        self.is_dirty = false;
        self.is_marked = false;
        self.to_erase.clear();
        Ok(())
    }
}

fn open(path: &Path, truncate: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(truncate).mode(0o600).open(path)
}

/// Takes the lock, for which there is a file of its own, because the journal's is replaced.
fn lock(path: &Path) -> Result<File, Error> {
    let lock_path = beside(path, "lock");
    let file = open(&lock_path, false).map_err(|error| unusable(&lock_path, &error))?;
    let end = Instant::now() + PATIENCE;
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > end {
            return Err(Error::failure(format!(
                "the journal {} is in use by another process; each collector's sender needs one of its own",
                path.display()
            )));
        }
        sleep(Duration::from_millis(20));
    }
    Ok(file)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::failure(format!("the journal {} cannot be used: {error}", path.display()))
}

fn damaged_line(path: &Path, number: u64) -> Error {
    Error::failure(format!(
        "the journal {} cannot be used: line {number} is damaged; without this file, what it knows as sent may be sent again",
        path.display()
    ))
}

#[cfg(test)]
mod tests;
