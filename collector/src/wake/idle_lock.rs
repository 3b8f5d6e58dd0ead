//! The advisory lock by which writers know whether a collector is idle: only then do they notify.
//!
//! All commits that carry a NOTIFY queue for one lock of the whole cluster, so a busy collector
//! should cost the writers none.
//! - A transaction that makes a token due tries the lock in shared mode, until its end. If that
//!   fails, it notifies.
//! - An idle collector tries it in exclusive mode. Once it has it, every later writer notifies, and
//!   every earlier one has ended: a statement that begins now ([`Queue::peek`]) sees their rows.
//!
//! The session that listens holds the lock: no statement of it delays a notification,
//! and both are lost together.
//!
//! # Why no session waits for the lock
//! A statement that waits keeps its snapshot, which holds vacuum back, and only an error ends it
//! early, which the server logs. So the lock is tried within [`LOCK_TIMEOUT`]; then the request is
//! refused. Where writers overlap all the time, the database is busy, and polls after pauses
//! (`mailroom_pace::Batcher`) cost the writers nothing.
//!
//! # Several collectors
//! One holds the lock. Another tries the shared mode as a writer would. If that fails too, writers
//! notify every listening session, and this collector is a follower,
//! which tries again every [`RECHECK`].
//!
//! # Why no row is missed
//! Let a transaction T make a row due.
//! - T found the lock held: every session is notified after the commit of T,
//!   and its collector polls.
//! - T got the lock in shared mode: no session holds it exclusively before T has committed. The
//!   next holder peeks after that, and sees the row. A follower tries again within [`RECHECK`]: it
//!   becomes the holder and peeks, is refused and polls, or finds a holder that came after T, has
//!   seen the row and polls. In case that holder freezes,
//!   it peeks every [`PEEK_RECHECKS`] rechecks.
//!
//! A notification releases the lock at once, without waiting for the collector: writers are to
//! announce the first token after an idle time, and not the next hundred.
//!
//! [`Queue::peek`]: crate::queue::Queue::peek

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use mailroom_connect::SchemaClient;
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::sleep;

use super::listener::response;

const TRY_IDLE_LOCK: &str = include_str!("try_idle_lock.sql");

/// For how long the lock is tried before the database counts as busy, in pauses that double.
const LOCK_TIMEOUT: Duration = Duration::from_millis(20);
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// How often a follower tries the lock again, and after how many times it has
/// the queue peeked again.
const RECHECK: Duration = Duration::from_millis(200);
const PEEK_RECHECKS: u32 = 20;

/// The collector's side: requests to be notified while it is idle.
pub struct IdleLock {
    /// Whether writers notify only while a request is granted.
    pub(crate) is_enabled: bool,
    /// How many requests there were. The last one is present until the collector is no longer idle.
    count: u64,
    requests: watch::Sender<Option<u64>>,
    replies: watch::Receiver<(u64, IdleReply)>,
}

/// The side of the session that listens, which holds the lock.
pub struct IdleLockHolder {
    requests: watch::Receiver<Option<u64>>,
    replies: watch::Sender<(u64, IdleReply)>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleReply {
    /// Writers notify from now on, and the queue is to be peeked for what was due before. This
    /// reply comes again when the peek has to be repeated.
    Granted,
    /// Writers do not notify; the queue is to be polled.
    Refused,
}

/// Both sides. Without `is_enabled` nothing is ever requested: writers notify always, or never.
pub fn pair(is_enabled: bool) -> (IdleLock, IdleLockHolder) {
    let (requests, requested) = watch::channel(None);
    let (sender, replies) = watch::channel((0, IdleReply::Refused));
    let lock = IdleLock { is_enabled, count: 0, requests, replies };
    (lock, IdleLockHolder { requests: requested, replies: sender })
}

impl IdleLock {
    /// Begins a request when the collector becomes idle, and ends it when it no longer is.
    pub fn set_idle(&mut self, is_idle: bool) {
        let was_idle = self.requests.borrow().is_some();
        if self.is_enabled && was_idle != is_idle {
            self.count += u64::from(is_idle);
            self.requests.send_replace(is_idle.then_some(self.count));
        }
    }

