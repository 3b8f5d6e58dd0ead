//! Heartbeats: they renew the leases of this collector, return lapsed ones of any collector to the
//! queue, and tell the database who collects.
//!
//! A lease that is not renewed in time is claimed by another collector, which sends its mails: the
//! database names the leases that it has renewed, and all others are given up here.

use std::time::{Duration, Instant};

use mailroom_verifier_core::Version;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::batches::Batches;
use super::session::{SessionSlot, SqlParameter};
use super::watermark::LowWatermark;
use crate::log::display::milliseconds;
use crate::queue::session::{column, unexpected};
use crate::queue::{BatchId, QueueError, SenderState};

/// How often leases are renewed and lapsed ones searched for, at least.
const MAX_PAUSE: Duration = Duration::from_secs(10);

const HEARTBEAT: &str = include_str!("heartbeat.sql");

#[derive(Debug)]
pub(super) struct Renewals {
    pub(super) lease: Duration,
    pub(super) collector_id: i64,
    collector_name: String,
    /// The name of the installation that this process was told to collect for.
    pub(super) installation: Option<String>,
    pub(super) sender: Option<SenderState>,
    /// The settings of this run, as JSON, until the database has them.
    pub(super) settings: Option<String>,
    /// What this run has done, as JSON.
    pub(super) counts: Option<String>,
    /// When the last one was answered.
    pub(super) renewed: Option<Instant>,
    /// Taken over by other collectors, and not reported yet.
    pub(super) lost: Vec<BatchId>,
    /// How many tokens they have, of those that were not counted yet.
    pub(super) lost_tokens: usize,
}

impl Renewals {
    pub(super) fn new(lease: Duration, collector_id: i64) -> Self {
        let host = whoami::hostname().unwrap_or_default();
        Self {
            lease,
            collector_id,
            collector_name: format!("{host} process {}", std::process::id()),
            installation: None,
            sender: None,
            settings: None,
            counts: None,
            renewed: None,
            lost: Vec::new(),
            lost_tokens: 0,
        }
    }

    pub(super) fn pause(&self) -> Duration {
        (self.lease / 3).min(MAX_PAUSE)
    }

    pub(super) fn is_due(&self) -> bool {
        self.renewed.is_none_or(|renewed| renewed.elapsed() >= self.pause())
    }

    /// Renews the leases of `batches`, and drops those that are lost.
    pub(super) async fn renew(
        &mut self,
        session: &mut SessionSlot,
        batches: &mut Batches,
        watermark: &mut LowWatermark,
        format: Version,
    ) -> Result<(), QueueError> {
        let leased: Vec<Uuid> = batches.leased().map(|batch| batch.0).collect();
        let (state, lasted, reason) = match &self.sender {
            Some(SenderState { name, lasted, reason }) => {
                (Some(*name), milliseconds(*lasted), reason.as_deref())
            }
            None => (None, 0, None),
        };
        // What another encoding cannot express would fail the heartbeat.
        let reason = reason.filter(|reason| session.is_unicode() || reason.is_ascii());
        let parameters: [SqlParameter<'_>; 13] = [
            (&self.collector_id, Type::INT8),
            (&self.collector_name, Type::TEXT),
            (&leased, Type::UUID_ARRAY),
            (&milliseconds(self.lease), Type::INT8),
            (&watermark.since, Type::TIMESTAMPTZ),
            (&state, Type::TEXT),
            (&lasted, Type::INT8),
            (&reason, Type::TEXT),
            (&format.to_string(), Type::TEXT),
            (&self.installation, Type::TEXT),
            (&env!("CARGO_PKG_VERSION"), Type::TEXT),
            (&self.settings, Type::TEXT),
            (&self.counts, Type::TEXT),
        ];
        let rows = session.query(HEARTBEAT, &parameters).await?;
        let (last, kept) = rows.split_last().ok_or_else(|| unexpected("no row"))?;
        let kept: Result<_, QueueError> =
            kept.iter().map(|row| column(row, "batch").map(BatchId)).collect();
        watermark.resume(column(last, "low_watermark")?, Instant::now());
        let (gone, tokens) = batches.drop_lost(&kept?);
        self.lost.extend(gone);
        self.lost_tokens += tokens;
        self.renewed = Some(Instant::now());
        self.settings = None;
        Ok(())
    }
}

/// JSON in ASCII: a database in another encoding than UTF-8 may not have other letters.
pub(super) fn in_ascii(settings: &serde_json::Value) -> String {
    let text = settings.to_string();
    text.chars().map(|letter| if letter.is_ascii() { letter } else { '?' }).collect()
}
