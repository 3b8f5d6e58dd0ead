//! The journal: what is sent under a key, prepared at its first attempt, and which keys were
//! accepted.
//!
//! Not everything that is sent follows from the token: templates and sender change with the
//! configuration, the date with the clock, and the token's own text with a rotation of the signing
//! key. A provider that compares what comes under an idempotency key would refuse the second
//! attempt then. So the first attempt writes the whole mail down, and later ones read it.
//!
//! The file is append-only, with one exception: when a mail is accepted, its text, which holds the
//! token, is overwritten at once. The order of steps is what a kill at any point relies on:
//!
//! 1. A mail is on the disk before its first attempt.
//! 2. That it was accepted is on the disk before its text is overwritten and before the collector
//!    hears of it. Until a key expires, it is answered from here instead of being sent again.
//! 3. A new file takes the place of an old one in one step (`rename`), when most of the old one is
//!    of no use any more.
//!
//! Keys of accepted mails are in memory until there are many, and then in a sorted file beside the
//! journal (`table`). That file is on the disk before the journal names it, in the step in which
//! the keys leave the journal; the one before it is removed afterwards.
//!
//! Where there are two providers, the file also says which one may have accepted a mail, before
//! that one is tried: only that one is tried again, until it has certainly not accepted it.
//!
//! Beside the thread that decides, each thread that sends writes here what it alone knows: that an
//! attempt is from now on in doubt (`doubt`, with how many attempts are), before the provider may
//! have the mail, and that it was accepted, as soon as that was said. It does not wait for the
//! disk: what was written outlives a kill of this process, so that after one at most the mails of
//! open connections are in doubt, which a start knows. A crash of the machine can take back what
//! was written since the last wait for the disk: a mail whose acceptance or doubt is gone then is
//! sent again. None is lost; at most those are doubled.
//!
//! `synced N` says that the first N bytes of the file were on the disk when it was written. Records
//! behind those were not relied upon before a kill or a crash of the machine; those that it damaged
//! are left out. A damaged line before is an error.

mod files;
mod record;
mod replay;
mod state;
mod table;

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mailroom_mail::Error;

use crate::doubt::Doubt;
use crate::key::Key;
use crate::provider::PreparedMail;
use files::{lock, open, unusable};
use replay::Contents;
use state::{Span, State, Tried};

/// So many accepted keys in memory become part of the table: 3 MB.
const MAX_RECENT: usize = 1 << 16;

/// What is known of a key.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// It was tried, and is to be sent like this.
    Tried {
        /// The mail.
        prepared: Arc<PreparedMail>,
        /// The provider that may have accepted it.
        bound: Option<String>,
        /// How many attempts are in doubt.
        doubt: Doubt,
    },
    /// It was accepted.
    Accepted,
}

/// The open journal of this process. Any thread may write to it; one waits for the disk.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    state: Mutex<State>,
    /// Held as long as this process has the journal.
    _lock: File,
}

impl Journal {
    /// Opens a journal, or makes a new one; `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Another process that has it, a file that cannot be read or written, or that is no journal.
    pub(crate) fn open(path: &Path, now: i64) -> Result<Self, Error> {
        Self::open_with(path, now, MAX_RECENT)
    }

    fn open_with(path: &Path, now: i64, most_accepted: usize) -> Result<Self, Error> {
        let lock = lock(path)?;
        let failed = |error| unusable(path, &error);
        let file = open(path, false).map_err(failed)?;
        // Made by somebody else or copied: what is in it is for its owner alone.
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let contents = Contents::read(path, &file)?;
        let state = State::open(path, file, contents, most_accepted, now).map_err(failed)?;
        Ok(Self { path: path.to_owned(), state: Mutex::new(state), _lock: lock })
    }

