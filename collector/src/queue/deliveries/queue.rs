//! The queue itself: when to claim, from where, and when to renew leases.

use std::time::{Duration, Instant, SystemTime};

use mailroom_connect::ConnectionSettings;
use mailroom_verifier_core::Version;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::actions::SignableActions;
use super::batches::Batches;
use super::claimed::Claimed;
use super::session::{SessionSlot, SqlParameter, integer, ping};
use super::sweep::Sweeper;
use super::watermark::{LowWatermark, Snapshot};
use crate::config::DeliverySettings;
use crate::log::display::{milliseconds, withheld};
use crate::log::rate_limit::RateLimiter;
use crate::preflight;
use crate::queue::activity::Activity;
use crate::queue::session::{QueueSession, answer, column, count, unexpected};
use crate::queue::{
    BatchId, Claim, ClaimRequest, Peek, Queue, QueueError, SenderState, Settlement,
};

/// The most rows that one statement reads: some tenths of a second's work. After a claim that finds
/// few eligible tokens the next one reads `WIDENING` times more. One call goes on past ineligible
/// tokens for at most `SCAN_TIME`.
const MAX_SCAN: usize = 10_000;
const WIDENING: usize = 4;
const SCAN_TIME: Duration = Duration::from_secs(2);

/// The most batches that a statement claims after one that found less than it wanted: unused ids
/// cost time, too.
const FEW_BATCHES: usize = 32;

/// The shortest pause between claims from the low watermark, and the least ratio of that pause to a
/// claim's duration.
const RESCAN_PAUSE: Duration = Duration::from_millis(200);
const RESCAN_PAUSE_FACTOR: u32 = 50;

const WATERMARK_PAUSE: Duration = Duration::from_secs(1);

/// The longest time without a statement. With the ping's timeout of five seconds, a dead connection
/// is noticed within ten.
const PING_PAUSE: Duration = Duration::from_secs(4);

/// How long opening the second session may take. Without it, settling and claiming take turns.
const SECOND_SESSION: Duration = Duration::from_secs(5);

/// How often leases are renewed and lapsed ones searched for, at least.
const LONGEST_HEARTBEAT_PAUSE: Duration = Duration::from_secs(10);

/// Every seventh token is one of the second priority;
/// `mailroom.lock_candidates` and `mailroom.check_eligibility` use the same number.
pub(super) const PRIORITY_CYCLE: usize = 7;

/// The last column is missing in a schema that is older than this program.
const LIST_ACTIONS: &str = "SELECT number, name, path, code_digits, pg_catalog.to_jsonb(action) \
                            ->> 'token_format' FROM mailroom.list_actions() AS action";
const HEARTBEAT: &str = include_str!("heartbeat.sql");
const PEEK: &str = include_str!("peek.sql");

/// The queue of leased rows.
#[derive(Debug)]
pub struct DeliveriesQueue {
    connection: ConnectionSettings,
    pub(super) settings: DeliverySettings,
    pub(super) lease: Duration,
    pub(super) collector_id: i64,
    collector_name: String,
    /// The name of the installation that this process was told to collect for.
    installation: Option<String>,
    sender: Option<SenderState>,
    pub(super) first_session: SessionSlot,
    /// A second session on the same server, if there is room for it,
    /// which settles while the other one claims.
    pub(super) second_session: SessionSlot,
    pub(super) batches: Batches,
    /// Whether to claim beside settling: not after an error, when more would be handed over than
    /// can be recorded.
    pub(super) claims_beside: bool,
    /// Whether the last claim scanned as many rows as its limit allowed.
    pub(super) has_more: bool,
    /// Taken over by other collectors, and not reported yet.
    lost: Vec<BatchId>,
    pub(super) actions: SignableActions,
    /// How many tokens were claimed since the last place of the second priority, modulo
    /// [`PRIORITY_CYCLE`].
    pub(super) turn: usize,
    /// Where the next claim begins, by priority.
    pub(super) since: [Option<SystemTime>; 2],
    /// The most rows that the next claim reads, unless it wants more tokens.
    pub(super) scan_limit: usize,
    watermark: LowWatermark,
    watermark_updated: Option<Instant>,
    rescanned: Option<Instant>,
    rescan_pause: Duration,
    renewed: Option<Instant>,
    sweeper: Sweeper,
    /// Whether the log says that this collector has the queue, and no call has succeeded since.
    is_announced: bool,
    pub(super) activity: Activity,
    pub(super) dead_letter_limiter: RateLimiter,
    deferral_limiter: RateLimiter,
    /// The last rate at which others claimed, in tokens a day.
    other_rate: Option<i64>,
}

