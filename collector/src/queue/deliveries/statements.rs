//! The three statements of an exchange, each with its parameters. They own these, so that a
//! statement on its way borrows nothing that another one's answer changes.

use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::actions::SignableActions;
use super::batches::Batches;
use super::claimed::Claimed;
use super::nacks::{self, NackColumns, ReceiptColumns};
use super::scan::Search;
use super::session::{SqlParameter, integer, rows_if};
use crate::config::{DeliverySettings, Rate};
use crate::log::display::milliseconds;
use crate::queue::session::QueueSession;
use crate::queue::{BatchId, QueueError};

const SETTLE: &str = include_str!("settle.sql");
const RELEASE: &str = include_str!("release.sql");
const CLAIM: &str = include_str!("claim.sql");

/// Settles all batches that are to be settled.
pub(super) struct Settle<'a> {
    batches: Vec<Uuid>,
    nacks: NackColumns,
    receipts: ReceiptColumns,
    settings: &'a DeliverySettings,
}

impl<'a> Settle<'a> {
    pub(super) fn new(batches: &Batches, settings: &'a DeliverySettings, is_unicode: bool) -> Self {
        let settling: Vec<_> = batches.settling().collect();
        Self {
            batches: settling.iter().map(|(batch, _)| batch.0).collect(),
            nacks: nacks::columns(&settling, settings, is_unicode),
            receipts: nacks::receipt_columns(batches.receipts(), is_unicode),
            settings,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Returns the tokens that were given up.
    pub(super) async fn run(&self, session: &QueueSession) -> Result<Vec<Row>, QueueError> {
        let (batches, tokens, kinds, waits, reasons) = &self.nacks;
        let receipts = &self.receipts;
        let parameters: [SqlParameter<'_>; 14] = [
            (&self.batches, Type::UUID_ARRAY),
            (batches, Type::UUID_ARRAY),
            (tokens, Type::INT8_ARRAY),
            (kinds, Type::TEXT_ARRAY),
            (waits, Type::INT8_ARRAY),
            (reasons, Type::TEXT_ARRAY),
            (&integer(self.settings.max_attempts), Type::INT4),
            (&milliseconds(self.settings.backoff), Type::INT8),
            (&min_lifetime(self.settings), Type::INT8),
            (&receipts.0, Type::UUID_ARRAY),
            (&receipts.1, Type::INT8_ARRAY),
            (&receipts.2, Type::TEXT_ARRAY),
            (&receipts.3, Type::TEXT_ARRAY),
            (&receipts.4, Type::TEXT_ARRAY),
        ];
        rows_if(!self.is_empty(), session, SETTLE, &parameters).await
    }
}

/// Releases all batches that are to be released.
pub(super) struct Release {
    collector_id: i64,
    batches: Vec<Uuid>,
}

impl Release {
    pub(super) fn new(batches: &Batches, collector_id: i64) -> Self {
        Self { collector_id, batches: batches.releasing().map(|batch| batch.0).collect() }
    }

    pub(super) async fn run(&self, session: &QueueSession) -> Result<(), QueueError> {
        let parameters: [SqlParameter<'_>; 2] =
            [(&self.collector_id, Type::INT8), (&self.batches, Type::UUID_ARRAY)];
        rows_if(!self.batches.is_empty(), session, RELEASE, &parameters).await.map(drop)
    }
}

/// Claims batches.
pub(super) struct Claim<'a> {
    pub(super) collector_id: i64,
    pub(super) lease_ms: i64,
    pub(super) settings: &'a DeliverySettings,
    pub(super) actions: &'a SignableActions,
}

impl Claim<'_> {
    /// Claims batches with these ids.
    pub(super) async fn run(
        &self,
        session: &QueueSession,
        ids: &[BatchId],
        search: Search,
    ) -> Result<Claimed, QueueError> {
        let Search { request, since, scan_limit, turn } = search;
        let ids: Vec<Uuid> = ids.iter().map(|batch| batch.0).collect();
        let limit = |of: fn(Rate) -> Option<u64>| self.settings.rate.and_then(of);
        let rate = limit(|rate| rate.per_day).map(u64::cast_signed);
        let budget = limit(|rate| rate.per_month).map(u64::cast_signed);
        let parameters: [SqlParameter<'_>; 15] = [
            (&self.collector_id, Type::INT8),
            (&ids, Type::UUID_ARRAY),
            (&integer(request.limit), Type::INT4),
            (&request.partial, Type::BOOL),
            (&integer(scan_limit), Type::INT4),
            (&integer(turn), Type::INT4),
            (&since[0], Type::TIMESTAMPTZ),
            (&since[1], Type::TIMESTAMPTZ),
            (&self.lease_ms, Type::INT8),
            (&min_lifetime(self.settings), Type::INT8),
            (&self.actions.numbers(), Type::INT2_ARRAY),
            (&self.actions.binds(), Type::BOOL),
            (&rate, Type::INT8),
            (&!request.spares_doubtful, Type::BOOL),
            (&budget, Type::INT8),
        ];
        let rows = rows_if(!ids.is_empty(), session, CLAIM, &parameters).await?;
        Claimed::read(&rows, self.actions, since)
    }
}

/// In whole seconds.
fn min_lifetime(settings: &DeliverySettings) -> i64 {
    i64::try_from(settings.min_lifetime.as_secs()).unwrap_or(i64::MAX)
}