    /// Waits for a reply to the present request. Can be dropped at any point.
    pub async fn reply(&mut self) -> IdleReply {
        // It fails when no session listens any more, which is reported elsewhere.
        while self.replies.changed().await.is_ok() {
            let (request, reply) = *self.replies.borrow_and_update();
            if *self.requests.borrow() == Some(request) {
                return reply;
            }
        }
        pending().await
    }
}

impl IdleLockHolder {
    /// Refuses all requests until `work` is done, while there is no session that listens.
    pub(super) async fn refuse_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            if let Some(request) = *self.requests.borrow_and_update() {
                self.replies.send_replace((request, IdleReply::Refused));
            }
            tokio::select! {
                done = &mut work => return done,
                () = self.next_request() => {}
            }
        }
    }

    /// Serves requests on a session that listens, and counts notifications in `wakeups`. Returns
    /// why the session, and the lock with it, is lost.
    pub(super) async fn serve(
        &mut self,
        client: &SchemaClient,
        mut wakeups: watch::Receiver<u64>,
    ) -> String {
        // A request that the last session could not serve any more was refused.
        let mut served = self.replies.borrow().0;
        loop {
            let request = *self.requests.borrow_and_update();
            let Some(request) = request.filter(|request| *request > served) else {
                self.next_request().await;
                continue;
            };
            served = request;
            if let Err(cause) = self.grant(request, client, &mut wakeups).await {
                return cause;
            }
        }
    }

    /// Holds the lock, or follows its holder, until a notification comes, the request ends, or the
    /// lock is refused.
    async fn grant(
        &mut self,
        request: u64,
        client: &SchemaClient,
        wakeups: &mut watch::Receiver<u64>,
    ) -> Result<(), String> {
        // Before the lock is tried: any notification from here on releases it.
        wakeups.mark_unchanged();
        let mut role = self.acquire(request, client).await?;
        let mut granted = None;
        let mut rechecks = 0;
        while role != Role::Refused {
            // To a follower again now and then: the collector is to peek.
            if granted != Some(role) || rechecks % PEEK_RECHECKS == 0 {
                granted = Some(role);
                self.replies.send_replace((request, IdleReply::Granted));
            }
            tokio::select! {
                biased;
                _ = wakeups.changed() => {
                    // The claim goes out first.
                    yield_now().await;
                    return role.release(client).await;
                }
                () = self.ended(request) => return role.release(client).await,
                () = sleep(RECHECK), if role == Role::Follower => {}
            }
            role = Role::try_acquire(client).await?;
            rechecks += 1;
        }
        self.replies.send_replace((request, IdleReply::Refused));
        Ok(())
    }

    async fn acquire(&mut self, request: u64, client: &SchemaClient) -> Result<Role, String> {
        let mut pause = FIRST_PAUSE;
        loop {
            let role = Role::try_acquire(client).await?;
            if role != Role::Refused || pause > LOCK_TIMEOUT {
                return Ok(role);
            }
            tokio::select! {
                () = sleep(pause) => pause *= 2,
                () = self.ended(request) => return Ok(Role::Refused),
            }
        }
    }

    async fn next_request(&mut self) {
        if self.requests.changed().await.is_err() {
            // The collector has ended, and this task with it soon.
            pending::<()>().await;
        }
    }

    async fn ended(&mut self, request: u64) {
        while *self.requests.borrow_and_update() == Some(request) {
            self.next_request().await;
        }
    }
}

/// What a session is to the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Holder,
    Follower,
    Refused,
}

impl Role {
    async fn try_acquire(client: &SchemaClient) -> Result<Self, String> {
        let acquired =
            response(async { client.query_typed_one(TRY_IDLE_LOCK, &[]).await?.try_get(0) })
                .await?;
        Ok(match acquired {
            Some(true) => Self::Holder,
            Some(false) => Self::Follower,
            None => Self::Refused,
        })
    }

    async fn release(self, client: &SchemaClient) -> Result<(), String> {
        // The session holds no other lock.
        let release = client.raw.batch_execute("SELECT pg_advisory_unlock_all()");
        if self == Self::Holder { response(release).await } else { Ok(()) }
    }
}
