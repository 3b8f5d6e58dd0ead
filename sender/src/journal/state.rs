//! The file of a journal and what it holds, in memory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::Known;
use super::files::{beside, folder, open};
use super::record;
use super::replay::Contents;
use super::table::Table;
use crate::doubt::Doubt;
use crate::key::Key;
use crate::provider::PreparedMail;

/// A file below this size is not rewritten.
const SMALLEST_REWRITTEN: u64 = 1 << 20;

/// How long an accepted key is remembered after its token has expired, in seconds: clocks differ.
pub(super) const GRACE: i64 = 300;

/// A mail that nobody has accepted yet.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) prepared: Arc<PreparedMail>,
    pub(super) expires_at: i64,
    pub(super) mail: Span,
    pub(super) bound: Option<String>,
    pub(super) doubt: Doubt,
}

/// Where the text of a mail is in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) length: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) file: Arc<File>,
    /// Where the next record goes: behind the last whole one.
    pub(super) end: u64,
    /// How much of the file the disk has, and how much of that the file itself says.
    synced: u64,
    marked: u64,
    pub(super) tried: BTreeMap<Key, Tried>,
    /// When the keys of mails that were accepted lately expire.
    pub(super) accepted: BTreeMap<Key, i64>,
    /// How many of them there may be.
    most_accepted: usize,
    /// The keys of the others.
    pub(super) table: Option<Table>,
    /// Whether the file has got its name and the disk may not know that.
    is_renamed: bool,
    /// Texts of accepted mails that are still to be overwritten.
    pub(super) to_erase: Vec<Span>,
    /// How many bytes the records take that are still of use.
    pub(super) used: u64,
}

impl State {
    pub(super) fn open(
        path: &Path,
        file: File,
        contents: Contents,
        most_accepted: usize,
        now: i64,
    ) -> io::Result<Self> {
        let Contents { tried, accepted, table } = contents;
        let mut state = Self {
            file: Arc::new(file),
            end: 0,
            synced: 0,
            marked: 0,
            tried,
            accepted,
            most_accepted,
            table,
            is_renamed: false,
            to_erase: Vec::new(),
            used: 0,
        };
        if let Some(table) = &state.table {
            table.restrict()?;
        }
        // At every start: texts that a kill kept from being overwritten go away with the damaged
        // records, and tables that it left.
        state.rewrite(path, now)?;
        Table::remove_others(path, state.table.as_ref())?;
        Ok(state)
    }

    pub(super) fn known(&self, key: Key) -> io::Result<Option<Known>> {
        if let Some(Tried { prepared, bound, doubt, .. }) = self.tried.get(&key) {
            return Ok(Some(Known::Tried {
                prepared: Arc::clone(prepared),
                bound: bound.clone(),
                doubt: *doubt,
            }));
        }
        let is_accepted = self.accepted.contains_key(&key)
            || match &self.table {
                Some(table) => table.contains(key)?,
                None => false,
            };
        Ok(is_accepted.then_some(Known::Accepted))
    }

    pub(super) fn unbind(&mut self, key: Key) {
        if let Some(tried) = self.tried.get_mut(&key) {
            tried.bound = None;
        }
    }

