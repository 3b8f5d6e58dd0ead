//! The queue itself: it calls its parts in their order.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use mailroom_connect::ConnectionSettings;
use mailroom_verifier_core::Version;
use tokio_postgres::types::Type;

use super::actions::{LIST_ACTIONS, SignableActions};
use super::claim_log::ClaimLog;
use super::delays::Delays;
use super::exchange::Exchange;
use super::renewals::{Renewals, in_ascii};
use super::scan::Scan;
use super::session::SqlParameter;
use super::sweep::Sweeper;
use crate::config::DeliverySettings;
use crate::log::display::milliseconds;
use crate::metrics::{Cause, Metrics};
use crate::preflight::{self, development};
use crate::queue::session::{QueueSession, answer};
use crate::queue::{
    BatchId, Claim, ClaimRequest, Peek, Queue, QueueError, SenderState, Settlement,
};

/// How long a statement may be on its way until the server reads its clock.
const ON_ITS_WAY: Duration = Duration::from_secs(10);

const RETURN_UNSPENT: &str = "SELECT mailroom.return_unspent($1, $2)";

/// One call goes on past ineligible tokens for at most this long.
const SCAN_TIME: Duration = Duration::from_secs(2);

/// The queue of leased rows.
#[derive(Debug)]
pub struct DeliveriesQueue {
    connection: ConnectionSettings,
    settings: DeliverySettings,
    exchange: Exchange,
    scan: Scan,
    renewals: Renewals,
    sweeper: Sweeper,
    actions: SignableActions,
    claim_log: ClaimLog,
    delays: Delays,
    /// Whether it may be the queue of a database that belongs to `mailroom dev`.
    is_for_development: bool,
    /// Whether it is closed while nothing is due.
    rests: bool,
    /// Whether the log says that this collector has the queue, and no call has succeeded since.
    is_announced: bool,
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
        let collector_id = random.cast_signed();
        Ok(Self {
            connection,
            settings,
            exchange: Exchange::new(settings, lease, collector_id),
            scan: Scan::new(turn),
            renewals: Renewals::new(lease, collector_id),
            sweeper: Sweeper::new(),
            actions: SignableActions::of(format.into()),
            claim_log: ClaimLog::new(settings.rate),
            delays: Delays::default(),
            is_for_development: false,
            rests: false,
            is_announced: false,
        })
    }

    /// Names the installation to collect for; a database of another name refuses this process.
    pub fn collect_for(&mut self, installation: Option<String>) {
        self.renewals.installation = installation;
    }

    /// Tells the database with which settings, by name, this process runs. None is a secret.
    pub fn run_with(&mut self, settings: &serde_json::Value) {
        self.renewals.settings = Some(in_ascii(settings));
    }

    /// Is closed while nothing is due: what comes next is all that matters then.
    pub fn may_rest(&mut self) {
        self.rests = true;
    }

    /// Takes a database that belongs to `mailroom dev`, too.
    pub fn take_development(&mut self) {
        self.is_for_development = true;
    }

    /// Refuses a database that belongs to `mailroom dev` unless it was asked for: somebody may have
    /// named the wrong one.
    async fn refuse_development(&mut self) -> Result<(), QueueError> {
        if self.is_for_development {
            return Ok(());
        }
        let ask = async |session: &QueueSession| {
            if answer(development::is_marked(&session.client)).await? {
                return Err(QueueError::Unusable(development::REFUSED.to_owned()));
            }
            Ok(())
        };
        self.exchange.first.run(ask).await
    }

    /// Does on a new session what comes before the first claim.
    async fn begin(&mut self, server: &str, started_at: SystemTime) -> Result<(), QueueError> {
        let was_open = self.renewals.renewed.is_some();
        self.refuse_development().await?;
        self.scan.reopened();
        // First: a heartbeat says in which format this process signs.
        self.read_actions().await?;
        self.renew().await?;
        self.scan.begin_at_watermark();
        self.exchange.batches.begin_call();
        self.exchange.report(&self.actions).await?;
        self.exchange.open_second(&self.connection, started_at).await;
        let ask = async |session: &QueueSession| answer(preflight::warnings(&session.client)).await;
        let warnings = self.exchange.first.run(ask).await?;
        let fault = if self.settings.suppress_unknown {
            let ask = async |session: &QueueSession| {
                answer(preflight::cannot_suppress(&session.client)).await
            };
            self.exchange.first.run(ask).await?
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
            let collector_id = self.renewals.collector_id.to_string();
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

    /// Renews own leases, and returns lapsed ones to the queue.
    async fn renew(&mut self) -> Result<(), QueueError> {
        let Exchange { first, batches, activity, .. } = &mut self.exchange;
        let format = self.actions.format();
        self.renewals.counts = Some(activity.metrics.counts());
        self.renewals.renew(first, batches, &mut self.scan.watermark, format).await?;
        // Told once: if it is lost, the budget counts too many, and never too few.
        let unspent = activity.take_unspent(Instant::now());
        if let Some((tokens, age)) = unspent
            && self.settings.rate.is_some_and(|rate| rate.per_month.is_some())
        {
            let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
            let parameters: [SqlParameter<'_>; 2] =
                [(&tokens, Type::INT8), (&milliseconds(age + ON_ITS_WAY), Type::INT8)];
            let told = first.query(RETURN_UNSPENT, &parameters).await;
            // A right that is missing is no reason to stop: the budget counts too many then.
            if let Err(error @ QueueError::Unavailable(_)) = told {
                return Err(error);
            }
        }
        let lost_tokens = std::mem::take(&mut self.renewals.lost_tokens);
        activity.metrics.may_come_twice(Cause::LeaseLapsed, lost_tokens);
        self.delays.keep(|batch| batches.is_held(batch));
        Ok(())
    }

    /// Counts what is due, updates the low watermark, and returns lapsed leases to the queue if
    /// there are any.
    async fn update_watermark(&mut self, enough: usize) -> Result<Peek, QueueError> {
        let (peek, lapsed) = self.scan.peek(&mut self.exchange.first, enough).await?;
        if lapsed > 0 {
            self.renew().await?;
        }
        Ok(peek)
    }

    async fn read_actions(&mut self) -> Result<(), QueueError> {
        let rows = self.exchange.first.query(LIST_ACTIONS, &[]).await?;
        self.actions.read(&rows)
    }

    async fn claim(&mut self, want: ClaimRequest, claim: &mut Claim) -> Result<(), QueueError> {
        let began = Instant::now();
        let rescans = want.rescan || self.scan.is_rescan_due();
        if rescans {
            // Only where much waits or on a rescan: while the collector is idle,
            // `peek` updates the watermark.
            if self.scan.is_watermark_old() && (self.scan.has_more || want.rescan) {
                self.update_watermark(1).await?;
            }
            self.scan.begin_at_watermark();
        }
        // No more than the rate can ever allow at once: what is looked at is locked.
        let most =
            self.settings.rate.map_or(want.batches, |rate| rate.burst().div_ceil(want.limit));
        let most = most.min(want.batches.max(1));
        loop {
            let most = self.scan.batches_at_once(most);
            let batches = (want.batches - claim.batches.len()).min(most);
            let is_split = self.scan.has_more && self.exchange.can_split(batches, want.limit);
            let search = self.scan.next(ClaimRequest { batches, ..want });
            let mut claimed = self.exchange.send(search, is_split, &self.actions).await?;
            self.scan.found(&search, &claimed);
            self.claim_log.report(&claimed, &self.actions, &mut self.exchange.activity);
            let tokens = claimed.tokens();
            let delays = std::mem::take(&mut claimed.delays);
            self.delays.claimed(&claimed.batches, delays, &self.exchange.activity.metrics);
            claim.batches.append(&mut claimed.batches);
            claim.waiting = claimed.waiting;
            claim.deferred += claimed.deferred + claimed.unsignable;
            claim.wait = claimed.wait;
            claim.is_budget_spent = claimed.budget_left == Some(0);
            if claimed.unsignable > 0 && self.actions.is_stale() {
                self.read_actions().await?;
            }
            let is_end = claimed.scanned < search.scan_limit && !is_split;
            let is_over = is_end || claim.batches.len() >= want.batches || claim.wait.is_some();
            claim.has_more = !is_end;
            self.scan.widen(!is_over && tokens == 0);
            if is_over || began.elapsed() >= SCAN_TIME && !is_split {
                break;
            }
        }
        if rescans {
            self.scan.rescanned(began.elapsed());
        }
        Ok(())
    }
}

impl Queue for DeliveriesQueue {
    async fn open(&mut self) -> Result<(), QueueError> {
        let (server, started_at) = self.exchange.open_first(&self.connection).await?;
        let begun = Box::pin(self.begin(&server, started_at)).await;
        if let Err(QueueError::Unavailable(_)) = begun {
            // Such as a primary of before that waits for a standby at each commit, for ever.
            self.connection.begin_with_next();
        }
        begun
    }

    async fn settle_and_claim(
        &mut self,
        settlements: Vec<Settlement>,
        want: Option<ClaimRequest>,
    ) -> Result<Claim, QueueError> {
        let Exchange { batches, activity, .. } = &mut self.exchange;
        batches.begin_call();
        for settlement in settlements {
            self.delays.settled(&settlement, &activity.metrics);
            batches.settle(settlement, activity);
        }
        let mut claim = Claim::default();
        match want {
            Some(want) => self.claim(want, &mut claim).await?,
            None => self.exchange.report(&self.actions).await?,
        }
        // Nothing below waits: from here on the caller has them.
        self.exchange.batches.mark_returned();
        self.is_announced = false;
        Ok(claim)
    }

    fn settles_beside(&self) -> bool {
        self.exchange.settles_beside()
    }

    fn token_format(&self) -> Version {
        self.actions.format()
    }

    fn actions(&self) -> Vec<&'static str> {
        self.actions.names()
    }

    fn release(&mut self, batches: &[BatchId]) {
        let Exchange { batches: held, activity, .. } = &mut self.exchange;
        held.release(batches, activity);
        // They return to their places, which the last claim has passed.
        self.scan.rescan_next();
    }

    fn heartbeat_at(&self) -> Option<Instant> {
        let renewed = self.renewals.renewed?;
        if !self.renewals.lost.is_empty() {
            return Some(renewed);
        }
        let sweep = self.sweeper.next.unwrap_or(renewed);
        let ping = self.exchange.ping_at(renewed);
        Some((renewed + self.renewals.pause()).min(ping).min(sweep))
    }

    async fn heartbeat(&mut self) -> Result<Vec<BatchId>, QueueError> {
        if self.renewals.is_due() {
            self.renew().await?;
            self.exchange.batches.begin_call();
            if !self.exchange.batches.is_reported() {
                self.exchange.report(&self.actions).await?;
            }
        } else {
            self.exchange.ping().await?;
        }
        self.exchange.activity.log(Instant::now());
        // Last: if it fails, all else is done.
        Box::pin(self.sweeper.sweep(&mut self.exchange.first)).await?;
        Ok(std::mem::take(&mut self.renewals.lost))
    }

    fn note_sender(&mut self, state: Option<SenderState>) {
        self.renewals.sender = state;
    }

    fn count_in(&mut self, metrics: Arc<Metrics>) {
        self.exchange.activity.metrics = metrics;
    }

    fn unrecorded(&self) -> usize {
        self.exchange.batches.unrecorded()
    }

    async fn leave(&mut self, reason: &str) -> Result<(), QueueError> {
        let reason = Some(reason.to_owned());
        self.renewals.sender = Some(SenderState { name: "ended", lasted: Duration::ZERO, reason });
        self.renew().await
    }

    async fn rest(&mut self) -> Result<bool, QueueError> {
        self.exchange.batches.begin_call();
        if !self.exchange.batches.is_reported() {
            self.exchange.report(&self.actions).await?;
        }
        if !self.exchange.batches.is_reported() {
            return Ok(false);
        }
        let (name, lasted) = ("resting", Duration::ZERO);
        self.renewals.sender = Some(SenderState { name, lasted, reason: None });
        self.renew().await?;
        self.exchange.close();
        Ok(true)
    }

    async fn peek(&mut self, enough: usize) -> Result<Peek, QueueError> {
        let Peek { due, next } = self.update_watermark(enough).await?;
        if due > 0 {
            self.scan.rescan_next();
        }
        if self.rests {
            return Ok(Peek { due, next });
        }
        let lease = self.renewals.lease;
        // Leases that other collectors take from now on are not announced.
        Ok(Peek { due, next: Some(next.unwrap_or(lease).min(lease)) })
    }
}