impl DeliveriesQueue {
    /// The queue of a database, with a random, unique collector id. Tokens that `format`, or
    /// without one the format that the database has recorded, cannot sign stay in it.
    pub fn new(
        connection: ConnectionSettings,
        settings: DeliverySettings,
        lease: Duration,
        format: impl Into<Option<Version>>,
    ) -> Result<Self, getrandom::Error> {
        let random = getrandom::u64()?;
        let [turn, ..] = random.to_le_bytes();
        let host = whoami::hostname().unwrap_or_default();
        Ok(Self {
            connection,
            settings,
            lease,
            collector_id: random.cast_signed(),
            collector_name: format!("{host} process {}", std::process::id()),
            installation: None,
            sender: None,
            first_session: SessionSlot::new(),
            second_session: SessionSlot::new(),
            batches: Batches::default(),
            claims_beside: false,
            has_more: false,
            lost: Vec::new(),
            actions: SignableActions::of(format.into()),
            turn: usize::from(turn) % PRIORITY_CYCLE,
            since: [None; 2],
            scan_limit: 0,
            watermark: LowWatermark::default(),
            watermark_updated: None,
            rescanned: None,
            rescan_pause: RESCAN_PAUSE,
            renewed: None,
            sweeper: Sweeper::new(),
            is_announced: false,
            activity: Activity::since(Instant::now()),
            dead_letter_limiter: RateLimiter::default(),
            deferral_limiter: RateLimiter::default(),
            other_rate: None,
        })
    }

    /// Names the installation to collect for; a database of another name refuses this process.
    pub fn collect_for(&mut self, installation: Option<String>) {
        self.installation = installation;
    }

    fn heartbeat_pause(&self) -> Duration {
        (self.lease / 3).min(LONGEST_HEARTBEAT_PAUSE)
    }

    /// Renews own leases, and returns lapsed ones to the queue.
    async fn renew(&mut self) -> Result<(), QueueError> {
        let leased: Vec<Uuid> = self.batches.leased().map(|batch| batch.0).collect();
        let (state, lasted, reason) = match &self.sender {
            Some(SenderState { name, lasted, reason }) => {
                (Some(*name), milliseconds(*lasted), reason.as_deref())
            }
            None => (None, 0, None),
        };
        // What another encoding cannot express would fail the heartbeat.
        let reason = reason.filter(|reason| self.first_session.is_unicode() || reason.is_ascii());
        let format = self.actions.format().to_string();
        let parameters: [SqlParameter<'_>; 10] = [
            (&self.collector_id, Type::INT8),
            (&self.collector_name, Type::TEXT),
            (&leased, Type::UUID_ARRAY),
            (&milliseconds(self.lease), Type::INT8),
            (&self.watermark.since, Type::TIMESTAMPTZ),
            (&state, Type::TEXT),
            (&lasted, Type::INT8),
            (&reason, Type::TEXT),
            (&format, Type::TEXT),
            (&self.installation, Type::TEXT),
        ];
        let rows = self.first_session.query(HEARTBEAT, &parameters).await?;
        let (last, kept) = rows.split_last().ok_or_else(|| unexpected("no row"))?;
        let kept: Result<_, QueueError> =
            kept.iter().map(|row| column(row, 0).map(BatchId)).collect();
        self.watermark.resume(column(last, 1)?, Instant::now());
        self.lost.extend(self.batches.drop_lost(&kept?));
        self.renewed = Some(Instant::now());
        Ok(())
    }

