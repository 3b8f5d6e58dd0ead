//! The records of a journal: one a line, `KIND KEY [EXPIRES_AT [MAIL]]`, `bound KEY PROVIDER`,
//! `doubt KEY COUNT SINCE`, `table NUMBER KEYS EXPIRES_AT` or `synced LENGTH`, and then a blank and
//! the CRC-32 of what is before that, in 8 hexadecimal digits. The mail is base64 of JSON, so that
//! no text of it ends a line.
//!
//! Without the checksum a disk that changes a bit could make one verdict of another one, or the
//! record of one mail that of another. It is not against forgery: who can write to the file can as
//! well remove it. A mail that is overwritten no longer fits its checksum, and its record says
//! nothing any more but that another one settles its key.

use std::ops::Range;

use base64ct::{Base64UrlUnpadded, Encoding};

use super::table::Name;
use crate::doubt::Doubt;
use crate::key::Key;
use crate::provider::PreparedMail;

/// The first line.
pub(super) const HEADER: &[u8] = b"mailroom send journal 4\n";

/// What overwrites a mail. It is no character of base64.
pub(super) const ERASED: u8 = b'.';

/// A record that is whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// What is sent under a key.
    Tried { key: Key, expires_at: i64, prepared: PreparedMail },
    /// What was sent under a key that a later record settles.
    Erased { key: Key },
    /// From now on an attempt by this provider may have succeeded, but no attempt by another one.
    Bound { key: Key, provider: String },
    /// No attempt has succeeded.
    Free { key: Key },
    /// It was accepted.
    Accepted { key: Key, expires_at: i64 },
    /// It never will be.
    GivenUp { key: Key },
    /// The table of accepted keys.
    Table(Name),
    /// So many attempts are in doubt, the last one since this time.
    Doubt { key: Key, doubt: Doubt },
    /// So many bytes of the file are on the disk,
    /// so that no kill and no crash has damaged a line of them.
    Synced(u64),
}

/// The line of a mail, and where in it the mail is.
pub(super) fn tried(key: Key, expires_at: i64, prepared: &PreparedMail) -> (Vec<u8>, Range<usize>) {
    let mut text = format!("tried {key} {expires_at} ");
    let start = text.len();
    let json = serde_json::to_vec(prepared).expect("texts are JSON");
    text.push_str(&Base64UrlUnpadded::encode_string(&json));
    let mail = start..text.len();
    (line(&text), mail)
}

pub(super) fn bound(key: Key, provider: &str) -> Vec<u8> {
    line(&format!("bound {key} {provider}"))
}

pub(super) fn free(key: Key) -> Vec<u8> {
    line(&format!("free {key}"))
}

pub(super) fn accepted(key: Key, expires_at: i64) -> Vec<u8> {
    line(&format!("accepted {key} {expires_at}"))
}

pub(super) fn given_up(key: Key) -> Vec<u8> {
    line(&format!("given-up {key}"))
}

pub(super) fn doubt(key: Key, doubt: Doubt) -> Vec<u8> {
    line(&format!("doubt {key} {} {}", doubt.count, doubt.since))
}

/// Says how much of the file the disk has.
pub(super) fn synced(length: u64) -> Vec<u8> {
    line(&format!("synced {length}"))
}

pub(super) fn table(name: Name) -> Vec<u8> {
    line(&format!("table {} {} {}", name.number, name.keys, name.expires_at))
}

/// A record with its checksum.
pub(super) fn line(text: &str) -> Vec<u8> {
    format!("{text} {}\n", checksum(text)).into_bytes()
}

fn checksum(text: &str) -> String {
    format!("{:08x}", crc32fast::hash(text.as_bytes()))
}

/// The record of a line, if it is whole.
pub(super) fn parse(line: &[u8]) -> Option<Record> {
    let line = str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (text, found) = line.rsplit_once(' ')?;
    let record = parse_text(text)?;
    let fits = matches!(record, Record::Erased { .. }) || found == checksum(text);
    fits.then_some(record)
}

/// The record of a text before its checksum.
fn parse_text(text: &str) -> Option<Record> {
    let mut words = text.split(' ');
    let kind = words.next()?;
    let second = words.next()?;
    if kind == "table" {
        let number = second.parse().ok()?;
        let keys = words.next()?.parse().ok()?;
        let name = Name { number, keys, expires_at: words.next()?.parse().ok()? };
        return words.next().is_none().then_some(Record::Table(name));
    }
    if kind == "synced" {
        let length = second.parse().ok()?;
        return words.next().is_none().then_some(Record::Synced(length));
    }
    let key = Key::parse(second)?;
    let mut expires_at = || words.next()?.parse().ok();
    let record = match kind {
        "tried" => {
            let expires_at = expires_at()?;
            let mail = words.next()?;
            if mail.bytes().any(|byte| byte == ERASED) {
                Record::Erased { key }
            } else {
                let text = Base64UrlUnpadded::decode_vec(mail).ok()?;
                Record::Tried { key, expires_at, prepared: serde_json::from_slice(&text).ok()? }
            }
        }
        "bound" => Record::Bound { key, provider: words.next()?.to_owned() },
        "doubt" => {
            let count = words.next()?.parse().ok()?;
            Record::Doubt { key, doubt: Doubt { count, since: words.next()?.parse().ok()? } }
        }
        "free" => Record::Free { key },
        "accepted" => Record::Accepted { key, expires_at: expires_at()? },
        "given-up" => Record::GivenUp { key },
        _ => return None,
    };
    words.next().is_none().then_some(record)
}
