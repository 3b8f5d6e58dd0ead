//! Reading a journal: what is known after all of its records.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use mailroom_mail::Error;

use super::files::unusable;
use super::record::{self, Record};
use super::state::{Span, Tried};
use super::table::Table;
use crate::key::Key;
use crate::provider::PreparedMail;

/// What a journal holds.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) tried: BTreeMap<Key, Tried>,
    pub(super) accepted: BTreeMap<Key, i64>,
    pub(super) table: Option<Table>,
}

impl Contents {
    /// Reads a journal from its beginning.
    ///
    /// # Errors
    /// A file that is no journal or cannot be read,
    /// a damaged line that was relied upon, a damaged table.
    pub(super) fn read(path: &Path, file: &File) -> Result<Self, Error> {
        let failed = |error| unusable(path, &error);
        let Self { mut tried, mut accepted, mut table } = Self::default();
        // The number of the first damaged line, and where it begins.
        let mut erased = BTreeMap::new();
        let mut damaged = None::<(u64, u64)>;
        let mut lines = BufReader::new(file);
        let mut line = Vec::new();
        let mut end = lines.read_until(b'\n', &mut line).map_err(failed)? as u64;
        if !record::HEADER.starts_with(&line) {
            return Err(Error::configuration(format!(
                "{} is not a journal of this version of mailroom send",
                path.display()
            )));
        }
        for number in 2_u64.. {
            line.clear();
            let start = end;
            end += lines.read_until(b'\n', &mut line).map_err(failed)? as u64;
            if end == start {
                break;
            }
            match record::parse(&line) {
                Some(Record::Tried { key, expires_at, prepared }) => {
                    let prepared = Arc::new(PreparedMail { key, ..prepared });
                    let mail = Span { offset: 0, length: 0 };
                    let bound = Some(prepared.provider.clone());
                    erased.remove(&key);
                    accepted.remove(&key);
                    let doubt = tried.get(&key).map(|old| old.doubt).unwrap_or_default();
                    tried.insert(key, Tried { prepared, expires_at, mail, bound, doubt });
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
                Some(Record::Table(name)) => table = Some(Table::open(path, name).map_err(failed)?),
                Some(Record::Doubt { key, doubt }) => {
                    if let Some(tried) = tried.get_mut(&key) {
                        tried.doubt = doubt;
                    }
                }
                Some(Record::Synced(length)) => {
                    if let Some((number, _)) = damaged.filter(|(_, start)| *start < length) {
                        return Err(damaged_line(path, number));
                    }
                }
                None => damaged = damaged.or(Some((number, start))),
            }
        }
        // A mail is erased once the disk has what settles it.
        if let Some(number) = erased.into_values().min() {
            return Err(damaged_line(path, number));
        }
        Ok(Self { tried, accepted, table })
    }
}

fn damaged_line(path: &Path, number: u64) -> Error {
    Error::failure(format!(
        "the journal {} cannot be used: line {number} is damaged; without this file, what it knows \
         as sent may be sent again",
        path.display()
    ))
}