    /// Counts what is due, updates the low watermark, and returns lapsed leases to the queue if
    /// there are any.
    async fn update_watermark(&mut self, enough: usize) -> Result<Peek, QueueError> {
        let parameters: [SqlParameter<'_>; 3] = [
            (&self.watermark.peek_since(Instant::now()), Type::TIMESTAMPTZ),
            (&integer(enough), Type::INT4),
            (&self.watermark.assigned_xid, Type::INT8),
        ];
        let rows = self.first_session.query(PEEK, &parameters).await?;
        let row = rows.first().ok_or_else(|| unexpected("no row"))?;
        let due = count::<i64, usize>(row, 0)?.min(enough);
        let lapsed = count::<i64, usize>(row, 1)?;
        let next = column::<Option<i64>>(row, 2)?;
        let next = next.map(|next| Duration::from_millis(u64::try_from(next).unwrap_or(0)));
        let at = column(row, 3)?;
        let oldest = column(row, 4)?;
        let xmin = column(row, 5)?;
        let xmax = column(row, 6)?;
        let assigned_xid = column(row, 7)?;
        self.watermark.observe(Snapshot { at, oldest, xmin, xmax, assigned_xid });
        self.watermark_updated = Some(Instant::now());
        // Due tokens in leases that have lapsed.
        if lapsed > 0 {
            self.renew().await?;
        }
        Ok(Peek { due, next })
    }

    async fn read_actions(&mut self) -> Result<(), QueueError> {
        let rows = self.first_session.query(LIST_ACTIONS, &[]).await?;
        self.actions.read(&rows)
    }

    async fn claim(&mut self, want: ClaimRequest, claim: &mut Claim) -> Result<(), QueueError> {
        let began = Instant::now();
        let rescans =
            want.rescan || self.rescanned.is_none_or(|at| at.elapsed() >= self.rescan_pause);
        if rescans {
            // Only where much waits or on a rescan: while the collector is idle,
            // `peek` updates the watermark.
            let is_old =
                self.watermark_updated.is_none_or(|updated| updated.elapsed() >= WATERMARK_PAUSE);
            if is_old && (self.has_more || want.rescan) {
                self.update_watermark(1).await?;
            }
            self.since = [self.watermark.since; 2];
        }
        // No more than the rate can ever allow at once: what is looked at is locked.
        let most =
            self.settings.rate.map_or(want.batches, |rate| rate.burst().div_ceil(want.limit));
        loop {
            let most = if self.has_more { most } else { most.min(FEW_BATCHES) };
            let left = (want.batches - claim.batches.len()).min(most);
            let tokens_wanted = left * want.limit;
            let scan_limit = self.scan_limit.clamp(tokens_wanted, MAX_SCAN.max(tokens_wanted));
            self.scan_limit = scan_limit;
            let is_split = self.splits(left, want.limit);
            let claimed = self.send(Some(ClaimRequest { batches: left, ..want })).await?;
            let scanned = claimed.scanned;
            let unsignable = claimed.unsignable;
            let tokens = self.take(claimed, claim);
            if unsignable > 0 && self.actions.is_stale() {
                self.read_actions().await?;
            }
            let is_end = scanned < scan_limit && !is_split;
            let is_over = is_end || claim.batches.len() >= want.batches || claim.wait.is_some();
            // Where many rows cannot be sent, the next statement reads more.
            self.scan_limit = if is_over || tokens > 0 { 0 } else { scan_limit * WIDENING };
            if is_over || began.elapsed() >= SCAN_TIME && !is_split {
                break;
            }
        }
        if rescans {
            self.rescanned = Some(Instant::now());
            self.rescan_pause = RESCAN_PAUSE.max(began.elapsed() * RESCAN_PAUSE_FACTOR);
        }
        Ok(())
    }

