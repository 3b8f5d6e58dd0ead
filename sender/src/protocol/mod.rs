//! The sender protocol of docs/reference/sender-protocol.md: the lines that are read, and the
//! answers that are written.
//!
//! The collector writes the former and parses the latter;
//! a test lets each side read what the other one wrote.

mod answer;
mod line;

use std::fmt;

use mailroom_traces::Traceparent;
use serde::Deserialize;
use serde_json::Value;

pub use answer::Answer;
pub(crate) use answer::working;
pub use line::{InvalidLine, Unreadable, parse_line};

pub use crate::key::Key;
pub use crate::knows::Knows;

/// The version of the lines that this program understands.
const VERSION: u32 = 1;

/// A line: one batch.
#[derive(Debug)]
pub struct Batch {
    /// Its id, which answers carry.
    pub batch: String,
    /// Which answers the collector understands.
    pub knows: Knows,
    /// Its tokens.
    pub items: Vec<Item>,
    /// The others, which cannot be read.
    pub unreadable: Vec<Unreadable>,
}

/// A token to be sent. Fields that this program does not know are ignored: the protocol may get
/// more of them.
///
/// Not `Debug`: it holds a token and an address.
#[derive(Deserialize)]
pub struct Item {
    /// The token's row.
    pub id: i64,
    /// The consumed-token id: the same at every attempt, whichever key signs the token and whatever
    /// the row's id is.
    pub key: Key,
    /// What the mail is for: `activate`, `recover` or another action.
    pub action: String,
    /// The path of the link; empty with the token for a mail without a link.
    pub path: String,
    /// The account's address. Input from strangers.
    pub email: String,
    /// The account's name. Input from strangers.
    pub login: String,
    /// What the link carries.
    pub token: String,
    /// What the person types, or nothing.
    pub code: String,
    /// In seconds since 1970.
    pub expires_at: i64,
    /// Language of the mail (BCP 47), if the application wants a certain one.
    #[serde(default)]
    pub language: Option<String>,
    /// What the application says for the template: any JSON.
    #[serde(default)]
    pub payload: Value,
    /// How many earlier attempts ended in doubt, as far as the database knows.
    #[serde(default)]
    pub doubts: u32,
    /// The trace in which it was enqueued, for the log alone: no provider is told.
    #[serde(default, deserialize_with = "Traceparent::deserialize_lenient")]
    pub traceparent: Option<Traceparent>,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Item({})", self.id)
    }
}
