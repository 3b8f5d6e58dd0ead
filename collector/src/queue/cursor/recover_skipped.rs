//! Finds tokens before the cursor that an earlier process may have skipped unsent; the module's
//! documentation says how.

use super::queue::CursorQueue;
use super::read_ahead;
use super::session::{CursorSession, SLOWEST_TRANSACTION};
use crate::queue::QueueError;
use crate::queue::session::{column, count, unexpected};

/// So many expired rows in succession end the search: tokens live equally long unless an
/// application makes them otherwise, so what lies before has expired, too.
/// There is no index on the expiry.
const EXPIRED_ENOUGH: usize = 50_000;

/// The most rows that are read, in some seconds: those of 15 minutes at more than two thousand
/// tokens a second.
const MAX_ROWS: usize = 2_000_000;

impl CursorQueue {
    pub(super) async fn recover_skipped(&mut self, cursor: i64) -> Result<(), QueueError> {
        let slack = self.poll_interval + SLOWEST_TRANSACTION;
        let mut through = cursor;
        let mut read = 0;
        let mut expired = 0;
        let mut skipped = Vec::new();
        loop {
            let rows = self.page_size;
            let skipped_page =
                async |session: &CursorSession| session.skipped(through, rows, cursor, slack).await;
            let page = self.read_sized(skipped_page).await?;
            let first = page.first().ok_or_else(|| unexpected("a page without a row"))?;
            let found = count::<i64, usize>(first, 1)?;
            through = column(first, 0)?;
            expired = if column(first, 2)? { 0 } else { expired + found };
            read += found;
            for row in &page {
                skipped.extend(column::<Option<i64>>(row, 3)?);
            }
            // More could not be deferred, and these are the newest.
            let is_full = skipped.len() > read_ahead::MAX_DEFERRED;
            if found < rows || expired >= EXPIRED_ENOUGH || is_full {
                break;
            }
            if read >= MAX_ROWS {
                tracing::warn!(
                    event = "recovery_ended",
                    through,
                    count = read,
                    "older tokens are not read again, because so many newer ones lie before the \
                     cursor; of those whose account had the wrong status, some may get no mail"
                );
                break;
            }
        }
        if !skipped.is_empty() {
            tracing::info!(
                event = "tokens_recovered",
                count = skipped.len(),
                "tokens before the cursor go out when their account's status allows it; \
                 some may have been sent"
            );
        }
        self.state()?.ahead.put_back(skipped);
        self.recover_from = None;
        Ok(())
    }
}