    /// Adds what a statement has claimed to what the call returns; returns the number of tokens.
    fn take(&mut self, mut claimed: Claimed, claim: &mut Claim) -> usize {
        let tokens = claimed.batches.iter().map(|batch| batch.tokens.len()).sum();
        claim.batches.append(&mut claimed.batches);
        claim.waiting = claimed.waiting;
        claim.deferred += claimed.deferred + claimed.unsignable;
        claim.wait = claimed.wait;
        if let (Some(rate), Some(other)) = (self.settings.rate, claimed.other_rate)
            && self.other_rate.replace(other) != Some(other)
        {
            tracing::warn!(
                event = "rates_differ",
                %rate,
                other_rate = format!("{other}/d"),
                "the queue was last claimed from at another rate; of different ones the highest \
                 counts: give all collectors the same"
            );
        }
        self.since = claimed.next_since;
        self.turn = (self.turn + tokens) % PRIORITY_CYCLE;
        self.activity.expired += claimed.expired;
        if claimed.expired > 0 {
            let (count, (reason, ids)) = (claimed.expired, claimed.reasons("expired"));
            tracing::warn!(event = "tokens_expired", %reason, count, ?ids, "tokens expired before \
                they could be sent");
        }
        self.activity.dead(claimed.suppressed + claimed.dead_in_doubt, 0);
        if claimed.dead_in_doubt > 0 {
            let reason = "they expired after an attempt in doubt, and may have been delivered";
            tracing::warn!(
                event = "tokens_dead",
                reason,
                count = claimed.dead_in_doubt,
                "tokens are given up"
            );
        }
        let cancelled = "tokens were used, cancelled or deleted before they could be sent, or have \
                         another address than their subject";
        let deferred = "tokens wait until their subject is eligible";
        let suppressed = "tokens are given up because their address is suppressed";
        for (count, verdict, event, message) in [
            (claimed.cancelled, "cancelled", "tokens_cancelled", cancelled),
            (claimed.deferred, "ineligible", "tokens_deferred", deferred),
            (claimed.suppressed, "suppressed", "tokens_suppressed", suppressed),
        ] {
            if count > 0 {
                let (reason, ids) = claimed.reasons(verdict);
                tracing::info!(event, %reason, count, ?ids, "{message}");
            }
        }
        let mut admit = || self.deferral_limiter.admit(Instant::now()).map(withheld);
        for (reason, count, ids) in claimed.alike("unsignable") {
            if let Some(withheld) = admit() {
                let reason = format!("{reason}, but {}", self.actions.what_helps());
                tracing::warn!(
                    event = "tokens_unsignable",
                    %reason,
                    count,
                    ?ids,
                    withheld,
                    "tokens wait because this collector cannot sign them"
                );
            }
        }
        // Of subjects who are just not eligible there is no reason.
        let faults = claimed.alike("ineligible").filter(|(reason, ..)| !reason.is_empty());
        for (reason, count, ids) in faults {
            if let Some(withheld) = admit() {
                tracing::warn!(
                    event = "eligibility_failed",
                    %reason,
                    count,
                    ?ids,
                    withheld,
                    "tokens wait because a predicate of eligibility fails"
                );
            }
        }
        tokens
    }
}

