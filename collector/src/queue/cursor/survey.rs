//! Looking back from the cursor for tokens that an earlier process may have passed unsent; why and how is said in the
//! module's documentation.

use std::time::Duration;

use tokio_postgres::types::ToSql;

use super::session::Session;
use super::{CursorQueue, SLOWEST_TRANSACTION, remembered};
use crate::queue::QueueError;
use crate::queue::answer::{answer, column, count, unexpected};

pub(super) const SURVEY: &str = include_str!("survey.sql");

/// So many expired rows in a row end the survey: tokens live equally long unless an application makes them otherwise, so
/// what lies before has expired, too. There is no index by which it could be asked for.
const EXPIRED_ENOUGH: usize = 50_000;

/// The most rows that are read, in some seconds: more than two thousand tokens a second for as long as they live.
const MOST_ROWS: usize = 2_000_000;

/// A page of the survey.
#[derive(Debug)]
struct Page {
    /// Unexpired, unconsumed tokens that may not have been sent.
    owed: Vec<i64>,
    /// Where the next page ends.
    before: i64,
    /// How many rows were read, whatever their state.
    rows: usize,
    /// Whether any of them was unexpired, consumed or not.
    is_unexpired: bool,
}

impl CursorQueue {
    /// Remembers what an earlier process may have left before the cursor.
    pub(super) async fn survey(&mut self, cursor: i64) -> Result<(), QueueError> {
        let slack = self.intervals.poll + SLOWEST_TRANSACTION;
        let (mut through, mut read, mut expired, mut owed) = (cursor, 0, 0, Vec::new());
        loop {
            let rows = self.page;
            let page =
                self.on_session(async |session| session.survey(through, rows, cursor, slack).await).await;
            let page = self.sized(page)?;
            through = page.before;
            owed.extend(page.owed);
            read += page.rows;
            expired = if page.is_unexpired { 0 } else { expired + page.rows };
            // More could not be remembered, and these are the newest.
            let is_full = owed.len() > remembered::MOST;
            if page.rows < rows || expired >= EXPIRED_ENOUGH || is_full {
                break;
            }
            if read >= MOST_ROWS {
                tracing::warn!(
                    event = "survey_ended",
                    through,
                    count = read,
                    "older tokens are not looked at again, because so many newer ones lie before the cursor; of those \
                     whose account had the wrong status, some may get no mail"
                );
                break;
            }
        }
        if !owed.is_empty() {
            tracing::info!(
                event = "tokens_owed",
                count = owed.len(),
                "tokens before the cursor go out when their account's status allows it; some may have been sent"
            );
        }
        self.ahead.put_back(owed);
        self.survey_due = None;
        Ok(())
    }
}

impl Session {
    /// Reads the `limit` rows up to the id `through`, from the highest down.
    async fn survey(
        &self,
        through: i64,
        limit: usize,
        cursor: i64,
        slack: Duration,
    ) -> Result<Page, QueueError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let seconds = |span: Duration| i64::try_from(span.as_secs() + 1).unwrap_or(i64::MAX);
        let (slack, slowest) = (seconds(slack), seconds(SLOWEST_TRANSACTION));
        let parameters: [&(dyn ToSql + Sync); 5] = [&through, &limit, &cursor, &slack, &slowest];
        let rows = answer(self.client.query(&self.survey, &parameters)).await?;
        let first = rows.first().ok_or_else(|| unexpected("a page without a row"))?;
        let owed: Result<Vec<Option<i64>>, _> = rows.iter().map(|row| column(row, 3)).collect();
        Ok(Page {
            owed: owed?.into_iter().flatten().collect(),
            before: column(first, 0)?,
            rows: count(first, 1)?,
            is_unexpired: column(first, 2)?,
        })
    }
}
