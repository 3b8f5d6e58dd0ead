//! Reading rows of tokens, also those with a text that the server cannot convert to UTF-8.

use mailroom_verifier_core::Action;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use super::session::{Session, superseded};
use crate::queue::answer::{answer_unless, column, count, unexpected};
use crate::queue::{QueueError, Token};

pub(super) const CLAIM: &str = include_str!("claim.sql");

/// What the server refuses a statement with if a text in it cannot be converted to UTF-8.
const UNTRANSLATABLE: [SqlState; 2] =
    [SqlState::UNTRANSLATABLE_CHARACTER, SqlState::CHARACTER_NOT_IN_REPERTOIRE];

/// The columns that hold texts, each alone first, so that the reason for passing a row names the one at fault.
const TEXTS: [&[&str]; 4] = [&["email"], &["login"], &["code"], &["email", "login", "code"]];

/// Rows that were read together.
#[derive(Debug)]
pub(super) struct Page {
    /// The tokens that can be sent now, in id order.
    pub(super) tokens: Vec<Token>,
    /// Tokens that are neither expired nor consumed, but whose account has the wrong status.
    pub(super) ineligible: Vec<i64>,
    /// The highest id that was read, or where reading began if there was no row.
    pub(super) through: i64,
    /// How many rows were read, whatever their state.
    pub(super) rows: usize,
}

impl Page {
    fn append(&mut self, part: Self) {
        self.tokens.extend(part.tokens);
        self.ineligible.extend(part.ineligible);
        self.through = part.through;
        self.rows += part.rows;
    }
}

impl Session {
    /// Reads the `limit` rows after the id `after`, and the rows with the ids `again`.
    ///
    /// A text that has no UTF-8 form becomes bytes that are not UTF-8. The server refuses a whole statement for one, so then
    /// the rows are read in halves of halves until the row at fault is alone.
    pub(super) async fn read(&self, after: i64, limit: usize, again: &[i64]) -> Result<Page, QueueError> {
        if let Some(page) = self.try_read(after, limit, again, &[]).await? {
            return Ok(page);
        }
        let mut page = Page { tokens: Vec::new(), ineligible: Vec::new(), through: after, rows: 0 };
        let mut again = again;
        let mut most = (limit + again.len()).div_ceil(2);
        while page.rows < limit || !again.is_empty() {
            let (ids, rest) = again.split_at(most.min(again.len()));
            let rows = if ids.is_empty() { most.min(limit - page.rows) } else { 0 };
            let asked = ids.len() + rows;
            let part = match self.try_read(page.through, rows, ids, &[]).await? {
                Some(part) => part,
                None if asked > 1 => {
                    most = asked / 2;
                    continue;
                }
                None => self.read_marked(page.through, rows, ids).await?,
            };
            most = asked * 2;
            again = rest;
            let is_last = part.rows < rows;
            page.append(part);
            if is_last {
                break;
            }
        }
        Ok(page)
    }

    /// Reads one row of which a text has no UTF-8 form, with that one marked.
    async fn read_marked(&self, after: i64, limit: usize, again: &[i64]) -> Result<Page, QueueError> {
        for marked in TEXTS {
            if let Some(page) = self.try_read(after, limit, again, marked).await? {
                return Ok(page);
            }
        }
        Err(unexpected("a row that it cannot convert to UTF-8"))
    }

    /// Reads rows as one statement; `None` if a text other than the `marked` ones has no UTF-8 form.
    async fn try_read(
        &self,
        after: i64,
        limit: usize,
        again: &[i64],
        marked: &[&str],
    ) -> Result<Option<Page>, QueueError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 4] = [&after, &limit, &again, &marked];
        let work = self.client.query(&self.claim, &parameters);
        let Some(rows) = answer_unless(&UNTRANSLATABLE, work).await? else { return Ok(None) };
        let first = rows.first().ok_or_else(|| unexpected("a page without a row"))?;
        if column(first, 10)? {
            return Err(superseded());
        }
        let mut page = Page {
            tokens: Vec::with_capacity(rows.len()),
            ineligible: Vec::new(),
            through: column(first, 0)?,
            rows: count(first, 1)?,
        };
        for row in &rows {
            let Some(id) = column::<Option<i64>>(row, 2)? else { continue };
            if column(row, 3)? {
                page.tokens.push(token(row, id)?);
            } else {
                page.ineligible.push(id);
            }
        }
        Ok(Some(page))
    }
}

fn token(row: &Row, id: i64) -> Result<Token, QueueError> {
    let action: &str = column(row, 4)?;
    Ok(Token {
        id,
        attempt: 1,
        action: Action::from_database_value(action).map_err(|_| unexpected("an unknown action"))?,
        email: column(row, 5)?,
        login: column(row, 6)?,
        secret: column(row, 7)?,
        code: column(row, 8)?,
        expires_at: column(row, 9)?,
    })
}