    /// Appends whole records or nothing.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<u64> {
        let mark = if self.synced > self.marked { record::synced(self.synced) } else { Vec::new() };
        if let Err(error) = self.file.write_all_at(&[&mark, line].concat(), self.end) {
            // If this fails, the next record overwrites the half one, or a start leaves it out.
            self.file.set_len(self.end).ok();
            return Err(error);
        }
        let offset = self.end + mark.len() as u64;
        self.end = offset + line.len() as u64;
        self.marked = self.synced;
        Ok(offset)
    }

    /// What is to be synced, if anything is, how far it goes,
    /// and how many mails may be overwritten then.
    pub(super) fn begin_sync(
        &mut self,
        path: &Path,
    ) -> io::Result<(Option<Arc<File>>, u64, usize)> {
        self.sync_folder(path)?;
        let file = (self.end > self.synced).then(|| Arc::clone(&self.file));
        Ok((file, self.end, self.to_erase.len()))
    }

    /// The disk has the file up to `end`.
    pub(super) fn end_sync(
        &mut self,
        path: &Path,
        end: u64,
        erasable: usize,
        now: i64,
    ) -> io::Result<()> {
        self.synced = end;
        for span in &self.to_erase[..erasable] {
            let blank = vec![record::ERASED; usize::try_from(span.length).unwrap_or_default()];
            self.file.write_all_at(&blank, span.offset)?;
        }
        self.to_erase.drain(..erasable);
        let is_mostly_useless = self.end > SMALLEST_REWRITTEN && self.end / 2 > self.used;
        let is_to_rewrite = is_mostly_useless || self.accepted.len() >= self.most_accepted;
        // The old file is as good as the new one, so that a full disk is no reason to stop.
        if is_to_rewrite && let Err(error) = self.rewrite(path, now) {
            // Half a file keeps the room that records need.
            if !self.is_renamed {
                fs::remove_file(beside(path, "new")).ok();
                Table::remove_others(path, self.table.as_ref()).ok();
            }
            // The keys of a page that cannot be read must stay known, so that nothing is sent until
            // somebody has looked.
            if error.kind() == io::ErrorKind::InvalidData {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits until the disk knows that the file has its name.
    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        if self.is_renamed {
            File::open(folder(path))?.sync_all()?;
            self.is_renamed = false;
        }
        Ok(())
    }

    /// Writes the records that are still of use to a new file,
    /// which takes the place of the old one.
    fn rewrite(&mut self, path: &Path, now: i64) -> io::Result<()> {
        let is_of_use = |expires_at: i64| expires_at.saturating_add(GRACE) >= now;
        self.tried.retain(|_, tried| is_of_use(tried.expires_at));
        self.accepted.retain(|_, expires_at| is_of_use(*expires_at));
        let table = self.table.as_ref().filter(|table| is_of_use(table.name.expires_at));
        let next = if self.accepted.len() >= self.most_accepted {
            // Also after one that is of no use, whose number the journal on the disk still has.
            let next = Table::write(path, self.table.as_ref(), &self.accepted, is_of_use)?;
            File::open(folder(path))?.sync_all()?;
            Some(next)
        } else {
            None
        };
        let new_path = beside(path, "new");
        let mut file = BufWriter::new(open(&new_path, true)?);
        let mut end = 0;
        let mut write = |line: &[u8]| {
            let offset = end;
            end += line.len() as u64;
            file.write_all(line).map(|()| offset)
        };
        write(record::HEADER)?;
        let mut spans = Vec::new();
        for (key, Tried { prepared, expires_at, bound, doubt, .. }) in &self.tried {
            let (line, mail) = record::tried(*key, *expires_at, prepared);
            let offset = write(&line)?;
            spans.push(Span { offset: offset + mail.start as u64, length: mail.len() as u64 });
            match bound {
                Some(provider) if *provider == prepared.provider => {}
                Some(provider) => _ = write(&record::bound(*key, provider))?,
                None => _ = write(&record::free(*key))?,
            }
            if doubt.count > 0 {
                write(&record::doubt(*key, *doubt))?;
            }
        }
        if let Some(table) = next.as_ref().or(table) {
            write(&record::table(table.name))?;
        }
        for (key, expires_at) in self.accepted.iter().filter(|_| next.is_none()) {
            write(&record::accepted(*key, *expires_at))?;
        }
        let length = write(b"")?;
        write(&record::synced(length))?;
        let file = file.into_inner()?;
        file.sync_all()?;
        fs::rename(&new_path, path)?;
        // From now on this is the file, whatever fails.
        self.is_renamed = true;
        for (tried, span) in self.tried.values_mut().zip(spans) {
            tried.mail = span;
        }
        self.file = Arc::new(file);
        self.end = end;
        self.used = self.end;
        self.synced = self.end;
        self.marked = self.end;
        self.to_erase.clear();
        let before = self.table.as_ref().map(|table| table.name);
        if next.is_some() {
            self.accepted.clear();
            self.table = next;
        } else {
            self.table.take_if(|table| !is_of_use(table.name.expires_at));
        }
        self.sync_folder(path)?;
        if self.table.as_ref().map(|table| table.name) != before {
            Table::remove_others(path, self.table.as_ref())?;
        }
        Ok(())
    }
}
