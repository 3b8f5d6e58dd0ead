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
//! Keys of accepted mails are in memory until there are many, and then in a sorted file beside the journal (`table`). That file is on
//! the disk before the journal names it, in the step in which the keys leave the journal; the one before it is removed afterwards.
//!
//! Where there are two providers, the file also says which one may have accepted a mail, before that one is tried: only that one is
//! tried again, until it has certainly not accepted it.
//!
//! The first record after a wait for the disk stands behind the word `synced`. Records behind the last one were not relied upon before
//! a kill or a crash of the machine; those that it damaged are left out. A damaged line before a `synced` is an error.

mod files;
mod record;
mod replay;
mod table;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;
use crate::protocol::Key;
use crate::provider::Sealed;
use files::{beside, folder, lock, open, unusable};
use replay::Contents;
use table::Table;

/// A file below this size is not rewritten.
const SMALLEST_REWRITTEN: u64 = 1 << 20;

/// So many accepted keys in memory become part of the table: 3 MB.
const MOST_RECENT: usize = 1 << 16;

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
    /// When the keys of mails that were accepted lately expire.
    accepted: BTreeMap<Key, i64>,
    /// How many of them there may be.
    most_accepted: usize,
    /// The keys of the others.
    table: Option<Table>,
    /// Whether the file has got its name and the disk may not know that.
    is_renamed: bool,
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
        Self::open_with(path, now, MOST_RECENT)
    }

    fn open_with(path: &Path, now: i64, most_accepted: usize) -> Result<Self, Error> {
        let lock = lock(path)?;
        let failed = |error| unusable(path, &error);
        let file = open(path, false).map_err(failed)?;
        // Made by somebody else or copied: what is in it is for its owner alone.
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let Contents { tried, accepted, table } = Contents::read(path, &file)?;
        let mut journal = Self {
            path: path.to_owned(),
            file,
            end: 0,
            is_dirty: false,
            is_marked: true,
            tried,
            accepted,
            most_accepted,
            table,
            is_renamed: false,
            to_erase: Vec::new(),
            used: 0,
            _lock: lock,
        };
        // At every start: texts that a kill kept from being overwritten go away with the damaged records, and tables that it left.
        journal
            .rewrite(now)
            .and_then(|()| Table::remove_others(path, journal.table.as_ref()))
            .map_err(|error| unusable(path, &error))?;
        Ok(journal)
    }

    /// Whether files can be made where the journal is, also while another process has it.
    pub(crate) fn check(path: &Path) -> Result<(), Error> {
        let lock_path = beside(path, "lock");
        open(&lock_path, false).map(|_| ()).map_err(|error| unusable(&lock_path, &error))
    }

    /// What is known of a key.
    ///
    /// # Errors
    /// If that cannot be known, and nothing may be sent therefore.
    pub(crate) fn known(&self, key: Key) -> Result<Option<Known>, Error> {
        if let Some(Tried { sealed, bound, .. }) = self.tried.get(&key) {
            return Ok(Some(Known::Tried { sealed: Arc::clone(sealed), bound: bound.clone() }));
        }
        let is_accepted = self.accepted.contains_key(&key)
            || match &self.table {
                Some(table) => table.contains(key).map_err(|error| unusable(&self.path, &error))?,
                None => false,
            };
        Ok(is_accepted.then_some(Known::Accepted))
    }

    /// The mail of a key that nobody has accepted yet.
    pub(crate) fn sealed(&self, key: Key) -> Option<Arc<Sealed>> {
        self.tried.get(&key).map(|tried| Arc::clone(&tried.sealed))
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
        let named = self.sync_folder();
        let failed = |error| unusable(&self.path, &error);
        named.map_err(failed)?;
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
        let is_mostly_useless = self.end > SMALLEST_REWRITTEN && self.end / 2 > self.used;
        let is_to_rewrite = is_mostly_useless || self.accepted.len() >= self.most_accepted;
        // The old file is as good as the new one, so that a full disk is no reason to stop.
        if is_to_rewrite && let Err(error) = self.rewrite(now) {
            // Half a file keeps the room that records need.
            if !self.is_renamed {
                fs::remove_file(beside(&self.path, "new")).ok();
                Table::remove_others(&self.path, self.table.as_ref()).ok();
            }
            // The keys of a page that cannot be read must stay known, so that nothing is sent until somebody has looked.
            if error.kind() == io::ErrorKind::InvalidData {
                return Err(unusable(&self.path, &error));
            }
        }
        Ok(())
    }

    /// Waits until the disk knows that the file has its name.
    fn sync_folder(&mut self) -> io::Result<()> {
        if self.is_renamed {
            File::open(folder(&self.path))?.sync_all()?;
            self.is_renamed = false;
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
        let table = self.table.as_ref().filter(|table| is_of_use(table.name.expires_at));
        let next = if self.accepted.len() >= self.most_accepted {
            // Also after one that is of no use, whose number the journal on the disk still has.
            let next = Table::write(&self.path, self.table.as_ref(), &self.accepted, is_of_use)?;
            File::open(folder(&self.path))?.sync_all()?;
            Some(next)
        } else {
            None
        };
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
        if let Some(table) = next.as_ref().or(table) {
            write(&record::table(table.name))?;
        }
        for (key, expires_at) in self.accepted.iter().filter(|_| next.is_none()) {
            write(&record::accepted(*key, *expires_at))?;
        }
        write(record::SYNCED)?;
        let file = file.into_inner()?;
        file.sync_all()?;
        fs::rename(&new_path, &self.path)?;
        // From now on this is the file, whatever fails.
        self.is_renamed = true;
        for (tried, span) in self.tried.values_mut().zip(spans) {
            tried.mail = span;
        }
        self.file = file;
        self.end = end;
        self.used = self.end;
        self.is_dirty = false;
        self.is_marked = true;
        self.to_erase.clear();
        let before = self.table.as_ref().map(|table| table.name);
        if next.is_some() {
            self.accepted.clear();
            self.table = next;
        } else {
            self.table.take_if(|table| !is_of_use(table.name.expires_at));
        }
        self.sync_folder()?;
        if self.table.as_ref().map(|table| table.name) != before {
            Table::remove_others(&self.path, self.table.as_ref())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
