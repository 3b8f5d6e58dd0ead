//! The sorted file of accepted keys that are not recent,
//! so that memory holds a limited number of them.
//!
//! It consists of pages of 4096 bytes: up to 170 keys in ascending order (16 bytes, big-endian),
//! each with the time when it expires (8 bytes, big-endian, seconds since 1970); zeros; a CRC-32 (4
//! bytes, big-endian). A table is never changed: the next one takes its place, with the next
//! number. The journal says which table counts, how many keys it has and when the last one expires.
//!
//! A page that cannot be read or is not what was written is an error: a key that is in it must not
//! count as unknown.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::files::{beside, folder, open};
use crate::key::Key;

const PAGE: usize = 4096;
const KEY: usize = 16;
const RECORD: usize = KEY + 8;
/// The checksum is the last thing of a page.
const CHECKED: usize = PAGE - 4;
const RECORDS: usize = CHECKED / RECORD;

/// What the journal says of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) number: u64,
    pub(super) keys: u64,
    pub(super) expires_at: i64,
}

impl Name {
    fn path(&self, journal: &Path) -> PathBuf {
        beside(journal, &format!("{ENDING}{}", self.number))
    }

    fn pages(&self) -> u64 {
        self.keys.div_ceil(RECORDS as u64)
    }
}

/// How the name of a table ends, before its number.
const ENDING: &str = "table-";

/// An open table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: Name,
    file: File,
}

impl Table {
    /// Opens the table of a journal and reads it once, so that damage shows before the first mail.
    pub(super) fn open(journal: &Path, name: Name) -> io::Result<Self> {
        let path = name.path(journal);
        let file = File::open(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let table = Self { name, file };
        if table.file.metadata()?.len() != name.pages() * PAGE as u64 {
            return Err(table.damaged());
        }
        (0..name.pages()).try_for_each(|page| table.page(page).map(|_| ()))?;
        Ok(table)
    }

    /// What is in it is for its owner alone.
    pub(super) fn restrict(&self) -> io::Result<()> {
        self.file.set_permissions(fs::Permissions::from_mode(0o600))
    }

    /// Writes the keys of a table and of memory that are of use to the next table, which counts
    /// once the journal names it.
    pub(super) fn write(
        journal: &Path,
        before: Option<&Self>,
        recent: &BTreeMap<Key, i64>,
        is_of_use: impl Fn(i64) -> bool,
    ) -> io::Result<Self> {
        let number = before.map_or(1, |before| before.name.number + 1);
        let mut pages = Pages {
            name: Name { number, keys: 0, expires_at: i64::MIN },
            file: BufWriter::new(open(
                &Name { number, keys: 0, expires_at: 0 }.path(journal),
                true,
            )?),
            page: Vec::with_capacity(PAGE),
            written: 0,
        };
        let mut recent = recent.iter().filter(|(_, expires_at)| is_of_use(**expires_at)).peekable();
        for page in 0..before.map_or(0, |before| before.name.pages()) {
            let Some(before) = before else { break };
            let page = before.page(page)?;
            for record in page.records() {
                let (key, expires_at) = read(record);
                while let Some((key, expires_at)) = recent.next_if(|(recent, _)| **recent < key) {
                    pages.push(*key, *expires_at)?;
                }
                if is_of_use(expires_at) {
                    pages.push(key, expires_at)?;
                }
            }
        }
        recent.try_for_each(|(key, expires_at)| pages.push(*key, *expires_at))?;
        pages.end()
    }

    /// Whether a key is in it.
    pub(super) fn contains(&self, key: Key) -> io::Result<bool> {
        let pages = self.name.pages();
        let wanted = key.number().to_be_bytes();
        // Keys are values of a hash function, so that a key's place is near where its first bytes
        // say. From there it is searched in growing steps, and then by halves.
        let first_bytes =
            u128::from(u64::from_be_bytes(*wanted.first_chunk().expect("a key has 16 bytes")));
        let guess = (first_bytes * u128::from(pages)) >> 64;
        let mut low = 0;
        let mut high = pages;
        let mut step = 1;
        let mut at = u64::try_from(guess).unwrap_or(u64::MAX);
        while low < high {
            let page = self.page(at)?;
            let records = page.records();
            let (Some(first), Some(last)) = (records.first(), records.last()) else {
                return Err(self.damaged());
            };
            let is_halving = 2 * step >= high - low;
            if wanted[..] < first[..KEY] {
                high = at;
                at = at.saturating_sub(step).max(low);
            } else if wanted[..] > last[..KEY] {
                low = at + 1;
                at = (at + step).min(high.saturating_sub(1));
            } else {
                return Ok(records.binary_search_by(|record| record[..KEY].cmp(&wanted)).is_ok());
            }
            if is_halving {
                at = low.midpoint(high);
            }
            step *= 2;
        }
        Ok(false)
    }

    /// Removes every table of a journal but this one.
    pub(super) fn remove_others(journal: &Path, current: Option<&Self>) -> io::Result<()> {
        let Some(prefix) =
            beside(journal, ENDING).file_name().map(|name| name.as_encoded_bytes().to_owned())
        else {
            return Ok(());
        };
        let kept = current.map(|table| table.name.path(journal));
        for entry in fs::read_dir(folder(journal))? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.as_encoded_bytes().strip_prefix(&prefix[..]);
            let is_table = number
                .is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit));
            if is_table && kept.as_deref().and_then(Path::file_name) != Some(&name) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn page(&self, page: u64) -> io::Result<Page> {
        let mut bytes = [0; PAGE];
        match self.file.read_exact_at(&mut bytes, page * PAGE as u64) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(self.damaged());
            }
            outcome => outcome?,
        }
        if bytes[CHECKED..] != checksum(self.name.number, page, &bytes[..CHECKED]) {
            return Err(self.damaged());
        }
        let keys = self.name.keys.saturating_sub(page * RECORDS as u64);
        Ok(Page { bytes, keys: usize::try_from(keys).unwrap_or(RECORDS).min(RECORDS) })
    }

    fn damaged(&self) -> io::Error {
        let number = self.name.number;
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "its file {ENDING}{number} is damaged; \
                 without it, mails that were accepted may be sent again"
            ),
        )
    }
}