    /// Reads a journal as a start would, and looks whether it could be written. Makes and changes
    /// nothing, also while another process has it.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), except that another process has it.
    pub(crate) fn check(path: &Path) -> Result<(), Error> {
        files::check(path)?;
        for is_last in [false, true] {
            let file = match File::open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                Err(error) => return Err(unusable(path, &error)),
            };
            match Contents::read(path, &file) {
                Ok(_) => break,
                // Another process may have put a new file in its place meanwhile.
                Err(error) if is_last => return Err(error),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// What is known of a key.
    ///
    /// # Errors
    /// If that cannot be known, and nothing may be sent therefore.
    pub(crate) fn known(&self, key: Key) -> Result<Option<Known>, Error> {
        self.state().known(key).map_err(|error| unusable(&self.path, &error))
    }

    /// The mail of a key that nobody has accepted yet.
    pub(crate) fn prepared(&self, key: Key) -> Option<Arc<PreparedMail>> {
        self.state().tried.get(&key).map(|tried| Arc::clone(&tried.prepared))
    }

    /// How many attempts of a key are in doubt.
    pub(crate) fn doubt(&self, key: Key) -> Doubt {
        self.state().tried.get(&key).map(|tried| tried.doubt).unwrap_or_default()
    }

    /// Records what is sent under a key, and that its provider is tried. It counts after the next
    /// [`sync`](Self::sync).
    pub(crate) fn record_prepared(
        &self,
        prepared: PreparedMail,
        expires_at: i64,
    ) -> Result<Arc<PreparedMail>, Error> {
        let key = prepared.key;
        let mut state = self.state();
        let (mut line, mail) = record::tried(key, expires_at, &prepared);
        // Written for another provider: the new text takes its place, and what is in doubt stays
        // so, also where the record of that is read after the old text was overwritten.
        let doubt = state.tried.get(&key).map(|old| old.doubt).unwrap_or_default();
        if doubt.count > 0 {
            line.extend(record::doubt(key, doubt));
        }
        let offset = self.append(&mut state, &line)?;
        let mail = Span { offset: offset + mail.start as u64, length: mail.len() as u64 };
        let prepared = Arc::new(prepared);
        state.used += line.len() as u64;
        let bound = Some(prepared.provider.clone());
        let old = state.tried.remove(&key);
        state
            .tried
            .insert(key, Tried { prepared: Arc::clone(&prepared), expires_at, mail, bound, doubt });
        state.to_erase.extend(old.map(|old| old.mail));
        Ok(prepared)
    }

    /// Forgets keys that were never tried, after [`sync`](Self::sync) failed for them.
    pub(crate) fn forget_prepared(&self, keys: &[Key]) {
        let mut state = self.state();
        for key in keys {
            state.tried.remove(key);
        }
    }

    /// Records that a provider is tried, which no other one may be after that. It counts after the
    /// next [`sync`](Self::sync).
    pub(crate) fn bind(&self, key: Key, provider: &str) -> Result<(), Error> {
        let mut state = self.state();
        let Some(tried) = state.tried.get_mut(&key) else { return Ok(()) };
        tried.bound = Some(provider.to_owned());
        let outcome = self.append(&mut state, &record::bound(key, provider));
        if outcome.is_err() {
            state.unbind(key);
        }
        outcome.map(|_| ())
    }

    /// Forgets who was to be tried, after [`sync`](Self::sync) failed.
    pub(crate) fn unbind(&self, key: Key) {
        self.state().unbind(key);
    }

    /// Records that nobody has accepted the mail of a key. If that cannot be recorded, only this
    /// process remembers it.
    pub(crate) fn free(&self, key: Key) -> Result<(), Error> {
        let mut state = self.state();
        state.unbind(key);
        self.append(&mut state, &record::free(key)).map(|_| ())
    }

    /// Records how many attempts of a key are in doubt from now on. It counts at once, except for a
    /// crash of the machine.
    ///
    /// # Errors
    /// If it cannot be recorded; then it is as it was.
    pub(crate) fn set_doubt(&self, key: Key, doubt: Doubt) -> Result<(), Error> {
        let mut state = self.state();
        let Some(tried) = state.tried.get(&key) else { return Ok(()) };
        if tried.doubt == doubt {
            return Ok(());
        }
        self.append(&mut state, &record::doubt(key, doubt))?;
        if let Some(tried) = state.tried.get_mut(&key) {
            tried.doubt = doubt;
        }
        Ok(())
    }

    /// Records that the mail of a key was accepted.
    /// The next [`sync`](Self::sync) overwrites its text.
    ///
    /// # Errors
    /// If it cannot be recorded. This process remembers it nevertheless.
    pub(crate) fn accept(&self, key: Key) -> Result<(), Error> {
        let mut state = self.state();
        let Some(Tried { expires_at, mail, .. }) = state.tried.remove(&key) else { return Ok(()) };
        state.accepted.insert(key, expires_at);
        state.used = state.used.saturating_sub(mail.length);
        self.append(&mut state, &record::accepted(key, expires_at))?;
        state.to_erase.push(mail);
        Ok(())
    }

    /// Forgets a key whose mail never will be accepted, so that another attempt is a first one.
    pub(crate) fn give_up(&self, key: Key) -> Result<(), Error> {
        let mut state = self.state();
        let Some(Tried { mail, .. }) = state.tried.remove(&key) else { return Ok(()) };
        state.used = state.used.saturating_sub(mail.length);
        self.append(&mut state, &record::given_up(key))?;
        state.to_erase.push(mail);
        Ok(())
    }

    /// Waits until everything that was appended is on the disk, and overwrites what is to be
    /// forgotten. Others append meanwhile. One thread alone calls this.
    pub(crate) fn sync(&self, now: i64) -> Result<(), Error> {
        let failed = |error| unusable(&self.path, &error);
        let (file, end, erasable) = self.state().begin_sync(&self.path).map_err(failed)?;
        if let Some(file) = file {
            file.sync_data().map_err(failed)?;
        }
        self.state().end_sync(&self.path, end, erasable, now).map_err(failed)
    }

    fn append(&self, state: &mut State, line: &[u8]) -> Result<u64, Error> {
        state.append(line).map_err(|error| unusable(&self.path, &error))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