impl Queue for DeliveriesQueue {
    async fn open(&mut self) -> Result<(), QueueError> {
        let was_open = self.renewed.is_some();
        self.second_session = SessionSlot::new();
        let (server, started_at) = self.first_session.open(&self.connection).await?;
        self.watermark_updated = None;
        self.rescanned = None;
        // First: a heartbeat says in which format this process signs.
        self.read_actions().await?;
        self.renew().await?;
        self.since = [self.watermark.since; 2];
        self.batches.begin_call();
        self.send(None).await?;
        let beside =
            timeout(SECOND_SESSION, Box::pin(self.second_session.open(&self.connection))).await;
        // If there is no second session on the same server,
        // settling and claiming take turns on the first one.
        if !matches!(beside, Ok(Ok((_, other))) if other == started_at) {
            self.second_session = SessionSlot::new();
        }
        let ask = async |session: &QueueSession| answer(preflight::warnings(&session.client)).await;
        let warnings = self.first_session.run(ask).await?;
        let fault = if self.settings.suppress_unknown {
            let ask = async |session: &QueueSession| {
                answer(preflight::cannot_suppress(&session.client)).await
            };
            self.first_session.run(ask).await?
        } else {
            None
        };
        if !std::mem::replace(&mut self.is_announced, true) {
            for reason in warnings {
                tracing::warn!(
                    event = "preflight_warning",
                    reason,
                    "the database is not set up as documented"
                );
            }
            if let Some(reason) = fault {
                tracing::warn!(event = "preflight_warning", reason, "no address is suppressed");
            }
            let token_format = self.actions.format();
            if let Some(default) = self.actions.other_default() {
                tracing::warn!(
                    event = "token_format_differs",
                    %token_format,
                    %default,
                    "this collector signs another format than the installation's default, which \
                     collectors sign that are not told"
                );
            }
            let collector_id = self.collector_id.to_string();
            let again = if was_open { " again" } else { "" };
            tracing::info!(
                event = "queue_opened",
                server,
                collector_id,
                %token_format,
                "this collector has the queue `deliveries`{again}"
            );
        }
        Ok(())
    }

    async fn settle_and_claim(
        &mut self,
        settlements: Vec<Settlement>,
        want: Option<ClaimRequest>,
    ) -> Result<Claim, QueueError> {
        self.batches.begin_call();
        for settlement in settlements {
            self.batches.settle(settlement, &mut self.activity);
        }
        let mut claim = Claim::default();
        match want {
            Some(want) => self.claim(want, &mut claim).await?,
            None => self.send(None).await.map(drop)?,
        }
        // Nothing below waits: from here on the caller has them.
        self.batches.mark_returned();
        self.is_announced = false;
        Ok(claim)
    }

    fn settles_beside(&self) -> bool {
        self.claims_beside && self.second_session.is_open()
    }

    fn token_format(&self) -> Version {
        self.actions.format()
    }

    fn release(&mut self, batches: &[BatchId]) {
        self.batches.release(batches);
        // They return to their places, which the last claim has passed.
        self.rescanned = None;
    }

    fn heartbeat_at(&self) -> Option<Instant> {
        let renewed = self.renewed?;
        if !self.lost.is_empty() {
            return Some(renewed);
        }
        let sweep = self.sweeper.next.unwrap_or(renewed);
        let slots = [&self.first_session, &self.second_session];
        let used = slots.into_iter().filter(|slot| slot.is_open()).map(|slot| slot.used);
        let ping = used.min().unwrap_or(renewed) + PING_PAUSE;
        Some((renewed + self.heartbeat_pause()).min(ping).min(sweep))
    }

    async fn heartbeat(&mut self) -> Result<Vec<BatchId>, QueueError> {
        if self.renewed.is_none_or(|renewed| renewed.elapsed() >= self.heartbeat_pause()) {
            self.renew().await?;
            self.batches.begin_call();
            if !self.batches.is_reported() {
                self.send(None).await?;
            }
        } else {
            for slot in [&mut self.first_session, &mut self.second_session] {
                if slot.is_open() && slot.used.elapsed() >= PING_PAUSE {
                    slot.run(ping).await?;
                }
            }
        }
        self.activity.log(Instant::now());
        // Last: if it fails, all else is done.
        Box::pin(self.sweeper.sweep(&mut self.first_session)).await?;
        Ok(std::mem::take(&mut self.lost))
    }

    fn note_sender(&mut self, state: Option<SenderState>) {
        self.sender = state;
    }

    async fn leave(&mut self) -> Result<(), QueueError> {
        self.sender = Some(SenderState { name: "ended", lasted: Duration::ZERO, reason: None });
        self.renew().await
    }

    async fn peek(&mut self, enough: usize) -> Result<Peek, QueueError> {
        let Peek { due, next } = self.update_watermark(enough).await?;
        if due > 0 {
            self.rescanned = None;
        }
        // Leases that other collectors take from now on are not announced.
        Ok(Peek { due, next: Some(next.unwrap_or(self.lease).min(self.lease)) })
    }
}