struct Page {
    bytes: [u8; PAGE],
    keys: usize,
}

impl Page {
    fn records(&self) -> &[[u8; RECORD]] {
        &self.bytes[..CHECKED].as_chunks().0[..self.keys]
    }
}

fn read(record: &[u8; RECORD]) -> (Key, i64) {
    let (key, expires_at) = record.split_first_chunk().expect("a record begins with a key");
    let expires_at = expires_at.first_chunk().expect("and goes on with a time");
    (Key::of_number(u128::from_be_bytes(*key)), i64::from_be_bytes(*expires_at))
}

/// A table that is being written.
struct Pages {
    name: Name,
    file: BufWriter<File>,
    page: Vec<u8>,
    written: u64,
}

impl Pages {
    fn push(&mut self, key: Key, expires_at: i64) -> io::Result<()> {
        self.page.extend(key.number().to_be_bytes());
        self.page.extend(expires_at.to_be_bytes());
        self.name.keys += 1;
        self.name.expires_at = self.name.expires_at.max(expires_at);
        if self.page.len() == RECORDS * RECORD { self.end_page() } else { Ok(()) }
    }

    fn end_page(&mut self) -> io::Result<()> {
        self.page.resize(CHECKED, 0);
        self.page.extend(checksum(self.name.number, self.written, &self.page));
        self.file.write_all(&self.page)?;
        self.page.clear();
        self.written += 1;
        Ok(())
    }

    fn end(mut self) -> io::Result<Table> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        let file = self.file.into_inner()?;
        file.sync_all()?;
        Ok(Table { name: self.name, file })
    }
}

/// Of the bytes of a page and its place, so that a page of another table or place does not fit. Not
/// against forgery: who can write to the file can as well remove it.
fn checksum(number: u64, page: u64, bytes: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    for part in [&number.to_be_bytes()[..], &page.to_be_bytes(), bytes] {
        hasher.update(part);
    }
    hasher.finalize().to_be_bytes()
}
